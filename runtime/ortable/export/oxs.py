"""OxsDispatcher: operators without a generated converter are borrowed from onnxscript's torchlib.
One call is exported alone through torch.onnx, which uses that library, and its nodes are copied
into the graph."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

import torch

from .. import dims, dtypes
from ..errors import ConversionError, OptionError, UnsupportedCase
from .dispatcher import Converter, Dispatcher

# Sizes that stand for symbolic dimensions while one call is exported: different, and far from 0 and
# 1, which torch specialises.
_SIZES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


class OxsDispatcher(Dispatcher):
    """A dispatcher that borrows from onnxscript what the generated converters lack.

    Args:
        functions: the user's converters, as for Dispatcher; they come first.
        verbose: 1 prints each operator that is borrowed, 2 the nodes too.

    Raises:
        OptionError: onnxscript is not installed.
    """

    def __init__(self, functions: Mapping[str, Converter] | None = None, verbose: int = 0) -> None:
        super().__init__(functions, verbose)
        if importlib.util.find_spec("onnxscript") is None:
            raise OptionError("OxsDispatcher needs onnxscript: pip install 'ortable[onnxscript]'")

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """The user's converter, else the generated one, else one that exports this call through
        onnxscript."""
        found = super().find(name, target, native)
        if found is not None or not isinstance(target, torch._ops.OpOverload):
            return found
        verbose = self.verbose
        if verbose:
            print(f"[OxsDispatcher.find] '{name}' has no converter here: borrowed from onnxscript")

        def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
            return _borrow(graph, res, target, args, kwargs, verbose)

        return convert


def _borrow(
    graph: Any, res: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], verbose: int
) -> Any:
    """Export ``target(*args, **kwargs)`` alone and copy its nodes; returns the names of its
    results."""
    names: list[str] = []
    module = _call_module(graph, target, args, kwargs, names)
    examples, moving = _examples(graph, names)
    with redirect_stdout(io.StringIO()):
        try:
            program: Any = torch.onnx.export(
                module,
                examples,
                dynamo=True,
                opset_version=graph.opset,
                dynamic_shapes=moving,
                verbose=False,
            )
        except Exception as error:
            raise ConversionError(
                f"onnxscript has no converter for {target.name()} either: "
                f"{str(error).strip().splitlines()[0]}"
            ) from error
    model = _inlined(program.model_proto)
    if verbose > 1:
        for node in model.graph.node:
            print(
                f"[OxsDispatcher.convert] {node.op_type}({', '.join(node.input)}) -> "
                f"{', '.join(node.output)}"
            )
    from ..builder import GraphBuilder

    outputs = [
        name or graph.unique_name(f"{target.name().replace('::', '_')}_unused")
        for name in res.outputs
    ]
    count = len(model.graph.output)
    if len(outputs) < count:
        outputs += [graph.unique_name("unused") for _ in range(count - len(outputs))]
    kept = [i for i, given in enumerate(names) if i < len(model.graph.input)]
    graph.make_nodes(
        GraphBuilder(model), [names[i] for i in kept], outputs[:count], prefix=f"{res.name}_"
    )
    return outputs[0] if count == 1 else tuple(outputs[:count])


def _call_module(
    graph: Any, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> Any:
    """A GraphModule with one node, whose placeholders stand for the results among the arguments."""
    fx = torch.fx.Graph()
    nodes: dict[str, torch.fx.Node] = {}
    declared = {argument.name: argument for argument in target._schema.arguments}
    positional = list(declared.values())

    def given(value: Any, argument: Any) -> Any:
        kind = str(argument.real_type)
        if isinstance(value, str) and "Tensor" in kind:
            if value not in nodes:
                nodes[value] = fx.placeholder(f"x{len(names)}")
                names.append(value)
            return nodes[value]
        if isinstance(value, dims.SymDim):
            raise UnsupportedCase(
                f"onnxscript's converter of {target.name()} would need the symbolic size {value} "
                "as argument "
                f"'{argument.name}': make it static, or write a converter"
            )
        if isinstance(value, (list, tuple)):
            return [given(item, argument) for item in value]
        if "ScalarType" in kind and isinstance(value, int):
            return dtypes.to_torch(value)
        return value

    # placeholders come before the call because they are created while its arguments are read
    call_args = tuple(given(value, positional[i]) for i, value in enumerate(args))
    call_kwargs = {name: given(value, declared[name.rstrip("_")]) for name, value in kwargs.items()}
    fx.output(fx.call_function(target, call_args, call_kwargs))
    return torch.fx.GraphModule(torch.nn.Module(), fx).eval()


def _examples(graph: Any, names: list[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Tensors of the types and sizes of the results, and which of their dimensions are symbolic."""
    sizes: dict[str, int] = {}
    tensors, moving = [], []
    for name in names:
        dtype, shape = graph.get_type(name), graph.values[name].shape
        if shape is None:
            raise UnsupportedCase(
                f"onnxscript's converters need the shape of '{name}', which is unknown"
            )
        for dim in shape:
            for symbol in sorted(dims.symbols(dim)):
                sizes.setdefault(symbol, _SIZES[len(sizes) % len(_SIZES)])
        concrete = [int(dims.evaluate(dim, sizes)) for dim in shape]
        tensors.append(torch.zeros(concrete, dtype=dtypes.to_torch(dtype)))
        moving.append(
            {
                axis: torch.export.Dim.DYNAMIC
                for axis, dim in enumerate(shape)
                if not isinstance(dim, int)
            }
        )
    return tuple(tensors), tuple(moving)


def _inlined(model: Any) -> Any:
    import onnx.inliner

    return onnx.inliner.inline_local_functions(model) if model.functions else model
