"""Every module can be loaded, in the build that is tested: a class with two compiled bases fails only there."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import entrepot

NEEDS = (
    "pyspark",
    "pyarrow",
    "zeroconf",
    "kazoo",
    "psycopg",
    "starlette",
    "uvicorn",
    "jinja2",
    "airflow",
    "openlineage",
)  # extras: what needs one that is absent is passed over
MODULES = [
    module.name
    for module in pkgutil.walk_packages(entrepot.__path__, "entrepot.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("folder", sorted({name.split(".")[1] for name in MODULES}))
def test_every_module_of_a_folder_can_be_loaded(folder: str) -> None:
    for name in MODULES:
        if name.split(".")[1] != folder:
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as absent:
            if (absent.name or "").split(".")[0] not in NEEDS:
                raise
