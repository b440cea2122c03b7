"""Schemas of ONNX operators, read from `onnx.defs` and cached, and checks of nodes against them.

Each check returns the text of an error, or None. Operators of domains that onnx does not define
have no schema and are not checked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import AttributeProto, defs
from onnx.helper import get_attribute_value

from ortable import dtypes
from ortable.errors import BuilderError

UNBOUNDED = 2**31 - 1
TENSOR_TYPES = {
    "tensor(float)": 1,
    "tensor(uint8)": 2,
    "tensor(int8)": 3,
    "tensor(uint16)": 4,
    "tensor(int16)": 5,
    "tensor(int32)": 6,
    "tensor(int64)": 7,
    "tensor(string)": 8,
    "tensor(bool)": 9,
    "tensor(float16)": 10,
    "tensor(double)": 11,
    "tensor(uint32)": 12,
    "tensor(uint64)": 13,
    "tensor(complex64)": 14,
    "tensor(complex128)": 15,
    "tensor(bfloat16)": 16,
    "tensor(float8e4m3fn)": 17,
    "tensor(float8e4m3fnuz)": 18,
    "tensor(float8e5m2)": 19,
    "tensor(float8e5m2fnuz)": 20,
    "tensor(uint4)": 21,
    "tensor(int4)": 22,
    "tensor(float4e2m1)": 23,
    "tensor(float8e8m0)": 24,
    "tensor(uint2)": 25,
    "tensor(int2)": 26,
    "tensor(float6e2m3)": 27,
    "tensor(float6e3m2)": 28,
}


@dataclass(frozen=True, slots=True)
class Formal:
    """Formal input or output with a type parameter ``param``, or a fixed ``dtype``.

    Both are None for sequences, optionals and variadics whose elements differ in type.
    """

    name: str
    param: str | None
    dtype: int | None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """Signature of an operator at one opset.

    ``since`` is the opset that introduced it, ``legal`` maps type parameters to allowed dtypes,
    ``attributes`` maps names to AttributeTypes, and ``required`` lists required attributes.
    """

    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    min_inputs: int
    max_inputs: int
    max_outputs: int
    legal: dict[str, frozenset[int]]
    attributes: dict[str, int]
    required: tuple[str, ...]

    def formal_input(self, index: int) -> Formal:
        """Return the formal input of argument ``index``; the last one may be variadic."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def formal_output(self, index: int) -> Formal:
        """Return the formal output of result ``index``; the last one may be variadic."""
        return self.outputs[min(index, len(self.outputs) - 1)]


_cache: dict[tuple[str, str, int], Schema | None] = {}
_domains = frozenset({"", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"})


def find_schema(op_type: str, domain: str, opset: int) -> Schema | None:
    """Return the schema of an operator, or None if onnx does not define the domain.

    Raises:
        BuilderError: onnx defines the domain, but not the operator at this opset.
    """
    key = (op_type, domain, opset)
    if key in _cache:
        return _cache[key]
    schema: Schema | None = None
    if domain in _domains:
        try:
            schema = _read_schema(defs.get_schema(op_type, opset, domain))
        except defs.SchemaError:
            raise BuilderError(
                f"Operator {op_type!r} does not exist in domain {domain!r} at opset {opset}"
                f"{_describe_versions(op_type, domain)}."
            ) from None
    _cache[key] = schema
    return schema


def since_version(op_type: str, opset: int) -> int | None:
    """Return the opset that introduced the definition that is valid at ``opset``.

    The operator may be deprecated. None means that the main domain does not define it.
    """
    try:
        return int(defs.get_schema(op_type, opset, "").since_version)
    except defs.SchemaError:
        return None


@cache
def has_same_signature(op_type: str, opset: int, other_opset: int) -> bool:
    """Whether input names, attribute names and defaults agree at two opsets; types may differ."""
    try:
        schemas = [defs.get_schema(op_type, version, "") for version in (opset, other_opset)]
    except defs.SchemaError:
        return False
    first, second = (
        (
            [parameter.name for parameter in schema.inputs],
            {name: str(attribute.default_value) for name, attribute in schema.attributes.items()},
        )
        for schema in schemas
    )
    return first == second


@cache
def default_attributes(op_type: str, opset: int) -> dict[str, Any]:
    """Return the attributes of an operator that have a default, with these defaults."""
    defaults = {
        name: attribute.default_value
        for name, attribute in defs.get_schema(op_type, opset, "").attributes.items()
    }
    values = {
        name: get_attribute_value(proto)
        for name, proto in defaults.items()
        if proto.type != AttributeProto.UNDEFINED
    }
    return {n: v.decode() if isinstance(v, bytes) else v for n, v in values.items()}


def versions_of(op_type: str, domain: str = "") -> list[int]:
    """Return the opsets that changed the definition of an operator, in ascending order."""
    return sorted(
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if schema.name == op_type and schema.domain == domain
    )


def is_operator(op_type: str) -> bool:
    """Whether the main domain has an operator of this name."""
    return bool(defs.has(op_type))


def _describe_versions(op_type: str, domain: str) -> str:
    try:
        newest = defs.get_schema(op_type, domain)
    except defs.SchemaError:
        return ""
    if newest.deprecated:
        return f"; it is deprecated since opset {newest.since_version}"
    return f"; it starts with opset {versions_of(op_type, domain)[0]}"


def _read_schema(schema: defs.OpSchema) -> Schema:
    if schema.deprecated:
        raise BuilderError(
            f"Operator {schema.name!r} is deprecated since opset {schema.since_version}; "
            "use the operators that replace it."
        )
    legal = {
        constraint.type_param_str: frozenset(
            TENSOR_TYPES[type_text]
            for type_text in constraint.allowed_type_strs
            if type_text in TENSOR_TYPES
        )
        for constraint in schema.type_constraints
        if any(type_text in TENSOR_TYPES for type_text in constraint.allowed_type_strs)
    }
    inputs, outputs = list(schema.inputs), list(schema.outputs)
    return Schema(
        since=schema.since_version,
        inputs=tuple(_read_formal(parameter, legal) for parameter in inputs),
        outputs=tuple(_read_formal(parameter, legal) for parameter in outputs),
        min_inputs=schema.min_input,
        max_inputs=min(schema.max_input, UNBOUNDED),
        max_outputs=min(schema.max_output, UNBOUNDED),
        legal=legal,
        attributes={
            name: _attribute_type(attribute) for name, attribute in schema.attributes.items()
        },
        required=tuple(
            sorted(name for name, attribute in schema.attributes.items() if attribute.required)
        ),
    )


def _read_formal(
    parameter: defs.OpSchema.FormalParameter, legal: dict[str, frozenset[int]]
) -> Formal:
    text = parameter.type_str
    is_heterogeneous = (
        parameter.option == defs.OpSchema.FormalParameterOption.Variadic
        and not parameter.is_homogeneous
    )
    return Formal(
        parameter.name,
        text if text in legal and not is_heterogeneous else None,
        TENSOR_TYPES.get(text),
        parameter.option == defs.OpSchema.FormalParameterOption.Optional,
    )


def _attribute_type(attribute: Any) -> int:
    """Return the AttributeProto.AttributeType of an attribute as a number."""
    return int(attribute.type.value)


# marks errors about a dtype that the operator lacks; `NodeMaker` searches for the text
ALLOWED_TYPES_TEXT = "ONNX allows"


def check_arity(schema: Schema, n_inputs: int, n_outputs: int) -> str | None:
    """Check the numbers of inputs and outputs; callers do not count omitted inputs at the end."""
    if n_inputs > schema.max_inputs or n_inputs < schema.min_inputs:
        expected = (
            f"{schema.min_inputs}"
            if schema.min_inputs == schema.max_inputs
            else f"{schema.min_inputs} to {schema.max_inputs}"
        )
        return f"it takes {expected} inputs, {n_inputs} are given"
    if n_outputs > schema.max_outputs:
        return f"it has at most {schema.max_outputs} outputs, {n_outputs} are requested"
    return None


def check_attributes(schema: Schema, attributes: Collection[str]) -> str | None:
    """Check that all attributes exist and that no required attribute is missing."""
    allowed = schema.attributes
    for name in attributes:
        if name not in allowed:
            allowed_names = ", ".join(sorted(allowed)) or "none"
            return f"it has no attribute {name!r}; its attributes are: {allowed_names}"
    for name in schema.required:
        if name not in attributes:
            return f"attribute {name!r} is required"
    return None


def check_types(
    schema: Schema, names: Sequence[str], types: Sequence[int | None], also: Collection[int] = ()
) -> str | None:
    """Check that the schema or ``also`` allows each dtype and each type parameter has one dtype."""
    bound_types: dict[str, tuple[str, int]] = {}
    for index, dtype in enumerate(types):
        if not dtype or not schema.inputs:
            continue
        formal = schema.formal_input(index)
        if formal.param is None:
            if formal.dtype is not None and formal.dtype != dtype:
                return (
                    f"input {formal.name} ({names[index]!r}) must be {dtypes.name(formal.dtype)}, "
                    f"not {dtypes.name(dtype)}"
                )
            continue
        legal = schema.legal[formal.param]
        if dtype not in legal and dtype not in also:
            legal_names = ", ".join(dtypes.name(allowed_dtype) for allowed_dtype in sorted(legal))
            return (
                f"input {formal.name} ({names[index]!r}) is {dtypes.name(dtype)}, "
                f"{ALLOWED_TYPES_TEXT} {legal_names}"
            )
        first_bound = bound_types.setdefault(formal.param, (names[index], dtype))
        if first_bound[1] != dtype:
            return (
                f"inputs {first_bound[0]!r} ({dtypes.name(first_bound[1])}) and {names[index]!r} "
                f"({dtypes.name(dtype)}) must have the same type; add a Cast"
            )
    return None


def output_type(schema: Schema, index: int, types: Sequence[int | None]) -> int | None:
    """Return the dtype of an output if the schema fixes it or gives it the dtype of an input."""
    if not schema.outputs:
        return None
    formal = schema.formal_output(index)
    if formal.param is None:
        return formal.dtype
    for input_index, dtype in enumerate(types):
        if dtype and schema.inputs and schema.formal_input(input_index).param == formal.param:
            return dtype
    return None
