"""Attention as one operator computes what torch does: every form that the tables write, in every
corner, in the installed ONNX Runtime with its optimizations, and in onnx.reference.

`forms.yaml` names the forms; what a table writes and it has not fails here, and so does a node that
no form has. A new form needs a program in `programs` that writes it, in the corners of `cells`."""

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

_TABLE = yaml.safe_load((Path(__file__).parent / "forms.yaml").read_text(encoding="utf-8"))
_OWN = [each for each in _TABLE if "elsewhere" not in each]
_BELOW = 22  # the newest opset without Attention: torch's own body of an operator of ONNX
_PARTS = 10  # of the matrix, of which a commit runs one


@cache
def _cell(name: str) -> Cell:
    (found,) = (cell for cell in cells() if cell.name == name)
    return found


def test_every_form_of_the_tables_is_in_the_matrix() -> None:
    """A rule or a lowering that writes attention in a new way is added to forms.yaml."""
    named = {(each["in"], each["writes"]) for each in _TABLE}
    assert {(each.place, each.writes) for each in forms()} == named


def test_a_form_that_is_tried_elsewhere_is_named_there() -> None:
    for form in _TABLE:
        if "elsewhere" in form:
            assert form["in"] in (ROOT / form["elsewhere"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("form", _OWN, ids=lambda each: each["in"])
def test_each_form_is_written(form: dict[str, Any]) -> None:
    """A cell for each kind of node that a form has: the rule fires, the node is there, the values
    are torch's."""
    for kind, name in form["nodes"].items():
        cell = _cell(name)
        program = exported(cell)
        for (target, rules), opset in itertools.product(sets_of_rules(), (23, 18)):
            found = converted(program, target, rules, opset)
            if form["in"] in found.rules and kind in found.kinds:
                compare(cell, found, wanted(cell), _has_reference(target, found))
                break
        else:
            pytest.fail(f"{name}: no {kind}")


@pytest.mark.alternates("cell", parts=_PARTS)
@pytest.mark.parametrize("cell", cells(), ids=repr)
def test_cells(cell: Cell) -> None:
    """Each program with every set of rules, at the oldest and newest opset that can hold
    attention, computes what torch does, or is refused with the reason."""
    known = {kind for form in _OWN for kind in form["nodes"]}
    program, eager = exported(cell), wanted(cell)
    for number, (target, rules) in enumerate(sets_of_rules()):
        for opset in (23, ORT_MAX_OPSET) if number else (_BELOW, 23, 24, ORT_MAX_OPSET):
            if cell.refused and opset > _BELOW:
                with pytest.raises(ortable.errors.OrtableError, match=cell.refused):
                    converted(program, target, rules, opset)
                continue
            found = converted(program, target, rules, opset)
            assert set(found.kinds) <= known, "a kind of node that forms.yaml has not"
            compare(cell, found, eager, _has_reference(target, found))


def _has_reference(target: str | None, written: Written) -> bool:
    """Whether onnx.reference has all operators; it computes what any runtime is given."""
    return target is None and bool(written.kinds)
