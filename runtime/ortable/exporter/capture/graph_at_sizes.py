"""Find the shapes of a program's nodes at other sizes, and compare them with those that the program
says. Called by small_sizes.py.

Nodes whose inputs have the same layouts have results of the same layouts, so that a node of each
kind runs once, with fake tensors, and equal layers and later programs read what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Interpreter, Node
from torch.fx.node import map_arg

from ortable.compat.torch import FakeTensor, OpOverload
from ortable.exporter.account.resize import resized, sizes_of
from ortable.exporter.request.caller_state import FAKES, quiet
from ortable.exporter.request.program import Program
from ortable.interpreter import results
from ortable.interpreter.modules import find_attribute

from .export_failures import error_headline
from .recorded_calls import AtSizes, FakeCopies

_MAX_KNOWN = 1 << 14
_MAX_ZEROS = 1 << 24  # elements of the tensors with which a failing node runs again
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_MODULES = ("_operator", "math", "torch")  # of functions of numbers in graphs


class PartingNode(Exception):
    """A node of a program has another result than its symbolic sizes say."""

    def __init__(self, node: Node, words: str) -> None:
        super().__init__(words)
        self.node, self.words = node, words  # torch.fx adds to the message


class FailingNode(PartingNode):
    """A node of a program raises; ``values`` are those of the nodes that it reads."""

    def __init__(self, node: Node, words: str, values: Mapping[Node, Any] | None = None) -> None:
        super().__init__(node, words)
        self.values = values

    def is_of_shapes(self) -> bool:
        """Whether the node raises the same with zeros for tensors, and not with fake ones only."""
        layouts = [] if self.values is None else [self.values[n] for n in self.node.all_input_nodes]
        elements = sum(each.elements for each in layouts if isinstance(each, Layout))
        if not layouts or not all(isinstance(each, Layout | int) for each in layouts):
            return False
        if elements > _MAX_ZEROS:
            return False
        try:
            _call(self.node, self.values or {}, torch.zeros)
        except Exception as error:  # kernels raise many types
            return self.words == _raised(self.node, error)
        return False


class Layout(NamedTuple):
    """What fake tensors know of a tensor; ``elements`` are those of its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int
    elements: int

    def tensor(self, make: Callable[..., torch.Tensor]) -> torch.Tensor:
        """A tensor of this layout in a storage that ``make`` makes."""
        storage = make([self.elements], dtype=self.dtype, device=self.device)
        return storage.as_strided(self.shape, self.stride, self.offset)


class _Raw(NamedTuple):
    """A value of which more than its layout counts; of such ones nothing is remembered."""

    value: Any


@dataclass(frozen=True)
class _Step:
    """A node, the shapes that the program says of its results, and what a node of another program
    has in common with it; None where it runs each time."""

    node: Node
    shapes: list[tuple[Any, ...] | None]
    kind: tuple[Any, ...] | None


_KNOWN: dict[tuple[Any, ...], tuple[Any, list[Any]] | str] = {}  # a string: the node raises that


class GraphAtSizes:
    """The graph of a program, for runs at several sizes: nodes that read no free size are done."""

    def __init__(self, program: Program, copies: FakeCopies) -> None:
        self.copies = copies
        self._fixed: dict[Node, Any] = {}
        self._inputs: list[Node] = []
        self._steps: list[_Step] = []
        for node in program.graph_module.graph.nodes:
            if node.op == "placeholder" and node.name not in program.weights:
                self._inputs.append(node)
            elif node.op == "placeholder":
                self._fixed[node] = self._described(program.weights[node.name])
            elif node.op == "get_attr":
                self._fixed[node] = self._described(
                    find_attribute(program.graph_module, node.target, None)
                )
            elif node.op != "output":
                self._add_step(node)

    def _add_step(self, node: Node) -> None:
        value, kind = results.node_value(node), _kind(node)
        if kind is not None and all(self._is_fixed(each) for each in node.all_input_nodes):
            known = _described(value)
            if isinstance(known, Layout):
                self._fixed[node] = known
                return
        self._steps.append(_Step(node, _shapes(value), kind))

    def _is_fixed(self, node: Node) -> bool:
        return isinstance(self._fixed.get(node), Layout)

    def _described(self, value: Any) -> Any:
        found = _described(value)
        if isinstance(found, _Raw) and isinstance(value, torch.Tensor):
            return _Raw(self.copies(value))
        return found

    def check(
        self,
        leaves: Sequence[Any],
        sizes: Sequence[Any],
        values: Mapping[Any, int],
        at_sizes: AtSizes,
    ) -> None:
        """Find the shapes of all nodes for inputs ``leaves`` at other sizes.

        Raises PartingNode where a result has another shape than the program says, FailingNode where
        a node raises, and what fake tensors lack.
        """
        known = dict(self._fixed)
        for node, leaf, dims in zip(self._inputs, leaves, sizes, strict=True):
            known[node] = self._input(leaf, dims, values)
        with quiet(FAKES):
            for step in self._steps:
                known[step.node], shapes = self._result(step, known)
                _check_shapes(step.node, shapes, step.shapes, at_sizes)

    def _input(self, leaf: Any, dims: Any, values: Mapping[Any, int]) -> Any:
        found = self._described(leaf)
        if isinstance(found, Layout):
            shape = tuple(d if isinstance(d, int) else int(d.subs(values)) for d in dims)
            if shape != found.shape:
                stride = torch.empty(shape, device="meta").stride()
                elements = int(torch.Size(shape).numel())
                found = Layout(shape, stride, found.dtype, found.device, 0, elements)
            return found
        if not isinstance(found, _Raw):
            return resized(leaf, dims, values)
        with self.copies.mode:
            return _Raw(resized(found.value, dims, values))

    def _result(self, step: _Step, known: Mapping[Node, Any]) -> tuple[Any, list[Any]]:
        given = [known[node] for node in step.node.all_input_nodes]
        if step.kind is None or any(isinstance(each, _Raw) for each in given):
            return self._run(step.node, known)
        key = (step.kind, torch.get_default_dtype(), *map(type, given), *given)
        found = _KNOWN.get(key)
        if isinstance(found, str):
            raise FailingNode(step.node, found, known)
        if found is None:
            try:
                found = self._run(step.node, known)
            except FailingNode as error:
                _remember(key, error.words)
                raise
            if not isinstance(found[0], _Raw):
                _remember(key, found)
        return found

    def _run(self, node: Node, known: Mapping[Node, Any]) -> tuple[Any, list[Any]]:
        try:
            with self.copies.mode, torch.no_grad():
                result = _call(node, known, torch.empty)
        except Exception as error:  # kernels raise many types
            raise FailingNode(node, _raised(node, error), known) from error
        return _described(result), _shapes(result)


def _call(node: Node, known: Mapping[Node, Any], make: Callable[..., torch.Tensor]) -> Any:
    """Call the target of a node with tensors whose storage ``make`` makes."""

    def argument(value: Any) -> Any:
        if isinstance(value, Layout):
            return value.tensor(make)
        if isinstance(value, _Raw):
            return value.value
        return tuple(map(argument, value)) if isinstance(value, tuple) else value

    if node.op != "call_function" or not callable(node.target):
        raise NotImplementedError(node.op)
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: argument(known[each]))
    return node.target(*args, **kwargs)


def _remember(key: tuple[Any, ...], found: Any) -> None:
    if len(_KNOWN) >= _MAX_KNOWN:
        _KNOWN.clear()
    _KNOWN[key] = found


def _raised(node: Node, error: Exception) -> str:
    return f"{node.target} raises {error_headline(error)}"


def _kind(node: Node) -> tuple[Any, ...] | None:
    """The target of a node, and its arguments but for what other nodes give."""
    target = node.target
    if isinstance(target, OpOverload):
        common = target.namespace in ("aten", "prims")  # others may get another fake rule
    else:
        common = getattr(target, "__module__", None) in _MODULES
    places = {each: index for index, each in enumerate(node.all_input_nodes)}

    def frozen(value: Any) -> Any:
        if isinstance(value, Node):
            return Node, places[value]
        if isinstance(value, list | tuple):
            return tuple(map(frozen, value))
        if isinstance(value, slice):
            return slice, frozen((value.start, value.stop, value.step))
        return type(value), value

    kind = target, frozen(node.args), tuple(sorted((n, frozen(v)) for n, v in node.kwargs.items()))
    try:
        hash(kind)
    except TypeError:  # an argument that is neither a number nor a name
        return None
    return kind if common else None


def _described(value: Any) -> Any:
    """The layout of a tensor, a number itself, a tuple of these; all else as `_Raw`."""
    if isinstance(value, torch.Tensor):
        return _layout(value) or _Raw(value)
    if isinstance(value, int | float | None):
        return value
    if isinstance(value, list | tuple):
        parts = tuple(map(_described, value))
        return _Raw(value) if any(isinstance(part, _Raw) for part in parts) else parts
    return _Raw(value)


def _layout(value: torch.Tensor) -> Layout | None:
    if (
        type(value) not in _PLAIN_TENSORS
        or value.layout != torch.strided
        or value.is_quantized
        or value.is_conj()
        or value.is_neg()
        or getattr(value, "constant", None) is not None
    ):
        return None
    shape, stride = tuple(value.shape), value.stride()
    offset: Any = value.storage_offset()
    elements = value.untyped_storage().nbytes() // value.element_size()
    if not all(isinstance(each, int) for each in (*shape, *stride, offset, elements)):
        return None
    return Layout(shape, stride, value.dtype, value.device, offset, elements)


def _shapes(value: Any) -> list[tuple[Any, ...] | None]:
    """The shapes of the leaves of a value, as numbers and expressions; None for what is no
    tensor."""
    if isinstance(value, torch.Tensor):
        return [tuple(sizes_of(value))]
    if isinstance(value, list | tuple):
        return [shape for part in value for shape in _shapes(part)]
    return [None]


def _check_shapes(node: Node, found: Sequence[Any], said: Sequence[Any], at_sizes: AtSizes) -> None:
    for one, other in zip(found, said, strict=False):
        if one is None or other is None:
            continue
        expected = at_sizes.shape(other)
        if len(one) != len(expected) or any(
            size is not None and isinstance(given, int) and given != size
            for given, size in zip(one, expected, strict=True)
        ):
            raise PartingNode(node, f"a result of {node.target} has shape {list(one)}")


# -- the same with data


class _Checking(Interpreter):
    """Compares the result of each node with what the program says of it."""

    def __init__(self, program: Program, at_sizes: AtSizes) -> None:
        super().__init__(program.graph_module)
        self.at_sizes = at_sizes

    def run_node(self, node: Node) -> Any:
        """The result of a node."""
        try:
            result = super().run_node(node)
        except Exception as error:  # kernels raise many types
            raise FailingNode(node, _raised(node, error)) from error
        if node.op != "output":
            _check_shapes(node, _shapes(result), _shapes(results.node_value(node)), self.at_sizes)
        return result


def check_graph(program: Program, leaves: Sequence[Any], at_sizes: AtSizes) -> None:
    """Run the graph of a program on these inputs.

    Raises PartingNode where a result has another shape than the program says, FailingNode where a
    node raises.
    """
    users = iter(leaves)
    given = [
        torch.clone(program.weights[node.name]) if node.name in program.weights else next(users)
        for node in program.graph_module.graph.find_nodes(op="placeholder")
    ]
    with torch.no_grad():
        _Checking(program, at_sizes).run(*given)
