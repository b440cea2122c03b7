"""Compute the shapes of a program's nodes at other sizes, and compare them with the recorded ones.

small_sizes.py calls this module. Nodes with the same target and constants, and with inputs of equal
layouts, have results of equal layouts. So one of these nodes runs, with fake tensors, and equal
layers and later programs use the cached layout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Interpreter, Node
from torch.fx.node import map_arg

from ortable.compat.torch import FakeTensor, OpOverload
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.frontend.module_state import FAKE_TENSOR_LOGGER, silence_loggers
from ortable.exporter.reporting.example_sizes import resize_leaf, size_expressions
from ortable.interpreter import results
from ortable.interpreter.modules import find_attribute
from ortable_generated.aten import traits

from .export_failures import error_headline
from .recorded_calls import FakeCopies, SizeEvaluator

_MAX_CACHED = 1 << 14  # results in `_CACHE`
_MAX_RERUN_ELEMENTS = 1 << 24  # limit of elements in `is_caused_by_shapes`
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_SCALAR_MODULES = ("_operator", "math", "torch")  # modules of scalar functions in graphs


class DivergentNodeError(Exception):
    """The shape of a node's result differs from its recorded symbolic sizes."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.node, self.message = node, message  # torch.fx appends to `args`


class FailingNodeError(DivergentNodeError):
    """A node of a program raises; ``values`` maps nodes to the layouts of their values."""

    def __init__(self, node: Node, message: str, values: Mapping[Node, Any] | None = None) -> None:
        super().__init__(node, message)
        self.values = values

    def is_caused_by_shapes(self) -> bool:
        """Whether the shapes cause the error: a call on tensors of zeros raises it, too."""
        operands = (
            [] if self.values is None else [self.values[node] for node in self.node.all_input_nodes]
        )
        elements = sum(operand.elements for operand in operands if isinstance(operand, Layout))
        if not operands or not all(isinstance(operand, Layout | int) for operand in operands):
            return False
        if elements > _MAX_RERUN_ELEMENTS:
            return False
        try:
            _call_node(self.node, self.values or {}, torch.zeros)
        except Exception as error:  # kernels raise many types
            return self.message == _failure_text(self.node, error)
        return False


class Layout(NamedTuple):
    """The metadata that fake tensors have; ``elements`` is the element count of the storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int
    elements: int

    def make_tensor(self, allocate: Callable[..., torch.Tensor]) -> torch.Tensor:
        """Make a tensor of this layout; ``allocate`` makes its storage, such as torch.zeros."""
        storage = allocate([self.elements], dtype=self.dtype, device=self.device)
        return storage.as_strided(self.shape, self.stride, self.offset)


class _Opaque(NamedTuple):
    """A value that `Layout` cannot describe; results computed from it are not cached."""

    value: Any


@dataclass(frozen=True)
class _Step:
    """A node to run at each size, with the recorded shapes of its results.

    ``key`` identifies the target and the constants in the cache; None if the node is not cacheable.
    """

    node: Node
    shapes: list[tuple[Any, ...] | None]
    key: tuple[Any, ...] | None


_CACHE: dict[tuple[Any, ...], tuple[Any, list[Any]] | str] = {}  # a str is an error's text


class GraphAtSizes:
    """Runs the graph of a program at several sizes.

    Cacheable nodes that do not depend on inputs do not run: the constructor stores their recorded
    layouts.
    """

    def __init__(self, program: Program, copies: FakeCopies) -> None:
        self.copies = copies
        self._fixed: dict[Node, Any] = {}
        self._inputs: list[Node] = []
        self._steps: list[_Step] = []
        for node in program.graph_module.graph.nodes:
            if node.op == "placeholder" and node.name not in program.weights:
                self._inputs.append(node)
            elif node.op == "placeholder":
                self._fixed[node] = self._value_layout(program.weights[node.name])
            elif node.op == "get_attr":
                self._fixed[node] = self._value_layout(
                    find_attribute(program.graph_module, node.target, None)
                )
            elif node.op != "output":
                self._add_step(node)

    def _add_step(self, node: Node) -> None:
        value, key = results.node_value(node), _node_key(node)
        if key is not None and all(self._is_fixed(operand) for operand in node.all_input_nodes):
            layout = _describe_value(value)
            if isinstance(layout, Layout):
                self._fixed[node] = layout
                return
        self._steps.append(_Step(node, _leaf_shapes(value), key))

    def _is_fixed(self, node: Node) -> bool:
        return isinstance(self._fixed.get(node), Layout)

    def _value_layout(self, value: Any) -> Any:
        layout = _describe_value(value)
        if isinstance(layout, _Opaque) and isinstance(value, torch.Tensor):
            return _Opaque(self.copies(value))
        return layout

    def check_shapes(
        self,
        leaves: Sequence[Any],
        sizes: Sequence[Any],
        values: Mapping[Any, int],
        at_sizes: SizeEvaluator,
    ) -> None:
        """Compute the shapes of all nodes for ``leaves`` at other sizes, and check them.

        Args:
            leaves: the inputs at the example's sizes.
            sizes: the sizes of each input, with symbols of ``values``.
            values: the other size of each symbol.
            at_sizes: evaluates the recorded shapes at ``values``.

        Raises:
            DivergentNodeError: a result has another shape than the program recorded.
            FailingNodeError: a node raises.
            Exception: an input cannot be resized as a fake tensor.
        """
        node_values = dict(self._fixed)
        for node, leaf, dims in zip(self._inputs, leaves, sizes, strict=True):
            node_values[node] = self._resize_input(leaf, dims, values)
        with silence_loggers(FAKE_TENSOR_LOGGER):
            for step in self._steps:
                node_values[step.node], shapes = self._cached_result(step, node_values)
                _check_shapes(step.node, shapes, step.shapes, at_sizes)

    def _resize_input(self, leaf: Any, dims: Any, values: Mapping[Any, int]) -> Any:
        layout = self._value_layout(leaf)
        if isinstance(layout, Layout):
            shape = tuple(
                size if isinstance(size, int) else int(size.subs(values)) for size in dims
            )
            if shape != layout.shape:
                stride = torch.empty(shape, device="meta").stride()
                elements = int(torch.Size(shape).numel())
                layout = Layout(shape, stride, layout.dtype, layout.device, 0, elements)
            return layout
        if not isinstance(layout, _Opaque):
            return resize_leaf(leaf, dims, values)
        with self.copies.fake_mode:
            return _Opaque(resize_leaf(layout.value, dims, values))

    def _cached_result(self, step: _Step, node_values: Mapping[Node, Any]) -> tuple[Any, list[Any]]:
        operands = [node_values[node] for node in step.node.all_input_nodes]
        if step.key is None or any(isinstance(operand, _Opaque) for operand in operands):
            return self._run_node(step.node, node_values)
        key = (step.key, torch.get_default_dtype(), *map(type, operands), *operands)
        cached = _CACHE.get(key)
        if isinstance(cached, str):
            raise FailingNodeError(step.node, cached, node_values)
        if cached is None:
            try:
                cached = self._run_node(step.node, node_values)
            except FailingNodeError as error:
                _store_result(key, error.message)
                raise
            if not isinstance(cached[0], _Opaque):
                _store_result(key, cached)
        return cached

    def _run_node(self, node: Node, node_values: Mapping[Node, Any]) -> tuple[Any, list[Any]]:
        try:
            with self.copies.fake_mode, torch.no_grad():
                result = _call_node(node, node_values, torch.empty)
        except Exception as error:  # kernels raise many types
            raise FailingNodeError(node, _failure_text(node, error), node_values) from error
        return _describe_value(result), _leaf_shapes(result)


def _call_node(
    node: Node, node_values: Mapping[Node, Any], allocate: Callable[..., torch.Tensor]
) -> Any:
    """Call the target of a node on tensors with the layouts of its operands."""

    def make_argument(value: Any) -> Any:
        if isinstance(value, Layout):
            return value.make_tensor(allocate)
        if isinstance(value, _Opaque):
            return value.value
        return tuple(map(make_argument, value)) if isinstance(value, tuple) else value

    if node.op != "call_function" or not callable(node.target):
        raise NotImplementedError(node.op)
    call: Any = map_arg(
        (node.args, node.kwargs), lambda operand: make_argument(node_values[operand])
    )
    args, kwargs = call
    if isinstance(node.target, OpOverload):
        if node.target.name() in traits.METADATA_ONLY:
            return args[0]  # detach_ refuses views, such as the tensor that a layout makes
        view = _find_scattered_view(node.target)
        if view is not None:
            _check_scattered_source(view, *args, **kwargs)
    return node.target(*args, **kwargs)


@functools.cache
def _find_scattered_view(operator: OpOverload) -> OpOverload | None:
    """Return the view that an operator replaces: ``aten::slice`` for ``aten::slice_scatter``."""
    name = operator.name().removeprefix("aten::").partition(".")[0]
    views = getattr(torch.ops.aten, name.removesuffix("_scatter"), None)
    if not name.endswith("_scatter") or views is None:
        return None
    names = [argument.name for argument in operator._schema.arguments if argument.name != "src"]
    overloads = [getattr(views, overload) for overload in views.overloads()]
    for overload in overloads:
        if [argument.name for argument in overload._schema.arguments] == names:
            return overload  # type: ignore[no-any-return]
    return None


def _check_scattered_source(
    view: Any, destination: torch.Tensor, src: torch.Tensor, *position: Any, **kwargs: Any
) -> None:
    """Raise ValueError unless ``src`` has the shape of the view: fake kernels do not check it."""
    shape = view(destination, *position, **kwargs).shape
    if src.shape != shape:
        raise ValueError(f"the source has shape {list(src.shape)}, its place {list(shape)}")


def _store_result(key: tuple[Any, ...], result: Any) -> None:
    if len(_CACHE) >= _MAX_CACHED:
        _CACHE.clear()
    _CACHE[key] = result


def _failure_text(node: Node, error: Exception) -> str:
    return f"{node.target} raises {error_headline(error)}"


def _node_key(node: Node) -> tuple[Any, ...] | None:
    """Return a node's target and constant arguments; None if its result cannot be cached."""
    target = node.target
    if isinstance(target, OpOverload):
        # users may replace the shape functions of other namespaces
        is_cacheable = target.namespace in ("aten", "prims")
    else:
        is_cacheable = getattr(target, "__module__", None) in _SCALAR_MODULES
    positions = {operand: index for index, operand in enumerate(node.all_input_nodes)}

    def freeze_value(value: Any) -> Any:
        if isinstance(value, Node):
            return Node, positions[value]
        if isinstance(value, list | tuple):
            return tuple(map(freeze_value, value))
        if isinstance(value, slice):
            return slice, freeze_value((value.start, value.stop, value.step))
        return type(value), value

    key = (
        target,
        freeze_value(node.args),
        tuple(sorted((name, freeze_value(argument)) for name, argument in node.kwargs.items())),
    )
    try:
        hash(key)
    except TypeError:  # an argument is not hashable
        return None
    return key if is_cacheable else None


def _describe_value(value: Any) -> Any:
    """Return the layout of a tensor, a number itself, a tuple of these, or an `_Opaque` value."""
    if isinstance(value, torch.Tensor):
        return _tensor_layout(value) or _Opaque(value)
    if isinstance(value, int | float | None):
        return value
    if isinstance(value, list | tuple):
        items = tuple(map(_describe_value, value))
        return _Opaque(value) if any(isinstance(item, _Opaque) for item in items) else items
    return _Opaque(value)


def _tensor_layout(value: torch.Tensor) -> Layout | None:
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
    if not all(isinstance(number, int) for number in (*shape, *stride, offset, elements)):
        return None
    return Layout(shape, stride, value.dtype, value.device, offset, elements)


def _leaf_shapes(value: Any) -> list[tuple[Any, ...] | None]:
    """Return the shape of each leaf, with ints and expressions; None for other leaves."""
    if isinstance(value, torch.Tensor):
        return [tuple(size_expressions(value))]
    if isinstance(value, list | tuple):
        return [shape for part in value for shape in _leaf_shapes(part)]
    return [None]


def _check_shapes(
    node: Node, shapes: Sequence[Any], recorded: Sequence[Any], at_sizes: SizeEvaluator
) -> None:
    for actual_shape, recorded_shape in zip(shapes, recorded, strict=False):
        if actual_shape is None or recorded_shape is None:
            continue
        expected = at_sizes.shape(recorded_shape)
        if len(actual_shape) != len(expected) or any(
            size is not None and isinstance(actual, int) and actual != size
            for actual, size in zip(actual_shape, expected, strict=True)
        ):
            raise DivergentNodeError(
                node, f"a result of {node.target} has shape {list(actual_shape)}"
            )


# -- the same check on real data


class _ShapeChecker(Interpreter):
    """Checks the shapes of each node's result against the program's metadata."""

    def __init__(self, program: Program, at_sizes: SizeEvaluator) -> None:
        super().__init__(program.graph_module)
        self.at_sizes = at_sizes

    def run_node(self, node: Node) -> Any:
        """Run a node, check the shapes of its result, and return the result."""
        try:
            result = super().run_node(node)
        except Exception as error:  # kernels raise many types
            raise FailingNodeError(node, _failure_text(node, error)) from error
        if node.op != "output":
            _check_shapes(
                node, _leaf_shapes(result), _leaf_shapes(results.node_value(node)), self.at_sizes
            )
        return result


def check_graph(program: Program, leaves: Sequence[Any], at_sizes: SizeEvaluator) -> None:
    """Run the graph of a program on real inputs, and check the shape of every result.

    Raises:
        DivergentNodeError: a result has another shape than the program recorded.
        FailingNodeError: a node raises.
    """
    user_inputs = iter(leaves)
    inputs = [
        torch.clone(program.weights[node.name])
        if node.name in program.weights
        else next(user_inputs)
        for node in program.graph_module.graph.find_nodes(op="placeholder")
    ]
    with torch.no_grad():
        _ShapeChecker(program, at_sizes).run(*inputs)
