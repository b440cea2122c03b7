"""Compute the key of a conversion: a digest of the graph, the options and torch's global state.

The digest of a graph covers operators, arguments, types, layouts and constants, but not names of
nodes and symbols or source lines. Equal layers of a model share one conversion, whose ONNX nodes
have the source lines of the first layer.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.argument_marks import (
    argument_strides,
    has_untraced_strides,
    has_untracked_writes,
)
from ortable.backend.lower.compile import target_opset
from ortable.backend.lower.outputs import requires_traced_strides
from ortable.backend.options import OrtOptions
from ortable.backend.store import Uncacheable
from ortable.compat.providers import provider_names
from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.tables import LOADED_SPECS
from ortable.passes.rewrite.rule_selection import content_key

from .keys import digest_of_lines, to_canonical_json

MAX_CONSTANT_BYTES = 2**31 - 1  # the limit of protobuf
# functions of these modules are compared by name
_TRUSTED_MODULES = ("_operator", "builtins", "math", "operator", "torch")
_SCALARS = frozenset({int, bool, str, complex, float, type(None), type(Ellipsis)})
_TORCH_SCALARS = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


def conversion_key(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int],
    parent: AotGraph | None = None,
) -> str:
    """Digest everything that affects `compile_graph` with these arguments in this process.

    Raises:
        Uncacheable: if another process could not compare a part of the graph, or the options have
            functions that change the model.
    """
    if options.pre_ort_model_transforms:
        raise Uncacheable("pre_ort_model_transforms have no content to compare")
    settings = [
        target_opset(options.target_opset, provider_names(options.providers)),
        options.optimize,
        content_key(options.rewrites),
        options.weights == "keep",
        sorted(options.raise_on),
        provider_names(options.providers),
        sorted(static),
        None if parent is None else parent.kind,
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),  # then torch fills uninitialized memory
        getattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
        len(LOADED_SPECS),
    ]
    return digest_of_lines(
        [to_canonical_json(settings), f"kind {graph.kind}", *graph_text(graph.module)]
    )


def graph_text(graph_module: GraphModule) -> list[str]:
    """Return the lines that determine a conversion of `graph_module`.

    Equal lines give equal models. Call this outside a fake tensor mode, because it reads constants.

    Raises:
        Uncacheable: if another process could not compare an argument, a target or a constant.
    """
    writer = _GraphWriter()
    writer.write_graph(graph_module)
    return writer.lines


class _GraphWriter:
    """Write the lines of one graph and of its subgraphs; symbols are numbered as they appear."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.symbol_count = 0
        self.expressions: dict[Any, str] = {}  # cached results of `expression_text`
        self.tensors: dict[Any, str] = {}  # cached results of `tensor_text`, for static shapes
        self.constant_bytes = 0

    def write_graph(self, graph_module: GraphModule) -> None:
        numbers: dict[Node, int] = {}
        self.lines.append("graph")
        for node in graph_module.graph.nodes:
            self.lines.append(self.node_text(node, graph_module, numbers))
            numbers[node] = len(numbers)
        self.lines.append("end")

    def node_text(self, node: Node, owner: GraphModule, numbers: dict[Node, int]) -> str:
        op = node.op
        if op == "placeholder":
            writes = "written " if has_untracked_writes(node) else ""
            strides = f" as {argument_strides(node)}" if has_untraced_strides(node) else ""
            desc = type(node.meta.get("desc")).__name__
            return f"in {writes}{desc} {self.result_text(node)}{strides}"
        if op == "get_attr":
            return f"attr {self.attribute_text(find_attribute(owner, str(node.target), None))}"
        if op == "call_module":
            raise Uncacheable(f"{node.name} calls a module")
        target = "" if op == "output" else self.target_text(node.target)
        args = self.sequence_text(node.args, numbers)
        kwargs = self.argument_text(node.kwargs, numbers) if node.kwargs else ""
        if op == "output":
            descs = node.meta.get("desc") or ()
            descs = descs if isinstance(descs, list | tuple) else (descs,)
            promised = "promised " if requires_traced_strides(node) else ""
            return f"out {promised}{args} {' '.join(type(item).__name__ for item in descs)}"
        return f"{op} {target} {args} {kwargs} {self.result_text(node)}"

    def result_text(self, node: Node) -> str:
        """Describe the metadata of a result that conversions read."""
        for name in ("val", "example_value", "tensor_meta"):
            if name in node.meta:
                return self.value_text(node.meta[name])
        return "?"

    def value_text(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self.tensor_text(value)
        if isinstance(value, list | tuple):
            return f"[{' '.join(map(self.value_text, value))}]"
        return self.argument_text(value, {})

    def tensor_text(self, value: torch.Tensor) -> str:
        if value.layout is not torch.strided:
            return f"T {value.dtype} {value.device} {value.layout} {self.dims(value.shape)}"
        layout = (value.shape, value.stride(), value.storage_offset())
        properties = (value.dtype, value.device, value.is_conj(), value.is_neg())
        try:
            text = self.tensors.get((layout, properties))
        except TypeError:  # symbolic sizes have no hash
            return self.format_tensor(layout, properties)
        if text is None:
            text = self.tensors[layout, properties] = self.format_tensor(layout, properties)
        return text

    def format_tensor(self, layout: tuple[Any, Any, Any], properties: tuple[Any, ...]) -> str:
        sizes, strides, offset = layout
        texts = " ".join(map(str, properties))
        return f"T {texts} {self.dims(sizes)} {self.dims(strides)} {self.dims((offset,))}"

    def dims(self, sizes: Iterable[Any]) -> str:
        return ",".join(
            [str(size) if size.__class__ is int else self.number_text(size) for size in sizes]
        )

    def argument_text(self, value: Any, numbers: dict[Node, int]) -> str:
        cls = value.__class__
        if cls is Node:
            return f"%{numbers[value]}"
        if cls in _SCALARS:
            return repr(value)  # exact; 1, 1.0, True and '1' differ
        if cls in _TORCH_SCALARS:
            return f"<{value}>"
        if isinstance(value, list | tuple):
            # FX uses its own list and dict types for arguments
            return f"{'l' if isinstance(value, list) else 't'}{self.sequence_text(value, numbers)}"
        if isinstance(value, dict):
            items = (
                f"{self.argument_text(key, numbers)}:{self.argument_text(value[key], numbers)}"
                for key in value
            )
            return f"{{{' '.join(items)}}}"
        if isinstance(value, _NUMBERS):
            return self.number_text(value)
        if cls is slice:
            return f"s{self.sequence_text((value.start, value.stop, value.step), numbers)}"
        if isinstance(value, torch.Tensor):
            return self.tensor_text(value)
        return self.target_text(value)

    def sequence_text(self, values: Iterable[Any], numbers: dict[Node, int]) -> str:
        return f"({' '.join([self.argument_text(value, numbers) for value in values])})"

    def target_text(self, target: Any) -> str:
        """Name an operator, or a Python function of torch or the standard library."""
        if isinstance(target, OpOverload | HigherOrderOperator):
            return target.name()
        if isinstance(target, types.FunctionType | types.BuiltinFunctionType | type):
            module = target.__module__ or ""
            if module.partition(".")[0] in _TRUSTED_MODULES and "<" not in target.__qualname__:
                return f"{module}.{target.__qualname__}"
        raise Uncacheable(f"{target!r}, a {type(target).__name__}, has no content to compare")

    def number_text(self, value: Any) -> str:
        if not isinstance(value, _NUMBERS):
            return repr(value)
        shape_env = getattr(value.node, "shape_env", None)
        return f"{type(value).__name__}:{self.expression_text(value.node.expr, shape_env)}"

    def expression_text(self, expression: Any, shape_env: Any) -> str:
        """Describe a sympy expression, with its symbols by number and properties."""
        key = (type(expression), expression)
        text = self.expressions.get(key)
        if text is None:
            text = self.expressions[key] = self.format_expression(expression, shape_env)
        return text

    def format_expression(self, expression: Any, shape_env: Any) -> str:
        args = getattr(expression, "args", ())
        if args:
            parts = [self.expression_text(arg, shape_env) for arg in args]
            class_name = type(expression).__name__
            if class_name in ("Add", "Mul", "Max", "Min"):  # sympy orders them by symbol name
                parts.sort()
            return f"{class_name}({' '.join(parts)})"
        if getattr(expression, "is_Float", False):
            return f"Float {float(expression)!r}"  # sympy prints only 15 digits
        if not getattr(expression, "is_Symbol", False):
            return f"{type(expression).__name__} {expression!r}"
        value_range = getattr(shape_env, "var_to_range", {}).get(expression)
        facts = (
            None if value_range is None else bool(value_range.lower >= 0),
            expression.is_integer,
            expression.is_nonnegative,
            expression.name[:1] == "u",
        )
        self.symbol_count += 1
        return f"${self.symbol_count}{facts}"

    def attribute_text(self, value: Any) -> str:
        """Describe an attribute of the graph module by content; write the lines of a graph."""
        if isinstance(value, GraphModule):
            self.write_graph(value)
            return "graph"
        if not isinstance(value, torch.Tensor):
            return self.argument_text(value, {})
        self.constant_bytes += value.numel() * value.element_size()
        if self.constant_bytes > MAX_CONSTANT_BYTES:
            raise Uncacheable("constants of more than 2 GB")
        return constant_text(value)


def constant_text(tensor: torch.Tensor) -> str:
    """Describe a real tensor by type, layout and content.

    Raises:
        Uncacheable: if its content cannot be read as bytes.
    """
    if type(tensor) not in _PLAIN_TENSORS or tensor.layout is not torch.strided:
        raise Uncacheable(f"a constant is a {type(tensor).__name__} of layout {tensor.layout}")
    if tensor.is_quantized or tensor.device.type == "meta":
        raise Uncacheable(f"a constant is a tensor of {tensor.dtype} on {tensor.device}")
    return f"{_GraphWriter().tensor_text(tensor)} {digest_of(tensor)}"


def digest_of(tensor: torch.Tensor) -> str:
    """Digest the elements of a real tensor, in row-major order."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    content: Any = flat.view(torch.uint8).numpy() if flat.numel() else b""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
