"""Results that may share an argument's memory, decided from plans with one obstacle at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx
import pytest

from ortable import dtypes
from ortable.backend.execute.call_source import find_in_place_writes
from ortable.backend.roles import (
    Check,
    CompiledGraph,
    Fetch,
    InputRole,
    InputRoleKind,
    Mutation,
    OutputRole,
    OutputRoleKind,
)

WRITES = "y = ScatterND(cache, places, rows)"


def make_plan(body: str = WRITES) -> CompiledGraph:
    """Return a graph that writes rows into a cache and returns nothing else."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
    g (float[4,2] cache, int64[1,1] places, float[1,2] rows) => (float[4,2] y) {{ {body} }}"""
    names = ("cache", "places", "rows")
    inputs = tuple(
        InputRole(n, InputRoleKind.TENSOR, name, dtypes.float32) for n, name in enumerate(names)
    )
    return CompiledGraph(
        model=onnx.parser.parse_model(text),
        kind="inference",
        inputs=inputs,
        outputs=(OutputRole(0, OutputRoleKind.TENSOR, "y", fetch=0),),
        n_results=0,
        fetches=(Fetch("y"),),
        mutations=(Mutation(0, 0),),
        sources={},
        fed=frozenset(names),
    )


def test_a_cache_that_one_node_writes_is_written_where_it_lies() -> None:
    assert find_in_place_writes(make_plan()) == {0: "y"}


@pytest.mark.parametrize(
    "body",
    [
        f"{WRITES} other = Neg(cache)",
        "half = Neg(cache) y = ScatterND(half, places, rows)",
        "y = Add(cache, rows)",
        "y = ScatterND(rows, places, cache)",
    ],
)
def test_what_others_read_or_another_node_makes_is_copied(body: str) -> None:
    assert find_in_place_writes(make_plan(body)) == {}


@pytest.mark.parametrize(
    "fetch",
    [{"permutation": (1, 0)}, {"strides": (1, 4)}, {"is_complex": True}, {"float8": 17}],
    ids=str,
)
def test_a_result_that_is_made_of_what_comes_back_is_copied(fetch: dict[str, Any]) -> None:
    plan = make_plan()
    assert find_in_place_writes(replace(plan, fetches=(Fetch("y", **fetch),))) == {}


@pytest.mark.parametrize("role", [{"dense": False}, {"permutation": (1, 0)}], ids=str)
def test_an_argument_with_gaps_or_of_another_order_is_copied(role: dict[str, Any]) -> None:
    plan = make_plan()
    inputs = (replace(plan.inputs[0], **role), *plan.inputs[1:])
    assert find_in_place_writes(replace(plan, inputs=inputs)) == {}


def test_nothing_is_written_before_assertions_held_or_on_another_device() -> None:
    plan = make_plan()
    assert find_in_place_writes(replace(plan, checks=(Check(0, "it does not hold"),))) == {}
    assert find_in_place_writes(replace(plan, device="cuda:0")) == {}
    view = OutputRole(0, OutputRoleKind.VIEW, "y", fetch=0)
    assert find_in_place_writes(replace(plan, outputs=(view,))) == {}
