"""The opset range and the targets are defined once, in the runtime.

Code generation must not import the runtime, so it has equal copies.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortable.errors import BuilderError
from ortable.exporter import arguments
from ortable.ir import versions
from ortablegen.language import entries
from ortablegen.runtime_tables import older_opsets
from ortablegen.schemas import onnx as schemas

ROOT = Path(__file__).parents[2]


def test_codegen_has_the_same_range_and_targets():
    assert (schemas.FLOOR, schemas.CEILING) == (
        versions.OLDEST_TARGET_OPSET,
        versions.ORT_MAX_OPSET,
    )
    assert (None, *entries.TARGETS) == versions.TARGETS
    assert older_opsets.OLDEST == versions.OLDEST_WRITTEN_OPSET


def test_the_range_and_the_targets_are_written_once():
    definition = re.compile(r"^(\w*OPSET\w*|TARGETS)\s*(:.*)?= ", re.MULTILINE)
    defined = {
        str(path.relative_to(ROOT)): definition.findall(path.read_text(encoding="utf-8"))
        for path in (ROOT / "runtime").rglob("*.py")
    }
    assert [path for path, names in defined.items() if names] == ["runtime/ortable/ir/versions.py"]


def test_defaults_are_in_the_range():
    supported = range(versions.OLDEST_TARGET_OPSET, versions.newest_opset() + 1)
    for target in versions.TARGETS:
        assert arguments.choose_opset(None, target) in supported
    with pytest.raises(BuilderError, match="cannot run in ONNX Runtime"):
        versions.check_opsets({"": versions.ORT_MAX_OPSET + 1}, "onnxruntime")
