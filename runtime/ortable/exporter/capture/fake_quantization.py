"""Prepare models of quantization-aware training (QAT), whose values are quantized and dequantized.

torch.ao's observers write ranges, scales and zero points into buffers until
``torch.ao.quantization.disable_observer`` turns them off; their operator then only quantizes and
dequantizes. functionalize.py replaces it, so that ONNX gets QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.scoped_patch import apply_or_undo, restore_on_exit
from ortable.compat.torch import fake_rules
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Undo
from ortable.interpreter.calls import arguments_by_name

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
            arguments = arguments_by_name(node)
            if not _read_buffer(program, node, arguments["observer_on"]).any():
                is_on = bool(_read_buffer(program, node, arguments["fake_quant_on"]).any())
                if is_on:
                    _check_scales(program, node, arguments)
                _replace_observer(node, arguments, is_on)
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


def _read_buffer(program: ExportedProgram, node: Node, argument: Any) -> torch.Tensor:
    """Return the value of an argument of an observer that is a buffer of the model."""
    name = getattr(argument, "name", "")
    buffers = {**program.state_dict, **program.constants}
    value = buffers.get(program.graph_signature.inputs_to_buffers.get(name, ""))
    if value is None:
        raise ExportError(f"'{name}', an argument of node '{node.name}', is no buffer of the model")
    return cast(torch.Tensor, value)


def _check_scales(program: ExportedProgram, node: Node, arguments: Mapping[str, Any]) -> None:
    """Raise ExportError unless scales and zero points are those of the observed ranges.

    torch's operator computes them from the ranges in each call, also where the observer is off.
    """
    current = {
        argument.name: _read_buffer(program, node, arguments[argument.name]).clone()
        for argument in _OBSERVER._schema.arguments[1:]
        if isinstance(arguments.get(argument.name), Node)
    }
    old_values = {name: current[name].clone() for name in ("scale", "zero_point")}
    axis = arguments["ch_axis"] if arguments.get("per_row_fake_quant", False) else 0
    scale = current["scale"]
    values = torch.zeros([*[1] * axis, scale.numel(), 1], device=scale.device)
    _OBSERVER(**{**arguments, "self": values, **current})
    if not all(torch.equal(current[name], old) for name, old in old_values.items()):
        raise ExportError(
            f"the scales of node '{node.name}' are older than its observed ranges, and torch "
            "computes them again in the next call: call the model once, then export it"
        )


def _replace_observer(node: Node, arguments: Mapping[str, Any], fake_quantizes: bool) -> None:
    x, bounds = arguments["self"], (arguments["quant_min"], arguments["quant_max"])
    scales = (arguments["scale"], arguments["zero_point"])
    if not fake_quantizes:
        node.target, node.args = _aten.alias.default, (x,)
    elif arguments.get("per_row_fake_quant", False):
        node.target = _aten.fake_quantize_per_channel_affine.default
        node.args = (x, *scales, arguments["ch_axis"], *bounds)
    else:
        node.target = _aten.fake_quantize_per_tensor_affine.tensor_qparams
        node.args = (x, *scales, *bounds)
    node.kwargs = {}


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
