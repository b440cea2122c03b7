"""GraphBuilder, the public interface of `ir` and `passes`.

A graph under construction that can start from a model, be optimized, and be written as a model
or a local function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from onnx import FunctionProto, ModelProto, NodeProto

from ortable.errors import BuilderError
from ortable.ir import Graph, Node, casts, inline_graph, versions
from ortable.ir.proto import read_model, write_model
from ortable.ir.proto.large_model import LargeModel
from ortable.passes import common_subexpressions, folding, identities, unused_nodes
from ortable.passes.pipeline import MAX_FOLDED_BYTES, PassOptions, run_passes

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ortable.ir.context import ConversionRecord


class Ops:
    """``op.X(*inputs, outputs=None, name=None, domain="", **attrs)`` adds a node X.

    An input is a result name, None or ``""`` (omitted), or a value that becomes an initializer.
    Returns the name of the result, or a tuple of names if ``outputs`` requests several.
    """

    __slots__ = ("_builder",)

    def __init__(self, builder: Graph) -> None:
        self._builder = builder

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {op_type!r}")
        builder = self._builder

        def make_node(
            *inputs: Any,
            outputs: int | str | Sequence[str] | None = None,
            name: str | None = None,
            domain: str = "",
            **attrs: Any,
        ) -> Any:
            names = [
                x if x is None or isinstance(x, str) else builder.make_initializer("", x)
                for x in inputs
            ]
            return builder.make_node(op_type, names, outputs, domain=domain, name=name, **attrs)

        return make_node


class GraphBuilder(Graph):
    """A graph under construction. Results are names (``str``); shapes are tuples of dims.

    Args:
        target_opset: an opset, ``{domain: opset}``, or a ModelProto to start from.
        ir_version: None takes the smallest one that the opsets allow.
        target: ``"onnxruntime"`` refuses what ONNX Runtime cannot load or has no kernel for.
        origin_metadata: turns ``Node.origin`` into the node's metadata when the model is
            written.
        kernel_table: kernels to cast for (None: the CPU provider's), ``{}`` never casts.
        parent: the graph around this one, for the body of an If, Loop or Scan; see `subgraph`.
        name: the name of the graph.

    Arguments of methods:
        name: the name of a result.
        prefix: how a new name begins.
        shape: ints, names of dimensions, torch.SymInts, SymDims; None for an unknown size.
        dim, value: one size of a shape, likewise; for a vector of sizes, a tuple of them.
        rank: a number of dimensions.
        dtype, elem_type: an ONNX element type, ``onnx.TensorProto.FLOAT`` (1) and so on.
        axis: the index of a dimension; negative ones count from the end.
        node: a `Node` of this graph.
        domain: of an operator; ``""`` is ONNX's own.
        graph_module, operands: a torch graph inside the one that is converted, and what it is
            called with: results, numbers and dimensions.

    Raises:
        BuilderError: an opset that onnx, or the target, does not know.
    """

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
            imports = [(opset.domain, opset.version) for opset in model.opset_import]
            self.opsets = versions.normalize_opsets(imports)
            versions.add_main_domain(self.opsets, model.ir_version)
            versions.check_opsets(self.opsets, target)
            read_model.read_model(self, model)

    # known types and shapes, under the names that users of such a builder print
    _known_types = Graph.known_types
    _known_shapes = Graph.known_shapes
    _known_ranks = Graph.known_ranks

    def get_opset(self, domain: str = "") -> int:
        """The version of a domain. BuilderError if the graph does not use it."""
        domain = "" if domain == "ai.onnx" else domain
        if domain not in self.opsets:
            raise BuilderError(
                f"Domain {domain!r} has no opset in this graph, known: {self.opsets} ({self.tag})"
            )
        return self.opsets[domain]

    def get_attribute(
        self, node: Node | NodeProto, name: str, default: Any = None, exc: bool = True
    ) -> Any:
        """The value of an attribute of a Node; the AttributeProto itself for a NodeProto.

        Without the attribute: BuilderError, or ``default`` with ``exc=False``.

        Args:
            name: the name of the attribute.
            default: returned without the attribute.
            exc: raise without the attribute.
        """
        if isinstance(node, NodeProto):
            value = next((a for a in node.attribute if a.name == name), None)
        else:
            value = node.attrs.get(name)
        if value is None and exc:
            raise BuilderError(f"Node {node.name!r} ({node.op_type}) has no attribute {name!r}.")
        return default if value is None else value

    def make_nodes(
        self,
        other: Graph,
        input_names: Sequence[str],
        output_names: Sequence[str],
        prefix: str = "",
    ) -> str | tuple[str, ...]:
        """Add all nodes of another graph.

        Args:
            other: the graph, of which nothing is changed.
            input_names: results of this graph, for the inputs of the other one.
            output_names: names of its outputs in this graph.
            prefix: how the names of its other results begin.

        Returns:
            The name of the output, or a tuple of names.

        Raises:
            BuilderError: a number of names does not fit, or a name is unknown or taken.
        """
        return inline_graph.copy_graph_into(self, other, input_names, output_names, prefix)

    # -- the context of a converter, `ctx`

    @property
    def record(self) -> ConversionRecord | None:
        """What to_onnx did, for ``return_builder=True``; None for other graphs."""
        return self.ctx.record

    def convert_subgraph(
        self, graph_module: GraphModule, operands: Sequence[Any], *, name: str = "subgraph"
    ) -> Graph:
        """Convert a torch graph inside the one being converted, as a child graph for If or Loop.

        Args:
            name: the name of the child graph.
        """
        return self.ctx.convert_subgraph(graph_module, operands, name=name)

    def convert_into(
        self,
        graph: Graph,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Convert a torch graph inside the one being converted into ``graph``; returns its results.

        Args:
            graph: the graph that receives the nodes.
            rename: names that symbols of the inner graph have in ``graph``.
        """
        return self.ctx.convert_into(graph, graph_module, operands, rename)

    # -- passes

    def remove_unused(self) -> int:
        """Remove nodes and initializers that no output needs; returns how many."""
        return unused_nodes.remove_unused(self)

    def remove_identity_nodes(self) -> int:
        """Remove Identity nodes, keeping the names of inputs and outputs; returns how many."""
        return identities.remove_identity_nodes(self)

    def constant_folding(self, max_bytes: int = MAX_FOLDED_BYTES, weights: bool = False) -> int:
        """Replace nodes on constants by their results; returns how many.

        Args:
            max_bytes: results of more bytes stay computed.
            weights: also fold results of any size that rewrite rules compute from weights.
        """
        return folding.constant_folding(self, max_bytes, weights)

    def merge_equal_nodes(self) -> int:
        """Merge nodes that compute the same; returns how many were removed."""
        return common_subexpressions.merge_equal_nodes(self)

    def optimize(
        self, folding: bool = False, quantized: bool = True, weight_transposes: bool = False
    ) -> dict[str, int]:
        """Run all passes except the rewrite rules (docs/rewrites.md).

        These are identities, weights that are only read transposed and constants (if requested),
        quantized parts, unused nodes, equal nodes. Returns counts of what was removed or made, by
        pass.

        Initializers with equal values stay separate: their names are the caller's.

        Args:
            folding: compute what depends on constants only.
            quantized: move QuantizeLinear and DequantizeLinear to where runtimes fuse them.
            weight_transposes: store weights that are only read transposed transposed.
        """
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
        """The graph as a model.

        Args:
            large_model: return a LargeModel, which leaves large tensors out of the proto.
            external_threshold: with ``large_model``, tensors of so many bytes or more are left
                out.
            metadata: ``metadata_props`` of the model.
            optimize: run `optimize` first.
            inline: replace calls of local functions by their bodies.
            value_info: write what is known of intermediate results.

        Returns:
            A ModelProto, or a LargeModel.

        Raises:
            BuilderError: the model would have 2 GiB or more; ``large_model`` writes it.
        """
        if optimize:
            self.optimize()
        return write_model.to_onnx(
            self, large_model, external_threshold, metadata, inline=inline, value_info=value_info
        )

    def to_function(
        self, name: str, domain: str, external_threshold: int | None = None
    ) -> FunctionProto:
        """The graph as a local function; initializers become Constant nodes.

        Args:
            name, domain: what nodes call the function.
            external_threshold: tensors of so many bytes or more stay in ``function_tensors``, by
                reference, until the model is written; a builder that adds the function needs
                them too.
        """
        return write_model.to_function(self, name, domain, external_threshold)
