"""Prepare models of quantization-aware training (QAT), whose values are quantized and dequantized.

torch.ao's observers write ranges, scales and zero points into buffers until
``torch.ao.quantization.disable_observer`` turns them off; their operator then only quantizes and
dequantizes. functionalize.py replaces it, so that ONNX gets QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.scoped_patch import apply_or_undo, restore_on_exit
from ortable.compat.torch import fake_rules
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Undo

_aten = torch.ops.aten
_OBSERVER = _aten.fused_moving_avg_obs_fake_quant.default


@contextmanager
def replace_observers(program: ExportedProgram) -> Iterator[None]:
    """Replace the operator of torch.ao's observers by fake quantization in the block.

    Raises ExportError if an observer is on: a call of the model would change its scales.
    """
    observers = list(_find_observers(program.graph_module))
    if not observers:
        yield
        return
    changed: list[tuple[Node, Any, Any, Any]] = []

    def undo() -> None:
        for node, target, args, kwargs in reversed(changed):
            node.target, node.args, node.kwargs = target, args, kwargs

    with restore_on_exit(undo), restore_on_exit(patch_fake_rules()):
        for node in observers:
            changed.append((node, node.target, node.args, node.kwargs))
            if not _is_on(program, node, 1, "observer_enabled"):
                _replace_observer(node, _is_on(program, node, 2, "fake_quant_enabled"))
                continue
            raise ExportError(
                f"an observer of quantization-aware training is on (node '{node.name}'): a call of "
                "the model changes its scales, which a file cannot do. Turn the observers off: "
                "model.apply(torch.ao.quantization.disable_observer)"
            )
        yield


def _find_observers(graph_module: GraphModule) -> Iterator[Node]:
    for module in graph_module.modules():
        if isinstance(module, GraphModule):
            yield from module.graph.find_nodes(op="call_function", target=_OBSERVER)


def _is_on(program: ExportedProgram, node: Node, index: int, flag: str) -> bool:
    """Return the value of a flag, an argument of the operator that is a buffer of the model."""
    name = getattr(node.args[index], "name", "")
    buffers = {**program.state_dict, **program.constants}
    value = buffers.get(program.graph_signature.inputs_to_buffers.get(name, ""))
    if value is None:
        raise ExportError(f"'{flag}' of node '{node.name}' is no buffer of the model")
    return bool(value.any())


def _replace_observer(node: Node, fake_quantizes: bool) -> None:
    x, _, _, _, _, scale, zero_point, _, low, high, axis, per_channel, *_ = [*node.args, False]
    if not fake_quantizes:
        node.target, node.args = _aten.alias.default, (x,)
    elif per_channel:
        node.target = _aten.fake_quantize_per_channel_affine.default
        node.args = (x, scale, zero_point, axis, low, high)
    else:
        node.target = _aten.fake_quantize_per_tensor_affine.tensor_qparams
        node.args = (x, scale, zero_point, low, high)


def patch_fake_rules() -> Undo:
    """Add shape functions of fake quantization, which torch lacks, and return their removal.

    FakeTensorMode uses them for tensors of dynamic size. They are correct for every caller.
    """
    names = ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")
    packets = [f"{name}_cachemask" for name in names]
    packets.append("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
    rules = {getattr(_aten, packet).default: _shape_rule for packet in packets}
    added = {operator: rule for operator, rule in rules.items() if operator not in fake_rules()}

    def undo() -> None:
        for operator in added:
            fake_rules().pop(operator, None)

    return apply_or_undo(lambda: fake_rules().update(added), undo)


def _shape_rule(mode: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    with mode:
        return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)
