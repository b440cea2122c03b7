"""Call an exported model like the module that it was exported from.

The calling convention maps the arguments of a call to ONNX inputs, and ONNX outputs to the results
of the module. It raises InputError for arguments that the model was not exported for. Called by
`program.py`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from onnx import FunctionProto, GraphProto, ModelProto
from torch.export import ExportedProgram
from torch.fx import Node

from ortable import dtypes
from ortable.compat.onnxruntime import as_complex
from ortable.compat.torch import pytree
from ortable.errors import InputError
from ortable.exporter.capture.exported_program import get_example_call
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.observation.calls import named_arguments
from ortable.exporter.reporting.sessions import proto_of
from ortable.exporter.reporting.validate import input_names
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dataclass_nodes import (
    constant_fields,
    unflatten_spec,
    wrap_dataclasses,
)
from ortable.interpreter import results
from ortable.interpreter.calls import operator_key
from ortable.interpreter.outputs import flatten_output
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits
from ortable_generated.onnx.traits import CRASHES_ON_EMPTY, RECURRENT

from .argument_overlaps import check_overlaps
from .shape_constraints import SizeConstraints

_STRUCTURE_MISMATCH = "the call has other arguments than the example of the export"
_MAX_LISTED_PATHS = 5  # paths of arguments that an error lists


@dataclass(frozen=True)
class InputSlot:
    """A leaf of the call's pytree.

    ``path``: the leaf in Python syntax (``pair['left']``); ``argument``: the parameter of forward
    that contains the leaf; ``name``: the ONNX input, None for a constant of the model; ``value``: a
    fake tensor, a symbolic integer, or the constant.
    """

    path: str
    argument: str
    name: str | None
    value: Any

    @property
    def display_name(self) -> str:
        """Name of the leaf in error messages."""
        return f"'{self.path}'" if self.name in (None, self.path) else (
            f"'{self.path}' (input '{self.name}')"
        )  # fmt: skip


OutputKind = Literal["tensor", "complex", "number", "value", "input", "same"]


@dataclass(frozen=True)
class OutputSlot:
    """A leaf of the results of forward.

    "tensor", "complex" (an ONNX output of pairs) and "number" slots read the ONNX output ``name``;
    a "value" slot returns ``value``, which is the same in every call. An "input" slot returns leaf
    number ``index`` of the arguments, and a "same" slot returns result number ``index`` again.
    """

    kind: OutputKind
    name: str = ""
    index: int = 0
    value: Any = None


@dataclass(frozen=True)
class CallingConvention:
    """Mapping between a call of the module and a call of the ONNX model.

    ``structure`` is the TreeSpec of (args, kwargs) of the example call, and ``slots`` describe its
    leaves. ``parameters`` are the parameters of forward by name. ``returned`` describe the leaves
    of forward's results. ``out_structure`` is the TreeSpec of the results; if torch recorded none,
    it is the nested output of the FX graph: its leaves are replaced by the results, and
    ``process_outputs`` makes the module's result from that. ``mutated`` maps ONNX outputs to
    indices of the argument leaves that forward mutates. ``sizes`` are the constraints on the sizes
    of a call. ``constants`` are fields of dataclasses that are constants of the model, by path.
    ``half_inputs`` are the ONNX inputs that are float16 in place of float32.
    """

    structure: Any
    slots: tuple[InputSlot, ...]
    parameters: Mapping[str, inspect.Parameter]
    returned: tuple[OutputSlot, ...]
    out_structure: Any
    mutated: Mapping[str, int]
    sizes: SizeConstraints
    process_outputs: Callable[[Any], Any]
    constants: Mapping[str, Any]
    half_inputs: frozenset[str] = frozenset()

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the leaves of a call in the order of the slots.

        Raises InputError for a call that the model was not exported for.
        """
        if self._takes_tensors_by_position and not kwargs and len(args) == len(self.slots):
            leaves = list(args)  # not flattened, which is faster: `_check_leaf` rejects containers
        else:
            call = wrap_dataclasses((tuple(args), dict(kwargs)))
            leaves, structure = pytree.tree_flatten(call)
            if structure != self.structure:
                pytrees.register_caches(call)
                leaves = self._match_by_path(*call)
        for slot, leaf in zip(self.slots, leaves, strict=True):
            _check_leaf(slot, leaf, self.sizes)
        self.sizes.check_sizes(self.slots, leaves)
        if self.mutated:
            names = [slot.display_name for slot in self.slots]
            check_overlaps(leaves, names, frozenset(self.mutated.values()))
        return leaves

    @cached_property
    def _takes_tensors_by_position(self) -> bool:
        """Whether every argument of the example call is a tensor and given by position."""
        flat_call: Any = (tuple(slot.value for slot in self.slots), {})
        return pytree.tree_structure(flat_call) == self.structure and all(
            results.is_tensor_like(slot.value) for slot in self.slots
        )

    def unflatten_call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) that contain ``leaves`` in the structure of the example call."""
        args, kwargs = pytree.tree_unflatten(list(leaves), self.structure)
        return tuple(args), dict(kwargs)

    def input_feeds(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Map ONNX inputs to leaves."""
        feeds = {
            slot.name: leaf
            for slot, leaf in zip(self.slots, leaves, strict=True)
            if slot.name is not None
        }
        for name in self.half_inputs:
            feeds[name] = feeds[name].half()
        return feeds

    @cached_property
    def required_outputs(self) -> list[str]:
        """The names of the ONNX outputs that `rebuild_outputs` reads."""
        names = [slot.name for slot in self.returned if slot.name]
        return list(dict.fromkeys([*names, *self.mutated]))

    def rebuild_outputs(self, computed: Mapping[str, torch.Tensor], leaves: Sequence[Any]) -> Any:
        """Build the module's result from ONNX outputs by name, and write the mutated arguments.

        ``leaves`` are the argument leaves that `leaves` returned.
        """
        for name, index in self.mutated.items():
            target = leaves[index]
            value = as_complex(computed[name]) if target.is_complex() else computed[name]
            with torch.no_grad():
                target.copy_(value)
        device = _result_device(leaves)
        outputs: list[Any] = []
        for slot in self.returned:
            if slot.kind == "value":
                outputs.append(slot.value)
            elif slot.kind == "input":
                outputs.append(leaves[slot.index])
            elif slot.kind == "same":
                outputs.append(outputs[slot.index])
            elif slot.kind == "number":
                outputs.append(computed[slot.name].item())
            else:
                value = computed[slot.name]
                outputs.append((as_complex(value) if slot.kind == "complex" else value).to(device))
        if isinstance(self.out_structure, pytree.TreeSpec):
            if self.out_structure.is_leaf():
                return outputs[0]
            return unflatten_spec(self.out_structure, outputs)
        return self.process_outputs(_fill_structure(self.out_structure, iter(outputs)))

    def _match_by_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Match a call whose structure differs from the example's, and return its leaves.

        The call may pass positional arguments by name, omit or pass defaults, and have dict keys in
        another order. Raises InputError for a path of a leaf that is missing or additional.
        """
        arguments = dict(named_arguments(self.parameters, args, kwargs))
        for path, value in _constant_fields(arguments).items():
            if value is not None and self.constants.get(path, value) != value:
                raise InputError(_constant_text(f"'{path}'", value, self.constants[path]))
        expected = dict.fromkeys(slot.argument for slot in self.slots)
        leaves_by_path: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in expected:
                leaves_by_path.update(pytrees.leaf_paths(name, value))
            elif not self._is_default(name, value):
                raise InputError(self._unexpected_argument_text(name, value))
        for name in expected:
            parameter = self.parameters.get(name)
            is_omitted = name not in arguments and parameter is not None
            if is_omitted and parameter.default is not inspect.Parameter.empty:  # type: ignore[union-attr]
                default = wrap_dataclasses(parameter.default)  # type: ignore[union-attr]
                leaves_by_path.update(pytrees.leaf_paths(name, default))
        paths = [slot.path for slot in self.slots]
        extra = [path for path in leaves_by_path if path not in paths]
        missing = [path for path in paths if path not in leaves_by_path]
        if extra or missing:
            raise InputError(_structure_mismatch_text(missing, extra))
        return [leaves_by_path[path] for path in paths]

    def _unexpected_argument_text(self, name: str, value: Any) -> str:
        parameter = self.parameters.get(name)
        if parameter is None or parameter.default is inspect.Parameter.empty:
            return f"{_STRUCTURE_MISMATCH}: {_extra_arguments_text([name])}"
        return (
            f"'{name}' is {_describe_value(value)}, and the example of the export left it out: "
            f"its default, {_describe_value(parameter.default)}, is a constant of the model"
        )

    def _is_default(self, name: str, value: Any) -> bool:
        """Whether ``value`` equals the default of the parameter ``name``."""
        parameter = self.parameters.get(name)
        return parameter is not None and _is_same_constant(parameter.default, value)


# -- make a calling convention


def _find_crashing_ops(model: ModelProto) -> set[str]:
    """Return the operators of a model whose ONNX Runtime kernels crash on empty tensors."""
    operators: set[str] = set()
    pending: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while pending:
        for node in pending.pop().node:
            name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            if name in CRASHES_ON_EMPTY:
                operators.add(name)
            for attribute in node.attribute:
                pending.extend([attribute.g, *attribute.graphs])
    return operators


def _recurrent_length_names(program: Program) -> set[str] | None:
    """Return the names of the dimensions over which recurrent layers run.

    The lowering of these layers supports an empty batch, but no empty sequence. Returns None, which
    stands for all dimensions, if the program has no recurrent layer (the crashing node then comes
    from a user's converter) or the input of a layer has no recorded shape.
    """
    names: set[str] = set()
    layers = [
        node for node in program.graph_module.graph.nodes if operator_key(node) in traits.RECURRENT
    ]
    for node in layers:
        value = node.args[0].meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        if "batch_sizes" in {argument.name for argument in node.target._schema.arguments}:
            continue  # torch refuses to pack an empty sequence
        batch_first = node.args[-1]
        length = value.shape[1 if batch_first else 0]
        if isinstance(length, torch.SymInt):
            symbols = map(str, length.node.expr.free_symbols)
            names |= {program.symbol_names.get(symbol, symbol) for symbol in symbols}
    return names if layers else None


def make_calling_convention(model: Any, request: Request, program: Program) -> CallingConvention:
    """Return the calling convention of ``model``, a ModelProto or LargeModel of ``program``."""
    parameters = _forward_parameters(request.model)
    args, kwargs = wrap_dataclasses(_example_call(request, program))
    paths = [
        (path, name)
        for name, value in named_arguments(parameters, args, kwargs)
        for path, _ in pytrees.leaf_paths(name, value)
    ]
    if len(paths) != len(program.user_inputs):  # no example call: the call is a flat list of inputs
        args, kwargs = tuple(program.user_inputs), {}
        paths = [(str(node.target), str(node.target)) for node in program.user_inputs]
        parameters = _make_parameters([path for path, _ in paths])
    values = [results.node_value(node) for node in program.user_inputs]
    names = input_names(proto_of(model).graph.input, program)
    slots = tuple(
        InputSlot(*path, name, value)
        for path, name, value in zip(paths, names, values, strict=True)
    )
    returned, mutated = _output_slots(model, program)
    structure = program.output_structure
    if structure is None:
        structure = _user_output_structure(program)
    sizes = SizeConstraints.from_program(program, request.options.guards != "ignore")
    crashing_ops = _find_crashing_ops(proto_of(model))
    if crashing_ops:
        sizes = sizes.without_empty(
            _recurrent_length_names(program) if crashing_ops <= RECURRENT else None
        )
    return CallingConvention(
        pytree.tree_structure((tuple(args), dict(kwargs))),
        slots,
        parameters,
        returned,
        structure,
        mutated,
        sizes,
        program.graph_module.graph.process_outputs,
        _constant_fields(dict(named_arguments(parameters, args, kwargs))),
        _find_half_inputs(model, slots),
    )


def _find_half_inputs(model: Any, slots: Sequence[InputSlot]) -> frozenset[str]:
    types = {value.name: value.type.tensor_type.elem_type for value in proto_of(model).graph.input}
    return frozenset(
        slot.name
        for slot in slots
        if slot.name is not None
        and types[slot.name] == dtypes.float16
        and getattr(slot.value, "dtype", None) == torch.float32
    )


def _example_call(request: Request, program: Program) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(request.model, ExportedProgram):
        assert program.exported is not None
        return get_example_call(request.model, program)
    return request.args, request.kwargs


def _forward_parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    if isinstance(model, ExportedProgram):
        signature = model.module_call_graph[0].signature
        return _make_parameters(list(getattr(signature, "forward_arg_names", None) or []))
    return inspect.signature(model.forward).parameters


def _make_parameters(names: Sequence[str]) -> Mapping[str, inspect.Parameter]:
    parameter_kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return {name: inspect.Parameter(name, parameter_kind) for name in names}


def _output_slots(model: Any, program: Program) -> tuple[tuple[OutputSlot, ...], dict[str, int]]:
    """Return the slots of forward's results, and a map from ONNX outputs to mutated arguments."""
    names = [value.name for value in proto_of(model).graph.output]
    leaves = list(flatten_output(program.graph_module.graph.output_node().args[0]))
    pairs = list(zip(leaves, program.outputs, strict=True))
    user_leaves = [leaf for leaf, output in pairs if output.kind == "user"]
    computed = [leaf for leaf, output in pairs if output.kind == "user" and not output.is_none]
    index_by_node = {node: index for index, node in enumerate(program.user_inputs)}
    index_by_name = {str(node.target): index for node, index in index_by_node.items()}
    mutations = [(leaf, output) for leaf, output in pairs if output.kind != "user"]
    mutated = {
        name: index_by_name[output.target]
        for name, (_, output) in zip(names[len(computed) :], mutations, strict=False)
        if output.kind == "input" and output.target in index_by_name
    }
    index_by_new_value = {
        leaf: index_by_name[output.target]
        for leaf, output in mutations
        if output.kind == "input" and output.target in index_by_name
    }
    # the placeholder of a mutated input is its old value, which the argument no longer has
    index_by_node = {
        node: index for node, index in index_by_node.items() if index not in mutated.values()
    }
    output_names = iter(names)
    slots: list[OutputSlot] = []
    first_index: dict[Any, int] = {}
    for index, leaf in enumerate(user_leaves):
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        name = "" if value is None else next(output_names)
        slots.append(
            _make_output_slot(
                leaf, value, name, {**index_by_node, **index_by_new_value}, first_index
            )
        )
        if isinstance(leaf, Node):
            first_index.setdefault(leaf, index)
    return tuple(slots), mutated


def _make_output_slot(
    leaf: Any,
    value: Any,
    name: str,
    input_indices: Mapping[Any, int],
    first_index: Mapping[Any, int],
) -> OutputSlot:
    if not isinstance(leaf, Node) or value is None or isinstance(value, bool | int | float):
        return OutputSlot("value", value=value)
    if leaf in input_indices:
        return OutputSlot("input", index=input_indices[leaf])
    if leaf in first_index:
        return OutputSlot("same", index=first_index[leaf])
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return OutputSlot("number", name)
    dtype = getattr(value, "dtype", None)
    return OutputSlot("complex" if dtype is not None and dtype.is_complex else "tensor", name)


def _user_output_structure(program: Program) -> Any:
    structure = program.graph_module.graph.output_node().args[0]
    if all(output.kind == "user" for output in program.outputs):
        return structure
    leaves = flatten_output(structure)
    pairs = zip(leaves, program.outputs, strict=True)
    return tuple(leaf for leaf, output in pairs if output.kind == "user")


def _fill_structure(structure: Any, leaves: Iterator[Any]) -> Any:
    """Copy nested dicts, lists and tuples, with the next of ``leaves`` in place of each leaf."""
    if isinstance(structure, dict):
        return {key: _fill_structure(item, leaves) for key, item in structure.items()}
    if isinstance(structure, list):
        return [_fill_structure(item, leaves) for item in structure]
    if isinstance(structure, tuple):
        items = [_fill_structure(item, leaves) for item in structure]
        return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    return next(leaves)


# -- check a call


def _structure_mismatch_text(missing: Sequence[str], extra: Sequence[str]) -> str:
    problems = []
    if missing:
        problems.append(f"it lacks {_list_paths(missing)}, with which the model was exported")
    if extra:
        problems.append(_extra_arguments_text(extra))
    return f"{_STRUCTURE_MISMATCH}: {'; and '.join(problems)}"


def _extra_arguments_text(paths: Sequence[str]) -> str:
    pronoun = "them" if len(paths) > 1 else "it"
    return (
        f"it has {_list_paths(paths)}, without which the model was exported; export it "
        f"again with an example that has {pronoun}"
    )


def _list_paths(paths: Sequence[str]) -> str:
    listed = ", ".join(f"'{path}'" for path in paths[:_MAX_LISTED_PATHS])
    return (
        listed
        if len(paths) <= _MAX_LISTED_PATHS
        else f"{listed} and {len(paths) - _MAX_LISTED_PATHS} more"
    )


def _check_leaf(slot: InputSlot, leaf: Any, sizes: SizeConstraints) -> None:
    """Raise InputError if a leaf has another type, dtype, rank or constant value than its slot."""
    expected = slot.value
    if isinstance(expected, torch.SymInt):
        if type(leaf) is not int:
            raise InputError(f"{slot.display_name} is an int, not {_describe_value(leaf)}")
        return
    if not results.is_tensor_like(expected):
        if expected is not results.UNKNOWN and not _is_same_constant(expected, leaf):
            raise InputError(_constant_text(slot.display_name, leaf, expected))
        return
    if (
        isinstance(leaf, torch.Tensor)
        and not is_fake(leaf)
        and leaf.layout is torch.strided
        and leaf.dtype == expected.dtype
        and leaf.dim() == len(expected.shape)
    ):
        return
    expected_text = (
        f"{str(expected.dtype).removeprefix('torch.')} {sizes.format_shape(expected.shape)}"
    )
    if not isinstance(leaf, torch.Tensor):
        remedy = "; convert it with torch.from_numpy" if hasattr(leaf, "__array__") else ""
        raise InputError(
            f"{slot.display_name} is a tensor, {expected_text}, not {_describe_value(leaf)}{remedy}"
        )
    if is_fake(leaf) or leaf.layout is not torch.strided:
        description = (
            "a tensor without data" if is_fake(leaf) else f"a tensor of layout {leaf.layout}"
        )
        raise InputError(f"{slot.display_name} is {description}; the model takes {expected_text}")
    if leaf.dtype != expected.dtype:
        raise InputError(
            f"{slot.display_name} is {_tensor_text(leaf)}; the model takes {expected_text}, and "
            f"casts nothing: give {slot.path}.to({expected.dtype})"
        )
    raise InputError(
        f"{slot.display_name} is {_tensor_text(leaf)}, of rank {leaf.dim()}; "
        f"the model takes {expected_text}"
    )


def _constant_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in arguments.items():
        fields |= constant_fields(name, value)
    return fields


def _constant_text(name: str, value: Any, constant: Any) -> str:
    return (
        f"{name} is {_describe_value(value)}, and the model was exported with "
        f"the constant {_describe_value(constant)}; export it again with the new value"
    )


def _is_same_constant(constant: Any, value: Any) -> bool:
    """Whether leaves have the same type and are equal or NaN; tensors must be the same object."""
    if type(constant) is not type(value):
        return False
    if isinstance(constant, torch.Tensor):
        return constant is value
    if isinstance(constant, float) and math.isnan(constant):
        return math.isnan(value)
    return bool(constant == value)


def _describe_value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor, {_tensor_text(value)}"
    if value is None or isinstance(value, bool | int | float | str):
        return f"{value!r:.60}"
    return f"a {type(value).__name__}"


def _tensor_text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _result_device(leaves: Sequence[Any]) -> torch.device:
    """Return the device of the first argument tensor that is not on the CPU, else the CPU."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not leaf.is_cpu:
            return leaf.device
    return torch.device("cpu")
