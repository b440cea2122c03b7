"""Counts of Python calls, created nodes and tried rules in conversions stay near recorded counts.

Unlike seconds, counts do not depend on the machine, so a feature that slows down every conversion
fails here. `python -m tests.benchmarks.test_conversion_counts` prints the counts to record.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest
import torch

import ortable
import ortable_generated
from benchmarks.models.inference import build
from ortable.ir.node import Node

ORTABLE_FOLDERS = tuple(
    f"{Path(str(package.__file__)).parent}{os.sep}" for package in (ortable, ortable_generated)
)
RECORDED = {
    "resnet18": {"calls": 32732, "nodes made": 415, "rules tried": 175},
    "bert": {"calls": 20554, "nodes made": 169, "rules tried": 190},
    "gpt2": {"calls": 24189, "nodes made": 240, "rules tried": 192},
    "swin": {"calls": 52507, "nodes made": 387, "rules tried": 705},
    "lstm": {"calls": 10543, "nodes made": 177, "rules tried": 47},
}
MAX_GROWTH = 1.05
MIN_SHARE = 0.9  # below it, record new counts, because the old bound would allow too much growth
SLOW_RULE = """
- rewrite: planted_slow_rule
  stage: simplify
  why: every sum is looked at, and none is replaced
  pattern: return Add(x, y)
  when: number_of(y) == 12345
  replace: return Sub(x, Neg(y))
  samples:
    - {x: "f32[2]", y: "const f32[] = 12345", expect: Neg Sub}
    - {x: "f32[2]", y: "const f32[] = 1", unchanged: number_of(y) == 12345}
"""


def count_conversion(name: str, rewrites: Sequence[str] = ("default",)) -> dict[str, int]:
    """Count calls of ortable's functions, created nodes and tried rules in one conversion.

    Comprehensions do not count, because newer versions of Python inline them.
    """
    model, arguments = build(name, small=True)
    program = torch.export.export(model.eval(), arguments)
    ortable.to_onnx(program, rewrites=rewrites)  # fills the caches of the process
    counts = Counter[str]()
    make_node = Node.__init__.__code__

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ORTABLE_FOLDERS):
            counts["calls"] += not code.co_name.startswith("<")
            counts["nodes made"] += code is make_node

    sys.setprofile(count_call)
    try:
        _, builder = ortable.to_onnx(program, rewrites=rewrites, return_builder=True)
    finally:
        sys.setprofile(None)
    statistics = builder.record.rewrites.statistics.values()
    return {**counts, "rules tried": sum(rule.tried for rule in statistics)}


def find_growth(counts: dict[str, int], recorded: dict[str, int]) -> list[str]:
    """Return a line for each count that exceeds the recorded one by more than 5 %."""
    return [
        f"{name}: {counts[name]}, recorded {expected}"
        for name, expected in recorded.items()
        if counts[name] > MAX_GROWTH * expected
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_a_conversion_costs_what_it_did(name: str) -> None:
    counts, recorded = count_conversion(name), RECORDED[name]
    assert not find_growth(counts, recorded)
    assert all(counts[kind] >= MIN_SHARE * expected for kind, expected in recorded.items()), counts


def test_a_planted_slow_rule_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    path.write_text(SLOW_RULE, encoding="utf-8")
    counts = count_conversion("bert", ["default", str(path)])
    assert any(line.startswith("rules tried") for line in find_growth(counts, RECORDED["bert"]))


def test_a_call_of_a_program_takes_few_python_calls() -> None:
    """A call costs 20 microseconds more than its session; with 183 Python calls it cost 100."""
    x = torch.randn(4, 16)
    program = ortable.export(torch.nn.Linear(16, 4).eval(), (x,), dynamic_shapes=({0: "batch"},))
    program(x)  # creates the session and checks the sizes
    calls = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        program(x)
    finally:
        sys.setprofile(None)
    assert calls <= 30, calls


if __name__ == "__main__":
    for model_name in RECORDED:
        print(f"    {model_name!r}: {count_conversion(model_name)},".replace("'", '"'))
