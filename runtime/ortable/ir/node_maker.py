"""Add a node: resolve names, check the schema, infer types and shapes, insert kernel casts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import BuilderError, KernelError
from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER
from ortable_generated.onnx.traits import ELEMENTWISE

from . import casts, constants, initializers, schemas, versions
from .context import LoweringContext
from .debug_message import debug_message, typed_names
from .interface import GraphInterface
from .node import Node, fx_node_name
from .proto.node_proto import node_proto
from .schemas import Schema, find_schema
from .state import GraphState

_UNSEEN: Any = object()


class NodeMaker(GraphInterface):
    """Base class of `Graph` that adds nodes."""

    opsets: dict[str, int]
    ctx: LoweringContext[Any]
    kernel_table: casts.KernelTable

    def __init__(self, parent: NodeMaker | None, tag: str) -> None:
        super().__init__(parent, tag)
        # a subgraph inherits the origin of the node that holds it
        self.origin: Any = None if parent is None else parent.origin
        self.functions: dict[tuple[str, str], Any] = {} if parent is None else parent.functions
        # large constants of local functions, by the external-data location in their protos
        self.function_tensors: dict[str, Any] = {} if parent is None else parent.function_tensors
        self._schemas: dict[tuple[Any, ...], Schema | None] = {}
        self._moves: dict[tuple[Any, ...], casts.Moves] = {}
        if parent is not None:
            self._schemas, self._moves = parent._schemas, parent._moves

    def domain_version(self, domain: str) -> int:
        """Return the version of a domain; an unused domain gets its default version."""
        version = self.opsets.get(domain)
        if version is None:
            version = self.opsets[domain] = versions.DEFAULTS.get(domain, 1)
        return version

    def get_debug_msg(self) -> str:
        """Return the graph so far as text for an error message, or "" if errors are to be brief."""
        return "" if self.brief_errors else debug_message(self)

    # -- nodes

    @overload
    def make_node(
        self,
        op_type: str,
        inputs: str | Sequence[str | None],
        outputs: str | None = None,
        domain: str = "",
        name: str | None = None,
        **attrs: Any,
    ) -> str: ...
    @overload
    def make_node(  # returns a name for one output, else a tuple of names
        self,
        op_type: str,
        inputs: str | Sequence[str | None],
        outputs: int | Sequence[str],
        domain: str = "",
        name: str | None = None,
        **attrs: Any,
    ) -> Any: ...
    def make_node(
        self,
        op_type: str,
        inputs: str | Sequence[str | None],
        outputs: int | str | Sequence[str] | None = None,
        domain: str = "",
        name: str | None = None,
        **attrs: Any,
    ) -> Any:
        """Add a node and return the name of its output, or a tuple of names.

        Types and shapes of the outputs are inferred. If the runtime has no kernel for the types of
        the inputs, they are cast to wider types without loss.

        Args:
            op_type: the operator, for example ``"MatMul"``.
            inputs: result names, ``""`` or None for an omitted input.
            outputs: names of the outputs (``""`` for an unused one) or their number; None for one.
                Automatic names are ``<FX node>.<operator>`` while an FX node is converted, else
                ``_onx_<operator>0``.
            domain: domain of the operator; ``""`` is ONNX's main domain.
            name: name of the node, made unique; defaults to the operator.
            attrs: attributes; None stands for an absent attribute, a child graph (made by
                `subgraph`) for a subgraph.

        Raises:
            BuilderError: an input is unknown, an output name is taken, or the node contradicts the
                operator's schema.
            KernelError: the target is ONNX Runtime, which has no kernel for the node.
        """
        names = [inputs] if isinstance(inputs, str) else [input_name or "" for input_name in inputs]
        domain = "" if domain == "ai.onnx" else domain
        while names and not names[-1]:
            names.pop()
        results = self._output_names(op_type, outputs, attrs)
        infos: list[ValueInfo | None] = []
        types: list[int | None] = []
        for input_name in names:
            info = self.values.get(input_name) if input_name else None
            if info is None and input_name:
                raise self._missing_input(input_name, op_type, names, results, name)
            infos.append(info)
            types.append(0 if info is None else info.dtype)
        attrs = {key: value for key, value in attrs.items() if value is not None}
        version = self.domain_version(domain)
        node = Node(op_type, names, results, domain, name or op_type, attrs, self.origin)
        schema = self._check_schema(node, version, types)
        if schema is not None and "" in results:
            self._name_required_outputs(node, schema)
        facts = self._infer_outputs(node, infos, version, schema, types)
        moves = self._choose_casts(node, version, types, facts, schema)
        node.name = self.node_names.make_unique(node.name)
        if moves:
            self._add_cast_node(node, moves, facts, version, schema)
        else:
            self.add_node(node, facts)
        return results[0] if len(results) == 1 else tuple(results)

    def _output_names(
        self, op_type: str, outputs: int | str | Sequence[str] | None, attrs: Mapping[str, Any]
    ) -> list[str]:
        if outputs is None:
            return [self._automatic_name(op_type, None)]
        if isinstance(outputs, int):
            # control flow nodes may have no outputs; passes remove such nodes
            has_graph = any(isinstance(value, GraphState) for value in attrs.values())
            if outputs < (0 if has_graph else 1):
                raise BuilderError(
                    f"Operator {op_type!r} cannot have {outputs} outputs ({self.tag})"
                )
            if outputs == 1:
                return [self._automatic_name(op_type, None)]
            return [self._automatic_name(op_type, index) for index in range(outputs)]
        names = [outputs] if isinstance(outputs, str) else [output or "" for output in outputs]
        for index, output in enumerate(names):
            if output and (output in self.values or output in names[:index]):
                raise BuilderError(
                    f"Output {output!r} of operator {op_type!r} is already the name of a result"
                    f" ({self.tag}){self.get_debug_msg()}"
                )
        return names

    def _automatic_name(self, op_type: str, index: int | None) -> str:
        """Make a unique name from the FX node being converted and the operator."""
        prefix = None if self.origin is None else fx_node_name(self.origin)
        if prefix is None:
            return self.result_names.make_unique(f"_onx_{op_type.lower()}{index or 0}")
        if index is None:
            return self.result_names.make_unique(f"{prefix}.{op_type.lower()}")
        return self.result_names.make_unique(f"{prefix}.{op_type.lower()}_{index}")

    def _name_required_outputs(self, node: Node, schema: Schema) -> None:
        """Give names to unused outputs that the schema does not mark as optional.

        ONNX Runtime crashes on a Split with an unnamed output.
        """
        for index, name in enumerate(node.outputs):
            if not name and not schema.formal_output(index).optional:
                node.outputs[index] = self._automatic_name(node.op_type, index)

    def _missing_input(
        self, missing: str, op_type: str, inputs: list[str], outputs: list[str], name: str | None
    ) -> BuilderError:
        return BuilderError(
            f"Input {missing!r} does not exist for operator {op_type!r}, inputs={inputs}, "
            f"outputs={outputs}, name={name or ''!r} ({self.tag}){self.get_debug_msg()}"
        )

    def _dtype_error(self, node: Node, violation: str) -> BuilderError:
        """Make an error; ``without_dtype`` is set if ONNX does not allow a dtype of the inputs."""
        error = self._node_error(node, violation)
        error.without_dtype = schemas.ALLOWED_TYPES_TEXT in violation
        return error

    def _node_error(
        self, node: Node, reason: str, error_type: type[BuilderError] = BuilderError
    ) -> BuilderError:
        attrs = {
            key: "graph" if isinstance(value, GraphState) else value
            for key, value in node.attrs.items()
        }
        return error_type(
            f"Operator {node.op_type!r} (domain {node.domain!r}, "
            f"opset {self.domain_version(node.domain)})"
            f" cannot be added: {reason}.\n"
            f"inputs: {typed_names(self, node.inputs)}\n"
            f"outputs={node.outputs}, attributes={attrs}, name={node.name!r} ({self.tag})"
            f"{self.get_debug_msg()}"
        )

    def _describe_error(self, node: Node, error: Exception) -> str:
        """Format an error of an inference rule.

        An attribute of a wrong type may cause a Python error that does not name it. The attributes
        are therefore written to a NodeProto, whose error names the attribute.
        """
        if not isinstance(error, BuilderError):
            try:
                node_proto(self, node)
            except BuilderError as attribute_error:
                return str(attribute_error)
        return f"{error}".rstrip(".") or type(error).__name__

    def _check_schema(self, node: Node, version: int, types: list[int | None]) -> Schema | None:
        """Check a node against its schema and return the schema, or None if there is none.

        Nodes of the same operator and types are checked for arity and types only once.
        """
        key = (node.op_type, node.domain, version, len(node.outputs), *types)
        schema = self._schemas.get(key, _UNSEEN)
        if schema is _UNSEEN:
            violation: str | None = None
            schema = None
            try:
                if (node.domain, node.op_type) not in self.functions:
                    schema = find_schema(node.op_type, node.domain, version)
            except BuilderError as error:
                raise self._node_error(node, str(error).rstrip(".")) from None
            if schema is not None:
                violation = schemas.check_arity(schema, len(node.inputs), len(node.outputs))
                if not violation:
                    # a half float that this opset does not allow may be cast
                    castable = casts.HALF_DTYPES if self.kernel_table else ()
                    violation = schemas.check_types(schema, node.inputs, types, castable)
            if violation:
                raise self._dtype_error(node, violation)
            self._schemas[key] = schema
        if schema is not None and (node.attrs or schema.required):
            violation = schemas.check_attributes(schema, node.attrs)
            if violation:
                raise self._node_error(node, violation)
        return schema

    def _infer_outputs(
        self,
        node: Node,
        infos: list[ValueInfo | None],
        version: int,
        schema: Schema | None,
        types: list[int | None],
    ) -> list[tuple[Any, ...]]:
        count = len(node.outputs)
        rule = INFER.get(node.key)
        if rule is None or (node.domain, node.op_type) in self.functions:
            facts: list[tuple[Any, ...]] = [(None, None, None)] * count
        else:
            try:
                given = attributes_to_inputs(node, infos, version)
                facts = list(rule(given, node.attrs, count, version))
            except Exception as error:  # rules read arbitrary attributes, and may raise any error
                raise self._node_error(node, self._describe_error(node, error)) from error
        if schema is not None:
            for index, (dtype, shape, value) in enumerate(facts):
                if not dtype:
                    facts[index] = (schemas.output_type(schema, index, types), shape, value)
        return facts

    def _choose_casts(
        self,
        node: Node,
        version: int,
        types: list[int | None],
        facts: list[tuple[Any, ...]],
        schema: Schema | None,
    ) -> casts.Moves:
        if not self.kernel_table or not types:
            return casts.NO_MOVES
        key = (node.key, version, tuple(types), *(fact[0] for fact in facts))
        moves = self._moves.get(key)
        if moves is None:
            moves = casts.choose_casts(
                self.kernel_table, node.key, version, types, [fact[0] for fact in facts]
            )
            violation = (
                schemas.check_types(schema, node.inputs, types) if schema and not moves else None
            )
            if violation:
                raise self._dtype_error(node, violation)
            if moves is None:
                if self.ctx.target == "onnxruntime":
                    type_names = ", ".join(dtypes.name(dtype) for dtype in types if dtype)
                    reason = (
                        f"ONNX Runtime has no kernel for {node.key} with {type_names}, nor for "
                        "wider types to which the inputs can be cast without loss"
                    )
                    raise self._node_error(node, reason, KernelError)
                moves = casts.NO_MOVES
            self._moves[key] = moves
        return moves

    def _add_cast_node(
        self,
        node: Node,
        moves: casts.Moves,
        facts: list[tuple[Any, ...]],
        version: int,
        schema: Schema | None,
    ) -> None:
        """Add a node with casts of its inputs, and cast its outputs to the types in ``facts``."""
        inputs = list(node.inputs)
        for index, dtype in moves.items():
            inputs[index] = self._cast_input(inputs[index], dtype)
        infos = [self.values[input_name] if input_name else None for input_name in inputs]
        types = [0 if info is None else info.dtype for info in infos]
        new_node = Node(
            node.op_type,
            inputs,
            list(node.outputs),
            node.domain,
            node.name,
            node.attrs,
            node.origin,
        )
        computed = self._infer_outputs(new_node, infos, version, schema, types)
        output_casts: list[tuple[str, str, int]] = []
        for index, (name, computed_fact, expected_fact) in enumerate(
            zip(node.outputs, computed, facts, strict=True)
        ):
            if (
                name
                and computed_fact[0]
                and expected_fact[0]
                and computed_fact[0] != expected_fact[0]
            ):
                new_node.outputs[index] = self.result_names.make_unique(
                    f"{name}_{dtypes.name(computed_fact[0])}"
                )
                output_casts.append((new_node.outputs[index], name, expected_fact[0]))
        self.add_node(new_node, computed)
        for source, name, dtype in output_casts:
            self.make_node("Cast", [source], [name], name=node.name, to=dtype)

    def _cast_input(self, name: str, dtype: int) -> str:
        value = self.values[name].constant
        if isinstance(value, np.ndarray):
            return self.make_initializer("", dtypes.as_array(value, dtype))
        for node in self.nodes[-8:]:  # reuse a recent cast of the same result
            if node.op_type == "Cast" and node.inputs == [name] and node.attrs["to"] == dtype:
                return node.outputs[0]
        return str(self.make_node("Cast", [name], to=dtype))

    def add_node(self, node: Node, known: Sequence[tuple[Any, ...]]) -> None:
        """Append a node and register its outputs.

        Args:
            node: a node whose outputs are new results.
            known: type, shape and value of each output; None for an unknown fact.
        """
        self.nodes.append(node)
        if self.parent is not None:
            self.parent.outdate_uses()  # the node that holds this subgraph may read more results
        constant = constants.is_constant_node(self, node)
        for name, (dtype, shape, value) in zip(node.outputs, known, strict=True):
            if not name:
                continue
            rank = self._broadcast_rank(node) if shape is None else None
            info = ValueInfo(name, dtype or None, shape, rank, value, None, node)
            self.values[name] = info
            self.result_names.taken.add(name)
            if shape is not None:
                self._note_shape(info, shape)
            if constant:
                self.constant_names.add(name)
                info.constant = constants.LazyConstant(self, name)
        self.history.append(("make_node", node))

    def _broadcast_rank(self, node: Node) -> int | None:
        """Return the rank of an elementwise result whose shape could not be inferred.

        It is the largest rank of the inputs. Returns None if the node is not elementwise or the
        rank of an input is unknown.
        """
        if node.op_type not in ELEMENTWISE or node.domain:
            return None
        inputs = [name for name in node.inputs if name]
        if not all(self.has_rank(name) for name in inputs):
            return None
        return max((self.get_rank(name) for name in inputs), default=None)

    def _note_shape(self, info: ValueInfo, shape: dims.Shape) -> None:
        """Record a new result as source of the dimensions in its shape or value."""
        for dim in shape:
            if type(dim) is not int:
                self.materializer.add_shape(info.name, shape)
                break
        value = info.value
        if (
            type(value) is tuple
            and len(value) == 1
            and type(value[0]) is not int
            and info.dtype == dtypes.int64
        ):
            self.materializer.record_vector(value[0], info.name)

    def _shape_known(self, name: str, shape: dims.Shape) -> None:
        self.materializer.add_shape(name, shape)

    def set_value_shape(self, name: str, value: Any) -> None:
        """Set the value of an int64 result to a dim (rank 0) or a tuple of dims (rank 1).

        The result becomes the source of the dimension if its value is a single symbolic dimension.
        """
        super().set_value_shape(name, value)
        info = self.values[name]
        content = info.value
        if isinstance(content, tuple) and len(content) == 1:
            content = content[0]
        if isinstance(content, SymDim) and info.dtype == dtypes.int64:
            self.materializer.add_source(content, name, None)


def attributes_to_inputs(
    node: Node, infos: list[ValueInfo | None], version: int
) -> list[ValueInfo | None]:
    """Convert the inputs to those of `OLDEST_TARGET_OPSET`, for which inference is written.

    Some attributes of opsets before it are inputs there: ``Squeeze(x, axes=[0])`` has the inputs x
    and [0].
    """
    if version >= versions.OLDEST_TARGET_OPSET or node.domain or not node.attrs:
        return infos
    try:
        schema = find_schema(node.op_type, "", versions.OLDEST_TARGET_OPSET)
    except BuilderError:
        return infos
    new_infos = list(infos)
    for index, formal in enumerate(schema.inputs if schema is not None else ()):
        value = node.attrs.get(formal.name, node.attrs.get(formal.name.lower()))
        if index < len(infos) or value is None or not isinstance(value, int | float | list):
            continue
        new_infos.extend([None] * (index + 1 - len(new_infos)))
        array = np.asarray(value, dtype=np.float32 if isinstance(value, float) else np.int64)
        info = ValueInfo(formal.name, dtypes.from_numpy(array.dtype), array.shape)
        info.constant, info.value = array, initializers.integer_value(array)
        new_infos[index] = info
    return new_infos
