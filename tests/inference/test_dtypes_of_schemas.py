"""Inferred dtypes obey the type parameters of `onnx.defs`, for every operator and version."""

from __future__ import annotations

from itertools import islice, product

import pytest
from onnx import defs

from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER
from ortablegen.onnx.read import bound_dtype
from ortablegen.schemas.onnx import OnnxSchema, element_type, operators, versions_between

# An attribute selects the output type of these, and only some input types are valid with it.
_CASTS = ("BitCast", "Cast", "DequantizeLinear", "RandomNormalLike", "RandomUniformLike")
_BODIES = {"If", "Loop", "Scan", "SequenceMap"}
_ATTRIBUTES = {
    "INT": 1,
    "FLOAT": 1.0,
    "STRING": "i->i",
    "INTS": [1, 1],
    "FLOATS": [1.0],
    "STRINGS": ["x"],
}
_SCHEMAS = [
    s for op in operators() if op in INFER and op not in _BODIES for s in versions_between(op)
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
        results = INFER[schema.key](inputs, attrs, count, max(18, schema.since))
        for formal, (dtype, _, _) in zip(schema.outputs, results, strict=False):
            if formal.type in binding:
                assert dtype == binding[formal.type]
            elif dtype is not None and schema.op not in _CASTS:
                assert dtype in {element_type(t) for t in schema.allowed(formal.type)}


def test_every_operator_of_the_standard_domain_has_a_rule() -> None:
    current = {op for op in operators() if defs.has(op, 26, "") and versions_between(op)}
    missing = {op for op in current if op not in INFER}
    assert missing == set()


def test_bound_dtypes_are_the_majority() -> None:
    # an attribute, a subgraph or an optional input determines a dtype of 25 operators
    known = [
        s for s in (versions_between(op) for op in operators()) if s and defs.has(s[-1].op, 26, "")
    ]
    free = {v[-1].op for v in known for k in range(len(v[-1].outputs)) if bound_dtype(v, k) is None}
    assert (
        len(free) < 32
        and {"Cast", "ConstantOfShape", "EyeLike", "If", "LayerNormalization"} <= free
    )
    assert "Add" not in free and "Shape" not in free
