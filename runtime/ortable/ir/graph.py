"""The graph under construction that converters, rules and passes edit.

The graph infers type and shape of each result when its node is added. `builder.GraphBuilder`
subclasses `Graph` and adds the public methods that read a model, run the passes and write it.
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

    Args:
        target_opset: an opset of the main domain, or ``{domain: opset}``.
        ir_version: IR version to write; None takes the smallest that the opsets allow.
        target: ``"onnxruntime"`` rejects nodes and versions that ONNX Runtime does not support;
            None is for any runtime.
        origin_metadata: turns ``Node.origin`` into the node's metadata when the model is written.
        kernel_table: kernels by operator; inputs of other types are cast to types of a kernel. None
            means the kernels of the CPU provider, ``{}`` disables the casts.
        parent: the enclosing graph of a subgraph, whose opsets and target the subgraph uses.
        name: name of the graph.

    Raises:
        BuilderError: onnx, or the target, does not support the opset.
    """

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
        # the interpreter and the exporter replace the context
        self.ctx: LoweringContext[Graph] = LoweringContext(target) if parent is None else parent.ctx
        self.is_model = parent is None  # not a subgraph; callers unset it for bodies of functions
        # number, from 1, of the case that the current converter chose; 0 if its entry has no cases
        self.case = 0
        self.materializer = ShapeMaterializer(self, None if parent is None else parent.materializer)
        if parent is not None:
            self.opsets = parent.opsets
            return
        if isinstance(target_opset, Mapping):
            self.opsets = versions.normalize_opsets(target_opset.items())
            self.opsets = {"": versions.DEFAULT_OPSET, **self.opsets}
        else:
            self.opsets = versions.normalize_opsets([("", target_opset)])
        versions.check_opsets(self.opsets, target)

    def __repr__(self) -> str:
        counts = (
            (self.inputs, "input"),
            (self.outputs, "output"),
            (self.nodes, "node"),
            (self.initializers_dict, "initializer"),
        )
        parts = [f"{len(items)} {name}{'s' * (len(items) != 1)}" for items, name in counts]
        name_prefix = "" if self.parent is None else f"{self.name!r}, "
        return f"{type(self).__name__}({name_prefix}opset {self.opset}: {', '.join(parts)})"

    # -- opsets

    @property
    def opset(self) -> int:
        """Opset of the main domain."""
        return self.opsets[""]

    @property
    def target(self) -> str | None:
        """Runtime that the model is for; None for any runtime."""
        return self.ctx.target

    def subgraph(self, name: str) -> Self:
        """Return a new child graph for an attribute of If, Loop or Scan.

        Nodes of the child graph can read the results of this graph.

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
        """Add a local function, which nodes call by its name and domain.

        The model imports version 1 of the function's domain, and the domains that the function
        imports in the same versions. Domains that the model imports already do not change.

        Args:
            function: the function.

        Raises:
            BuilderError: the model has a function of this name and domain.
        """
        key = (function.domain, function.name)
        if key in self.functions:
            raise BuilderError(
                f"The model already has a function {function.domain}.{function.name}."
            )
        self.functions[key] = function
        self.opsets.setdefault(function.domain, 1)
        for imported in function.opset_import:
            self.opsets.setdefault(imported.domain, imported.version)

    # -- editing

    def uses(self, name: str) -> list[Node]:
        """Return the nodes of this graph that read a result directly or in one of their subgraphs.

        Outputs of the graph are not readers. Code that changes ``node.inputs`` or ``nodes`` without
        `editing` must call `outdate_uses` afterwards.
        """
        return editing.find_readers(self, name)

    def replace_uses(self, old: str, new: str) -> list[Node]:
        """Make every node that reads ``old``, in subgraphs too, read ``new`` instead.

        The node that makes ``new`` still reads ``old``. Outputs of the graph do not change.

        Args:
            old: the result to replace.
            new: the result to read in its place.

        Returns:
            The changed nodes.

        Raises:
            BuilderError: a result is unknown, or a subgraph given as GraphProto reads ``old``.
        """
        self._get_info(old)
        self._get_info(new)
        return editing.replace_uses(self, old, new)

    def erase(self, *nodes: Node) -> None:
        """Remove nodes from the graph.

        Args:
            nodes: nodes of this graph.

        Raises:
            BuilderError: a result of a removed node is an output, or a remaining node reads it.
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
        """Add a node, and its casts, before ``node``.

        Args:
            node: a node of this graph.
            op_type: as in `make_node`, like all arguments that follow.
            inputs: names of the inputs.
            outputs: names or number of the outputs.
            domain: domain of the operator.
            name: the name of the new node.
            attrs: attributes.

        Returns:
            The name of the output, or a tuple of names.

        Raises:
            BuilderError: as in `make_node`, or an input is not made before ``node``.
        """
        names = [inputs] if isinstance(inputs, str) else [input_name or "" for input_name in inputs]
        editing.check_before(self, read_names(Node(op_type, names, [], attrs=attrs)), node)
        index = self.nodes.index(node)
        later_nodes = self.nodes[index:]
        del self.nodes[index:]
        try:
            return self.make_node(op_type, inputs, outputs, domain, name, **attrs)
        finally:
            self.nodes.extend(later_nodes)
            self.outdate_uses()

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename results in this graph and in the subgraphs of its nodes.

        Args:
            names: new names by old names.

        Raises:
            BuilderError: a result is unknown, a new name is empty, taken or given twice, or a
                subgraph given as GraphProto reads the result.
        """
        counts = Counter(names.values())
        for old, new in names.items():
            self._get_info(old)
            if not new or counts[new] > 1:
                raise BuilderError(
                    f"{old!r} cannot be renamed to {new!r}: every result needs a different, "
                    f"non-empty name ({self.tag})"
                )
            if new in self.values and new not in names:
                raise BuilderError(
                    f"{old!r} cannot be renamed to {new!r}: "
                    f"the graph already has a result of this name ({self.tag})"
                )
        editing.rename_results(self, dict(names))

    # -- constants

    def is_constant(self, name: str) -> bool:
        """Whether a result is an initializer or is computed from constants only."""
        return constants.is_constant(self, name)

    def get_constant(self, name: str) -> np.ndarray:
        """Return the value of a constant result, which is computed and cached if necessary.

        Raises:
            BuilderError: the result is not constant, or onnx's reference implementation cannot
                compute it.
        """
        return constants.get_constant(self, name)

    # -- dimensions

    def add_dim_source(self, symbol: str | SymDim, result: str, axis: int | None) -> None:
        """Record that a dimension can be read from the shape or the value of a result.

        Args:
            symbol: the dimension, or its name.
            result: the name of the result.
            axis: axis of the result whose size is the dimension; None if the dimension is the value
                of the result, an int64 of one element.

        Raises:
            BuilderError: the result is unknown or has no such axis, or ``axis`` is None and the
                result is not an int64 of one element.
        """
        info = self._get_info(result)
        if axis is None:
            source_text = "the content"
            has_wrong_shape = (info.rank or 0) > 1 or any(
                type(size) is int and size != 1 for size in info.shape or ()
            )
            is_invalid = has_wrong_shape or info.dtype not in (None, dtypes.int64)
        else:
            source_text = f"axis {axis}"
            is_invalid = axis < 0 or (info.rank is not None and axis >= info.rank)
        if is_invalid:
            raise BuilderError(
                f"Dimension {str(symbol)!r} cannot be {source_text} of "
                f"{typed_names(self, [result])} ({self.tag})"
            )
        self.materializer.add_source(symbol, result, axis)

    def dim_as_vector(self, dim: Any) -> str:
        """Return the name of an int64[1] result that holds a dimension.

        Raises:
            BuilderError: the graph has no source for a symbol of the dimension.
        """
        return self.materializer.dim_vector(self.to_dim(dim))

    def shape_as_vector(self, shape: Sequence[Any]) -> str:
        """Return the name of an int64[n] result that holds the ``n`` dimensions of a shape."""
        return self.materializer.shape_vector([self.to_dim(dim) for dim in shape])

    def make_shape_from_results(self, shape: Sequence[Any]) -> str:
        """Make an int64[n] result from ints, dimensions, SymInts and names of integer results.

        Returns:
            The name of the result.
        """
        return self.materializer.from_results(tuple(shape))


def _graph_tag(number: int) -> str:
    """Return three letters that identify a graph in messages."""
    letters = []
    for _ in range(3):
        number, remainder = divmod(number, 26)
        letters.append(_LETTERS[remainder])
    return "".join(reversed(letters))
