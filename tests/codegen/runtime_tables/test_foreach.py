"""The code generated from rows of specs/runtime/foreach.yaml, and errors for invalid rows."""

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
ROW = f'{OP}, each: "add.Tensor(self, other, alpha=alpha)"'


def emit_rows(tmp_path, *rows, record=RECORD):
    path = tmp_path / "foreach.yaml"
    path.write_text("".join(f"- {{{row}}}\n" for row in rows))
    diagnostics = Diagnostics()
    files = emit_foreach(path, diagnostics, record)
    return files["ortable_generated/foreach.py"], [e.message for e in diagnostics.errors]


def test_a_row_is_a_function_with_the_signature_of_its_operator(tmp_path):
    text, errors = emit_rows(tmp_path, ROW)
    assert not errors
    assert "def foreach_add_List(self, other, *, alpha=1):" in text
    assert "aten.add.Tensor(one_self, one_other, alpha=alpha) for one_self, one_other in" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("op: aten::_foreach_gone, each: add(self)", "no supported torch has an operator"),
        (f'{OP}, each: "add.Tensor(self, other)"', "argument 'alpha' is not read"),
        (f'{OP}, each: "add.Tensor(self, others, alpha=alpha)"', "has no argument 'others'"),
        (
            f'{OP}, each: "add.Tensor(self, alpha=alpha)", unused: {{other: x}}',
            "the arguments do not fit",
        ),
        (f'{OP}, each: "add.Scalar(self, other, alpha, alpha=alpha)"', "the arguments do not fit"),
        (f'{OP}, each: "ad.Tensor(self, other, alpha=alpha)"', "has no operator 'aten::ad.Tensor'"),
        (f'{OP}, each: "add.Tensor(self, other, alpha=alpha)", elements: [x]', "no argument 'x'"),
        (f'{OP}, each: "self + other"', "neither an argument nor a call"),
        (f"{OP}, eech: x", "unknown key 'eech'"),
        ("op: aten::_foreach_add.List", "a row needs 'op' and 'each'"),
        (f'{OP}, each: "add.Tensor(self,"', "not an expression: '(' was never closed"),
        (f'{OP}, each: "{"neg(" * 60}self{")" * 60}"', "not an expression: it is nested in more"),
        (f'{OP}, each: "add.Tensor(*self)"', "'*self' is neither an argument nor a call"),
        (f"{ROW}, elements: alpha", "elements is a list of arguments"),
        (f"{ROW}, elements: [[alpha]]", "elements is a list of arguments"),
        (f"{ROW}, unused: alpha", "unused is a mapping from an argument to the reason"),
        (f'{ROW}, unused: {{alpha: ""}}', "unused is a mapping from an argument to the reason"),
    ],
)
def test_what_codegen_refuses(tmp_path, row, message):
    _, errors = emit_rows(tmp_path, row)
    assert any(message in error for error in errors), errors


def test_what_is_no_row(tmp_path):
    path = tmp_path / "foreach.yaml"
    path.write_text("- aten::_foreach_add.List\n")
    diagnostics = Diagnostics()
    emit_foreach(path, diagnostics, RECORD)
    assert diagnostics.render().startswith(
        "specs/runtime/foreach.yaml:1:3: error: a row is {op: aten::_foreach_x, each: calls}"
    )


def test_versions_of_torch_have_one_schema(tmp_path):
    key = "aten::_foreach_add.List"
    texts = {**RECORD.texts[key], (2, 15): f"{key}(Tensor[] self, Tensor[] other) -> Tensor[]"}
    _, errors = emit_rows(tmp_path, ROW, record=Record(VERSIONS, {**RECORD.texts, key: texts}))
    assert errors[0].startswith("supported versions of torch differ: ")
    assert "alpha=1) -> Tensor[] / " in errors[0] or " / aten::_foreach_add.List(" in errors[0]


def test_an_operator_without_a_row_is_named(tmp_path):
    texts = {
        "aten::_foreach_abs": dict.fromkeys(
            VERSIONS, "aten::_foreach_abs(Tensor[] self) -> Tensor[]"
        )
    }
    _, errors = emit_rows(tmp_path, ROW, record=Record(VERSIONS, {**RECORD.texts, **texts}))
    assert errors == ["no row for aten::_foreach_abs"]
    _, errors = emit_rows(tmp_path, ROW, ROW)
    assert errors == ["a second row for 'aten::_foreach_add.List'"]
