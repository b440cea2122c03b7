"""Kinds, the types of the spec language: of values known during conversion, and of results.

Annotations of prelude functions use the same names.
"""

from __future__ import annotations

from dataclasses import dataclass

RESULT, RESULTS = "Result", "Results"
INT, SYMINT, FLOAT, BOOL, STR = "Int", "SymInt", "Float", "Bool", "Str"
SCALAR, DTYPE = "Scalar", "Dtype"
INTS, SYMINTS, FLOATS, BOOLS, STRS = "Ints", "SymInts", "Floats", "Bools", "Strs"
# `res` or an item of it; None; an unknown kind; a value that specs can only pass to functions
RES, NONE, ANY, OPAQUE = "ResultSpec", "None", "Any", "Opaque"
# a tensor argument in a block of `complex:`: a pair of results, which ONNX nodes do not accept
COMPLEX, COMPLEXES = "Complex", "Complexes"
# for parameters of functions: a result or a pair; a pair makes the function's result a pair
TENSOR, TENSORS = "Tensor", "Tensors"

GRAPH_KINDS = frozenset({RESULT, RESULTS, COMPLEX, COMPLEXES})
# arguments that `complex: parts(...)` may split into a real and an imaginary part
WITH_PARTS = frozenset({RESULT, RESULTS, SCALAR, FLOAT})
# kinds of values that may be a dynamic size
SYMBOLIC = frozenset({SYMINT, SYMINTS, SCALAR})
# kind of an element -> kind of a list, and the reverse; an item of `res` is a ResultSpec, too
LIST = {
    INT: INTS, SYMINT: SYMINTS, FLOAT: FLOATS, BOOL: BOOLS, RESULT: RESULTS, STR: STRS,
    COMPLEX: COMPLEXES,
}  # fmt: skip
ELEMENT = {list_kind: element for element, list_kind in LIST.items()} | {RES: RES}
LIST[DTYPE] = INTS  # not in ELEMENT: an element of Ints is an Int
_NUMBERS = (BOOL, INT, SYMINT, FLOAT, SCALAR)
_TORCH_KINDS = {
    "Tensor": RESULT, "Tensor[]": RESULTS, "Tensor?[]": RESULTS, "int": INT, "SymInt": SYMINT,
    "float": FLOAT, "bool": BOOL, "Scalar": SCALAR, "str": STR, "ScalarType": DTYPE,
    "int[]": INTS, "SymInt[]": SYMINTS, "float[]": FLOATS, "bool[]": BOOLS, "complex": SCALAR,
    "SymBool": SCALAR, "Scalar[]": ANY, "str[]": STRS,
}  # fmt: skip
KIND_NAMES = frozenset(_TORCH_KINDS.values()) | {RES, OPAQUE, COMPLEX, COMPLEXES, TENSOR, TENSORS}

# type of an ONNX attribute -> kind
ATTRIBUTES = {
    "INT": INT, "FLOAT": FLOAT, "STRING": STR, "INTS": INTS, "FLOATS": FLOATS, "STRINGS": STRS,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of value; ``optional``: or None; ``elements_optional``: items may be None."""

    base: str
    optional: bool = False
    elements_optional: bool = False

    def __str__(self) -> str:
        return self.base + (" or None" if self.optional and self.base != NONE else "")

    def without_none(self) -> Kind:
        """Return the same kind without None."""
        return Kind(self.base, False, self.elements_optional)


def kind_of_torch_type(type_text: str) -> Kind:
    """Return the kind of a torch argument type: ``SymInt[]?`` is SymInts or None."""
    optional = type_text.endswith("?")
    base_type = type_text[:-1] if optional else type_text
    return Kind(_TORCH_KINDS.get(base_type, OPAQUE), optional, base_type == "Tensor?[]")


def complex_kind(kind: Kind) -> Kind:
    """Return the kind that an argument has in ``complex:``: a tensor becomes a pair of results."""
    base = {RESULT: COMPLEX, RESULTS: COMPLEXES}.get(kind.base, kind.base)
    return Kind(base, kind.optional, kind.elements_optional)


def helper_result_kind(result: Kind, arguments: list[Kind]) -> Kind:
    """Return the kind for a declared ``Tensor``: Complex if an argument is a pair, else Result.

    Likewise ``Tensors`` is Complexes or Results.
    """
    has_pairs = any(kind.base in (COMPLEX, COMPLEXES) for kind in arguments)
    base = (COMPLEXES if has_pairs else RESULTS) if result.base == TENSORS else None
    return Kind(base or (COMPLEX if has_pairs else RESULT), result.optional)


def join_kinds(left: Kind, right: Kind) -> Kind:
    """Return the kind of ``left if c else right``."""
    if left.base == NONE:
        return Kind(right.base, True, right.elements_optional)
    if right.base == NONE:
        return Kind(left.base, True, left.elements_optional)
    optional = left.optional or right.optional
    if left.base == right.base:
        return Kind(left.base, optional, left.elements_optional or right.elements_optional)
    if left.base in _NUMBERS and right.base in _NUMBERS:
        return Kind(arithmetic_kind(left.base, right.base), optional)
    lists = {left.base, right.base}
    if lists == {INTS, SYMINTS}:
        return Kind(SYMINTS, optional)
    return Kind(ANY, optional)


def arithmetic_kind(left: str, right: str, division: bool = False) -> str:
    """Return the kind of a sum, product or quotient of two numbers."""
    operands = {left, right}
    if SCALAR in operands:
        return SCALAR
    if FLOAT in operands or division:
        return SCALAR if SYMINT in operands else FLOAT
    return SYMINT if SYMINT in operands else INT


def can_pass(value: Kind, expected: Kind) -> bool:
    """Whether ``value`` may be passed for a parameter of kind ``expected``."""
    if value.base == NONE:
        return expected.optional
    if value.optional and not expected.optional and expected.base != ANY:
        return False
    return (
        value.base == expected.base
        or ANY in (value.base, expected.base)
        or expected.base in _WIDER.get(value.base, ())
    )


# kind of a value -> other kinds of parameters that take it
_WIDER = {
    BOOL: (INT, SYMINT, SCALAR, FLOAT),
    INT: (SYMINT, FLOAT, SCALAR, DTYPE, SYMINTS, INTS),
    SYMINT: (SCALAR, SYMINTS),
    FLOAT: (SCALAR,),
    INTS: (SYMINTS,),
    DTYPE: (INT,),
    RES: (RESULT, TENSOR),
    RESULT: (COMPLEX, TENSOR),
    RESULTS: (COMPLEXES, TENSORS),
    COMPLEX: (TENSOR,),
    COMPLEXES: (TENSORS,),
}
