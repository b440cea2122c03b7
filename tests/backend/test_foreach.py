"""Operators on lists equal operators on each tensor, exported and compiled; compiled optimizers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ortable import get_decomposition_table, to_onnx
from ortable.compat.torch_version import TORCH
from ortable_generated.foreach import FOREACH
from tests.exporter.helpers import run_onnx

FIRST_VERSION_WITH_TENSOR_FACTORS = (2, 15)
TABLE = {
    op.name().removeprefix("aten::_foreach_"): op
    for op in get_decomposition_table()
    if op.name() in FOREACH
}


def make_argument(arg):
    """Return a value for one argument of a schema, by its type and name."""
    kind = str(arg.type)
    if kind == "List[Tensor]":
        seed = len(arg.name)
        generator = torch.Generator().manual_seed(seed)
        shapes = ((3, 3), (2, 2))
        return [torch.rand(shape, generator=generator) / 2 + 0.3 for shape in shapes]
    if kind == "Tensor":
        return torch.tensor([0.5, 2.0]) if arg.name == "scalars" else torch.tensor(1.5)
    if arg.name == "dtype":
        return torch.float64
    if kind == "bool":
        return False
    return [0.5, 2.0] if kind.startswith("List[") else 2.0


@pytest.mark.parametrize("name", TABLE)
def test_each_overload_is_the_operator_of_one_tensor(name):
    op = TABLE[name]
    args = [make_argument(a) for a in op._schema.arguments if not a.has_default_value()]
    got = FOREACH[op.name()](*args)
    torch.testing.assert_close(got, list(op(*args)), rtol=1e-6, atol=1e-6)


OPTIONAL = [
    name
    for name, op in TABLE.items()
    if any(a.has_default_value() and not a.kwarg_only for a in op._schema.arguments)
]


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_arguments_may_go_by_position(name):
    op = TABLE[name]
    args = [make_argument(a) for a in op._schema.arguments if not a.kwarg_only]
    got = FOREACH[op.name()](*args)
    torch.testing.assert_close(got, list(op(*args)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("extra", [{"alpha": 0.5}, {"value": 0.5}, {"ord": 1}])
def test_arguments_by_name_go_to_each_tensor(extra):
    name = {"alpha": "add.List", "value": "addcdiv.Scalar", "ord": "norm.Scalar"}[next(iter(extra))]
    op = TABLE[name]
    args = [make_argument(a) for a in op._schema.arguments if str(a.type) == "List[Tensor]"]
    got = FOREACH[op.name()](*args, **extra)
    torch.testing.assert_close(got, list(op(*args, **extra)))


class ListOperators(torch.nn.Module):
    """Several operators on lists, including one with a factor per tensor."""

    def forward(self, tensors, others):
        sums = torch._foreach_add(tensors, others, alpha=0.5)
        updated = torch._foreach_addcdiv(sums, tensors, others, [0.5, 2.0])
        powers = torch._foreach_powsum(updated, 3)
        return (
            *torch._foreach_lerp(updated, others, 0.25),
            *powers,
            *torch._foreach_pow(2.0, tensors),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_operators_on_lists_are_exported(dtype):
    lists = [[(torch.rand(shape) + 0.5).to(dtype) for shape in ((3, 2), (4,))] for _ in range(2)]
    model = to_onnx(ListOperators(), tuple(lists))
    feeds = dict(
        zip(
            [i.name for i in model.graph.input],
            [t.numpy() for tensors in lists for t in tensors],
            strict=True,
        )
    )
    torch.testing.assert_close(run_onnx(model, feeds), list(ListOperators()(*lists)))


def test_lists_are_written_in_place(fresh_dynamo):
    """All operators that write their first list run one after the other in one graph."""

    def write_lists(tensors, others):
        torch._foreach_mul_(tensors, others)
        torch._foreach_addcmul_(tensors, tensors, others, 0.5)
        torch._foreach_clamp_min_(tensors, [0.1, 0.2])
        torch._foreach_sqrt_(tensors)
        torch._foreach_copy_(others, tensors)
        torch._foreach_zero_(tensors[:1])

    expected = [[torch.rand(3, 2), torch.rand(4).double()] for _ in range(2)]
    got = copy.deepcopy(expected)
    write_lists(*expected)
    torch.compile(write_lists, backend="ortable", fullgraph=True)(*got)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_compiled_step_of_an_optimizer(kind, fresh_dynamo):
    model = torch.nn.Linear(3, 2)
    eager = copy.deepcopy(model)
    optimizers = [kind(m.parameters(), lr=0.1, foreach=True) for m in (model, eager)]
    steps = torch.compile(optimizers[0].step, backend="ortable"), optimizers[1].step
    x = torch.randn(4, 3)
    for _ in range(2):
        for module, step in zip((model, eager), steps, strict=True):
            module.zero_grad()
            module(x).pow(2).sum().backward()
            step()
    torch.testing.assert_close(list(model.parameters()), list(eager.parameters()))


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_numbers_that_adafactor_reads_from_its_state(fresh_dynamo):
    """The weight of Adafactor's lerp is known only when the graph runs."""
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (4,))]
    eager = copy.deepcopy(parameters)
    optimizers = [torch.optim.Adafactor(p, foreach=True) for p in (parameters, eager)]
    storage: dict = {}
    step = torch.compile(optimizers[0].step, backend="ortable", options={"storage": storage})
    for _ in range(3):
        for compiled_parameter, eager_parameter in zip(parameters, eager, strict=True):
            eager_parameter.grad = torch.randn_like(eager_parameter)
            compiled_parameter.grad = eager_parameter.grad.clone()
        step()
        optimizers[1].step()
    assert storage["instance"]
    torch.testing.assert_close(parameters, eager)
    states = [[o.state[p] for p in o.param_groups[0]["params"]] for o in optimizers]
    torch.testing.assert_close(*states)


def use_tensor_factors(tensors, factors):
    product = torch._foreach_addcmul(tensors, tensors, tensors, factors)
    quotient = torch._foreach_addcdiv(tensors, product, tensors, factors)
    return *product, *quotient


def test_factors_that_are_elements_of_a_tensor_are_traced_with_the_table():
    """`get_decomposition_table` also serves `make_fx`, which traces with real tensors."""
    tensors, factors = [torch.rand(3, 2) + 0.5, torch.rand(2) + 0.5], torch.tensor([0.5, -2.0])
    table = get_decomposition_table()
    traced = make_fx(use_tensor_factors, table)(tensors, factors)
    operators = {str(node.target) for node in traced.graph.nodes if node.op == "call_function"}
    assert "aten.mul.Tensor" in operators and not any("foreach" in name for name in operators)
    new_factors = torch.tensor([-1.5, 3.0])
    torch.testing.assert_close(
        traced(tensors, new_factors), use_tensor_factors(tensors, new_factors)
    )


@pytest.mark.parametrize("backend", ["eager", "ortable"])
def test_torch_compile_traces_factors_of_a_tensor_from_a_version_on(backend, fresh_dynamo):
    """Older versions of torch accept only numbers as factors, also from compiled optimizers."""
    compiled = torch.compile(use_tensor_factors, backend=backend, fullgraph=True)
    tensors, factors = [torch.rand(2), torch.rand(2)], torch.tensor([0.5, 2.0])
    if TORCH < FIRST_VERSION_WITH_TENSOR_FACTORS:
        with pytest.raises(Exception, match="Expected scalars to be on CPU, got meta"):
            compiled(tensors, factors)
    else:
        expected = use_tensor_factors([t.clone() for t in tensors], factors)
        torch.testing.assert_close(compiled(tensors, factors), expected)
