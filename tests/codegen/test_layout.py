"""`python -m ortablegen format` breaks long lines and keeps the content and error positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ortablegen.cli import main
from ortablegen.source import layout
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.layout import format_yaml
from ortablegen.source.yaml_source import YMap, YNode, YScalar, parse

ROOT = Path(__file__).parents[2]
UNFORMATTED = """\
# a comment of many words that goes on
- op: aten::add(Tensor self, Scalar other)
  why: "a reason, \\"quoted\\", that is long, too"  # stays
  samples: [{self: "f32[2,3]", other: 1}, {self: "i64[3]", rest: &rest [1, 2, 3, 4]}]
  single: 'it''s a text of two lines'
  block: |
    # a comment of the block that is too long, too
    return a_line_of_a_block_is_not_broken(self, other)
"""
FORMATTED = """\
# a comment of many words that
# goes on
- op: aten::add(Tensor self,
    Scalar other)
  why: "a reason, \\"quoted\\",
    that is long, too"  # stays
  samples: [{self: "f32[2,3]",
             other: 1},
            {self: "i64[3]",
             rest: &rest [1, 2,
                          3,
                          4]}]
  single: 'it''s a text of two
    lines'
  block: |
    # a comment of the block that is too long, too
    return a_line_of_a_block_is_not_broken(self, other)
"""


def test_lines_are_broken_where_yaml_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "WIDTH", 32)
    assert format_yaml(UNFORMATTED) == FORMATTED
    assert format_yaml(FORMATTED) == FORMATTED


def _scalars(node: YNode) -> Iterator[YScalar]:
    if isinstance(node, YScalar):
        yield node
    else:
        parts = [part for pair in node.pairs for part in pair] if isinstance(node, YMap) else node
        for part in parts:
            yield from _scalars(part)


@pytest.mark.parametrize(
    "name", ["aten/norm", "aten/attention", "aten/backward_norm", "rewrites/masks"]
)
def test_every_character_of_a_broken_scalar_has_its_place(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "WIDTH", 40)
    text = format_yaml((ROOT / "specs" / f"{name}.yaml").read_text())
    lines = text.split("\n")
    broken = [s for s in _scalars(parse(text, name, Diagnostics())) if len(s.starts) > 1]
    for scalar in broken:
        for number, line in enumerate(scalar.text.split("\n"), 1):
            for column, character in enumerate(line):
                span = scalar.at(number, column)
                located = lines[span.line - 1][span.column - 1 : span.column]
                assert character.isspace() or located == character, scalar
    assert len([s for s in broken if s.style not in ("|", ">")]) > 5


def test_escapes_and_anchors_before_a_break_are_counted() -> None:
    text = "- &name \"a \\\"b\\\"\n  c\"\n- 'd''e\n  f'\n"
    first, second = parse(text, "x.yaml", Diagnostics())
    assert isinstance(first, YScalar) and isinstance(second, YScalar)
    assert (first.text, second.text) == ('a "b" c', "d'e f")
    assert str(first.at(1, first.text.index("c"))) == "x.yaml:2:3"
    assert str(second.at(1, second.text.index("f"))) == "x.yaml:4:3"


@pytest.mark.parametrize("empty_lines", [1, 2, 3])
@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_empty_lines_in_a_scalar_are_lines_of_its_text(empty_lines: int, quote: str) -> None:
    breaks = "\n" * (empty_lines + 1)
    text = f"- {quote}aaa bbb{breaks}  ccc{breaks}  ddd\n  eee{quote}\n"
    (scalar,) = parse(text, "x.yaml", Diagnostics())
    assert isinstance(scalar, YScalar)
    lines = text.split("\n")
    for number, line in enumerate(scalar.text.split("\n"), 1):
        for column, character in enumerate(line):
            span = scalar.at(number, column)
            located = lines[span.line - 1][span.column - 1 : span.column]
            assert character == " " or located == character, (number, column)


def test_a_file_that_is_no_yaml_is_an_error_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: [1\nb: }\n")
    assert main(["format", str(path), "--root", str(ROOT)]) == 1
    assert f"{path}:2:" in capsys.readouterr().out


def test_the_verb_breaks_the_lines_of_files_and_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"- {' '.join(['word'] * 40)}\n")
    assert main(["format", "--check", str(path), "--root", str(ROOT)]) == 1
    assert f"{path}:1: more than 120 columns" in capsys.readouterr().out
    assert main(["format", str(path), "--root", str(ROOT)]) == 0
    assert len(path.read_text().splitlines()) == 2
    assert main(["format", "--check", str(path), "--root", str(ROOT)]) == 0


def test_the_specs_are_laid_out() -> None:
    assert main(["format", "--check", "--root", str(ROOT)]) == 0
