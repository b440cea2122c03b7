"""`ortable specs test` runs the samples of entries or rewrites and reports failures by location."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from ortable.cli.main import main
from ortablegen.schemas.onnx import CEILING, FLOOR

from .conftest import GetError

pytestmark = pytest.mark.usefixtures("own_specs")
ROOT = Path(__file__).parents[2]
LIBRARY = torch.library.Library("ortable_test_cases", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
LIBRARY.define("half(Tensor x) -> Tensor")
LIBRARY.impl("half", lambda x: x / 2, "CompositeExplicitAutograd")

ENTRIES = """
- op: ortable_test_cases::half(Tensor x) -> Tensor
  out: {{shape: same(x), dtype: same(x)}}
  lower: return Mul(x, const(0.5, dtype_of(x)))
  samples: [{{x: "f32[n=2,3]"}}]
- op: ortable_test_cases::twice(Tensor x) -> Tensor
  out: {{shape: {shape}, dtype: same(x)}}
  lower: return {lower}
  samples:
    - {{x: "f32[2,3]"}}
    - {{x: "i64[n=4]"}}
"""
RIGHT = "Mul(x, const(2, dtype_of(x)))"


def _write_entries(tmp_path: Path, lower: str = RIGHT, shape: str = "same(x)") -> str:
    path = tmp_path / "my_ops.yaml"
    path.write_text(ENTRIES.format(lower=lower, shape=shape))
    return str(path)


def test_cases_that_equal_eager(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["specs", "test", _write_entries(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    # two opsets, with and without a target
    assert lines[0].split() == [
        f"{tmp_path}/my_ops.yaml:5:13", "ortable_test_cases::half", *_OK_WORDS
    ]  # fmt: skip
    assert lines[-1].endswith("my_ops.yaml: 3 samples equal, 0 failed")


ROWS = """
- for:
    - {{op: half, factor: 0.5}}
    - {{op: twice, factor: {factor}}}
  op: ortable_test_cases::$op(Tensor x) -> Tensor
  out: {{shape: same(x), dtype: same(x)}}
  lower: return Mul(x, const($factor, dtype_of(x)))
  samples: [{{x: "f32[n=2,3]"}}]
"""


def test_entries_of_several_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my_ops.yaml"
    path.write_text(ROWS.format(factor=2))
    assert main(["specs", "check", str(path)]) == 0
    assert "2 operators, no error" in capsys.readouterr().out
    assert main(["specs", "test", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:2]] == [
        "ortable_test_cases::half", "ortable_test_cases::twice",
    ]  # fmt: skip
    path.write_text(ROWS.format(factor=3))
    assert main(["specs", "test", str(path)]) == 1
    output = capsys.readouterr().out
    assert "ortable_test_cases::half" in output and output.rstrip().endswith("1 failed")
    path.write_text(ROWS.format(factor="tow"))
    assert main(["specs", "check", str(path)]) == 1
    errors = capsys.readouterr().err
    assert "my_ops.yaml:7:30: error: unknown name 'tow'" in errors
    assert "my_ops.yaml:4:7: note: with the values of this row" in errors


_OK_WORDS = ["ok,", "4", "conversions"]


def test_one_entry_at_one_opset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["specs", "test", _write_entries(tmp_path), "-k", "half", "--opset", "20"]) == 0
    assert "ok, 2 conversions" in capsys.readouterr().out
    assert main(["specs", "test", _write_entries(tmp_path), "-k", "third"]) == 1
    assert "no sample of an entry with 'third'" in capsys.readouterr().out
    assert main(["specs", "test", _write_entries(tmp_path), "--opset", "3"]) == 2
    assert f"opsets {FLOOR} to {CEILING} are supported" in capsys.readouterr().err


OTHER_LIBRARY = """
import torch
library = torch.library.Library("{name}", "DEF")
for operator, factor in (("half", 0.5), ("twice", 2)):
    library.define(operator + "(Tensor x) -> Tensor")
    library.impl(operator, lambda x, f=factor: x * f, "CompositeExplicitAutograd")
"""


@pytest.mark.parametrize("action", ["check", "test"])
def test_a_library_is_imported_first(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"ortable_test_{action}"
    (tmp_path / f"{name}_library.py").write_text(OTHER_LIBRARY.format(name=name))
    file = Path(_write_entries(tmp_path))
    file.write_text(file.read_text().replace("ortable_test_cases", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["specs", action, str(file)]) == 1
    assert f"{name}::half" in capsys.readouterr().err
    assert main(["specs", action, str(file), "--import", f"{name}_library"]) == 0


@pytest.mark.parametrize(
    ("lower", "shape", "error"),
    [
        ("Mul(x, const(3, dtype_of(x)))", "same(x)", "opset 18: Not equal to tolerance"),
        ("Cast(x, to=float64)", "same(x)", "float64"),
        ("Unsqueeze(x, consts([0], int64))", "same(x)", "shape"),
        # a constant size differs at another size
        (RIGHT, '"given([4])"', "the rule says (4,), torch gives (2, 3)"),
    ],
)
def test_a_case_that_differs_is_told_and_is_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lower: str, shape: str, error: str
) -> None:
    assert main(["specs", "test", _write_entries(tmp_path, lower, shape)]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert error in out
    assert not out.rstrip().endswith(" 0 failed")


def test_python_lowerings_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ENTRIES.format(lower=RIGHT, shape="same(x)").replace(
        f"lower: return {RIGHT}", "lower: [{python: doubled, why: to show it}]"
    )
    path = tmp_path / "my_ops.yaml"
    path.write_text(text)
    lowering = f"doubled={__name__}:doubled"
    assert main(["specs", "test", str(path), "--lowering", lowering, "-k", "twice"]) == 0


@pytest.mark.parametrize(
    ("lowering", "reason"),
    [
        ("doubled", "write it as NAME=module:function"),
        ("doubled=no_such_module:f", "No module named 'no_such_module'"),
        (f"doubled={__name__}:trebled", "has no attribute 'trebled'"),
        (f"doubled={__name__}:RIGHT", f"{__name__}:RIGHT is not a function"),
    ],
)
def test_a_lowering_that_is_not_found_is_told(
    tmp_path: Path, get_error: GetError, lowering: str, reason: str
) -> None:
    message = get_error("specs", "test", _write_entries(tmp_path), "--lowering", lowering)
    assert message.startswith(f"error: --lowering {lowering}: ") and reason in message


def doubled(graph, res, x):
    """Lower `twice` as a user's function would."""
    return graph.op.Add(x, x)


def test_a_file_with_errors_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["specs", "test", _write_entries(tmp_path, "Mull(x, x)")]) == 1
    errors = capsys.readouterr().err
    # the message includes the folder, since several files may have the same name
    assert errors.startswith(f"{tmp_path}/my_ops.yaml:") and "ONNX has no operator 'Mull'" in errors
    assert main(["specs", "test", str(tmp_path / "none.yaml")]) == 1
    assert "cannot read the spec file" in capsys.readouterr().err


RULE = """
- rewrite: double_as_sum
  stage: simplify
  why: an example
  pattern: return Mul(x, two)
  when: is_filled(two, 2)
  replace: return {replace}
  samples:
    - {{x: "f32[n=2,3]", two: "const f32[] = [2]", expect: {expect}}}
    - {{x: "f32[n=2,3]", two: "const f32[] = [3]", unchanged: "is_filled"}}
"""


@pytest.mark.parametrize(
    ("replace", "expect", "error"),
    [
        ("Add(x, x)", "Add", None),
        ("Add(x, two)", "Add", "opset 18"),
        ("Add(x, x)", "Sub", "operators are Add"),
    ],
)
def test_rewrites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replace: str, expect: str, error: str | None
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULE.format(replace=replace, expect=expect))
    assert main(["specs", "test", str(path)]) == (0 if error is None else 1)
    out = capsys.readouterr().out
    assert out.count(" ok, ") == (1 if error is None else 0)
    assert "unchanged, as expected, " in out
    counts = "1 samples equal" if error is None else "0 samples equal"
    assert f"{counts}, 1 refused or unchanged as expected, " in out
    assert error is None or error in out
    assert (
        "(eager)" not in out
    )  # the results of a rewrite are compared with those of the graph before it


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ('graph: "return foo(Mul(x, two))", two: "f32[]"', "'foo(Mul(x, two))' is not a node"),
        ('graph: "return Mul(x, two)", two: 3', "'3' of 'two' is not a tensor"),
        (
            'graph: "return SequenceConstruct(x, two)", two: "f32[]"',
            "'result' has no element type and cannot be an output",
        ),
    ],
)
def test_a_graph_of_a_sample_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, error: str
) -> None:
    path = tmp_path / "rules.yaml"
    text = RULE.format(replace="Add(x, x)", expect="Add")
    path.write_text(text + f'    - {{x: "f32[2]", {case}, unchanged: ""}}\n')
    assert main(["specs", "test", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"opset 18: SampleProblem: {error}\n" in out and ", 1 failed" in out


def test_check_reads_a_file_of_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULE.format(replace="Add(x, x)", expect="Add"))
    assert main(["specs", "check", str(path)]) == 0
    assert "1 rule, no error" in capsys.readouterr().out
    path.write_text(RULE.format(replace="Addd(x, x)", expect="Add"))
    assert main(["specs", "check", str(path)]) == 1
    assert "ONNX has no operator 'Addd'" in capsys.readouterr().err


REJECTING_ENTRY = """
- op: ortable_test_cases::twice(Tensor x) -> Tensor
  types: {T: float}
  out: {shape: same(x), dtype: same(x)}
  lower:
    - when: not is_float(x)
      refuse: twice is for floats
    - do: return Mul(x, const(2, dtype_of(x)))
  samples: [{x: "f32[2]"}, {x: "i64[2]", raises: is for floats}]
"""


def test_a_refused_case_is_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my_ops.yaml"
    path.write_text(REJECTING_ENTRY)
    assert main(["specs", "test", str(path)]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.endswith(" ok, 4 conversions")
    assert second.endswith(" refused, as expected, 4 conversions")
    assert last.endswith(": 1 samples equal, 1 refused or unchanged as expected, 0 failed")


def test_a_case_that_should_be_refused_and_is_not_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my_ops.yaml"
    path.write_text(REJECTING_ENTRY.replace('"i64[2]", raises', '"f64[2]", raises'))
    assert main(["specs", "test", str(path)]) == 1
    out = capsys.readouterr().out
    assert "opset 18: ortable_test_cases::twice should refuse this call: is for floats" in out


def test_a_rule_of_another_dtype_is_told_beside_what_torch_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my_ops.yaml"
    text = ENTRIES.format(lower=RIGHT, shape="same(x)")
    path.write_text(text.replace("dtype: same(x)", "dtype: float64"))
    assert main(["specs", "test", str(path), "-k", "half"]) == 1
    error = "out: result 0 of ortable_test_cases::half: the rule says float64, torch gives float32"
    assert error in capsys.readouterr().out


def test_the_rules_of_the_example_pass(capsys: pytest.CaptureFixture[str]) -> None:
    rules = str(ROOT / "examples" / "bert_rules.yaml")
    assert main(["specs", "test", rules, "-k", "fold_div"]) == 0
    assert "0 failed" in capsys.readouterr().out
