"""The traits that specs/onnx may give operators: meanings, and conditions on the schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ortablegen.schemas.onnx import OnnxSchema

_BOOL = ("tensor(bool)",)


@dataclass(frozen=True)
class Trait:
    """The meaning of a trait; ``refuses`` returns the error for a schema that cannot have it."""

    meaning: str
    refuses: Callable[[OnnxSchema], str | None] = lambda schema: None


def has_graph(schema: OnnxSchema) -> bool:
    """Whether an attribute of the operator is a graph."""
    return any(attribute.type in ("GRAPH", "GRAPHS") for attribute in schema.attributes)


def _check_two_alike(schema: OnnxSchema) -> str | None:
    """Refuse operators without two inputs of one type; a variadic input counts as two."""
    types = [formal.type for formal in schema.inputs]
    if len(types) == 1 and schema.inputs[0].variadic:
        return None
    return None if len(types) == 2 and types[0] == types[1] else "has no two inputs of one type"


def _check_graph(schema: OnnxSchema) -> str | None:
    return None if has_graph(schema) else "has no attribute that is a graph"


def _check_same_type(schema: OnnxSchema) -> str | None:
    inputs, outputs = schema.inputs, schema.outputs
    is_same_type = bool(inputs) and inputs[0].type == outputs[0].type
    return None if is_same_type else "has a result of another type than its first input"


def _check_two_inputs(schema: OnnxSchema) -> str | None:
    return None if len(schema.inputs) >= 2 else "has no input of indices"


def _check_comparison(schema: OnnxSchema) -> str | None:
    if schema.allowed(schema.outputs[0].type) != _BOOL:
        return "does not return booleans"
    return _check_two_alike(schema)


def _check_boolean(schema: OnnxSchema) -> str | None:
    formals = (*schema.inputs, *schema.outputs)
    is_boolean = all(schema.allowed(formal.type) == _BOOL for formal in formals)
    return None if is_boolean else "has inputs or outputs that are not boolean"


TRAITS: Mapping[str, Trait] = MappingProxyType(
    {
        "common": Trait("stands in most graphs many times, so rewrites are found by a rarer one"),
        "commutative": Trait("two inputs may change places", _check_two_alike),
        "comparison": Trait("compares two numbers at each place", _check_comparison),
        "elementwise": Trait(
            "an element of the result depends on the elements at its place alone, inputs broadcast"
        ),
        "crashes_on_empty": Trait(
            "on a first input without elements ONNX Runtime's kernel on the CPU ends the process"
        ),
        "gathers": Trait(
            "every element of the result is one of the first input, chosen by indices",
            lambda schema: _check_two_inputs(schema) or _check_same_type(schema),
        ),
        "has_subgraph": Trait(
            "an attribute is a graph, which may read results around it", _check_graph
        ),
        "idempotent_reduction": Trait(
            "folds axes, and equal elements to that element", _check_same_type
        ),
        "keeps_order": Trait(
            "the result has the elements of the first input in their order: shape changes at most",
            _check_same_type,
        ),
        "keeps_weights": Trait(
            "its result on a stored weight is computed at run time, and not stored beside it"
        ),
        "in_place": Trait(
            "ONNX Runtime's kernel on the CPU writes the result over the first input where they "
            "share memory: what it does not write stays",
            _check_same_type,
        ),
        "logical": Trait("computes with booleans alone", _check_boolean),
        "matmul": Trait("multiplies the matrices in the last two axes of two inputs"),
        "moves_elements": Trait(
            "every element of the result is one of the first input, wherever sizes say",
            _check_same_type,
        ),
        "ordering": Trait("says which of two numbers is the larger", _check_comparison),
        "multiplies_codes": Trait(
            "of two inputs from DequantizeLinear, ONNX Runtime multiplies the codes as integers"
        ),
        "random": Trait("draws anew at every run"),
        "rearranges": Trait(
            "the result has every element of the first input once: shape and order change at most",
            _check_same_type,
        ),
        "recurrent": Trait("runs over the steps of a sequence: axes are steps, batch, features"),
        "dtype_sensitive": Trait(
            "computes something else in a wider type, so no input may be cast for a kernel"
        ),
    }
)
