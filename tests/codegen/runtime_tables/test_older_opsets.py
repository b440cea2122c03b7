"""Errors of the table of older opsets, and what is emitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortablegen.runtime_tables.older_opsets import emit_older_opsets
from ortablegen.source.diagnostics import Diagnostics


def emit(folder: Path, text: str) -> tuple[str, str]:
    """Return the emitted module and the errors of a table."""
    path = folder / "older_opsets.yaml"
    path.write_text(text)
    diagnostics = Diagnostics()
    (module,) = emit_older_opsets(path, diagnostics).values()
    return module, diagnostics.render()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{op: Mish, before: 19, lower: x}", "'before' is an opset from 14 to 18"),
        ("{op: Mish, before: 13, lower: x}", "'before' is an opset from 14 to 18"),
        ("{op: Mish, before: 18}", "a row is {op: name, before: opset} with one of"),
        ("{op: Mish, before: 18, lower: x, drop: {}}", "with one of"),
        ("{op: Mash, before: 18, lower: x}", "opset 18 has no operator 'Mash'"),
        ("{op: GRU, before: 14, drop: {lay: 0}}", "'drop' names lay, which GRU lacks"),
        ("{op: ReduceMax, before: 18, attributes: [x]}", "'attributes' names x"),
        (
            "{op: Mish, before: 18, body: '(X) => (Y) { Y = Cast <to: int = $no> (X) }'}",
            "reads $no",
        ),
        ("{op: Mish, before: 18, body: '(Z) => (Y) { Y = Tanh (Z) }'}", "begins with its inputs"),
        ("{op: Mish, before: 18, body: '(X) => (Y) { Y = Mish (X) }'}", "not valid at opset 13"),
        ("{op: Mish, before: 18, body: '(X) => (Y) { Y = '}", "not valid at opset 13"),
    ],
)
def test_a_wrong_row_is_an_error(tmp_path: Path, row: str, message: str) -> None:
    assert message in emit(tmp_path, f"- {row}\n")[1]


def test_rows_are_emitted_in_their_order(tmp_path: Path) -> None:
    rows = "- {op: Shape, before: 15, drop: {start: 0}}\n- {op: Shape, before: 15, lower: x}\n"
    module, errors = emit(tmp_path, rows)
    namespace: dict[str, object] = {}
    exec(module, namespace)
    expected = ({"before": 15, "drop": {"start": 0}}, {"before": 15, "lower": "x"})
    assert not errors and namespace["OLDER"] == {"Shape": expected}
