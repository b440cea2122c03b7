"""GraphBuilder, the public face of `ir` and `passes`: a graph under construction that can start
from a model, be optimized, and be written as a model or a local function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from onnx import FunctionProto, ModelProto, NodeProto

from ortable.errors import BuilderError
from ortable.ir import Graph, Node, casts, inline_graph, versions
from ortable.ir.proto import function_protos, read_model, write_model
from ortable.ir.proto.large_model import LargeModel
from ortable.passes import common_subexpressions, folding, identities, unused
from ortable.passes.pipeline import FOLDED_BYTES, PassOptions, run_passes

from .ops import Ops

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ortable.ir.context import ConversionRecord


class GraphBuilder(Graph):
    """A graph under construction. Results are names (``str``); shapes are tuples of dims.

    ``target_opset``: an opset, ``{domain: opset}``, or a ModelProto to start from.
    ``ir_version``: None takes the smallest one that the opsets allow.
    ``target``: ``"onnxruntime"`` refuses what ONNX Runtime cannot load or has no kernel for.
    ``origin_metadata``: turns ``Node.origin`` into the node's metadata when the model is written.
    ``kernel_table``: kernels to cast for (None: the CPU provider's), ``{}`` never casts.

    Raises BuilderError for an opset that onnx, or the target, does not know."""

    def __init__(
        self,
        target_opset: int | Mapping[str, int] | ModelProto = 18,
        *,
        ir_version: int | None = None,
        target: str | None = None,
        origin_metadata: Callable[[Any], dict[str, str]] | None = None,
        kernel_table: casts.KernelTable | None = None,
        parent: GraphBuilder | None = None,
        name: str = "ortable",
    ) -> None:
        model = target_opset if isinstance(target_opset, ModelProto) else None
        super().__init__(
            18 if isinstance(target_opset, ModelProto) else target_opset,
            ir_version=ir_version,
            target=target,
            origin_metadata=origin_metadata,
            kernel_table=kernel_table,
            parent=parent,
            name=name,
        )
        self.op = Ops(self)
        if model is not None:
            self.opsets = {each.domain: each.version for each in model.opset_import}
            versions.check(self.opsets, target)
            read_model.read_model(self, model)

    # what is known, under the names that users of such a builder print
    _known_types = Graph.known_types
    _known_shapes = Graph.known_shapes
    _known_ranks = Graph.known_ranks

    def get_opset(self, domain: str = "") -> int:
        """Version of a domain. BuilderError when the graph does not use it."""
        if domain not in self.opsets:
            raise BuilderError(
                f"Domain {domain!r} has no opset in this graph, known: {self.opsets} ({self.tag})"
            )
        return self.opsets[domain]

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

    def make_nodes(
        self,
        other: Graph,
        input_names: Sequence[str],
        output_names: Sequence[str],
        prefix: str = "",
    ) -> str | tuple[str, ...]:
        """Adds all nodes of another graph: its inputs are bound to results of this one, its
        outputs get
        ``output_names``, its other results get free names starting with ``prefix``.
        Returns the name of the output, or a tuple of names."""
        return inline_graph.make_nodes(self, other, input_names, output_names, prefix)

    # -- what a converter asks for besides the graph: all of it is `ctx`

    @property
    def record(self) -> ConversionRecord | None:
        """What to_onnx did, for ``return_builder=True``; None for a graph made otherwise."""
        return self.ctx.record

    def convert_subgraph(
        self, graph_module: GraphModule, operands: Sequence[Any], *, name: str = "subgraph"
    ) -> Graph:
        """A torch graph inside the one that is converted, as a child graph for If or Loop."""
        return self.ctx.convert_subgraph(graph_module, operands, name=name)

    def convert_into(
        self,
        graph: Graph,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """What a torch graph inside the one that is converted returns, computed in ``graph``."""
        return self.ctx.convert_into(graph, graph_module, operands, rename)

    # -- passes

    def remove_unused(self) -> int:
        """Removes nodes and initializers that no output needs; returns how many."""
        return unused.remove_unused(self)

    def remove_identity_nodes(self) -> int:
        """Removes Identity nodes, keeping the names of inputs and outputs; returns how many."""
        return identities.remove_identity_nodes(self)

    def constant_folding(self, max_bytes: int = FOLDED_BYTES, weights: bool = False) -> int:
        """Replaces nodes on constants by their results of at most ``max_bytes``, or of any size
        if they are ``weights`` that rules computed of others; returns how many."""
        return folding.constant_folding(self, max_bytes, weights)

    def merge_equal_nodes(self) -> int:
        """Makes nodes that compute the same one node; returns how many are gone."""
        return common_subexpressions.merge_equal_nodes(self)

    def optimize(
        self, folding: bool = False, quantized: bool = True, weight_transposes: bool = False
    ) -> dict[str, int]:
        """The passes of `ortable.passes.pipeline` without rules of rewriting (docs/rewrites.md):
        identities, weights that are only read transposed and constants (if asked for), quantized
        parts, unused nodes, equal nodes; counts of what was removed or made, by pass.

        Initializers that hold the same stay apart: their names are the caller's."""
        options = PassOptions(
            quantized=quantized,
            folding=folding,
            weight_transposes=weight_transposes,
            equal_initializers=False,
        )
        return run_passes(self, options).counts

    # -- output

    @overload
    def to_onnx(
        self,
        large_model: Literal[False] = False,
        external_threshold: int = 1024,
        metadata: Mapping[str, str] | None = None,
        *,
        optimize: bool = True,
        inline: bool = False,
        value_info: bool = False,
    ) -> ModelProto: ...
    @overload
    def to_onnx(
        self,
        large_model: Literal[True],
        external_threshold: int = 1024,
        metadata: Mapping[str, str] | None = None,
        *,
        optimize: bool = True,
        inline: bool = False,
        value_info: bool = False,
    ) -> LargeModel: ...
    @overload
    def to_onnx(
        self,
        large_model: bool = False,
        external_threshold: int = 1024,
        metadata: Mapping[str, str] | None = None,
        *,
        optimize: bool = True,
        inline: bool = False,
        value_info: bool = False,
    ) -> ModelProto | LargeModel: ...
    def to_onnx(
        self,
        large_model: bool = False,
        external_threshold: int = 1024,
        metadata: Mapping[str, str] | None = None,
        *,
        optimize: bool = True,
        inline: bool = False,
        value_info: bool = False,
    ) -> ModelProto | LargeModel:
        """The ModelProto; with ``large_model``, a LargeModel that leaves tensors of
        ``external_threshold`` bytes or more out of it.

        ``optimize`` runs the basic passes first, ``inline`` replaces local functions by their
        bodies,
        ``value_info`` writes what is known of intermediate results, ``metadata`` goes to the
        model."""
        if optimize:
            self.optimize()
        return write_model.to_onnx(
            self, large_model, external_threshold, metadata, inline=inline, value_info=value_info
        )

    def to_function(
        self, name: str, domain: str, external_threshold: int | None = None
    ) -> FunctionProto:
        """The graph as a local function; initializers become Constant nodes.

        Those of ``external_threshold`` bytes or more stay in ``function_tensors``, by reference,
        until the model is written; a builder that adds the function needs them too."""
        return function_protos.to_function(self, name, domain, external_threshold)
