"""OxsDispatcher: operators without a generated converter are borrowed from onnxscript's
torchlib. One call is exported alone through torch.onnx, which uses that library, and its nodes
are copied into the graph; a call like one before is copied again. Made by users, called by the
interpreter as any dispatcher is."""

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
from ortable.compat.torch import OpOverload
from ortable.compat.undone import undone
from ortable.errors import ConversionError, OptionError, UnsupportedCase
from ortable.interpreter.diagnostics.origin import metadata_of
from ortable.ir.schemas import since_version
from ortable.prelude.complex_value import ComplexValue

from .dispatcher import Converter, Dispatcher

# Sizes that stand for symbolic dimensions while one call is exported: different, far from 0 and 1,
# which torch specialises, and even, so that halves of them are sizes too.
_SIZES = (12, 14, 22, 26, 34, 38, 46, 58, 62, 74, 82, 86, 94)


class OxsDispatcher(Dispatcher):
    """A dispatcher that borrows from onnxscript what the generated converters lack.

    Args:
        functions: the user's converters, as for Dispatcher; they come first.
        verbose: 1 prints each operator that is borrowed, 2 the nodes too.
        custom_domains: as for Dispatcher; they come before onnxscript.

    Arguments of methods:
        name: an overload, ``"aten::add.Tensor"``.
        target: what the FX node calls.
        native: the generated converter; None when there is none.
        where, text: the method that prints, and its line.

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
        """The user's converter, else the generated one, else one that exports this call through
        onnxscript."""
        found = super().find(name, target, native)
        if found is not None or not isinstance(target, OpOverload):
            return found
        self.say("find", f"'{name}' has no converter here: borrowed from onnxscript")

        def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
            return self._convert(graph, res, _Call(graph, res, target, args, kwargs))

        return convert

    def _convert(self, graph: Any, res: Any, call: _Call) -> Any:
        """The nodes of one call in ``graph``; returns the names of its results, None for those
        that nobody reads."""
        key = (call.target, call.key, graph.opset)
        body = self._borrowed.get(key)
        if body is None:
            body = self._borrowed[key] = _exported(call, graph.opset)
        if self.verbose > 1:
            for node in body.nodes:
                print(f"[OxsDispatcher.convert] {node!r}")
        outputs = [res.outputs[index] for index in call.wanted]
        node = graph.origin
        library = f"onnxscript {version('onnxscript')} (torchlib)"
        origin = metadata_of(node) if isinstance(node, Node) else {}
        graph.origin = {**origin, "converter": library}
        try:
            graph.make_nodes(body, call.operands(), outputs, prefix=f"{outputs[0]}_")
        finally:
            graph.origin = node
        return [name or None for name in res.outputs] if call.several else outputs[0]


class _Call:
    """One call of an operator, taken apart: a graph of this one node, whose inputs are the results
    and symbolic sizes among the arguments, and whose outputs are the results that somebody reads.
    """

    def __init__(
        self, graph: Any, res: Any, target: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        self.graph, self.target = graph, target
        self.wanted = [index for index in range(len(res)) if res.is_used(index)]
        returns = target._schema.returns
        self.several = len(returns) != 1 or returns[0].type.kind() == "ListType"
        self.values: list[str | dims.SymDim] = []
        self.placeholders: dict[Any, Node] = {}
        self.fx = torch.fx.Graph()
        declared = list(target._schema.arguments)
        named = {argument.name: argument for argument in declared}
        self.args = tuple(self._converted(v, a) for v, a in zip(args, declared, strict=False))
        self.kwargs = {
            name: self._converted(value, named[name])
            for name, value in ((name.rstrip("_"), value) for name, value in kwargs.items())
        }
        described = tuple(self._description(value) for value in self.values)
        self.key = (described, repr(self.args), repr(self.kwargs), tuple(self.wanted))

    def _converted(self, value: Any, argument: Any) -> Any:
        """An argument in torch's form; results and symbolic sizes are placeholders."""
        kind = str(argument.real_type)
        if isinstance(value, ComplexValue):
            raise UnsupportedCase(
                f"argument '{argument.name}' is complex, which onnxscript's converters hold in "
                "another form; write a converter"
            )
        if isinstance(value, dims.SymDim) or (isinstance(value, str) and "Tensor" in kind):
            if value not in self.placeholders:
                self.placeholders[value] = self.fx.placeholder(f"x{len(self.values)}")
                self.values.append(value)
            return self.placeholders[value]
        if isinstance(value, (list, tuple)):
            return [self._converted(item, argument) for item in value]
        if "ScalarType" in kind and isinstance(value, int):
            return dtypes.to_torch(value)
        return value

    def _description(self, value: str | dims.SymDim) -> Any:
        if isinstance(value, dims.SymDim):
            return value
        shape = self.graph.values[value].shape
        if shape is None:
            raise UnsupportedCase(
                f"onnxscript's converters need the shape of '{value}', which is unknown"
            )
        return self.graph.get_type(value), shape

    def module(self) -> torch.fx.GraphModule:
        """The call as a module; it has no weights."""
        call = self.fx.call_function(self.target, self.args, self.kwargs)
        if self.several:
            found = [self.fx.call_function(operator.getitem, (call, i)) for i in self.wanted]
            self.fx.output(tuple(found))
        else:
            self.fx.output(call)
        return torch.fx.GraphModule(torch.nn.Module(), self.fx).eval()

    def examples(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Values for the placeholders (fake tensors: no memory), and which of their dimensions are
        symbolic."""
        from ortable.compat.torch import FakeTensorMode

        sizes: dict[str, int] = {}
        tensors: list[Any] = []
        moving: list[Any] = []
        dynamic = torch.export.Dim.DYNAMIC
        with FakeTensorMode():
            for value in self.values:
                if isinstance(value, dims.SymDim):
                    tensors.append(_size(value, sizes))
                    moving.append(dynamic)
                    continue
                dtype, shape = self._description(value)
                concrete = [_size(dim, sizes) for dim in shape]
                tensors.append(torch.empty(concrete, dtype=dtypes.to_torch(dtype)))
                moving.append(
                    {i: dynamic for i, dim in enumerate(shape) if not isinstance(dim, int)}
                )
        return tuple(tensors), tuple(moving)

    def operands(self) -> list[str]:
        """Results for the inputs of the exported graph, where a symbolic size is a scalar."""
        return [value if isinstance(value, str) else self._scalar(value) for value in self.values]

    def _scalar(self, dim: dims.SymDim) -> str:
        axes = self.graph.make_initializer("", [0])
        return str(self.graph.make_node("Squeeze", [self.graph.dim_as_vector(dim), axes]))


def _size(dim: Any, sizes: dict[str, int]) -> int:
    for symbol in sorted(dims.free_symbols(dim)):
        sizes.setdefault(symbol, _SIZES[len(sizes) % len(_SIZES)])
    return int(dims.evaluate_dim(dim, sizes))


def _exported(call: _Call, opset: int) -> Any:
    """The nodes that torch.onnx makes of ``call``, as a graph with an input for each value.

    Raises ConversionError when onnxscript has no converter either, or only one for another opset.
    """
    import onnx.inliner

    from ortable.builder import GraphBuilder

    name = call.target.name()
    examples, moving = call.examples()
    try:
        with _silent():
            program: Any = torch.onnx.export(
                call.module(),
                examples,
                dynamo=True,
                opset_version=opset,
                dynamic_shapes=moving,
                verbose=False,
            )
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        text = str(cause).strip().splitlines() or [type(cause).__name__]
        raise ConversionError(
            f"onnxscript has no converter for this call of {name} either: {text[0]}"
        ) from error
    model = program.model_proto
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    model = _in_opset(model, opset, name)
    if len(model.graph.input) != len(call.values):
        raise ConversionError(
            f"onnxscript's converter of {name} takes {len(model.graph.input)} inputs, this call "
            f"has {len(call.values)}"
        )
    body = GraphBuilder(model)
    _forget_origins(body)
    return body


@contextmanager
def _silent() -> Iterator[None]:
    """torch.onnx gives warnings and logs of its own, which say nothing about the model."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]

    def undo() -> None:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

    with undone(undo), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield


def _in_opset(model: Any, opset: int, name: str) -> Any:
    """The model in the opset of the graph that takes its nodes: onnxscript may have its function
    in another one."""
    import onnx.version_converter

    (found,) = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")] or [opset]
    if found == opset or all(_same_definition(node, found, opset) for node in model.graph.node):
        for imported in model.opset_import:
            if imported.domain in ("", "ai.onnx"):
                imported.version = opset
        return model
    try:
        return onnx.version_converter.convert_version(model, opset)
    except Exception as error:
        raise ConversionError(
            f"onnxscript's converter of {name} writes opset {found}, which onnx cannot bring to "
            f"opset {opset}; try target_opset={found}"
        ) from error


def _same_definition(node: Any, given: int, wanted: int) -> bool:
    """Whether a node is one of opset ``wanted`` too: ONNX defines the operator alike in both, or in
    this one alone (torch.onnx may write newer operators than the model's opset)."""
    if node.domain not in ("", "ai.onnx"):
        return True
    if any(attribute.HasField("g") for attribute in node.attribute):
        return False
    now, then = (since_version(node.op_type, opset) for opset in (given, wanted))
    return then is not None and now in (None, then)


def _forget_origins(body: Any) -> None:
    """Take away what torch.onnx noted of its own small graph, in the graphs inside too."""
    for node in body.nodes:
        node.origin = None
        for value in node.attrs.values():
            if hasattr(value, "node") and hasattr(value, "initializer"):
                for inner in value.node:
                    del inner.metadata_props[:]
