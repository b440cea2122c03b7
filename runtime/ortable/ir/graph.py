"""The graph under construction that converters, rules and passes see.

Nodes are added one by one, and type and shape of every result are known at once.
`builder.GraphBuilder` adds what users call: reading a model, the passes, writing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from onnx import FunctionProto

from ortable import dtypes
from ortable.dims import SymDim
from ortable.errors import BuilderError
from ortable_generated.kernels import KERNELS_CPU

from . import casts, constants, editing, versions
from .captures import read_names
from .context import LoweringContext
from .debug_message import typed_names
from .node import Node
from .node_maker import NodeMaker
from .shape_materializer import ShapeMaterializer

_counter = itertools.count()
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Graph(NodeMaker):
    """A graph under construction. Results are names (``str``); shapes are tuples of dims.

    ``target_opset``: an opset, or ``{domain: opset}``.
    ``ir_version``: None takes the smallest one that the opsets allow.
    ``target``: ``"onnxruntime"`` refuses what ONNX Runtime cannot load or has no kernel for.
    ``origin_metadata``: turns ``Node.origin`` into the node's metadata when the model is written.
    ``kernel_table``: kernels to cast for (None: the CPU provider's), ``{}`` never casts.

    Raises BuilderError for an opset that onnx, or the target, does not know."""

    def __init__(
        self,
        target_opset: int | Mapping[str, int] = 18,
        *,
        ir_version: int | None = None,
        target: str | None = None,
        origin_metadata: Callable[[Any], dict[str, str]] | None = None,
        kernel_table: casts.KernelTable | None = None,
        parent: Graph | None = None,
        name: str = "ortable",
    ) -> None:
        super().__init__(parent, _graph_tag(next(_counter)) if parent is None else parent.tag)
        self.name = name
        self.ir_version = ir_version
        self.kernel_table = KERNELS_CPU if kernel_table is None else kernel_table
        self.origin_metadata = origin_metadata
        # what lowerings get besides the graph; the interpreter and the exporter replace it
        self.ctx: LoweringContext[Graph] = LoweringContext(target) if parent is None else parent.ctx
        self.is_model = parent is None  # not the body of a local function
        # index (from 1) of the case of the current converter's entry; 0: it has only one
        self.case = 0
        self.materializer = ShapeMaterializer(self, None if parent is None else parent.materializer)
        if parent is not None:
            self.opsets = parent.opsets
            return
        if isinstance(target_opset, Mapping):
            self.opsets = versions.by_domain(target_opset.items())
            self.opsets = {"": versions.DEFAULT_OPSET, **self.opsets}
        else:
            self.opsets = versions.by_domain([("", target_opset)])
        versions.check_opsets(self.opsets, target)

    def __repr__(self) -> str:
        counts = (
            (self.inputs, "input"),
            (self.outputs, "output"),
            (self.nodes, "node"),
            (self.initializers_dict, "initializer"),
        )
        parts = [f"{len(items)} {name}{'s' * (len(items) != 1)}" for items, name in counts]
        where = "" if self.parent is None else f"{self.name!r}, "
        return f"{type(self).__name__}({where}opset {self.opset}: {', '.join(parts)})"

    # -- opsets

    @property
    def opset(self) -> int:
        """Version of the main domain."""
        return self.opsets[""]

    @property
    def target(self) -> str | None:
        """What the model is made for; None: any runtime."""
        return self.ctx.target

    def subgraph(self, name: str) -> Self:
        """A child graph for an attribute of If, Loop or Scan; it sees the results of this one.

        Args:
            name: the name of the child graph.
        """
        return type(self)(
            parent=self,
            name=name,
            kernel_table=self.kernel_table,
            origin_metadata=self.origin_metadata,
        )

    def add_function(self, function: FunctionProto) -> None:
        """Adds a local function; nodes call it by its name and domain, with a domain version of
        1.

        Args:
            function: a FunctionProto.
        """
        key = (function.domain, function.name)
        if key in self.functions:
            raise BuilderError(
                f"The model has a function {function.domain}.{function.name} already."
            )
        self.functions[key] = function
        self.opsets.setdefault(function.domain, 1)
        for imported in function.opset_import:
            self.opsets.setdefault(imported.domain, imported.version)

    # -- editing

    def uses(self, name: str) -> list[Node]:
        """Nodes of this graph that read a result, themselves or in a graph inside them. Outputs of
        the graph are not among them.

        Who changes ``node.inputs`` or ``nodes`` by hand calls `outdate_uses` afterwards."""
        return editing.find_readers(self, name)

    def replace_uses(self, old: str, new: str) -> list[Node]:
        """Every node that reads ``old``, graphs inside nodes included, reads ``new``; these nodes.
        The node that makes ``new`` goes on reading ``old``; an output of the graph stays what it
        is.

        BuilderError when a result is unknown, or a subgraph given as GraphProto reads ``old``.

        Args:
            old: the result that nobody is to read any more.
            new: the result to read in its place.
        """
        self._get_info(old)
        self._get_info(new)
        return editing.replace_uses(self, old, new)

    def erase(self, *nodes: Node) -> None:
        """Takes nodes out of the graph. BuilderError when a result of one is an output, or is read
        by a node that stays.

        Args:
            nodes: nodes of this graph.
        """
        editing.erase_nodes(self, nodes)

    def insert_before(
        self,
        node: Node,
        op_type: str,
        inputs: str | Sequence[str | None],
        outputs: int | str | Sequence[str] | None = None,
        domain: str = "",
        name: str | None = None,
        **attrs: Any,
    ) -> Any:
        """`make_node`, but what it makes stands before ``node``. BuilderError also when an input is
        not made before it.

        Args:
            op_type, inputs, outputs: as in `make_node`.
            name: the name of the new node.
            attrs: as in `make_node`.
        """
        names = [inputs] if isinstance(inputs, str) else [n or "" for n in inputs]
        editing.check_before(self, read_names(Node(op_type, names, [], attrs=attrs)), node)
        index = self.nodes.index(node)
        later = self.nodes[index:]
        del self.nodes[index:]
        try:
            return self.make_node(op_type, inputs, outputs, domain, name, **attrs)
        finally:
            self.nodes.extend(later)
            self.outdate_uses()

    def rename(self, names: Mapping[str, str]) -> None:
        """Renames results, here and in the graphs inside nodes, in one walk.

        BuilderError when a result is unknown, a new name is empty, taken, or that of two results,
        or a subgraph given as GraphProto reads the result.

        Args:
            names: new names by old ones.
        """
        counts = Counter(names.values())
        for old, new in names.items():
            self._get_info(old)
            if not new or counts[new] > 1:
                raise BuilderError(
                    f"{old!r} cannot be renamed {new!r}: every result needs a name of its own "
                    f"({self.tag})"
                )
            if new in self.values and new not in names:
                raise BuilderError(
                    f"{old!r} cannot be renamed {new!r}, "
                    f"the graph has a result of this name ({self.tag})"
                )
        editing.rename_results(self, dict(names))

    # -- constants

    def is_constant(self, name: str) -> bool:
        """True for an initializer, or a result computed from constants only."""
        return constants.is_constant(self, name)

    def get_constant(self, name: str) -> np.ndarray:
        """Value of a constant result, computed when it is not an initializer, and kept.

        Raises BuilderError when the result is not constant."""
        return constants.get_constant(self, name)

    # -- dimensions

    def add_dim_source(self, symbol: str | SymDim, result: str, axis: int | None) -> None:
        """Says that a dimension is axis ``axis`` of a result, or (None) the content of an int64
        result.

        Args:
            symbol: the dimension, or its name.
            result: the name of the result.
            axis: None: the dimension is the content of the result.

        Raises:
            BuilderError: the result is unknown, has no such axis, or is no single int64.
        """
        info = self._get_info(result)
        if axis is None:
            what = "the content"
            is_vector = (info.rank or 0) > 1 or any(
                type(d) is int and d != 1 for d in info.shape or ()
            )
            wrong = is_vector or info.dtype not in (None, dtypes.int64)
        else:
            what = f"axis {axis}"
            wrong = axis < 0 or (info.rank is not None and axis >= info.rank)
        if wrong:
            raise BuilderError(
                f"Dimension {str(symbol)!r} cannot be {what} of {typed_names(self, [result])} "
                f"({self.tag})"
            )
        self.materializer.add_source(symbol, result, axis)

    def dim_as_vector(self, dim: Any) -> str:
        """Name of an int64[1] result that holds a dimension. BuilderError when nothing has its
        symbols."""
        return self.materializer.dim_vector(self.to_dim(dim))

    def shape_as_vector(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result that holds all the dimensions."""
        return self.materializer.shape_vector([self.to_dim(dim) for dim in shape])

    def make_shape_from_results(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result made of ints, dimensions, SymInts, and names of integer
        results."""
        return self.materializer.from_results(tuple(shape))


def _graph_tag(number: int) -> str:
    """Return three letters that distinguish builders in messages."""
    letters = []
    for _ in range(3):
        number, rest = divmod(number, 26)
        letters.append(_LETTERS[rest])
    return "".join(reversed(letters))
