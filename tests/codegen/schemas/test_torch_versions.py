"""Ranges of torch versions in specs, and the record of torch's schemas."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ortablegen import cli
from ortablegen.aten.read import compare_external, read_folder, read_text
from ortablegen.schemas.ranges import (
    ALWAYS,
    covers,
    format_range,
    format_version,
    meet,
    parse_range,
)
from ortablegen.schemas.record import (
    PLACE,
    compare_installed,
    installed_schemas,
    parse_record,
    read_record,
    render_record,
)
from ortablegen.schemas.registry import (
    Record,
    installed_torch,
    registered_schema,
    schema_of,
    schema_of_key,
)
from ortablegen.schemas.torch import SchemaProblem, from_torch_schema, parsed_schema
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[3]
RECORD = read_record(ROOT / PLACE)
VERSIONS = [(2, minor) for minor in range(12, 18)] + [(3, 0)]


@pytest.mark.parametrize(
    ("text", "contained"),
    [
        ("<2.15", [(2, 12), (2, 13), (2, 14)]),
        ("<=2.13", [(2, 12), (2, 13)]),
        (">=2.16", [(2, 16), (2, 17), (3, 0)]),
        (">2.16", [(2, 17), (3, 0)]),
        ("==2.14", [(2, 14)]),
        ("!=2.14", [v for v in VERSIONS if v != (2, 14)]),
        (">=2.14, <2.16", [(2, 14), (2, 15)]),
        (">= 2.14,!=2.15,<3.0", [(2, 14), (2, 16), (2, 17)]),
    ],
)
def test_a_range_holds_these_versions(text: str, contained: list[tuple[int, int]]) -> None:
    span = parse_range(text)
    assert span is not None
    assert [version for version in VERSIONS if span.contains(version)] == contained
    assert parse_range(str(span)) == span
    # the generated condition holds for the same versions
    code = span.condition("TORCH")
    assert [version for version in VERSIONS if eval(code, {"TORCH": version})] == contained
    assert span.suffix().isidentifier()


@pytest.mark.parametrize("text", ["", "2.15", "<2", "<2.15.1", "~=2.15", "<2.15 >2.13", "<2.15,"])
def test_what_is_no_range(text: str) -> None:
    assert parse_range(text) is None


def test_ranges_meet_and_cover() -> None:
    def span(text: str):
        version_range = parse_range(text)
        assert version_range is not None
        return version_range

    assert meet([span("<2.15"), span(">=2.15")]) is None
    assert meet([span("<=2.15"), span(">=2.15")]) == (2, 15)
    assert meet([span("!=2.15"), span(">=2.15")]) == (2, 16)
    assert meet([span(">2.15"), span("<2.16")]) is None
    assert meet([ALWAYS, span(">=3.0")]) is not None
    assert meet([span("<3.0"), span(">2.99")]) is not None
    assert covers(ALWAYS, span("<2.15")) and not covers(span("<2.15"), ALWAYS)
    assert covers(span("<2.15"), span("<2.14")) and not covers(span("<2.14"), span("<2.15"))
    assert covers(span(">=2.14"), span(">=2.14, !=2.16"))
    assert not covers(span("!=2.16"), span(">=2.14"))
    versions = [(2, 13), (2, 14), (2, 15)]
    assert format_range([(2, 13)], versions) == "<2.14"
    assert format_range([(2, 14), (2, 15)], versions) == ">=2.14"
    assert format_range([(2, 14)], versions) is None


def test_the_record_is_what_is_installed() -> None:
    """The installed torch, if its version is recorded, has the recorded schemas."""
    if installed_torch() not in RECORD.versions:
        pytest.skip(f"torch {format_version(installed_torch())} is not recorded")
    assert compare_installed(RECORD) == []
    specs = read_folder(ROOT / "specs" / "aten", ROOT, Diagnostics())
    assert compare_external(specs) == []


def test_a_package_that_registers_another_schema_is_reported() -> None:
    package = "ortable.exporter.checkpoints.operators"
    entry = """
- op: ortable_codes::{}(Tensor x) -> Tensor
  requires: {}
  out: {{shape: same(x), dtype: same(x)}}
  lower: return x
  samples: [{{x: "f32[2]"}}]
"""
    operators = ("linear", package), ("no_such", package), ("skipped", "a_module_that_nobody_has")
    text = "".join(entry.format(*pair) for pair in operators)
    specs = read_text(text, "given.yaml", Diagnostics(), registry=RECORD)
    assert [line.partition("(")[0] for line in compare_external(specs)] == [
        f"ortable_codes::linear: {package} registers ortable_codes::linear",
        f"ortable_codes::no_such: {package} registers none",
    ]


def test_a_parsed_schema_is_the_registered_one() -> None:
    """Codegen gives the same result whether or not torch registers the operator."""
    differing = [
        key
        for key, text in installed_schemas().items()
        if (registered := registered_schema(key)) is not None
        and from_torch_schema(parsed_schema(text)) != from_torch_schema(registered)
        and "|" not in text  # torch prints a set of aliases in any order
    ]
    assert differing == []


def test_a_record_is_read_as_it_is_written() -> None:
    assert render_record(RECORD) == (ROOT / PLACE).read_text()
    small = Record((), {}).with_version((2, 13), {"aten::a": "aten::a(Tensor x) -> Tensor"})
    both = small.with_version((2, 14), {"aten::b.c": "aten::b.c() -> bool"})
    both = both.with_version((2, 15), {"aten::a": "aten::a(Tensor y) -> Tensor"})
    assert render_record(both).splitlines()[-5:] == [
        "versions: 2.13 2.14 2.15",
        "",
        "[2.13] aten::a(Tensor x) -> Tensor",
        "[2.15] aten::a(Tensor y) -> Tensor",
        "[2.14] aten::b.c() -> bool",
    ]
    assert parse_record(render_record(both)) == both
    # `with_version` replaces a version in full; versions missing in the first line are dropped
    replaced = both.with_version((2, 14), {"aten::a": "aten::a(Tensor y) -> Tensor"})
    assert replaced.of((2, 14)) == {"aten::a": "aten::a(Tensor y) -> Tensor"}
    assert "[2.14 2.15] aten::a(Tensor y) -> Tensor" in render_record(replaced)
    shorter = parse_record(render_record(replaced).replace("versions: 2.13 ", "versions: "))
    assert render_record(shorter).splitlines()[-1] == "aten::a(Tensor y) -> Tensor"


@pytest.fixture
def copied_root(tmp_path: Path) -> Path:
    for name in ("specs", "docs", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_check_names_what_differs_from_the_record(
    copied_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` reports changed, removed and new operators within a version of torch."""
    installed = installed_schemas()
    changed = {**installed, "aten::zzz": "aten::zzz() -> Tensor"}
    del changed["aten::relu6"]
    changed["aten::selu"] = "aten::selu(Tensor it) -> Tensor"
    monkeypatch.setattr("ortablegen.schemas.record.installed_schemas", lambda: changed)
    if installed_torch() not in RECORD.versions:
        pytest.skip(f"torch {format_version(installed_torch())} is not recorded")
    assert cli.main(["check", "--root", str(copied_root)]) == 1
    output = capsys.readouterr().out
    for line in (
        "aten::relu6: recorded aten::relu6(Tensor self) -> Tensor; is gone",
        "aten::selu: recorded aten::selu(Tensor self) -> Tensor; is aten::selu(Tensor it)",
        "aten::zzz: recorded not; is aten::zzz() -> Tensor",
        "record-schemas",
    ):
        assert line in output
    # `record-schemas` updates the record
    assert cli.main(["record-schemas", "--root", str(copied_root)]) == 0
    record = read_record(copied_root / PLACE)
    assert record.of(installed_torch()) == changed
    others = [version for version in RECORD.versions if version != installed_torch()]
    assert all(record.of(version) == RECORD.of(version) for version in others)


@pytest.mark.slow
def test_a_version_that_is_not_recorded_is_told_how_it_would_be(
    copied_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` passes, since the generated files are the same with any version."""
    monkeypatch.setattr(cli, "installed_torch", lambda: (9, 1))
    assert cli.main(["check", "--root", str(copied_root)]) == 0
    errors = capsys.readouterr().err
    assert "torch 9.1 is installed" in errors and "python -m ortablegen record-schemas" in errors


def test_an_operator_of_no_recorded_name_space_is_taken_as_it_stands() -> None:
    text = "somewhere::op(Tensor self) -> Tensor"
    assert schema_of(text, RECORD, "a_module_that_nobody_has").text == text
    with pytest.raises(SchemaProblem, match="not an operator that torch itself registers"):
        schema_of(text, RECORD)


def test_a_key_that_an_absent_module_would_register_is_unknown() -> None:
    """The error says that the module of the operator cannot be imported."""
    with pytest.raises(SchemaProblem, match="schema of 'nobody::op' is unknown") as exc_info:
        schema_of_key("nobody::op", requires="a_module_that_nobody_has")
    (note,) = exc_info.value.notes
    assert "a_module_that_nobody_has cannot be imported: ModuleNotFoundError" in note
    # a registered operator needs no module
    assert schema_of_key("aten::relu", requires="a_module_that_nobody_has").key == "aten::relu"


def test_draws_are_found_in_the_record() -> None:
    names = [schema.key for schema in RECORD.overloads("aten::bernoulli_")]
    assert names == ["aten::bernoulli_.Tensor", "aten::bernoulli_.float"]
    entry = """
- op: aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
  draw: bernoulli_(shape=same(self), p=p)
  unused: {generator: drawn}
  out: {shape: same(self), dtype: same(self)}
  lower: return filled(shape_of(self), p, dtype_of(self))
  samples: [{self: "f32[3]", p: 0.5, random: true}]
"""
    (op,) = read_text(entry, "drawn.yaml", Diagnostics(), registry=RECORD).ops
    assert op.draw is not None and op.draw.overload == ("bernoulli_.float", ("p",))
