"""Settings of Sphinx for `make docs`: Markdown in, static HTML out."""

project = "entrepot"
author = "the entrepot contributors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "entrepot"
myst_heading_anchors = 3
# Files of the repository's root are shown through pages that include them; their links are written for the repository.
suppress_warnings = ["myst.xref_missing"]
