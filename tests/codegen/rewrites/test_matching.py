"""The matchers of the golden files find what their patterns say and nothing else: every case of
each, run before and after."""

from __future__ import annotations

from typing import Any

import pytest

from ortable.debug.harness.trial import RewriteTrial
from ortable.ir.versions import ORT_MAX_OPSET
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.emit import rewrites_text
from ortablegen.rewrites.model import Rewrite, RewriteCase
from ortablegen.rewrites.names import opset_range
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

from . import golden


def _rewrites() -> list[Rewrite]:
    found: list[Rewrite] = []
    for path in sorted((golden.HERE / "pass").glob("*.yaml")):
        found += read_rewrites_text(path.read_text(), path.name, Diagnostics(), BY_TRAIT)
    return found


CASES = [
    pytest.param(rewrite, case, id=f"{rewrite.name}-{place}")
    for rewrite in _rewrites()
    for place, case in enumerate(rewrite.cases)
]


@pytest.mark.parametrize(("rewrite", "case"), CASES)
def test_a_matcher_finds_its_pattern(rewrite: Rewrite, case: RewriteCase) -> None:
    namespace: dict[str, Any] = {"__name__": "compiled"}
    exec(rewrites_text((rewrite,), rewrite.file), namespace)
    opset = min(opset_range(rewrite)[1], ORT_MAX_OPSET)
    trial = RewriteTrial(rewrite, case, opset, rewrite.target)
    record = trial.apply(namespace["RULES"])
    fired = [fired.rule for fired in record.fired]
    if case.unchanged is None:
        assert fired == [rewrite.name], record.refused
    else:
        assert fired == []
    if case.expect is not None:
        found = [node.op_type for node in trial.builder.nodes]
        # an output that is an input keeps its name through an Identity
        assert [op for op in found if op != "Identity"] == case.expect.split()
    if rewrite.target is None:  # onnx infers no types of ONNX Runtime's operators
        trial.compare()
