"""The SBOM of a release has its packages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import sbom


@pytest.mark.slow  # installs the tool at its first run
def test_the_sbom_has_the_packages(tmp_path: Path) -> None:
    sbom.write_sbom(Path(sys.executable), "1.2.3", tmp_path / "x.cdx.json")
    content = json.loads((tmp_path / "x.cdx.json").read_text(encoding="utf-8"))
    assert content["bomFormat"] == "CycloneDX"
    root = content["metadata"]["component"]
    assert (root["name"], root["version"]) == ("ortable", "1.2.3")
    names = {component["name"] for component in content["components"]}
    assert {"torch", "onnx", "onnxruntime", "numpy"} <= names
    with pytest.raises(subprocess.CalledProcessError):
        sbom.write_sbom(tmp_path / "missing", "1.2.3", tmp_path / "y.cdx.json")
