"""GraphBuilder: makes the nodes, inputs, outputs and initializers of an ONNX graph one by one,
and knows the type and shape of every result as soon as it is made."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto

from ortable_generated.kernels import KERNELS_CPU

from ..dims import SymDim
from ..errors import BuilderError
from . import (
    casts,
    constants,
    function_protos,
    local_functions,
    merge,
    passes,
    quantized,
    reader,
    serialize,
    transplant,
    versions,
)
from .dim_results import DimResults
from .node import Node
from .node_maker import NodeMaker
from .ops import Ops

_counter = itertools.count()
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class GraphBuilder(NodeMaker):
    """A graph under construction. Results are names (``str``); shapes are tuples of dims.

    ``target_opset``: an opset, ``{domain: opset}``, or a ModelProto to start from.
    ``ir_version``: None takes the smallest one that the opsets allow.
    ``target``: ``"onnxruntime"`` refuses what ONNX Runtime cannot load or has no kernel for.
    ``origin_metadata``: turns ``Node.origin`` into the node's metadata when the model is written.
    ``kernel_table``: kernels to cast for (the CPU provider's by default), ``{}`` never casts.

    Raises BuilderError for an opset that onnx, or the target, does not know."""

    def __init__(
        self,
        target_opset: int | Mapping[str, int] | ModelProto = 18,
        *,
        ir_version: int | None = None,
        target: str | None = None,
        origin_metadata: Callable[[Any], dict[str, str]] | None = None,
        kernel_table: casts.KernelTable = KERNELS_CPU,
        parent: GraphBuilder | None = None,
        name: str = "ortable",
    ) -> None:
        super().__init__(parent, _tag(next(_counter)) if parent is None else parent.tag)
        self.name = name
        self.target = target
        self.ir_version = ir_version
        self.kernel_table = kernel_table
        self.origin_metadata = origin_metadata
        self.convert_subgraph: Any = None if parent is None else parent.convert_subgraph
        self.convert_into: Any = None if parent is None else parent.convert_into
        self.find_converter: Any = None if parent is None else parent.find_converter
        self.record: Any = None  # the exporter's account of the conversion
        self.is_model = parent is None  # not the body of a local function
        self.op = Ops(self)
        self.dim_results = DimResults(self, None if parent is None else parent.dim_results)
        if parent is not None:
            self.opsets = parent.opsets
            return
        if isinstance(target_opset, ModelProto):
            self.opsets = {imp.domain: imp.version for imp in target_opset.opset_import}
        elif isinstance(target_opset, Mapping):
            self.opsets = {"": 18, **target_opset}
        else:
            self.opsets = {"": int(target_opset)}
        versions.check(self.opsets, target)
        if isinstance(target_opset, ModelProto):
            reader.read_model(self, target_opset)

    # -- opsets

    @property
    def opset(self) -> int:
        """Version of the main domain."""
        return self.opsets[""]

    def get_opset(self, domain: str = "") -> int:
        """Version of a domain. BuilderError when the graph does not use it."""
        if domain not in self.opsets:
            raise BuilderError(
                f"Domain {domain!r} has no opset in this graph, known: {self.opsets} ({self.tag})"
            )
        return self.opsets[domain]

    def make_nodes(
        self,
        other: GraphBuilder,
        input_names: Sequence[str],
        output_names: Sequence[str],
        prefix: str = "",
    ) -> Any:
        """Adds all nodes of another graph: its inputs are bound to results of this one, its
        outputs get
        ``output_names``, its other results get free names starting with ``prefix``.
        Returns the name of the output, or a tuple of names."""
        return transplant.make_nodes(self, other, input_names, output_names, prefix)

    def subgraph(self, name: str) -> GraphBuilder:
        """A child graph for an attribute of If, Loop or Scan; it sees the results of this one."""
        return GraphBuilder(
            parent=self,
            name=name,
            target=self.target,
            kernel_table=self.kernel_table,
            origin_metadata=self.origin_metadata,
        )

    def add_function(self, function: FunctionProto) -> None:
        """Adds a local function; nodes call it by its name and domain, with a domain version of
        1."""
        key = (function.domain, function.name)
        if key in self.functions:
            raise BuilderError(
                f"The model has a function {function.domain}.{function.name} already."
            )
        self.functions[key] = function
        self.opsets.setdefault(function.domain, 1)
        for imported in function.opset_import:
            self.opsets.setdefault(imported.domain, imported.version)

    def get_attribute(
        self, node: Node | NodeProto, name: str, default: Any = None, exc: bool = True
    ) -> Any:
        """Value of an attribute of a Node; the AttributeProto itself for a NodeProto.

        Without the attribute: BuilderError, or ``default`` with ``exc=False``."""
        if isinstance(node, NodeProto):
            found = next((a for a in node.attribute if a.name == name), None)
        else:
            found = node.attrs.get(name)
        if found is None and exc:
            raise BuilderError(f"Node {node.name!r} ({node.op_type}) has no attribute {name!r}.")
        return default if found is None else found

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
        result."""
        self._info(result)
        self.dim_results.add_source(symbol, result, axis)

    def dim_as_vector(self, dim: Any) -> str:
        """Name of an int64[1] result that holds a dimension. BuilderError when nothing has its
        symbols."""
        return self.dim_results.vector(self.to_dim(dim))

    def shape_as_vector(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result that holds all the dimensions."""
        return self.dim_results.shape([self.to_dim(dim) for dim in shape])

    def make_shape_from_results(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result made of ints, dimensions, SymInts, and names of integer
        results."""
        return self.dim_results.from_results(tuple(shape))

    # -- passes

    def remove_unused(self) -> int:
        """Removes nodes and initializers that no output needs; returns how many."""
        return passes.remove_unused(self)

    def remove_identity_nodes(self) -> int:
        """Removes Identity nodes, keeping the names of inputs and outputs; returns how many."""
        return passes.remove_identity_nodes(self)

    def constant_folding(self, max_bytes: int = 1 << 20, weights: bool = False) -> int:
        """Replaces nodes on constants by their results of at most ``max_bytes``, or of any size
        if they are ``weights`` that rules computed of others; returns how many."""
        return passes.constant_folding(self, max_bytes, weights)

    def merge_equal_nodes(self) -> int:
        """Makes nodes that compute the same one node; returns how many are gone."""
        return merge.merge_equal_nodes(self)

    def optimize(
        self, folding: bool = False, rewrites: bool = True, turning: bool = False
    ) -> dict[str, int]:
        """The basic passes: identities, weights that are only read transposed and constants (if
        asked for), quantized parts (``rewrites``), equal nodes, unused nodes; counts of what was
        removed or rewritten. Rules of rewriting (docs/rewrites.md) are run by
        ``ortable.rewrite.optimize``, which to_onnx and the backend call."""
        counts = {"remove_identity_nodes": self.remove_identity_nodes()}
        if turning:
            counts["turn_weights"] = merge.turn_weights(self)
        if folding:
            counts["constant_folding"] = self.constant_folding()
        arranged = quantized.arrange_quantized(self) if rewrites else 0
        if arranged:
            counts["arrange_quantized"] = arranged
        counts["merge_equal_nodes"] = self.merge_equal_nodes()
        counts["remove_unused"] = self.remove_unused()
        if self.functions and self.is_model:
            counts["remove_unused_functions"] = local_functions.remove_unused_functions(self)
        return counts

    def rename_result(self, old: str, new: str) -> None:
        """Renames a result everywhere. BuilderError when the new name is taken."""
        self.rename_results({old: new})

    def rename_results(self, names: Mapping[str, str]) -> None:
        """Renames several results in one walk over the graph."""
        for old, new in names.items():
            self._info(old)
            if new in self.values and new not in names:
                raise BuilderError(
                    f"{old!r} cannot be renamed {new!r}, "
                    f"the graph has a result of this name ({self.tag})"
                )
        passes.rename(self, dict(names))

    # -- output

    def to_onnx(
        self,
        large_model: bool = False,
        external_threshold: int = 1024,
        metadata: Mapping[str, str] | None = None,
        *,
        optimize: bool = True,
        inline: bool = False,
        value_info: bool = False,
    ) -> Any:
        """The ModelProto; with ``large_model``, a LargeModel that leaves tensors of
        ``external_threshold`` bytes or more out of it.

        ``optimize`` runs the basic passes first, ``inline`` replaces local functions by their
        bodies,
        ``value_info`` writes what is known of intermediate results, ``metadata`` goes to the
        model."""
        if optimize:
            self.optimize()
        return serialize.to_onnx(
            self, large_model, external_threshold, metadata, inline=inline, value_info=value_info
        )

    def to_function(
        self, name: str, domain: str, external_threshold: int | None = None
    ) -> FunctionProto:
        """The graph as a local function; initializers become Constant nodes.

        Those of ``external_threshold`` bytes or more stay in ``function_tensors``, by reference,
        until the model is written; a builder that adds the function needs them too."""
        return function_protos.to_function(self, name, domain, external_threshold)


def _tag(number: int) -> str:
    """Three letters that tell builders apart in messages."""
    letters = []
    for _ in range(3):
        number, rest = divmod(number, 26)
        letters.append(_LETTERS[rest])
    return "".join(reversed(letters))
