"""Each operator that torch tags core or torch.onnx registers has an entry or a listed reason."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable_generated.aten.dispatch import CALLABLES, CONVERTERS, HOPS
from ortable_generated.decompositions import DECOMPOSE
from tests.onnx_runs import run

# Core overloads without an entry: in-place or `out=` forms, and overloads that torch replaces
# before conversion.
CORE_WITHOUT_ENTRY = {
    "aten::_native_batch_norm_legit": "writes its statistics: functionalised to "
    "_native_batch_norm_legit_functional, which has an entry",
    "aten::atan2.out": "an out= form: functionalised to atan2 and a copy",
    "aten::resize_": "changes the storage of its input: functionalised to resize",
    "aten::native_group_norm_backward": "decomposed by torch, in reductions ONNX has",
}

# Python functions on sizes and numbers of a graph, and subgraphs: the interpreter evaluates them
# (ortable.interpreter.numbers, control_flow; tests/interpreter).
INTERPRETED = {
    "invoke_subgraph", "math.ceil", "math.floor", "math.trunc", "operator.getitem",
    "torch.sym_float", "torch.sym_ite", "torch.sym_max", "torch.sym_min", "torch.sym_not",
    "torch.sym_sum",
}  # fmt: skip

TORCHLIB_WITHOUT_ENTRY = {
    "aten::_native_batch_norm_legit": CORE_WITHOUT_ENTRY["aten::_native_batch_norm_legit"],
    "aten::cross": "decomposed by torch into linalg_cross, which has an entry",
    "prims::resize": "torch has no lowering that leaves it in a graph",
}


def list_core_overloads() -> set[str]:
    """Return the names of the overloads tagged core: 193 in torch 2.13."""
    names = set()
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            names.add(name)
    return names


def test_every_core_overload_is_converted_or_named_with_a_reason() -> None:
    core = list_core_overloads()
    assert len(core) >= 193
    converted = set(CONVERTERS)
    assert core - converted - set(CORE_WITHOUT_ENTRY) == set()
    assert len(CORE_WITHOUT_ENTRY) <= 5
    assert set(CORE_WITHOUT_ENTRY) & converted == set(), (
        "has an entry now: remove it from this list"
    )


class _OutArgument(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        torch.atan2(x, y, out=result)
        return result + x


class _Resize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.resize_(2, 2)
        return y * 2


class _BatchNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        result = torch.ops.aten._native_batch_norm_legit(
            x, None, None, self.mean, self.variance, True, 0.1, 1e-5
        )
        return result[0], self.mean + 0, self.variance + 0


@pytest.mark.parametrize(
    ("module", "shapes", "name"),
    [
        (_OutArgument, [(2, 3), (2, 3)], "aten::atan2.out"),
        (_Resize, [(3, 2)], "aten::resize_"),
        (_BatchNorm, [(4, 3, 5)], "aten::_native_batch_norm_legit"),
    ],
)
def test_what_functionalisation_makes_of_them_is_converted(
    module: type[torch.nn.Module], shapes: list[tuple[int, ...]], name: str
) -> None:
    torch.manual_seed(0)
    args = tuple(torch.randn(shape) for shape in shapes)
    traced = torch.export.export(module(), args).graph
    targets = {node.target.name() for node in traced.nodes if hasattr(node.target, "_schema")}
    assert name in targets, "torch's graph no longer contains it: change the reason above"
    model = ortable.to_onnx(module(), args)
    eager = module()
    results = eager(*args)
    expected = list(results) if isinstance(results, tuple) else [results]
    expected += list(eager.buffers())  # written buffers are results, too
    actual = run(model, *args)
    torch.testing.assert_close(actual[: len(expected)], expected, atol=1e-5, rtol=1e-5)


def test_what_torch_decomposes_is_listed() -> None:
    reasons = CORE_WITHOUT_ENTRY | TORCHLIB_WITHOUT_ENTRY
    decomposed = {name for name, reason in reasons.items() if reason.startswith("decomposed")}
    assert decomposed <= set(DECOMPOSE)


def test_every_overload_that_torch_onnx_registers_is_converted_or_named_with_a_reason() -> None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from ortable.interpreter.calls import qualified_name

    missing = []
    for target in ONNXRegistry.from_torchlib().functions:
        if isinstance(target, str):
            name = target
        elif isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
            name = target.name()
        else:
            name = qualified_name(target)
        if name not in {*CONVERTERS, *HOPS, *CALLABLES, *TORCHLIB_WITHOUT_ENTRY, *INTERPRETED}:
            missing.append(name)
    assert sorted(missing) == []


def test_what_stands_without_an_entry_has_none() -> None:
    entries = {*CONVERTERS, *HOPS, *CALLABLES}
    assert {*TORCHLIB_WITHOUT_ENTRY, *CORE_WITHOUT_ENTRY} & entries == set()


def test_there_are_more_than_seven_hundred_overloads() -> None:
    assert len(CONVERTERS) >= 700
