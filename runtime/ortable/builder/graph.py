"""`GraphBuilder`, the public interface of `ir` and `passes`.

A `GraphBuilder` can start from a model, be optimized, and be written as a model or a local
function.
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

    from ortable import dims
    from ortable.ir.context import ConversionRecord


class Ops:
    """Add a node of type X by ``op.X(*inputs, outputs=None, name=None, domain="", **attrs)``.

    An input is a result name, None or ``""`` (omitted), or a value that becomes an initializer. The
    call returns the name of the result, or a tuple of names if ``outputs`` requests several.
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

    In methods, ``name`` is a result, ``prefix`` begins a new name, and ``domain`` ``""`` is ONNX's.
    The sizes of a ``shape``, a ``dim`` and a ``value`` (of a result that holds sizes) are ints,
    dimension names, torch.SymInts or SymDims, None if unknown; ``rank`` is the number of
    dimensions. A ``dtype`` is an ONNX element type, such as ``onnx.TensorProto.FLOAT`` (1).

    Args:
        target_opset: an opset, ``{domain: opset}``, or a ModelProto to start from.
        ir_version: the IR version; None selects the smallest one that the opsets allow.
        target: ``"onnxruntime"`` rejects operators that ONNX Runtime cannot run.
        origin_metadata: turns ``Node.origin`` into the node's metadata when the model is written.
        kernel_table: the kernels whose dtypes inputs are cast to; None selects the kernels of the
            CPU provider, and ``{}`` disables these casts.
        parent: the enclosing graph of the body of an If, Loop or Scan; see `subgraph`.
        name: the name of the graph.

    Raises:
        BuilderError: onnx or the target does not support an opset.
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

    # aliases of the attributes with known types and shapes, for users who print them
    _known_types = Graph.known_types
    _known_shapes = Graph.known_shapes
    _known_ranks = Graph.known_ranks

    def get_opset(self, domain: str = "") -> int:
        """Return the opset version of a domain; raise BuilderError if the graph does not use it."""
        domain = "" if domain == "ai.onnx" else domain
        if domain not in self.opsets:
            raise BuilderError(
                f"Domain {domain!r} has no opset in this graph, known: {self.opsets} ({self.tag})"
            )
        return self.opsets[domain]

    def get_attribute(
        self, node: Node | NodeProto, name: str, default: Any = None, exc: bool = True
    ) -> Any:
        """Return the value of an attribute of a Node, or the AttributeProto of a NodeProto.

        Args:
            node: the node.
            name: the name of the attribute.
            default: returned if the node has no such attribute and ``exc`` is False.
            exc: raise if the node has no such attribute.

        Raises:
            BuilderError: the node has no such attribute and ``exc`` is True.
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
        """Add all nodes of another graph; return the name of its output, or a tuple of names.

        Args:
            other: the graph to copy from; it is not changed.
            input_names: results of this graph, in the order of the inputs of ``other``.
            output_names: the names that the outputs of ``other`` get in this graph.
            prefix: prefix of the names of all copied intermediate results.

        Raises:
            BuilderError: the opsets differ, the number of names is wrong, or a name is unknown or
                taken.
        """
        return inline_graph.copy_graph_into(self, other, input_names, output_names, prefix)

    # -- conversion of torch subgraphs; delegates to the conversion context, `ctx`

    @property
    def record(self) -> ConversionRecord | None:
        """Conversion record of to_onnx with ``return_builder=True``; None for other graphs."""
        return self.ctx.record

    def convert_subgraph(
        self, graph_module: GraphModule, operands: Sequence[Any], *, name: str = "subgraph"
    ) -> Graph:
        """Convert a torch graph nested in the converted one into a child graph for If or Loop.

        Args:
            graph_module: the nested torch graph.
            operands: its arguments: results, numbers and dimensions.
            name: the name of the child graph.
        """
        return self.ctx.convert_subgraph(graph_module, operands, name=name)

    def convert_into(
        self,
        graph: Graph,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: dims.Names | None = None,
    ) -> list[Any]:
        """Convert a torch graph nested in the converted one into ``graph`` and return its results.

        Args:
            graph: the graph that receives the nodes.
            graph_module: the nested torch graph.
            operands: its arguments: results, numbers and dimensions.
            rename: maps symbols of the nested graph to their names in ``graph``.
        """
        return self.ctx.convert_into(graph, graph_module, operands, rename)

    # -- passes

    def remove_unused(self) -> int:
        """Remove nodes and initializers that no output depends on; return the number removed."""
        return unused_nodes.remove_unused(self)

    def remove_identity_nodes(self) -> int:
        """Remove Identity nodes but keep input and output names; return the number removed."""
        return identities.remove_identity_nodes(self)

    def constant_folding(self, max_bytes: int = MAX_FOLDED_BYTES, weights: bool = False) -> int:
        """Replace nodes whose inputs are all constant by their results; return the number replaced.

        Args:
            max_bytes: nodes with larger results are not folded.
            weights: also fold results of any size that rewrite rules compute from weights.
        """
        return folding.constant_folding(self, max_bytes, weights)

    def merge_equal_nodes(self) -> int:
        """Merge nodes that compute the same result; return the number removed."""
        return common_subexpressions.merge_equal_nodes(self)

    def optimize(
        self, folding: bool = False, quantized: bool = True, weight_transposes: bool = False
    ) -> dict[str, int]:
        """Run all passes except the rewrite rules (docs/rewrites.md).

        The passes remove Identity nodes and unused nodes, move quantization nodes, and merge equal
        nodes; on request they also fold constants and transpose weights. Initializers with equal
        values stay separate, because callers may refer to the initializers by name.

        Args:
            folding: evaluate nodes that depend on constants only.
            quantized: move QuantizeLinear and DequantizeLinear to where runtimes fuse them.
            weight_transposes: if all uses of a weight transpose it, store it transposed.

        Returns:
            For each pass, the number of nodes or initializers that it removed or made.
        """
        options = PassOptions(
            quantized=quantized,
            folding=folding,
            transform_weights=weight_transposes,
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
        """Return the graph as a model.

        Args:
            large_model: return a LargeModel, which keeps large tensors outside the proto.
            external_threshold: with ``large_model``, tensors of at least this many bytes are kept
                outside the proto.
            metadata: ``metadata_props`` of the model.
            optimize: run `optimize` first.
            inline: replace calls of local functions by their bodies.
            value_info: write the known types and shapes of intermediate results.

        Returns:
            A ModelProto, or a LargeModel.

        Raises:
            BuilderError: the model needs 2 GiB or more; pass ``large_model=True`` to write it.
        """
        if optimize:
            self.optimize()
        return write_model.to_onnx(
            self, large_model, external_threshold, metadata, inline=inline, value_info=value_info
        )

    def to_function(
        self, name: str, domain: str, external_threshold: int | None = None
    ) -> FunctionProto:
        """Return the graph as a local function; initializers become Constant nodes.

        Args:
            name: the operator type of nodes that call the function.
            domain: the domain of nodes that call the function.
            external_threshold: tensors of at least this many bytes are references in
                ``function_tensors``; a builder that adds the function needs those tensors too.
        """
        return write_model.to_function(self, name, domain, external_threshold)
