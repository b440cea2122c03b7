"""Tables of specs/runtime: decompositions, optimizers, session settings, operator costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortablegen.runtime_tables.operators import emit_decompositions, emit_operator_costs
from ortablegen.runtime_tables.optimizers import Optimizer, read_optimizers
from ortablegen.runtime_tables.sessions import Setting, read_settings
from ortablegen.schemas.record import Record
from ortablegen.source.diagnostics import Diagnostics

RECORD = Record(
    ((2, 13), (2, 15)),
    {
        "aten::old": dict.fromkeys(((2, 13), (2, 15)), "aten::old() -> Tensor"),
        "aten::new": {(2, 15): "aten::new() -> Tensor"},
    },
)
OLD = "{op: aten::old, why: it is exact}"
SETTING = "name: n, range: [0, 4], about: a, source: s"


def _write_rows(tmp_path: Path, name: str, rows: tuple[str, ...]) -> Path:
    path = tmp_path / name
    path.write_text("".join(f"- {row}\n" for row in rows))
    return path


def _list_errors(diagnostics: Diagnostics) -> list[tuple[int, str]]:
    return [(error.span.line, error.message) for error in diagnostics.errors]


def test_operators_that_torch_decomposes(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    path = _write_rows(tmp_path, "decompositions.yaml", (OLD,))
    (text,) = emit_decompositions(path, diagnostics, RECORD).values()
    assert not diagnostics.errors
    assert text.endswith('DECOMPOSE: tuple[str, ...] = (\n    "aten::old",\n)\n')


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("aten::old", "an entry is {op: aten::name, why: reason}"),
        ("{op: aten::old}", "an entry needs 'op' and 'why'"),
        ('{op: aten::old, why: " "}', "an entry needs 'op' and 'why'"),
        ("{op: aten::new, why: it is exact}", "torch 2.13 has no operator 'aten::new'"),
        ("{op: aten::olt, why: it is}", "torch 2.13, 2.15 has no operator 'aten::olt'"),
        (OLD, "a second entry for 'aten::old'"),
        ("{op: aten::other, why: it is, and more}", "unknown key 'and more' in a row"),
    ],
)
def test_no_operator_that_torch_decomposes(tmp_path: Path, row: str, message: str) -> None:
    diagnostics = Diagnostics()
    emit_decompositions(_write_rows(tmp_path, "d.yaml", (OLD, row)), diagnostics, RECORD)
    assert (2, message) in _list_errors(diagnostics)


def test_an_optimizer(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    rows = ("{name: A, class: B, level: 1, verdict: idle, why: off}",)
    path = _write_rows(tmp_path, "optimizers.yaml", rows)
    assert read_optimizers(path, diagnostics) == [
        Optimizer("A", "1", "idle", why="off", type_name="B")
    ]
    assert not diagnostics.errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A", "an optimizer has a name, a level of 0, 1, 2, 3, 4, a verdict of safe, avoided, "),
        ("{name: A, level: 7, verdict: safe}", "an optimizer has a name, a level of 0, 1, 2"),
        ("{name: A, level: 1, verdict: bad}", "a verdict of safe, avoided, disabled, idle"),
        ("{name: A, level: 1, verdict: safe, when: x}", "and texts; not when"),
        ("{name: [A], level: 1, verdict: safe}", "and texts; not name"),
        ("{level: 1, verdict: safe}", "an optimizer that is safe needs 'name'"),
        ("{name: A, level: 1, verdict: avoided, wrong: x}", "that is avoided needs 'instead'"),
        ("{name: A, level: 1, verdict: idle}", "an optimizer that is idle needs 'why'"),
        (
            "{name: A, level: 1, verdict: safe, graphs: float64}",
            "'graphs' of a disabled optimizer is float64 or int8 activations",
        ),
        (
            "{name: A, level: 1, verdict: disabled, wrong: x, instead: y, cost: z, graphs: all}",
            "'graphs' of a disabled optimizer is float64 or int8 activations",
        ),
    ],
)
def test_no_optimizer(tmp_path: Path, row: str, message: str) -> None:
    diagnostics = Diagnostics()
    path = _write_rows(tmp_path, "optimizers.yaml", ("{name: A, level: 1, verdict: safe}", row))
    assert len(read_optimizers(path, diagnostics)) == 1
    ((line, error),) = _list_errors(diagnostics)
    assert line == 2 and message in error


def test_a_setting_of_sessions(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    rows = (f"{{{SETTING}, usual: 0, training: torch, search: [1, 4]}}",)
    path = _write_rows(tmp_path, "session.yaml", rows)
    expected = Setting("n", (0, 4), "0", "", "torch", (1, 4), "a", "s")
    assert read_settings(path, diagnostics) == [expected]
    assert not diagnostics.errors


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("n", "a setting has a name, a range of two numbers, texts about and source"),
        ("{name: n, range: [0], about: a, source: s}", "a range of two numbers"),
        ("{name: n, range: [0, x], about: a, source: s}", "a range of two numbers"),
        ("{name: n, range: [0, 4], source: s}", "texts about and source"),
        (f"{{{SETTING}, tried: [1]}}", "; not tried"),
        (f"{{{SETTING}, search: 3}}", "search, a list; not search"),
        (f"{{{SETTING}, inference: [3]}}", "a value each, and search, a list; not inference"),
        (f"{{{SETTING}, search: [3, all]}}", "search is a list of whole numbers"),
        (f"{{{SETTING}, search: [5]}}", "a value outside the range 0 to 4"),
        (f"{{{SETTING}, inference: -1}}", "a value outside the range 0 to 4"),
        (f"{{{SETTING}, usual: --1}}", "a value outside the range 0 to 4"),
        (f"{{{SETTING}, usual: ²}}", "a value outside the range 0 to 4"),
        (f"{{{SETTING}}}", "a second row for 'n'"),
    ],
)
def test_no_setting_of_sessions(tmp_path: Path, row: str, message: str) -> None:
    diagnostics = Diagnostics()
    path = _write_rows(tmp_path, "session.yaml", (f"{{{SETTING}}}", row))
    assert len(read_settings(path, diagnostics)) == 1
    ((line, error),) = _list_errors(diagnostics)
    assert line == 2 and message in error


COST = "{op: aten::new, dtype: float32, from: 1000, ratio: 12}"


def test_costly_operators_by_dtype(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    general = "{op: '*', dtype: b, from: 9, ratio: 2, why: most}"
    rows = (COST, COST.replace("float32", "bool"), "{op: aten::old, dtype: b, ratio: 2, why: few}")
    path = _write_rows(tmp_path, "operator_cost.yaml", (*rows, general))
    (text,) = emit_operator_costs(path, diagnostics, RECORD).values()
    assert not diagnostics.errors
    row = '"aten::new": {"bool": (1000, 12), "float32": (1000, 12)}'
    assert text.endswith(f'= {{\n    "*": {{"b": (9, 2)}},\n    {row},\n}}\n')


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("aten::new", "a row is {op: aten::x, dtype: ..., from: ..., ratio: ...}"),
        ("{op: aten::new}", "a row needs 'op', 'dtype', 'ratio', and 'from' or 'why'"),
        (COST.replace("12", "many"), "a row needs 'op', 'dtype', 'ratio', and 'from' or 'why'"),
        (COST.replace("new", "nil"), "no recorded version of torch has operator 'aten::nil'"),
        (COST, "a second row for 'aten::new' and float32"),
        (COST.replace("12", "12, to: 3"), "unknown key 'to' in a row"),
    ],
)
def test_no_costly_operator(tmp_path: Path, row: str, message: str) -> None:
    diagnostics = Diagnostics()
    emit_operator_costs(_write_rows(tmp_path, "c.yaml", (COST, row)), diagnostics, RECORD)
    assert message in [text for _, text in _list_errors(diagnostics)]
