"""Roles of the placeholders of an ATen graph, and the ONNX inputs declared for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims, dtypes
from ortable.backend.roles import DimSource, InputRole, InputRoleKind
from ortable.backend.sessions.providers import check_device_supported, device_of
from ortable.dims import Dim, SymDim
from ortable.errors import ConversionError
from ortable.interpreter.complex_numbers import declare_input, transpose_parts
from ortable.interpreter.control_flow import is_token
from ortable.interpreter.numbers import adopt_number
from ortable.interpreter.results import ELEMENT_TYPES
from ortable.ir import editing

from .argument_marks import argument_name, argument_strides
from .strides import dense_order, inverse_permutation

_NO_DLPACK = (torch.complex32,)


def shape_of(value: torch.Tensor) -> tuple[Dim, ...]:
    """Return the shape of a fake tensor: ints and symbolic dimensions."""
    return tuple(dims.from_torch(size) for size in value.shape)


def strides_of(value: torch.Tensor) -> tuple[Dim, ...]:
    """Return the strides of a fake tensor: ints and symbolic dimensions."""
    return tuple(dims.from_torch(stride) for stride in value.stride())


class InputPlan:
    """The placeholders of one graph in order, and the argument that gives each symbol its value.

    `position` maps placeholders to their indices. `sources` has only symbols that are an int
    argument or, otherwise, a dimension of a tensor: `s0` for `[s0, s1 + 1]`, but not `s1`.
    """

    def __init__(self, graph_module: GraphModule) -> None:
        self.nodes: list[Node] = [
            arg for arg in graph_module.graph.nodes if arg.op == "placeholder"
        ]
        self.position = {node: index for index, node in enumerate(self.nodes)}
        self.sources: dict[str, DimSource] = {}
        values = [node.meta.get("val") for node in self.nodes]
        for index, value in enumerate(values):
            if isinstance(value, torch.SymInt):
                self._add_source(dims.from_torch(value), index, None)
        for index, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                for axis, dim in enumerate(shape_of(value)):
                    self._add_source(dim, index, axis)

    def _add_source(self, dim: Dim, index: int, axis: int | None) -> None:
        if isinstance(dim, SymDim) and dims.is_symbol(dim):
            self.sources.setdefault(str(dim), DimSource(str(dim), index, axis))

    def is_computable(self, dim: Dim) -> bool:
        """Whether the value of `dim` can be computed from the arguments."""
        if isinstance(dim, int):
            return True
        try:
            # the value 3 is arbitrary: an error shows that a symbol has no source
            dims.evaluate_dim(dim, dict.fromkeys(self.sources, 3))
        except ValueError:
            return False
        return True


def check_inputs(plan: InputPlan, provider_names: tuple[str, ...]) -> None:
    """Refuse arguments that ONNX Runtime cannot take through dlpack.

    Args:
        plan: the arguments.
        provider_names: the providers that run the graph.

    Raises:
        ConversionError: if the layout or dtype of a tensor is unsupported, or a tensor that the
            graph computes with has no data.
        ProviderError: if a tensor is on a device whose memory no provider can access.
    """
    for index, node in enumerate(plan.nodes):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        if value.layout is not torch.strided:
            raise ConversionError(
                f"Argument {index} ({node.name}) has layout {value.layout}, but ONNX Runtime "
                "accepts only dense tensors. Call to_dense() before the model."
            )
        location = f"Argument {index} ({node.name})"
        if value.device.type == "meta" and any(user.op != "output" for user in node.users):
            raise no_data_error(location)
        check_type(location, value)
        check_device_supported(location, value.device, provider_names)


def no_data_error(location: str) -> ConversionError:
    """Return the error for a tensor on the device meta, which has no data."""
    return ConversionError(
        f"{location} is on device meta, which has no data, and ONNX Runtime needs data. Move model "
        'and inputs to the CPU, or set options={"fallback": "eager"}.'
    )


def check_type(location: str, value: torch.Tensor) -> None:
    """Raise ConversionError if a tensor of this dtype and device cannot pass to ONNX Runtime."""
    if value.dtype in _NO_DLPACK or value.dtype not in ELEMENT_TYPES:
        raise ConversionError(
            f"{location} has dtype {value.dtype}, which ONNX Runtime does not support. Convert the "
            "tensor outside of the model."
        )
    if ELEMENT_TYPES[value.dtype] in dtypes.FLOAT8_TYPES and value.device.type != "cpu":
        raise ConversionError(
            f"{location} has dtype {value.dtype} on {value.device}, but ortable can pass 8-bit "
            "floats to ONNX Runtime only on the CPU. Convert the tensor outside of the model."
        )


def declare_inputs(
    builder: Any, plan: InputPlan, interpreter: Any, copies: Mapping[Node, Node]
) -> tuple[InputRole, ...]:
    """Make the ONNX inputs, bind the copied placeholders to them, and return the roles in order.

    Tensors that no converted node reads get no ONNX input. A tensor that is dense in another order
    of its axes (such as channels last) is fed as its contiguous permutation, which needs no copy,
    and the graph transposes it back.

    Args:
        builder: the graph in which the inputs are declared.
        plan: the arguments.
        interpreter: receives the values of the placeholders.
        copies: the copies, in the converted graph, of the placeholders that it reads.
    """
    roles = []
    for index, node in enumerate(plan.nodes):
        builder.origin = node
        role, converted = _declare_role(builder, index, node, node in copies)
        roles.append(role)
        if node in copies:
            interpreter.values[copies[node]] = interpreter.note_complex(converted)
    return tuple(roles)


def _declare_role(builder: Any, index: int, node: Node, is_read: bool) -> tuple[InputRole, Any]:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        dim = dims.from_torch(value)
        if isinstance(dim, int):
            return InputRole(index, InputRoleKind.CONSTANT, "", value=dim), dim
        name = f"input_dim_{index}"
        builder.make_tensor_input(name, dtypes.int64, (dim,), is_dimension=True)
        return InputRole(index, InputRoleKind.DIMENSION, name, dtypes.int64, (1,), dim), dim
    if isinstance(value, torch.SymFloat | torch.SymBool):
        name = f"input_number_{index}"
        number_type = dtypes.boolean if isinstance(value, torch.SymBool) else dtypes.float64
        builder.make_tensor_input(name, number_type, ())
        return InputRole(index, InputRoleKind.NUMBER, name, number_type, ()), adopt_number(
            builder, name, value
        )
    if is_token(node):
        return InputRole(index, InputRoleKind.CONSTANT, ""), None
    if not isinstance(value, torch.Tensor):
        return InputRole(index, InputRoleKind.CONSTANT, "", value=value), value
    elem_type, shape, device = dtypes.from_torch(value.dtype), shape_of(value), device_of(value)
    if not is_read:
        return InputRole(index, InputRoleKind.UNUSED, "", elem_type, shape, device=device), None
    name = builder.unique_name(argument_name(node) or f"input{index}")
    order = dense_order(shape, argument_strides(node) or strides_of(value))
    if order is None or order == tuple(range(len(shape))):
        converted = declare_input(builder, name, elem_type, shape)
        is_dense = order is not None
        role = InputRole(
            index, InputRoleKind.TENSOR, name, elem_type, shape, dense=is_dense, device=device
        )
        return role, converted
    declared = declare_input(builder, name, elem_type, tuple(shape[axis] for axis in order))
    converted = transpose_parts(builder, declared, inverse_permutation(order))
    if isinstance(converted, str):
        readable_name = builder.unique_name(f"{name}.transpose")
        editing.rename_recent_result(builder, converted, readable_name, len(builder.nodes) - 1)
        converted = readable_name
    role = InputRole(
        index, InputRoleKind.TENSOR, name, elem_type, shape, permutation=order, device=device
    )
    return role, converted
