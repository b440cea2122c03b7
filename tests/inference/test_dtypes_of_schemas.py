"""Dtypes that the rules give against the type parameters of onnx.defs, for every operator, version
and type."""

from __future__ import annotations

from itertools import islice, product

import pytest
from onnx import defs

from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER
from ortablegen.onnx.read import bound_dtype
from ortablegen.schemas.onnx import OnnxSchema, element_type, operators, versions_between

# An attribute may ask these for any type, and some inputs are legal only with one.
_ASKED = ("BitCast", "Cast", "DequantizeLinear", "RandomNormalLike", "RandomUniformLike")
_GRAPHS = {"If", "Loop", "Scan", "SequenceMap"}
_ATTRIBUTES = {
    "INT": 1,
    "FLOAT": 1.0,
    "STRING": "i->i",
    "INTS": [1, 1],
    "FLOATS": [1.0],
    "STRINGS": ["x"],
}
_SCHEMAS = [
    s for op in operators() if op in INFER and op not in _GRAPHS for s in versions_between(op)
]


@pytest.mark.parametrize("schema", _SCHEMAS, ids=lambda s: f"{s.key}-{s.since}")
def test_dtype_is_one_that_the_schema_allows(schema: OnnxSchema) -> None:
    params = {f.type for f in schema.inputs} & {name for name, _ in schema.type_params}
    choices = [
        [t for t in map(element_type, schema.allowed(p)) if t is not None] for p in sorted(params)
    ]
    attrs = {a.name: _ATTRIBUTES[a.type] for a in schema.attributes if a.required}
    for types in islice(product(*choices), 400):
        binding = dict(zip(sorted(params), types, strict=True))
        inputs = [
            ValueInfo(f.name, binding.get(f.type) or element_type(schema.allowed(f.type)[0]))
            for f in schema.inputs
        ]
        count = max(1, len([f for f in schema.outputs if not f.variadic]))
        found = INFER[schema.key](inputs, attrs, count, max(18, schema.since))
        for formal, (dtype, _, _) in zip(schema.outputs, found, strict=False):
            if formal.type in binding:
                assert dtype == binding[formal.type]
            elif dtype is not None and schema.op not in _ASKED:
                assert dtype in {element_type(t) for t in schema.allowed(formal.type)}


def test_every_operator_of_the_standard_domain_has_a_rule() -> None:
    live = {op for op in operators() if defs.has(op, 26, "") and versions_between(op)}
    missing = {op for op in live if op not in INFER}
    assert missing == set()


def test_bound_dtypes_are_the_majority() -> None:
    # 25 of them leave a dtype to an attribute, a graph or an optional input
    known = [
        s for s in (versions_between(op) for op in operators()) if s and defs.has(s[-1].op, 26, "")
    ]
    free = {v[-1].op for v in known for k in range(len(v[-1].outputs)) if bound_dtype(v, k) is None}
    assert (
        len(free) < 32
        and {"Cast", "ConstantOfShape", "EyeLike", "If", "LayerNormalization"} <= free
    )
    assert "Add" not in free and "Shape" not in free
