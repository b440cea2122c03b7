"""GraphBuilder: makes the nodes, inputs, outputs and initializers of an ONNX graph one by one, and knows
the type and shape of every result as soon as it is made."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto

from ortable_generated.kernels import KERNELS_CPU
from ortable_generated.onnx.dispatch import INFER

from .. import dims, dtypes
from ..dims import Dim, SymDim
from ..errors import BuilderError, KernelError
from ..rules import ValueInfo
from . import casts, checks, constants, initializers, passes, reader, serialize, transplant, versions
from .debug_message import typed_names
from .dim_results import DimResults
from .node import Node
from .ops import Ops
from .schemas import Schema, find_schema
from .state import GraphState, describe_shape

_counter = itertools.count()
_UNSEEN: Any = object()
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class GraphBuilder(GraphState):
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
        self.origin: Any = None
        self.origin_metadata = origin_metadata
        self.convert_subgraph: Any = None if parent is None else parent.convert_subgraph
        self.op = Ops(self)
        self._small: dict[Any, str] = {}
        self._tied: dict[Any, str] = {}
        self._schemas: dict[tuple[Any, ...], Schema | None] = {}
        self._moves: dict[tuple[Any, ...], casts.Moves] = {}
        self.dim_results = DimResults(self, None if parent is None else parent.dim_results)
        self.functions: dict[tuple[str, str], FunctionProto] = {}
        if parent is not None:
            self.functions, self.opsets = parent.functions, parent.opsets
            self._schemas, self._moves = parent._schemas, parent._moves
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

    def _domain_version(self, domain: str) -> int:
        version = self.opsets.get(domain)
        if version is None:
            version = self.opsets[domain] = versions.default_version(domain)
        return version

    # -- inputs and outputs

    def make_tensor_input(
        self,
        name: str,
        elem_type: int | None,
        shape: Sequence[Any] | None,
        is_dimension: bool = False,
        indexed: bool = False,
    ) -> str:
        """Adds a graph input and returns its name.

        ``shape``: ints, names of dimensions, torch.SymInts, None for an unknown size; None for an unknown
        rank. ``is_dimension``: an integer (int64, one element) whose value is a dimension, called as the
        input, or given as the shape ``(dim,)``. ``indexed``: the name must end in ``_<number>``."""
        _check_indexed(name, indexed)
        self._check_new(name, "input")
        info = self._new_value(name)
        self.inputs.append(info)
        info.dtype = elem_type or None
        if is_dimension:
            self._set_dimension(info, shape)
        elif shape is not None:
            info.shape = self.to_shape(shape, name)
            info.rank = len(info.shape)
            self._declared[name] = tuple(shape)
            self.dim_results.add_shape(name, info.shape, is_input=True)
        self._history.append(("make_tensor_input", name))
        return name

    def _set_dimension(self, info: ValueInfo, shape: Sequence[Any] | None) -> None:
        if info.dtype not in (dtypes.int64, dtypes.int32):
            raise BuilderError(
                f"Input {info.name!r} is a dimension, its type must be int64, not "
                f"{dtypes.name(info.dtype or 0)} ({self.tag})"
            )
        given = (1,) if shape is None else tuple(shape)
        if len(given) > 1:
            raise BuilderError(
                f"Input {info.name!r} is a dimension, its shape must be (1,) or (), not {given}"
            )
        dim: Dim = dims.symbol(info.name)
        if given and given[0] != 1:
            dim, given = self.to_dim(given[0]), (1,)
        info.shape = given
        info.rank = len(given)
        info.value = (dim,) if given else dim
        if isinstance(dim, SymDim) and info.dtype == dtypes.int64:
            self.dim_results.add_source(dim, info.name, None)

    def make_tensor_output(
        self,
        name: str | Sequence[str],
        elem_type: int | None = None,
        shape: Sequence[Any] | None = None,
        indexed: bool = False,
        is_dimension: bool = False,
    ) -> Any:
        """Declares results as graph outputs, and returns the name or names.

        ``elem_type`` and ``shape`` default to what is known; a declared shape is written as it is, with a
        warning when it is not the known one. ``is_dimension``: an int64 of one element.
        Raises BuilderError for an unknown result, another type than the known one, or no type at all."""
        if not isinstance(name, str):
            return [self.make_tensor_output(n, elem_type, shape, indexed, is_dimension) for n in name]
        _check_indexed(name, indexed)
        info = self._info(name)
        if any(known is info for known in self.outputs):
            raise BuilderError(
                f"{name!r} is an output already; give the second one a name of its own with "
                f"make_node('Identity', [{name!r}], [...]) ({self.tag}){self.get_debug_msg()}"
            )
        if elem_type:
            self.set_type(name, elem_type)
        elif not info.dtype and self.parent is None:
            raise BuilderError(
                f"Type is unknown for output {name!r}; give elem_type ({self.tag}){self.get_debug_msg()}"
            )
        if is_dimension and info.dtype != dtypes.int64:
            raise BuilderError(f"Output {name!r} is a dimension, its type must be int64 ({self.tag})")
        if shape is not None:
            self._declare_output(info, tuple(shape))
        self.outputs.append(info)
        self._history.append(("make_tensor_output", name))
        return name

    def _declare_output(self, info: ValueInfo, shape: tuple[Any, ...]) -> None:
        self._declared[info.name] = shape
        given = self.to_shape(shape, info.name)
        if info.shape is None and info.rank in (None, len(given)):
            info.shape, info.rank = given, len(given)
            return
        known = info.shape
        if known is None or len(known) != len(given) or any(map(dims.differs, known, given)):
            text = f"rank {info.rank}" if known is None else describe_shape(known)
            warnings.warn(
                f"Output {info.name!r} is declared with shape {describe_shape(given)}, "
                f"but the graph computes {text}; the declared shape is kept.",
                stacklevel=3,
            )

    def _check_new(self, name: str, what: str) -> None:
        if not name:
            raise BuilderError(f"An {what} needs a name ({self.tag})")
        if name in self.values:
            raise BuilderError(
                f"The {what} {name!r} cannot be made, the graph has a result of this name"
                f" ({self.tag}){self.get_debug_msg()}"
            )

    def _new_value(self, name: str) -> ValueInfo:
        info = ValueInfo(name)
        self.values[name] = info
        self._names.taken.add(name)
        return info

    # -- initializers

    def make_initializer(self, name: str, value: Any) -> str:
        """Adds a constant and returns its name.

        ``value``: numpy array, number, list, TensorProto, or torch tensor (kept by reference, read when the
        model is written). With ``name=""`` the name is made of type and shape, and small equal
        constants are one. Two torch tensors that are the same memory are one, whatever their names:
        use the returned name."""
        value = initializers.as_value(value)
        torch_value = initializers.is_torch(value)
        tied = initializers.storage_key(value) if torch_value else None
        if tied is not None and tied in self._tied:
            return self._tied[tied]
        shape, dtype = initializers.shape_of(value), initializers.dtype_of(value)
        array = None
        if initializers.size_of(value) <= initializers.SMALL and initializers.is_readable(value):
            integers = dtype in (dtypes.int64, dtypes.int32)
            if not torch_value or not name or integers:
                array = initializers.to_numpy(value, name)
        if not name:
            key = None if array is None else initializers.content_key(array)
            found = self._find_small(key)
            if found is not None:
                return found
            name = self.unique_name(initializers.default_name(dtype, shape, array))
            if key is not None:
                self._small[key] = name
        else:
            self._check_new(name, "initializer")
        if tied is not None:
            self._tied[tied] = name
        info = self._new_value(name)
        info.dtype, info.shape, info.rank = dtype, shape, len(shape)
        if array is not None:
            info.value = initializers.known_value(array)
        info.constant = constants.LazyConstant(self, name) if array is None else array
        self.initializers_dict[name] = value
        self._constants.add(name)
        self._history.append(("make_initializer", name))
        return name

    def _find_small(self, key: Any) -> str | None:
        graph: Any = self
        while graph is not None and key is not None:
            found = graph._small.get(key)
            if found is not None:
                return str(found)
            graph = graph.parent
        return None

    # -- nodes

    def make_node(
        self,
        op_type: str,
        inputs: str | Sequence[str | None],
        outputs: int | str | Sequence[str] | None = None,
        domain: str = "",
        name: str | None = None,
        **attrs: Any,
    ) -> Any:
        """Adds a node; returns the name of its output, or a tuple of names when there are several.

        ``inputs``: result names, ``""`` or None for an omitted one. ``outputs``: None for one result with
        an automatic name, a number of them, or names (``""``: not wanted). Attributes that are None
        are left out; a child builder (`subgraph`) is a graph attribute. Types and shapes of the outputs are
        inferred. Inputs are cast, exactly, to a type that the runtime has a kernel for.
        Raises BuilderError for unknown inputs, taken output names, and whatever does not fit the ONNX
        operator's schema; KernelError when the target is ONNX Runtime and it has no kernel."""
        names = [inputs] if isinstance(inputs, str) else [n or "" for n in inputs]
        domain = "" if domain == "ai.onnx" else domain
        while names and not names[-1]:
            names.pop()
        results = self._output_names(op_type, outputs)
        infos: list[ValueInfo | None] = []
        types: list[int | None] = []
        for n in names:
            info = self.values.get(n) if n else None
            if info is None and n:
                raise self._missing_input(n, op_type, names, results, name)
            infos.append(info)
            types.append(0 if info is None else info.dtype)
        attrs = {key: value for key, value in attrs.items() if value is not None}
        version = self._domain_version(domain)
        node = Node(op_type, names, results, domain, name or op_type, attrs, self.origin)
        schema = self._check(node, version, types)
        known = self._infer(node, infos, version, schema, types)
        moves = self._choose_casts(node, version, types, known)
        node.name = self._node_names.unique(node.name)
        if moves:
            self._add_cast_node(node, moves, known, version, schema)
        else:
            self._add(node, known)
        return results[0] if len(results) == 1 else tuple(results)

    def _output_names(self, op_type: str, outputs: int | str | Sequence[str] | None) -> list[str]:
        if outputs is None:
            outputs = 1
        if isinstance(outputs, int):
            lower = op_type.lower()
            return [self._names.unique(f"_onx_{lower}{i}") for i in range(outputs)]
        names = [outputs] if isinstance(outputs, str) else [n or "" for n in outputs]
        for index, n in enumerate(names):
            if n and (n in self.values or n in names[:index]):
                raise BuilderError(
                    f"Output {n!r} of operator {op_type!r} is the name of another result"
                    f" ({self.tag}){self.get_debug_msg()}"
                )
        return names

    def _missing_input(
        self, missing: str, op_type: str, inputs: list[str], outputs: list[str], name: str | None
    ) -> BuilderError:
        return BuilderError(
            f"Input {missing!r} does not exist for operator {op_type!r}, inputs={inputs}, "
            f"outputs={outputs}, name={name or ''!r} ({self.tag}){self.get_debug_msg()}"
        )

    def _node_error(self, node: Node, why: str, kind: type[BuilderError] = BuilderError) -> BuilderError:
        attrs = {k: "graph" if isinstance(v, GraphState) else v for k, v in node.attrs.items()}
        return kind(
            f"Operator {node.op_type!r} (domain {node.domain!r}, opset {self._domain_version(node.domain)})"
            f" cannot be added: {why}.\n"
            f"inputs: {typed_names(self, node.inputs)}\n"
            f"outputs={node.outputs}, attributes={attrs}, name={node.name!r} ({self.tag})"
            f"{self.get_debug_msg()}"
        )

    def _check(self, node: Node, version: int, types: list[int | None]) -> Schema | None:
        """Schema of the node, after checking against it; the check of types is done once per signature."""
        key = (node.op_type, node.domain, version, len(node.outputs), *types)
        schema = self._schemas.get(key, _UNSEEN)
        if schema is _UNSEEN:
            wrong: str | None = None
            schema = None
            try:
                if (node.domain, node.op_type) not in self.functions:
                    schema = find_schema(node.op_type, node.domain, version)
            except BuilderError as error:
                raise self._node_error(node, str(error).rstrip(".")) from None
            if schema is not None:
                wrong = checks.check_arity(schema, len(node.inputs), len(node.outputs))
                wrong = wrong or checks.check_types(schema, node.inputs, types)
            if wrong:
                raise self._node_error(node, wrong)
            self._schemas[key] = schema
        if schema is not None and (node.attrs or schema.required):
            wrong = checks.check_attributes(schema, node.attrs)
            if wrong:
                raise self._node_error(node, wrong)
        return schema

    def _infer(
        self,
        node: Node,
        infos: list[ValueInfo | None],
        version: int,
        schema: Schema | None,
        types: list[int | None],
    ) -> list[tuple[int | None, Any, Any]]:
        count = len(node.outputs)
        rule = INFER.get(node.key)
        if rule is None or (node.domain, node.op_type) in self.functions:
            known = [(None, None, None)] * count
        else:
            try:
                known = list(rule(infos, node.attrs, count, version))
            except Exception as error:  # a rule is data: whatever it raises is about this node
                raise self._node_error(node, f"{error}".rstrip(".") or type(error).__name__) from error
        if schema is not None:
            for index, (dtype, shape, value) in enumerate(known):
                if not dtype:
                    known[index] = (checks.output_type(schema, index, types), shape, value)
        return known

    def _choose_casts(
        self, node: Node, version: int, types: list[int | None], known: list[tuple[Any, ...]]
    ) -> casts.Moves:
        if not self.kernel_table or not types:
            return casts.NO_MOVES
        key = (node.key, version, tuple(types), *(k[0] for k in known))
        moves = self._moves.get(key)
        if moves is None:
            moves = casts.choose_casts(
                self.kernel_table, node.key, version, types, [k[0] for k in known]
            )
            if moves is None:
                if self.target == "onnxruntime":
                    listed = ", ".join(dtypes.name(t) for t in types if t)
                    why = (
                        f"ONNX Runtime has no kernel for {node.key} with {listed}, and no cast to a wider "
                        "type that keeps every value reaches one"
                    )
                    raise self._node_error(node, why, KernelError)
                moves = casts.NO_MOVES
            self._moves[key] = moves
        return moves

    def _add_cast_node(
        self,
        node: Node,
        moves: casts.Moves,
        known: list[tuple[Any, ...]],
        version: int,
        schema: Schema | None,
    ) -> None:
        """Adds the node between casts; results get the types that were inferred without them."""
        inputs = list(node.inputs)
        for index, dtype in moves.items():
            inputs[index] = self._cast_input(inputs[index], dtype)
        infos = [self.values[n] if n else None for n in inputs]
        types = [0 if info is None else info.dtype for info in infos]
        inner = Node(
            node.op_type, inputs, list(node.outputs), node.domain, node.name, node.attrs, node.origin
        )
        computed = self._infer(inner, infos, version, schema, types)
        back: list[tuple[str, str, int]] = []
        for index, (name, now, wanted) in enumerate(zip(node.outputs, computed, known, strict=True)):
            if name and now[0] and wanted[0] and now[0] != wanted[0]:
                inner.outputs[index] = self._names.unique(f"{name}_{dtypes.name(now[0])}")
                back.append((inner.outputs[index], name, wanted[0]))
        self._add(inner, computed)
        for source, name, dtype in back:
            self.make_node("Cast", [source], [name], name=node.name, to=dtype)

    def _cast_input(self, name: str, dtype: int) -> str:
        value = self.values[name].constant
        if isinstance(value, np.ndarray):
            return self.make_initializer("", value.astype(dtypes.to_numpy(dtype)))
        for node in self.nodes[-8:]:  # the same result is often an input twice, or of the next node
            if node.op_type == "Cast" and node.inputs == [name] and node.attrs["to"] == dtype:
                return node.outputs[0]
        return str(self.make_node("Cast", [name], to=dtype))

    def _add(self, node: Node, known: Sequence[tuple[Any, ...]]) -> None:
        """Appends a node whose outputs are new, with what is known of them."""
        self.nodes.append(node)
        constant = constants.is_constant_node(self, node)
        for name, (dtype, shape, value) in zip(node.outputs, known, strict=True):
            if not name:
                continue
            info = ValueInfo(name, dtype or None, shape, None, value, None, node)
            self.values[name] = info
            self._names.taken.add(name)
            if shape is not None:
                self._note_shape(info)
            if constant:
                self._constants.add(name)
                info.constant = constants.LazyConstant(self, name)
        self._history.append(("make_node", node))

    def _note_shape(self, info: ValueInfo) -> None:
        for dim in info.shape:
            if type(dim) is not int:
                self.dim_results.add_shape(info.name, info.shape)
                break
        value = info.value
        if type(value) is tuple and len(value) == 1 and type(value[0]) is not int and info.dtype == dtypes.int64:
            self.dim_results.note(value[0], info.name)

    def _shape_known(self, name: str, shape: dims.Shape) -> None:
        self.dim_results.add_shape(name, shape)

    def set_value_shape(self, name: str, value: Any) -> None:
        """Sets the content of an int64 result: a dim (rank 0) or a tuple of dims (rank 1).

        A single dimension can be read from the result from now on."""
        super().set_value_shape(name, value)
        info = self.values[name]
        content = info.value
        if isinstance(content, tuple) and len(content) == 1:
            content = content[0]
        if isinstance(content, SymDim) and info.dtype == dtypes.int64:
            self.dim_results.add_source(content, name, None)

    def make_nodes(
        self,
        other: GraphBuilder,
        input_names: Sequence[str],
        output_names: Sequence[str],
        prefix: str = "",
    ) -> Any:
        """Adds all nodes of another graph: its inputs are bound to results of this one, its outputs get
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
        """Adds a local function; nodes call it by its name and domain, with a domain version of 1."""
        key = (function.domain, function.name)
        if key in self.functions:
            raise BuilderError(f"The model has a function {function.domain}.{function.name} already.")
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
        """Says that a dimension is axis ``axis`` of a result, or (None) the content of an int64 result."""
        self._info(result)
        self.dim_results.add_source(symbol, result, axis)

    def dim_as_vector(self, dim: Any) -> str:
        """Name of an int64[1] result that holds a dimension. BuilderError when nothing has its symbols."""
        return self.dim_results.vector(self.to_dim(dim))

    def shape_as_vector(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result that holds all the dimensions."""
        return self.dim_results.shape([self.to_dim(dim) for dim in shape])

    def make_shape_from_results(self, shape: Sequence[Any]) -> str:
        """Name of an int64[n] result made of ints, dimensions, torch.SymInts, and names of integer results."""
        return self.dim_results.from_results(tuple(shape))

    # -- passes

    def remove_unused(self) -> int:
        """Removes nodes and initializers that no output needs; returns how many."""
        return passes.remove_unused(self)

    def remove_identity_nodes(self) -> int:
        """Removes Identity nodes, keeping the names of inputs and outputs; returns how many."""
        return passes.remove_identity_nodes(self)

    def constant_folding(self, max_bytes: int = 1 << 20) -> int:
        """Replaces nodes on constants by their results, if these are at most ``max_bytes``; returns how many."""
        return passes.constant_folding(self, max_bytes)

    def optimize(self, folding: bool = False) -> dict[str, int]:
        """The basic passes: identities, constants (only if asked for), unused nodes; counts of removed nodes."""
        counts = {"remove_identity_nodes": self.remove_identity_nodes()}
        if folding:
            counts["constant_folding"] = self.constant_folding()
        counts["remove_unused"] = self.remove_unused()
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
                    f"{old!r} cannot be renamed {new!r}, the graph has a result of this name ({self.tag})"
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
        """The ModelProto; with ``large_model``, a LargeModel that leaves tensors of ``external_threshold``
        bytes or more out of it.

        ``optimize`` runs the basic passes first, ``inline`` replaces local functions by their bodies,
        ``value_info`` writes what is known of intermediate results, ``metadata`` goes to the model."""
        if optimize:
            self.optimize()
        return serialize.to_onnx(
            self, large_model, external_threshold, metadata, inline=inline, value_info=value_info
        )

    def to_function(self, name: str, domain: str) -> FunctionProto:
        """The graph as a local function; initializers become Constant nodes."""
        return serialize.to_function(self, name, domain)


def _tag(number: int) -> str:
    """Three letters that tell builders apart in messages."""
    letters = []
    for _ in range(3):
        number, rest = divmod(number, 26)
        letters.append(_LETTERS[rest])
    return "".join(reversed(letters))


def _check_indexed(name: str, indexed: bool) -> None:
    if indexed and not name.rpartition("_")[2].isdigit():
        raise BuilderError(f"{name!r} is declared as indexed, its name must end in '_<number>'.")
