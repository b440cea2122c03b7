"""Every form of attention that the tables write computes what torch does, in every edge case.

`forms.yaml` lists the forms and their kinds of nodes; a new form needs a program and its cells.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import ortable
from ortable.ir.versions import ORT_MAX_OPSET

from .cells import Cell, cells
from .forms import ROOT, forms, sets_of_rules
from .run import Written, compare, converted, exported, wanted

pytestmark = pytest.mark.alternates(parts=3)

_TABLE = yaml.safe_load((Path(__file__).parent / "forms.yaml").read_text(encoding="utf-8"))
_FORMS = [form for form in _TABLE if "elsewhere" not in form]
_OLD_OPSET = 22  # newest opset without Attention: torch's body of ONNX's operator is converted
_CELL_PARTS = 10  # a commit runs one part of the matrix


@cache
def _cell(name: str) -> Cell:
    (match,) = (cell for cell in cells() if cell.name == name)
    return match


def test_every_form_of_the_tables_is_in_the_matrix() -> None:
    """A rule or a lowering that writes attention in a new way needs a row in forms.yaml."""
    named = {(row["in"], row["writes"]) for row in _TABLE}
    assert {(form.location, form.writes) for form in forms()} == named


def test_a_form_that_is_tried_elsewhere_is_named_there() -> None:
    for form in _TABLE:
        if "elsewhere" in form:
            assert form["in"] in (ROOT / form["elsewhere"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("form", _FORMS, ids=lambda row: row["in"])
def test_each_form_is_written(form: dict[str, Any]) -> None:
    """For each kind of node of a form, the rule fires, the node exists, the values are torch's."""
    for kind, name in form["nodes"].items():
        cell = _cell(name)
        program = exported(cell)
        for (target, rules), opset in itertools.product(sets_of_rules(), (23, 18)):
            written = converted(program, target, rules, opset)
            if form["in"] in written.rules and kind in written.kinds:
                compare(cell, written, wanted(cell), _has_reference(target, written))
                break
        else:
            pytest.fail(f"{name} has no node of the kind {kind}")


@pytest.mark.alternates("cell", parts=_CELL_PARTS)
@pytest.mark.parametrize("cell", cells(), ids=repr)
def test_cells(cell: Cell) -> None:
    """Each program computes what torch does, or is refused, with every set of rules and opset."""
    known_kinds = {kind for form in _FORMS for kind in form["nodes"]}
    program, eager = exported(cell), wanted(cell)
    for index, (target, rules) in enumerate(sets_of_rules()):
        for opset in (23, ORT_MAX_OPSET) if index else (_OLD_OPSET, 23, 24, ORT_MAX_OPSET):
            if cell.refused and opset > _OLD_OPSET:
                with pytest.raises(ortable.errors.OrtableError, match=cell.refused):
                    converted(program, target, rules, opset)
                continue
            written = converted(program, target, rules, opset)
            assert set(written.kinds) <= known_kinds, "forms.yaml lacks this kind of node"
            compare(cell, written, eager, _has_reference(target, written))


def _has_reference(target: str | None, written: Written) -> bool:
    """Return whether onnx.reference has all operators, as it has for a model without a target."""
    return target is None and bool(written.kinds)
