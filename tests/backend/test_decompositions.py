"""The decomposition table keeps operators with a converter and decomposes others to core ATen."""

from __future__ import annotations

import pytest
import torch

from ortable import (
    ExportOptions,
    filter_decomposition_table,
    get_decomposition_table,
    to_onnx,
)
from ortable_generated.aten.dispatch import CONVERTERS, PLACE
from ortable_generated.decompositions import DECOMPOSE

aten = torch.ops.aten
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def test_operators_with_a_converter_stay_whole():
    table = get_decomposition_table()
    decomposed = [
        op.name() for op in table if op.name() in CONVERTERS and op.name() not in DECOMPOSE
    ]
    assert decomposed == []
    assert aten.addmm.default not in table


def test_operators_without_a_converter_are_decomposed():
    table = get_decomposition_table()
    core = torch._decomp.core_aten_decompositions()
    aten_ops = [op for op in core if op.namespace == "aten"]
    supported = {*CONVERTERS, *PLACE}  # PLACE lists operators that torch runs
    missing = [op for op in aten_ops if op.name() not in supported and op not in table]
    assert missing == []
    assert all(callable(fct) for fct in table.values())


def _get_overload(name: str) -> torch._ops.OpOverload:
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(aten, base), overload or "default")


def test_named_operators_are_always_decomposed():
    names = {op.name() for op in get_decomposition_table()}
    missing = set(DECOMPOSE) - names
    # Composites without a registered decomposition are decomposed by tracing itself.
    assert all(_get_overload(name).has_kernel_for_dispatch_key(COMPOSITE) for name in missing)


def test_each_call_returns_a_table_of_its_own():
    table = get_decomposition_table()
    table.clear()
    assert get_decomposition_table()


def test_filter_takes_a_table_and_a_function():
    table = get_decomposition_table()
    filtered = filter_decomposition_table(table, lambda op: "norm" in op.name())
    assert filtered and all("norm" in op.name() for op in filtered)
    assert set(filtered) < set(table)


def test_filter_drops_what_ortable_converts():
    filtered = filter_decomposition_table()
    assert filtered
    assert not any(getattr(op, "name", str)() in CONVERTERS for op in filtered)


def test_table_is_accepted_by_make_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: x.addcmul(x, x), decomposition_table=get_decomposition_table())(
        torch.randn(2)
    )
    assert len(list(graph.graph.nodes)) >= 3


def test_what_dynamo_decomposes_by_itself(run_both):
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    run_both(lambda x, y: x.clone().addcmul_(y, y, value=0.1), x, y)
    run_both(lambda x, amount: x.clone().add_(x, alpha=amount), x, torch.tensor(0.1))


def test_a_step_of_an_optimizer():
    torch.manual_seed(0)
    models = [torch.nn.Linear(4, 4) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.1) for model in models]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend="ortable")]
    for _ in range(3):
        for model, step in zip(models, steps, strict=True):
            model(torch.ones(2, 4)).square().sum().backward()
            step()
    torch.testing.assert_close(models[1].weight, models[0].weight)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("table", ["none", "default", "all", {aten.relu.default: torch.sigmoid}])
def test_a_table_means_the_same_to_export_and_backend(table):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3), torch.nn.ReLU())
    x, storage = torch.rand(3, 3), {}
    options = ExportOptions(decomposition_table=table)
    without_folding = ExportOptions(decomposition_table=table, constant_folding=False)
    settings = {"rewrites": "none", "target_opset": 20}
    backend_options = {"storage": storage, "export_options": options, **settings}
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model.eval(), backend="ortable", options=backend_options)(x)
    (record,) = storage["instance"]
    exported = to_onnx(model, (x,), export_options=without_folding, **settings)
    operators = sorted(node.op_type for node in record["onnx"].graph.node)
    assert ("LayerNormalization" in operators) == (table != "all")
    assert ("Sigmoid" in operators) == isinstance(table, dict)
    assert operators == sorted(node.op_type for node in exported.graph.node)
