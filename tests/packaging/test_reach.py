"""What there is of torch: the overloads that torch tags core, and those that torch.onnx's own
library registers. Each has an entry, or stands here with the reason."""

from __future__ import annotations

import pytest
import torch

from ortable_generated.aten.dispatch import CALLABLES, CONVERTERS, HOPS
from ortable_generated.decompositions import DECOMPOSE
from ortablegen.schema import registered_schema

# Core overloads without an entry of their own: they are in-place or `out=` forms, or torch replaces
# them before a graph is converted.
CORE_WITHOUT_ENTRY = {
    "aten::_native_batch_norm_legit": "writes its statistics: functionalised to "
    "_native_batch_norm_legit_functional, which has an entry",
    "aten::atan2.out": "an out= form: functionalised to atan2 and a copy",
    "aten::resize_": "changes the storage of its input: functionalised to resize",
    "aten::native_group_norm_backward": "decomposed by torch, in reductions ONNX has",
    "aten::native_layer_norm_backward": "decomposed by torch, in reductions ONNX has",
}

# Python functions over sizes and numbers of a graph, and graphs inside it: the interpreter itself
# computes them (ortable.interpreter.symbolic, numbers, control_flow; tests/interpreter).
INTERPRETED = {
    "invoke_subgraph", "math.ceil", "math.floor", "math.trunc", "operator.getitem",
    "torch.sym_float", "torch.sym_ite", "torch.sym_max", "torch.sym_min", "torch.sym_not",
    "torch.sym_sum",
}  # fmt: skip

TORCHLIB_WITHOUT_ENTRY = {
    "aten::_native_batch_norm_legit": CORE_WITHOUT_ENTRY["aten::_native_batch_norm_legit"],
    "aten::_scaled_dot_product_efficient_attention": "CUDA only: there is nothing to compare with",
    "aten::_scaled_dot_product_flash_attention": "CUDA only: there is nothing to compare with",
    "aten::cross": "decomposed by torch into linalg_cross, which has an entry",
    "prims::resize": "torch has no lowering that leaves it in a graph",
    "onnx_symbolic::_symbolic": "converted by the interpreter: the node says what it becomes",
    "onnx_symbolic::_symbolic_multi_out": "converted by the interpreter, as _symbolic",
}


def core_overloads() -> set[str]:
    """Names of the overloads tagged core: 193 in torch 2.13."""
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::"):
            continue
        packet, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            found.add(name)
    return found


def test_every_core_overload_is_converted_or_named_with_a_reason() -> None:
    core = core_overloads()
    assert len(core) >= 193
    known = set(CONVERTERS)
    assert core - known - set(CORE_WITHOUT_ENTRY) == set()
    assert len(CORE_WITHOUT_ENTRY) <= 5
    assert set(CORE_WITHOUT_ENTRY) & known == set(), "has an entry now: take it out of this list"


@pytest.mark.parametrize(
    ("name", "functional"),
    [
        ("aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional"),
        ("aten::atan2.out", "aten::atan2"),
        ("aten::resize_", "aten::resize"),
    ],
)
def test_what_functionalisation_makes_of_them_is_converted(name: str, functional: str) -> None:
    schema = registered_schema(name)
    assert schema is not None
    assert functional in CONVERTERS


def test_what_torch_decomposes_is_listed() -> None:
    named = CORE_WITHOUT_ENTRY | TORCHLIB_WITHOUT_ENTRY
    decomposed = {name for name, why in named.items() if why.startswith("decomposed")}
    assert decomposed <= set(DECOMPOSE)


def test_every_overload_that_torch_onnx_registers_is_converted_or_named_with_a_reason() -> None:
    pytest.importorskip("onnxscript", reason="the list comes with onnxscript")
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


def test_there_are_more_than_seven_hundred_overloads() -> None:
    assert len(CONVERTERS) >= 700
