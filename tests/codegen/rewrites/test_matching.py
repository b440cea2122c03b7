"""Each sample of the golden rewrites matches its pattern, and the rewrite keeps the results."""

from __future__ import annotations

from typing import Any

import pytest

from ortable.ir.versions import ORT_MAX_OPSET
from ortable.testing.trial import RewriteTrial
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.model import Rewrite, RewriteSample
from ortablegen.rewrites.names import opset_range
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

from . import golden


def _load_rewrites() -> list[Rewrite]:
    rewrites: list[Rewrite] = []
    for path in sorted((golden.HERE / "pass").glob("*.yaml")):
        rewrites += read_rewrites_text(path.read_text(), path.name, Diagnostics(), BY_TRAIT)
    return rewrites


SAMPLES = [
    pytest.param(rewrite, sample, id=f"{rewrite.name}-{index}")
    for rewrite in _load_rewrites()
    for index, sample in enumerate(rewrite.samples)
]


@pytest.mark.parametrize(("rewrite", "sample"), SAMPLES)
def test_a_matcher_finds_its_pattern(rewrite: Rewrite, sample: RewriteSample) -> None:
    namespace: dict[str, Any] = {"__name__": "compiled"}
    exec(rewrites_text((rewrite,), rewrite.file), namespace)
    opset = min(opset_range(rewrite)[1], ORT_MAX_OPSET)
    trial = RewriteTrial(rewrite, sample, opset, rewrite.target)
    record = trial.apply(namespace["RULES"])
    fired = [match.rule for match in record.fired]
    if sample.unchanged is None:
        assert fired == [rewrite.name], record.refused
    else:
        assert fired == []
    if sample.expect is not None:
        op_types = [node.op_type for node in trial.builder.nodes]
        # a graph output that equals an input goes through an Identity, which keeps its name
        assert [op for op in op_types if op != "Identity"] == sample.expect.split()
    if rewrite.target is None:  # onnx cannot infer types of ONNX Runtime's operators
        trial.compare()
