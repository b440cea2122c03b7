"""Plans for results that are views or share memory; replayed steps yield torch's results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from ortable import dims
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.outputs import OutputPlan, plan_outputs
from ortable.backend.lower.strides import dense_order, has_gaps
from ortable.backend.lower.views import is_view, trace_views
from ortable.backend.roles import OutputRoleKind
from ortable.errors import UnsupportedCase

aten = torch.ops.aten
X = torch.arange(24.0).reshape(2, 3, 4)
Step = tuple[Any, tuple[Any, ...], dict[str, Any]]


def add_call(graph: Graph, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Add a node and record the value that torch computes."""
    node = graph.call_function(target, args, kwargs)
    values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
    node.meta["val"] = target(*values, **kwargs)
    return node


def start_graph(value: torch.Tensor = X) -> tuple[Graph, Node, Node]:
    """Return a graph, its argument, and a node that computes a tensor."""
    graph = Graph()
    argument = graph.placeholder("x")
    argument.meta["val"] = value
    return graph, argument, add_call(graph, aten.exp.default, argument)


def is_known(dim: dims.Dim) -> bool:
    return True


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(aten.permute.default, ([1, 2, 0],), {})] * 2, id="twice around"),
        pytest.param(
            [(aten.permute.default, ([1, 2, 0],), {}), (aten.transpose.int, (0, 1), {})],
            id="around and back",
        ),
        pytest.param(
            [(aten.permute.default, ([-1, 0, 1],), {}), (aten.slice.Tensor, (0, 1, 3), {})],
            id="a part of it",
        ),
        pytest.param(
            [(aten.slice.Tensor, (2,), {"start": 1, "end": 3}), (aten.select.int, (0, 1), {})],
            id="keywords",
        ),
        pytest.param(
            [(aten.view.default, ([6, 4],), {}), (aten.t.default, (), {})], id="of two axes"
        ),
    ],
)
def test_steps_replay_what_torch_does(steps: Sequence[Step]) -> None:
    graph, _, base = start_graph()
    node = base
    for target, args, kwargs in steps:
        node = add_call(graph, target, node, *args, **kwargs)
    traced = trace_views(node, is_known)
    assert traced is not None and traced[0] is base
    result = base.meta["val"]
    for step in traced[1]:
        result = step.op(result, *step.args, **step.kwargs)
    assert torch.equal(result, node.meta["val"])
    assert result.stride() == node.meta["val"].stride()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(aten.permute.default, ([-3, -2, -1],), {})], id="nothing moves"),
        pytest.param([(aten.transpose.int, (0, 2), {})] * 2, id="there and back"),
        pytest.param([(aten.permute.default, ([1, 2, 0],), {})] * 3, id="once around"),
        pytest.param(
            [
                (aten.transpose.int, (0, 1), {}),
                (aten.alias.default, (), {}),
                (aten.transpose.int, (0, 1), {}),
            ],
            id="with an alias between",
        ),
    ],
)
def test_chains_that_cancel_are_no_views(steps: Sequence[Step]) -> None:
    graph, _, base = start_graph()
    node = base
    for target, args, kwargs in steps:
        node = add_call(graph, target, node, *args, **kwargs)
    assert trace_views(node, is_known) == (base, ())


def test_a_view_of_a_size_that_only_the_run_knows_is_computed() -> None:
    graph, _, base = start_graph()
    sizes = [graph.placeholder(name) for name in ("a", "b")]
    shape_env = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    first, second = (shape_env.create_unbacked_symint() for _ in sizes)
    sizes[0].meta["val"], sizes[1].meta["val"] = first, second
    view = graph.call_function(aten.view.default, (base, sizes))
    view.meta["val"] = X.reshape(2, 12)
    for unknown in (first, second):
        assert trace_views(view, lambda dim, size=unknown: dim != dims.from_torch(size)) is None
    assert trace_views(view, is_known) is not None


def test_an_unsafe_view_shares_memory_with_what_nobody_else_reads() -> None:
    graph, argument, base = start_graph()
    view = add_call(graph, aten._unsafe_view.default, base, [6, 4])
    assert is_view(view)
    add_call(graph, aten.neg.default, base)
    assert not is_view(view)
    assert not is_view(add_call(graph, aten._unsafe_view.default, argument, [6, 4]))
    other_argument = graph.placeholder("y")  # has no other reader, but the caller has it
    other_argument.meta["val"] = X
    assert not is_view(add_call(graph, aten._unsafe_view.default, other_argument, [6, 4]))


def make_plan(graph: Graph, results: Sequence[Node], desc: Sequence[Any] = ()) -> OutputPlan:
    graph.output(tuple(results))
    graph.output_node().meta["desc"] = list(desc)
    return plan_outputs(AotGraph(GraphModule(nn.Module(), graph)))


def test_a_tensor_returned_twice_is_one() -> None:
    graph, _, base = start_graph()
    roles = make_plan(graph, [base, base]).roles
    assert [role.kind for role in roles] == [OutputRoleKind.TENSOR, OutputRoleKind.DUPLICATE]
    assert roles[1].source == 0


@pytest.mark.parametrize("base_first", [True, False])
def test_an_alias_of_a_result_is_a_view_of_its_memory(base_first: bool) -> None:
    graph, _, base = start_graph()
    alias = add_call(graph, aten.detach.default, base)
    roles = make_plan(graph, [base, alias] if base_first else [alias, base]).roles
    assert {role.kind for role in roles} == {OutputRoleKind.TENSOR, OutputRoleKind.VIEW}
    assert len({role.fetch for role in roles}) == 1


def test_two_aliases_of_a_hidden_tensor_share_its_memory() -> None:
    graph, _, base = start_graph()
    aliases = [add_call(graph, aten.detach.default, base) for _ in range(2)]
    roles = make_plan(graph, aliases).roles
    assert [role.kind for role in roles] == [OutputRoleKind.VIEW] * 2
    assert not any(role.alone for role in roles)


def test_one_alias_of_a_hidden_tensor_is_that_tensor() -> None:
    graph, _, base = start_graph()
    (role,) = make_plan(graph, [add_call(graph, aten.detach.default, base)]).roles
    assert role.kind is OutputRoleKind.TENSOR


def test_a_view_of_an_argument_from_where_only_the_data_say_is_refused() -> None:
    graph, argument, _ = start_graph()
    index = add_call(graph, aten.sum.default, argument)
    view = graph.call_function(aten.select.int, (argument, 0, index))
    view.meta["val"] = X[1]
    with pytest.raises(UnsupportedCase, match="storage offset depends on data"):
        make_plan(graph, [view])


def test_what_is_saved_says_when_its_strides_are_not_those_that_torch_traced() -> None:
    class SavedForBackwardsAOTOutput:
        """A class with the name that torch gives descriptions of saved tensors."""

    graph, _, base = start_graph()
    base.meta["val"] = torch.empty_strided((2, 3, 4), (1, 2, 6))
    (role,) = make_plan(graph, [base], [SavedForBackwardsAOTOutput()]).roles
    assert role.strides == (12, 4, 1)
    graph, _, base = start_graph()
    base.meta["val"] = torch.empty_strided((2, 3, 4), (1, 2, 6))
    assert make_plan(graph, [base]).roles[0].strides is None  # the traced strides are restored


def test_axes_of_size_one_say_nothing_about_memory() -> None:
    assert dense_order((1, 3, 1, 2), (99, 2, 77, 1)) == (0, 1, 2, 3)
    assert dense_order((2, 1, 3), (1, 55, 2)) == (1, 2, 0)
    assert has_gaps(torch.empty_strided((1, 2, 3), (0, 7, 1)))
    assert not has_gaps(torch.empty_strided((2, 3), (0, 1)))
