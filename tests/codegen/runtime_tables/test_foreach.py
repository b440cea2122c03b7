"""Rows of specs/runtime/foreach.yaml: what they become, and what codegen refuses."""

from __future__ import annotations

import pytest

from ortablegen.runtime_tables.foreach import emit_foreach
from ortablegen.schemas.record import Record
from ortablegen.source.diagnostics import Diagnostics

VERSIONS = ((2, 13), (2, 15))
SCHEMAS = {
    "aten::_foreach_add.List": "(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]",
    "aten::add.Tensor": "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::add.Scalar": "(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
}
RECORD = Record(VERSIONS, {k: dict.fromkeys(VERSIONS, k + text) for k, text in SCHEMAS.items()})
OP = "op: aten::_foreach_add.List"
GOOD = f'{OP}, each: "add.Tensor(self, other, alpha=alpha)"'


def emitted(tmp_path, *rows, record=RECORD):
    path = tmp_path / "foreach.yaml"
    path.write_text("".join(f"- {{{row}}}\n" for row in rows))
    diagnostics = Diagnostics()
    files = emit_foreach(path, diagnostics, record)
    return files["ortable_generated/foreach.py"], [e.message for e in diagnostics.errors]


def test_a_row_is_a_function_with_the_signature_of_its_operator(tmp_path):
    text, errors = emitted(tmp_path, GOOD)
    assert not errors
    assert "def foreach_add_List(self, other, *, alpha=1):" in text
    assert "aten.add.Tensor(one_self, one_other, alpha=alpha) for one_self, one_other in" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("op: aten::_foreach_gone, each: add(self)", "no supported torch has an operator"),
        (f'{OP}, each: "add.Tensor(self, other)"', "argument 'alpha' is not read"),
        (f'{OP}, each: "add.Tensor(self, others, alpha=alpha)"', "has no argument 'others'"),
        (f'{OP}, each: "add.Tensor(self, alpha=alpha)", ignore: {{other: x}}', "not the arguments"),
        (f'{OP}, each: "add.Scalar(self, other, alpha, alpha=alpha)"', "not the arguments"),
        (f'{OP}, each: "ad.Tensor(self, other, alpha=alpha)"', "has no operator 'aten::ad.Tensor'"),
        (f'{OP}, each: "add.Tensor(self, other, alpha=alpha)", elements: [x]', "no argument 'x'"),
        (f'{OP}, each: "self + other"', "neither an argument nor a call"),
        (f"{OP}, eech: x", "unknown key 'eech'"),
    ],
)
def test_what_codegen_refuses(tmp_path, row, message):
    _, errors = emitted(tmp_path, row)
    assert any(message in error for error in errors), errors


def test_an_operator_without_a_row_is_named(tmp_path):
    more = {
        "aten::_foreach_abs": dict.fromkeys(
            VERSIONS, "aten::_foreach_abs(Tensor[] self) -> Tensor[]"
        )
    }
    _, errors = emitted(tmp_path, GOOD, record=Record(VERSIONS, {**RECORD.texts, **more}))
    assert errors == ["no row for aten::_foreach_abs"]
    _, errors = emitted(tmp_path, GOOD, GOOD)
    assert errors == ["a second row for 'aten::_foreach_add.List'"]
