"""Borrow converters of onnxscript's torchlib for operators without a generated converter.

`OxsDispatcher` exports a single call through torch.onnx, which uses that library, and copies its
nodes into the graph; results are cached by call. The interpreter calls it like any dispatcher.
"""

from __future__ import annotations

import importlib.util
import logging
import operator
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from torch.fx import Node

from ortable import dims, dtypes
from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import OpOverload
from ortable.errors import ConversionError, OptionError, UnsupportedCase
from ortable.interpreter.diagnostics.origin import metadata_of
from ortable.ir.schemas import since_version
from ortable.prelude.complex_value import ComplexValue

from .dispatcher import Converter, Dispatcher

# Sizes of symbols while a call is exported: different from each other, not 0 or 1, on which torch
# specializes, and even, so that half of a size is a size, too.
_SIZES = (12, 14, 22, 26, 34, 38, 46, 58, 62, 74, 82, 86, 94)


class OxsDispatcher(Dispatcher):
    """A dispatcher that borrows missing converters from onnxscript.

    Args:
        functions: the user's converters, as for Dispatcher; they take precedence.
        verbose: 1 prints each operator that is borrowed, 2 also the nodes.
        custom_domains: as for Dispatcher; they take precedence over onnxscript.

    Raises:
        OptionError: onnxscript is not installed.
    """

    def __init__(
        self,
        functions: Mapping[Any, Converter] | None = None,
        verbose: int = 0,
        *,
        custom_domains: Mapping[str, str | tuple[str, int]] | None = None,
    ) -> None:
        super().__init__(functions, verbose, custom_domains=custom_domains)
        if importlib.util.find_spec("onnxscript") is None:
            raise OptionError("OxsDispatcher needs onnxscript: pip install 'ortable[onnxscript]'")
        self._borrowed: dict[Any, Any] = {}

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """Return what `Dispatcher.find` returns, or else a converter that uses onnxscript.

        Args:
            name: an overload, ``"aten::add.Tensor"``.
            target: what the FX node calls.
            native: the generated converter, or None.
        """
        converter = super().find(name, target, native)
        if converter is not None or not isinstance(target, OpOverload):
            return converter
        self.say("find", f"'{name}' has no converter here: borrowed from onnxscript")

        def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
            return self._convert(graph, res, _Call(graph, res, target, args, kwargs))

        return convert

    def _convert(self, graph: Any, res: Any, call: _Call) -> Any:
        """Add the nodes of one call to ``graph``; return its results, None for unused ones."""
        key = (call.target, call.key, graph.opset)
        body = self._borrowed.get(key)
        if body is None:
            body = self._borrowed[key] = _export_call(call, graph.opset)
        if self.verbose > 1:
            for node in body.nodes:
                print(f"[OxsDispatcher.convert] {node!r}")
        outputs = [res.outputs[index] for index in call.used_results]
        node = graph.origin
        library = f"onnxscript {version('onnxscript')} (torchlib)"
        origin = metadata_of(node) if isinstance(node, Node) else {}
        graph.origin = {**origin, "converter": library}
        try:
            graph.make_nodes(body, call.graph_operands(), outputs, prefix=f"{outputs[0]}_")
        finally:
            graph.origin = node
        return [name or None for name in res.outputs] if call.several else outputs[0]


class _Call:
    """One call of an operator as an FX graph.

    Its inputs, ``values``, are the ONNX results and symbolic sizes among the arguments. Its outputs
    are the results of the operator that are used. ``key`` is equal for calls with equal graphs.
    """

    def __init__(
        self, graph: Any, res: Any, target: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.graph, self.target = graph, target
        self.used_results = [index for index in range(len(res)) if res.is_used(index)]
        returns = target._schema.returns
        self.several = len(returns) != 1 or returns[0].type.kind() == "ListType"
        self.values: list[str | dims.SymDim] = []
        self.placeholders: dict[Any, Node] = {}
        self.fx = torch.fx.Graph()
        schema_arguments = list(target._schema.arguments)
        argument_by_name = {argument.name: argument for argument in schema_arguments}
        self.args = tuple(
            self._convert_argument(item, declared)
            for item, declared in zip(args, schema_arguments, strict=False)
        )
        self.kwargs = {
            name: self._convert_argument(value, argument_by_name[name])
            for name, value in ((name.rstrip("_"), value) for name, value in kwargs.items())
        }
        descriptions = tuple(self._describe_value(value) for value in self.values)
        self.key = (descriptions, repr(self.args), repr(self.kwargs), tuple(self.used_results))

    def _convert_argument(self, value: Any, argument: Any) -> Any:
        """Convert an argument to torch's form; placeholders replace results and symbolic sizes."""
        schema_type = str(argument.real_type)
        if isinstance(value, ComplexValue):
            raise UnsupportedCase(
                f"argument '{argument.name}' is complex, which onnxscript's converters represent "
                "differently; write a converter"
            )
        if isinstance(value, dims.SymDim) or (isinstance(value, str) and "Tensor" in schema_type):
            if value not in self.placeholders:
                self.placeholders[value] = self.fx.placeholder(f"x{len(self.values)}")
                self.values.append(value)
            return self.placeholders[value]
        if isinstance(value, (list, tuple)):
            return [self._convert_argument(item, argument) for item in value]
        if "ScalarType" in schema_type and isinstance(value, int):
            return dtypes.to_torch(value)
        return value

    def _describe_value(self, value: str | dims.SymDim) -> Any:
        if isinstance(value, dims.SymDim):
            return value
        shape = self.graph.values[value].shape
        if shape is None:
            raise UnsupportedCase(
                f"onnxscript's converters need the shape of '{value}', which is unknown"
            )
        return self.graph.get_type(value), shape

    def make_module(self) -> torch.fx.GraphModule:
        """Return a module without weights whose forward is the call."""
        call = self.fx.call_function(self.target, self.args, self.kwargs)
        if self.several:
            items = [
                self.fx.call_function(operator.getitem, (call, index))
                for index in self.used_results
            ]
            self.fx.output(tuple(items))
        else:
            self.fx.output(call)
        return torch.fx.GraphModule(torch.nn.Module(), self.fx).eval()

    def make_examples(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return fake tensors, or ints for symbolic sizes, for ``values``, and dynamic shapes."""
        from ortable.compat.torch import FakeTensorMode

        sizes: dict[str, int] = {}
        tensors: list[Any] = []
        dynamic_shapes: list[Any] = []
        dynamic = torch.export.Dim.DYNAMIC
        with FakeTensorMode():
            for value in self.values:
                if isinstance(value, dims.SymDim):
                    tensors.append(_example_size(value, sizes))
                    dynamic_shapes.append(dynamic)
                    continue
                dtype, shape = self._describe_value(value)
                concrete = [_example_size(dim, sizes) for dim in shape]
                tensors.append(torch.empty(concrete, dtype=dtypes.to_torch(dtype)))
                dynamic_shapes.append(
                    {axis: dynamic for axis, dim in enumerate(shape) if not isinstance(dim, int)}
                )
        return tuple(tensors), tuple(dynamic_shapes)

    def graph_operands(self) -> list[str]:
        """Return the ONNX results to pass as the graph's inputs; a symbolic size is a scalar."""
        return [
            value if isinstance(value, str) else self._make_scalar(value) for value in self.values
        ]

    def _make_scalar(self, dim: dims.SymDim) -> str:
        axes = self.graph.make_initializer("", [0])
        return str(self.graph.make_node("Squeeze", [self.graph.dim_as_vector(dim), axes]))


def _example_size(dim: Any, sizes: dict[str, int]) -> int:
    """Evaluate a dimension at the sizes of its symbols; give new symbols the next of `_SIZES`."""
    for symbol in sorted(dims.free_symbols(dim)):
        sizes.setdefault(symbol, _SIZES[len(sizes) % len(_SIZES)])
    return int(dims.evaluate_dim(dim, sizes))


def _export_call(call: _Call, opset: int) -> Any:
    """Export ``call`` with torch.onnx; return a GraphBuilder with an input for each of its values.

    Raises ConversionError if onnxscript has no converter either, or only one for another opset.
    """
    import onnx.inliner

    from ortable.builder import GraphBuilder

    name = call.target.name()
    examples, dynamic_shapes = call.make_examples()
    try:
        with _silence_torch_onnx():
            program: Any = torch.onnx.export(
                call.make_module(),
                examples,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=dynamic_shapes,
                verbose=False,
            )
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        raise ConversionError(
            f"onnxscript has no converter for this call of {name} either: {lines[0]}"
        ) from error
    model = program.model_proto
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    model = _convert_opset(model, opset, name)
    if len(model.graph.input) != len(call.values):
        raise ConversionError(
            f"onnxscript's converter of {name} takes {len(model.graph.input)} inputs, this call "
            f"has {len(call.values)}"
        )
    body = GraphBuilder(model)
    _remove_origins(body)
    return body


@contextmanager
def _silence_torch_onnx() -> Iterator[None]:
    """Silence warnings and logs of torch.onnx that do not concern the model."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]

    def undo() -> None:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

    with restore_on_exit(undo), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield


def _convert_opset(model: Any, opset: int, name: str) -> Any:
    """Convert the model of operator ``name`` to ``opset``, if onnxscript used another opset."""
    import onnx.version_converter

    (written_opset,) = [
        entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")
    ] or [opset]
    if written_opset == opset or all(
        _same_definition(node, written_opset, opset) for node in model.graph.node
    ):
        for imported in model.opset_import:
            if imported.domain in ("", "ai.onnx"):
                imported.version = opset
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:
        raise ConversionError(
            f"onnxscript's converter of {name} writes opset {written_opset}, which onnx cannot "
            f"convert to opset {opset}; try target_opset={written_opset}"
        ) from error


def _same_definition(node: Any, current: int, target: int) -> bool:
    """Whether a node of a model of opset ``current`` is valid in opset ``target``.

    Either ONNX defines the operator equally in both opsets, or only in ``target``: torch.onnx may
    write operators that are newer than the model's opset. A node with branches or a loop body does
    not count as valid.
    """
    if node.domain not in ("", "ai.onnx"):
        return True
    if any(attribute.HasField("g") for attribute in node.attribute):
        return False
    current_since, target_since = (
        since_version(node.op_type, opset) for opset in (current, target)
    )
    return target_since is not None and current_since in (None, target_since)


def _remove_origins(body: Any) -> None:
    """Remove torch.onnx's metadata, which describes the exported call; also in inner graphs."""
    for node in body.nodes:
        node.origin = None
        for value in node.attrs.values():
            if hasattr(value, "node") and hasattr(value, "initializer"):
                for inner in value.node:
                    del inner.metadata_props[:]
