"""Random graphs keep what they compute, whatever rules fire on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ortable import dtypes
from ortable.debug.harness.runs import (
    ModelRunner,
    check_same_declarations,
    copy_declarations,
    make_checked_model,
)
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.rule import Match, Rule

from .hand_rules import one, pair, rule
from .random_chains import CHAINS
from .random_graphs import ROWS, RandomGraph, Step
from .random_steps import STEPS

OPERATORS = (*STEPS, *CHAINS)
OPSETS = (18, 21, 26)
EXAMPLES = 250
FEW = 50  # of each set of rules in `make test`; `make sweeps` draws all EXAMPLES
TOO_ROUGH = 0.05  # an estimated error from which values are not compared

numbers = st.integers(0, 255)
steps = st.tuples(st.integers(0, len(OPERATORS) - 1), numbers, numbers, numbers)
programs = st.lists(steps, min_size=3, max_size=12).flatmap(
    lambda first: st.lists(steps, min_size=3, max_size=13).map(lambda more: [*first, *more])
)


def grown(program: Sequence[Step], opset: int, target: str | None, dynamic: bool) -> RandomGraph:
    """The graph of a program."""
    graph = RandomGraph(opset, target, dynamic)
    graph.grow(program, OPERATORS)
    return graph


def check(graph: RandomGraph, rules: Sequence[Rule]) -> Counter[str] | None:
    """Rewrites a graph and compares it with what it was; which rules fired, None for a graph that
    no runtime accepts as it is."""
    builder = graph.builder
    try:
        before = make_checked_model(builder)
        old = ModelRunner(before)
        old(graph.feeds(ROWS, "small", torch.Generator().manual_seed(0)))
    except Exception:
        return None  # sizes of 0 where an operator has none: no model to begin with
    inputs, outputs = copy_declarations(builder.inputs), copy_declarations(builder.outputs)
    record = rewrite_graph(builder, rules)
    builder.remove_unused()
    check_same_declarations(inputs, copy_declarations(builder.inputs))
    check_same_declarations(outputs, copy_declarations(builder.outputs))
    after = make_checked_model(builder)
    assert list(after.graph.output) == list(before.graph.output)
    if not record.fired:
        return Counter()
    generator = torch.Generator().manual_seed(len(before.graph.node))
    new = ModelRunner(after)
    places = [(ROWS, "normal"), (ROWS, "small"), (ROWS, "special")]
    places += [(7, "small"), (1, "normal")] if graph.dynamic else []
    for rows, kind in places:
        feeds = graph.feeds(rows, kind, generator)
        try:
            wanted = old(feeds)
        except Exception:
            assert rows != ROWS
            continue  # it was not made for these sizes
        try:
            found = new(feeds)
        except Exception as error:
            raise AssertionError(f"the graph does not run any more: {error}") from error
        for name, x, y in zip(graph.outputs, wanted, found, strict=True):
            compare(graph, before, feeds, name, x, y)
    if graph.tidy:
        builder.constant_folding()  # weights that rules have computed
        builder.remove_unused()
        again = rewrite_graph(builder, rules)
        assert not again.fired, f"a second run fires: {again.counts()}"
    return Counter(record.counts())


def compare(
    graph: RandomGraph,
    before: onnx.ModelProto,
    feeds: dict[str, torch.Tensor],
    name: str,
    wanted: torch.Tensor,
    got: torch.Tensor,
) -> None:
    """One output; the error that is accepted grows with the largest number on the way to it."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
    error = 10 * graph.error[name]
    if not wanted.dtype.is_floating_point or error == 0:
        same = torch.equal(got, wanted)
        if wanted.dtype.is_floating_point:
            same = torch.equal(torch.nan_to_num(got, 7.25), torch.nan_to_num(wanted, 7.25))
        assert same, f"{name}: {got} instead of {wanted}"
        return
    if error > TOO_ROUGH:
        return
    x, y = wanted.double().numpy(), got.double().numpy()
    assert np.array_equal(np.isnan(x), np.isnan(y)), f"{name}: NaN in {y}, it was {x}"
    if not np.allclose(y, x, rtol=error, atol=error, equal_nan=True):
        bound = error * largest(before, feeds)
        np.testing.assert_allclose(y, x, rtol=bound, atol=bound, err_msg=name)


def largest(model: onnx.ModelProto, feeds: dict[str, torch.Tensor]) -> float:
    """The largest finite number that the nodes of a model compute."""
    more = onnx.ModelProto()
    more.CopyFrom(model)
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    kinds = (dtypes.float32, dtypes.float64)
    more.graph.output.extend(v for v in inferred if v.type.tensor_type.elem_type in kinds)
    found = 1.0
    for value in ModelRunner(more)(feeds):
        if value.dtype.is_floating_point:
            finite = value[value.isfinite()]
            found = max(found, float(finite.abs().max()) if finite.numel() else 1.0)
    return found


@pytest.mark.alternates(parts=2)
@pytest.mark.sweep
@pytest.mark.parametrize(
    ("names", "target", "number"),
    [
        ("default", None, 1),
        ("default", "onnxruntime", 2),
        ("all", None, 3),
        ("all", "onnxruntime", 4),
    ],
)
def test_random_graphs(
    names: str, target: str | None, number: int, request: pytest.FixtureRequest
) -> None:
    examples = EXAMPLES if request.config.getoption("--sweeps") else FEW
    rules = rule_selection.select_rules(names)
    fired: Counter[str] = Counter()
    graphs = [0, 0]

    @seed(number)  # other graphs for each
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(programs, st.sampled_from(OPSETS), st.booleans())
    def explore(program: list[Step], opset: int, dynamic: bool) -> None:
        counts = check(grown(program, opset, target, dynamic), rules)
        graphs[counts is None] += 1
        fired.update(counts or ())

    explore()
    print(f"{sum(fired.values())} replacements in {graphs[0]} graphs: {dict(fired)}")
    # of few graphs, a few more may have no model to begin with
    assert graphs[1] <= graphs[0] / (20 if examples == EXAMPLES else 10), (
        f"{graphs[1]} graphs do not run as they are"
    )
    rare = f"{sum(fired.values())} replacements in {graphs[0]} graphs, by {sorted(fired)}"
    assert sum(fired.values()) >= graphs[0] or len(rules) < 30, rare
    assert len(fired) >= min(20 if examples == EXAMPLES else 10, len(rules) // 4), rare


# -- rules that are wrong: the graphs above must find them out


def _same_type(m: Any, root: Any) -> Match | None:
    """A Cast of a Cast back to the type that the first one read."""
    found = pair("Cast", "Cast")(m, root)
    if found is None or m.graph.get_type(found.values[0]) != root.attrs["to"]:
        return None
    return found


def _through(*places: int) -> Callable[..., Any]:
    """A maker that gives one of the inputs."""
    return lambda graph, res, *inputs: inputs[places[0]]


def _any(m: Any, root: Any) -> Match:
    """The node, whatever its attributes are."""
    return Match((root,), tuple(root.outputs), tuple(root.inputs))


def _along_another_axis(m: Any, root: Any) -> Match | None:
    return _any(m, root) if root.attrs.get("axis", -1) != -1 else None


def _in_order(m: Any, root: Any) -> Match | None:
    return _any(m, root) if root.inputs[0] < root.inputs[-1] else None


def _turned(graph: Any, res: Any, *xs: str) -> Any:
    return graph.make_node("Concat", list(xs[::-1]), res.outputs, axis=0)


def _last(graph: Any, res: Any, x: str) -> Any:
    return graph.make_node("Softmax", [x], res.outputs, axis=-1)


def _relu(graph: Any, res: Any, x: str, *bounds: str) -> Any:
    return graph.make_node("Relu", [x], res.outputs)


WRONG = (
    rule("cast_and_back_is_nothing", "Cast", _same_type, _through(0), child="Cast"),
    rule("turned_twice_is_nothing", "Transpose", pair("Transpose", "Transpose"), _through(0)),
    rule("clip_is_relu", "Clip", one, _relu),
    rule("slice_is_nothing", "Slice", one, _through(0)),
    rule("first_branch", "Where", one, _through(1)),
    rule("add_is_first", "Add", one, _through(0)),
    rule("times_is_first", "Mul", one, _through(0)),
    rule("softmax_of_the_last", "Softmax", _along_another_axis, _last),
    rule("positive", "Neg", one, _through(0)),
    rule("erf_is_tanh", "Erf", one, lambda g, r, x: g.op.Tanh(x, outputs=r.outputs)),
    rule("or_is_and", "Or", one, lambda g, r, x, y: g.op.And(x, y, outputs=r.outputs)),
    rule("concat_is_turned", "Concat", _in_order, _turned),
)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_wrong_rules_are_found_out(wrong: Rule) -> None:
    @settings(
        # It ends with the first that is met. hypothesis draws constants of the modules that are
        # imported, so which graphs there are depends on the tests before.
        max_examples=20 * EXAMPLES,
        derandomize=True,  # whether a rule is met must not be luck
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(programs, st.booleans())
    def explore(program: list[Step], dynamic: bool) -> None:
        check(grown(program, 18, None, dynamic), [wrong])

    with pytest.raises(AssertionError):
        explore()
