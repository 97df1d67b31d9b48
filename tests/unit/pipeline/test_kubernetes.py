"""The manifest of docs/landing.md: each object fits the schema of Kubernetes, and its file is one that lands.

`make kubernetes-check` brings the schemas (kubernetes-validate) and runs all; without them the file alone is read.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from entrepot.pipeline.landing import configuration
from entrepot.pipeline.landing.health import LIVE, READY
from guides import blocks

PAGE = "docs/landing.md"
VERSIONS = ("1.28", "1.34")


def manifest() -> str:
    (block,) = blocks(PAGE, "yaml")
    return block.text


def objects() -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="make kubernetes-check brings it")
    return list(yaml.safe_load_all(manifest()))


def test_its_file_lands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAND_PASSCODE", "secret")
    text = textwrap.dedent(manifest().partition("land.toml: |\n")[2].partition("---\n")[0])
    landing = configuration.read(text)
    (flow,) = landing.land
    assert flow.options["passcode"] == "secret"
    assert configuration.place(landing.metrics) == ("0.0.0.0", 9464)


def test_it_asks_for_pages_that_there_are() -> None:
    asked = {line.split("path: ")[1].split(",")[0] for line in manifest().splitlines() if "httpGet" in line}
    assert asked == {LIVE, READY}


def test_each_object_fits_the_schema() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="make kubernetes-check brings it")
    found = objects()
    assert [one["kind"] for one in found] == ["ConfigMap", "PersistentVolumeClaim", "Deployment"]
    for version in VERSIONS:
        for one in found:
            validate.validate(one, version, strict=True)
    found[2]["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(found[2], VERSIONS[0], strict=True)


def test_names_of_the_objects_agree() -> None:
    config, claim, deployment = objects()
    pod = deployment["spec"]["template"]
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    assert volumes["configuration"]["configMap"]["name"] == config["metadata"]["name"]
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounts) == set(volumes)
    (file,) = container["args"]
    assert Path(file).parent == Path(mounts["configuration"])
    assert Path(file).name in config["data"]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
