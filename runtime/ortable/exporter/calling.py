"""The calling convention of a module, for the model that was exported from it. In come the
arguments of a call, out go the values of the ONNX inputs; in come the values of the ONNX outputs,
out goes what the module would return. What the model was not exported for is an error that says
which argument, and what is expected. Called by `program.py`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from onnx import FunctionProto, GraphProto, ModelProto
from torch.export import ExportedProgram
from torch.fx import Node

from ortable.compat.onnxruntime import as_complex
from ortable.compat.torch import pytree
from ortable.errors import InputError
from ortable.exporter.account.sessions import proto_of
from ortable.exporter.account.validate import input_names
from ortable.exporter.capture.exported_program import example_call
from ortable.exporter.observing.calls import named_arguments
from ortable.exporter.request.program import Program, Request
from ortable.exporter.signature import pytrees
from ortable.interpreter import results
from ortable.interpreter.calls import operator_key
from ortable.interpreter.outputs import flatten_output
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits
from ortable_generated.onnx.traits import CRASHES_ON_EMPTY, RECURRENT

from .sizes import Sizes

_OTHERS = "the call has other arguments than the example of the export"
_SHOWN = 5  # paths of arguments that an error lists


@dataclass(frozen=True)
class Slot:
    """One leaf of the call: ``path`` as Python writes it (``pair['left']``), ``argument`` of
    forward that it is in, the ONNX input, or None for a constant of the model, and ``value``, what
    torch knows of it: a fake tensor, a symbolic integer, or the constant."""

    path: str
    argument: str
    name: str | None
    value: Any

    @property
    def label(self) -> str:
        """How an error calls it."""
        return f"'{self.path}'" if self.name in (None, self.path) else (
            f"'{self.path}' (input '{self.name}')"
        )  # fmt: skip


OutputKind = Literal["tensor", "complex", "number", "value", "input", "same"]


@dataclass(frozen=True)
class Returned:
    """One leaf of what forward returns: an ONNX output ``name`` (a tensor, pairs that are complex
    numbers, or a number), a ``value`` that is the same in every call, or what leaf number ``index``
    of the call or of the results is."""

    kind: OutputKind
    name: str = ""
    index: int = 0
    value: Any = None


@dataclass(frozen=True)
class Convention:
    """How the model is called as the module is.

    ``structure``: of (args, kwargs) in the example call, and ``slots``, its leaves. ``parameters``:
    of forward, by name. ``returned``: the leaves of the results, whose structure is
    ``out_structure``, a TreeSpec, or what the FX graph returns, and ``finished`` makes of that what
    its module returns. ``written``: ONNX output -> leaf of the call that forward writes to.
    ``sizes``: what the dimensions of a call may be.
    """

    structure: Any
    slots: tuple[Slot, ...]
    parameters: Mapping[str, inspect.Parameter]
    returned: tuple[Returned, ...]
    out_structure: Any
    written: Mapping[str, int]
    sizes: Sizes
    finished: Callable[[Any], Any]

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of a call in the order of the slots, checked.

        Raises InputError for a call that the model was not exported for.
        """
        given = tuple(args), dict(kwargs)
        found, structure = pytree.tree_flatten(given)
        if structure != self.structure:
            pytrees.register_caches(given)
            found = self._by_path(*given)
        for slot, leaf in zip(self.slots, found, strict=True):
            _check_leaf(slot, leaf, self.sizes)
        self.sizes.check(self.slots, found)
        return found

    def example_form(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) that hold ``leaves``, in the structure of the example call."""
        args, kwargs = pytree.tree_unflatten(list(leaves), self.structure)
        return tuple(args), dict(kwargs)

    def feeds(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """ONNX input -> leaf."""
        return {
            slot.name: leaf
            for slot, leaf in zip(self.slots, leaves, strict=True)
            if slot.name is not None
        }

    def fetches(self) -> list[str]:
        """The ONNX outputs that a call needs."""
        wanted = [each.name for each in self.returned if each.name]
        return list(dict.fromkeys([*wanted, *self.written]))

    def restored(self, computed: Mapping[str, torch.Tensor], leaves: Sequence[Any]) -> Any:
        """What the module returns: ``computed`` are the values of the ONNX outputs. Arguments that
        forward writes to are written to."""
        for name, index in self.written.items():
            target = leaves[index]
            value = as_complex(computed[name]) if target.is_complex() else computed[name]
            with torch.no_grad():
                target.copy_(value)
        device = _device(leaves)
        found: list[Any] = []
        for each in self.returned:
            if each.kind == "value":
                found.append(each.value)
            elif each.kind == "input":
                found.append(leaves[each.index])
            elif each.kind == "same":
                found.append(found[each.index])
            elif each.kind == "number":
                found.append(computed[each.name].item())
            else:
                value = computed[each.name]
                found.append((as_complex(value) if each.kind == "complex" else value).to(device))
        if isinstance(self.out_structure, pytree.TreeSpec):
            return pytree.tree_unflatten(found, self.out_structure)
        return self.finished(_like(self.out_structure, iter(found)))

    def _by_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call that is written in another way than the example: by name, with a
        default left out or spelled out, with the keys of a dict in another order."""
        given = dict(named_arguments(self.parameters, args, kwargs))
        expected = dict.fromkeys(slot.argument for slot in self.slots)
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name in expected:
                found.update(pytrees.leaves(name, value))
            elif not self._is_default(name, value):
                raise InputError(self._unexpected(name, value))
        for name in expected:
            parameter = self.parameters.get(name)
            left_out = name not in given and parameter is not None
            if left_out and parameter.default is not inspect.Parameter.empty:  # type: ignore[union-attr]
                found.update(pytrees.leaves(name, parameter.default))  # type: ignore[union-attr]
        paths = [slot.path for slot in self.slots]
        extra = [path for path in found if path not in paths]
        missing = [path for path in paths if path not in found]
        if extra or missing:
            raise InputError(_other_structure(missing, extra))
        return [found[path] for path in paths]

    def _unexpected(self, name: str, value: Any) -> str:
        parameter = self.parameters.get(name)
        if parameter is None or parameter.default is inspect.Parameter.empty:
            return f"{_OTHERS}: {_surplus([name])}"
        return (
            f"'{name}' is {_what(value)}, and the example of the export left it out: the model has "
            f"its default, {_what(parameter.default)}, as a constant"
        )

    def _is_default(self, name: str, value: Any) -> bool:
        """Whether an argument that the example left out has the value that it had there."""
        parameter = self.parameters.get(name)
        return parameter is not None and _same(parameter.default, value)


# -- what is made of a conversion


def _find_fatal(model: ModelProto) -> set[str]:
    """The operators of a model whose kernels of ONNX Runtime end the process on empty tensors."""
    found: set[str] = set()
    bodies: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while bodies:
        for node in bodies.pop().node:
            name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            if name in CRASHES_ON_EMPTY:
                found.add(name)
            for attribute in node.attribute:
                bodies.extend([attribute.g, *attribute.graphs])
    return found


def _name_steps(program: Program) -> set[str] | None:
    """Name the dimensions over which recurrent layers run: their lowering takes an empty batch, but
    no empty sequence. None, for all dimensions, where the converter of a user made the kernel."""
    names: set[str] = set()
    layers = [
        node for node in program.graph_module.graph.nodes if operator_key(node) in traits.RECURRENT
    ]
    for node in layers:
        value = node.args[0].meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        batch_first = node.args[-1]
        steps = value.shape[1 if batch_first else 0]
        if isinstance(steps, torch.SymInt):
            free = map(str, steps.node.expr.free_symbols)
            names |= {program.symbol_names.get(symbol, symbol) for symbol in free}
    return names if layers else None


def convention_of(model: Any, request: Request, program: Program) -> Convention:
    """The calling convention of ``model``, a ModelProto or LargeModel made of ``program``."""
    parameters = _forward_parameters(request.model)
    args, kwargs = _example(request, program)
    paths = [
        (path, name)
        for name, value in named_arguments(parameters, args, kwargs)
        for path, _ in pytrees.leaves(name, value)
    ]
    if len(paths) != len(program.user_inputs):  # a graph without an example: flat
        args, kwargs = tuple(program.user_inputs), {}
        paths = [(str(node.target), str(node.target)) for node in program.user_inputs]
        parameters = _flat_parameters([path for path, _ in paths])
    values = [results.node_value(node) for node in program.user_inputs]
    names = input_names(proto_of(model).graph.input, program)
    slots = tuple(
        Slot(*path, name, value) for path, name, value in zip(paths, names, values, strict=True)
    )
    returned, written = _results(model, program)
    structure = program.output_structure
    if structure is None:
        structure = _users_results(program)
    sizes = Sizes.of(program, request.options.guards != "ignore")
    fatal = _find_fatal(proto_of(model))
    if fatal:
        sizes = sizes.without_empty(_name_steps(program) if fatal <= RECURRENT else None)
    return Convention(
        pytree.tree_structure((tuple(args), dict(kwargs))),
        slots,
        parameters,
        returned,
        structure,
        written,
        sizes,
        program.graph_module.graph.process_outputs,
    )


def _example(request: Request, program: Program) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example call, as the program has its inputs."""
    if isinstance(request.model, ExportedProgram):
        assert program.exported is not None
        return example_call(request.model, program)
    return request.args, request.kwargs


def _forward_parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    if isinstance(model, ExportedProgram):
        signature = model.module_call_graph[0].signature
        return _flat_parameters(list(getattr(signature, "forward_arg_names", None) or []))
    return inspect.signature(model.forward).parameters


def _flat_parameters(names: Sequence[str]) -> Mapping[str, inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return {name: inspect.Parameter(name, kind) for name in names}


def _results(model: Any, program: Program) -> tuple[tuple[Returned, ...], dict[str, int]]:
    """The leaves that forward returns, and what it writes: ONNX output -> leaf of the call."""
    names = [value.name for value in proto_of(model).graph.output]
    leaves = list(flatten_output(program.graph_module.graph.output_node().args[0]))
    pairs = list(zip(leaves, program.outputs, strict=True))
    users = [leaf for leaf, output in pairs if output.kind == "user"]
    computed = [leaf for leaf, output in pairs if output.kind == "user" and not output.is_none]
    inputs = {node: index for index, node in enumerate(program.user_inputs)}
    by_name = {str(node.target): index for node, index in inputs.items()}
    others = [(leaf, output) for leaf, output in pairs if output.kind != "user"]
    written = {
        name: by_name[output.target]
        for name, (_, output) in zip(names[len(computed) :], others, strict=False)
        if output.kind == "input" and output.target in by_name
    }
    new_values = {
        leaf: by_name[output.target]
        for leaf, output in others
        if output.kind == "input" and output.target in by_name
    }
    inputs = {node: index for node, index in inputs.items() if index not in written.values()}
    where = iter(names)
    found: list[Returned] = []
    seen: dict[Any, int] = {}
    for index, leaf in enumerate(users):
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        name = "" if value is None else next(where)
        found.append(_returned(leaf, value, name, {**inputs, **new_values}, seen))
        if isinstance(leaf, Node):
            seen.setdefault(leaf, index)
    return tuple(found), written


def _returned(
    leaf: Any, value: Any, name: str, given: Mapping[Any, int], seen: Mapping[Any, int]
) -> Returned:
    if not isinstance(leaf, Node) or value is None or isinstance(value, bool | int | float):
        return Returned("value", value=value)
    if leaf in given:
        return Returned("input", index=given[leaf])
    if leaf in seen:
        return Returned("same", index=seen[leaf])
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return Returned("number", name)
    dtype = getattr(value, "dtype", None)
    return Returned("complex" if dtype is not None and dtype.is_complex else "tensor", name)


def _users_results(program: Program) -> Any:
    """What the FX graph returns to the user, nested as it is there."""
    structure = program.graph_module.graph.output_node().args[0]
    if all(output.kind == "user" for output in program.outputs):
        return structure
    leaves = flatten_output(structure)
    pairs = zip(leaves, program.outputs, strict=True)
    return tuple(leaf for leaf, output in pairs if output.kind == "user")


def _like(structure: Any, leaves: Iterator[Any]) -> Any:
    """``leaves`` in place of those of an FX output."""
    if isinstance(structure, dict):
        return {key: _like(each, leaves) for key, each in structure.items()}
    if isinstance(structure, list):
        return [_like(each, leaves) for each in structure]
    if isinstance(structure, tuple):
        made = [_like(each, leaves) for each in structure]
        return type(structure)(*made) if hasattr(structure, "_fields") else tuple(made)
    return next(leaves)


# -- what a call may be


def _other_structure(missing: Sequence[str], extra: Sequence[str]) -> str:
    parts = []
    if missing:
        parts.append(f"it lacks {_listed(missing)}, with which the model was exported")
    if extra:
        parts.append(_surplus(extra))
    return f"{_OTHERS}: {'; and '.join(parts)}"


def _surplus(paths: Sequence[str]) -> str:
    them = "them" if len(paths) > 1 else "it"
    return (
        f"it has {_listed(paths)}, without which the model was exported; export it again with an "
        f"example that has {them}"
    )


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(f"'{path}'" for path in paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"


def _check_leaf(slot: Slot, leaf: Any, sizes: Sizes) -> None:
    """Raises InputError for a leaf of another type, dtype or rank than the slot's."""
    expected = slot.value
    if isinstance(expected, torch.SymInt):
        if type(leaf) is not int:
            raise InputError(f"{slot.label} is an int, not {_what(leaf)}")
        return
    if not results.is_tensor_like(expected):
        if expected is not results.UNKNOWN and not _same(expected, leaf):
            raise InputError(
                f"{slot.label} is {_what(leaf)}, and the model was exported with "
                f"{_what(expected)}, a constant of it; export it again with the other value"
            )
        return
    text = f"{str(expected.dtype).removeprefix('torch.')} {sizes.text(expected.shape)}"
    if not isinstance(leaf, torch.Tensor):
        remedy = "; torch.from_numpy makes a tensor of it" if hasattr(leaf, "__array__") else ""
        raise InputError(f"{slot.label} is a tensor, {text}, not {_what(leaf)}{remedy}")
    if is_fake(leaf) or leaf.layout is not torch.strided:
        kind = "a tensor without data" if is_fake(leaf) else f"a tensor of layout {leaf.layout}"
        raise InputError(f"{slot.label} is {kind}; the model takes {text}")
    if leaf.dtype != expected.dtype:
        raise InputError(
            f"{slot.label} is {_tensor_text(leaf)}; the model takes {text}, and casts nothing: "
            f"give {slot.path}.to({expected.dtype})"
        )
    if leaf.dim() != len(expected.shape):
        raise InputError(
            f"{slot.label} is {_tensor_text(leaf)}, of rank {leaf.dim()}; the model takes {text}"
        )


def _same(constant: Any, value: Any) -> bool:
    """Whether two leaves are one constant: of one type, and equal."""
    if type(constant) is not type(value):
        return False
    if isinstance(constant, torch.Tensor):
        return constant is value
    if isinstance(constant, float) and math.isnan(constant):
        return math.isnan(value)
    return bool(constant == value)


def _what(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor, {_tensor_text(value)}"
    if value is None or isinstance(value, bool | int | float | str):
        return f"{value!r:.60}"
    return f"a {type(value).__name__}"


def _tensor_text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _device(leaves: Sequence[Any]) -> torch.device:
    """Where results are returned: on the accelerator that an argument is on, else on the CPU."""
    devices = (leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor))
    return next((each for each in devices if each.type != "cpu"), torch.device("cpu"))
