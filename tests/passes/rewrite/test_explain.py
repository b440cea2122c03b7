"""Reports about rewriting: `ortable rewrites`, `ortable explain` and `ortable export`."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from ortable.cli import rewrites
from ortable.cli.main import main
from ortable.debug.explain_records import fired_lines, lines_by_rule, refused_lines
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import STAGES
from ortable.testing.trial import RewriteTrial, list_operators
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

ROOT = Path(__file__).parents[3]
BERT_RULES = ROOT / "examples" / "bert_rules.yaml"

RULES = """\
# A comment in front.
- rewrite: add_itself
  stage: fuse
  why: a sum of equal terms is a product
  pattern: return Add(x, x)
  when: is_float(x) and rank_of(x) == 2
  replace: return Mul(x, const_like(2, x))
  samples:
    - {x: "f32[2,3]", expect: "Mul"}
    - {x: "i64[2,3]", unchanged: "is_float(x)"}

# A comment in between.
- rewrite: minus_minus
  stage: simplify
  why: two changes of the sign are none
  pattern: return Neg(Neg(x))
  when: is_float(x)
  replace: return x
  samples:
    - {x: "f32[2,3]", expect: ""}
    - {x: "i64[2,3]", unchanged: "is_float(x)"}
"""

FACTORY = """
import torch

class Sums(torch.nn.Module):
    def forward(self, x, y):
        first = x + x
        second = torch.tanh(y + y)
        return first.sum(0) + second

def sums():
    return Sums(), (torch.randn(4, 3), torch.randn(3))
"""


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "models_with_sums.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "models_with_sums:sums"


def run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    output = capsys.readouterr()
    return output.err if status else output.out


def test_the_list_has_every_rule_under_its_stage(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "rewrites")
    headings = re.findall(r"^(\w+), (\w+)\.yaml:$", out, re.MULTILINE)
    assert set(headings) == {
        (rule.stage, Path(rule.file).stem) for rule in rule_selection.package_rules()
    }
    assert headings == sorted(headings, key=lambda pair: (STAGES.index(pair[0]), pair[1]))
    rules = {rule.name: rule for rule in rule_selection.package_rules()}
    listed = re.findall(r"^  (\w+)(?: |$)", out, re.MULTILINE)
    assert sorted(listed) == sorted(rules)
    normalized = " ".join(out.split())
    for rule in rules.values():
        assert " ".join(rule.why.split()) in normalized
        assert not rule.off or " ".join(rule.off.split()) in normalized
    off_count = sum(bool(rule.off) for rule in rules.values())
    assert out.endswith(f"{len(rules)} rules, {off_count} of them off by default\n")
    assert out == run(capsys, "rewrites", "list")


def test_the_list_of_a_choice(capsys: pytest.CaptureFixture[str], rules_file: Path) -> None:
    out = run(capsys, "rewrites", "list", str(rules_file))
    assert out.index("simplify, mine.yaml:") < out.index("minus_minus") < out.index("fuse, mine")
    assert out.endswith("2 rules, 0 of them off by default\n")
    assert "1 rule, 0 of" in run(capsys, "rewrites", "list", str(rules_file), "--grep", "SIGN")
    assert "Did you mean 'default'" in run(capsys, "rewrites", "list", "defalt", status=2)


def test_show_prints_the_entry(capsys: pytest.CaptureFixture[str], rules_file: Path) -> None:
    out = run(capsys, "rewrites", "show", "add_itself", str(rules_file))
    head, entry = out.split("\n", 1)
    assert head == "# add_itself: stage fuse, runs when its file is named"
    assert entry.rstrip() == RULES[RULES.index("- rewrite") : RULES.index("\n\n# A comment in b")]
    last = run(capsys, "rewrites", "show", "minus_minus", str(rules_file))
    assert last.rstrip().endswith('unchanged: "is_float(x)"}')


def test_every_rule_of_the_package_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in rule_selection.package_rules():
        out = run(capsys, "rewrites", "show", rule.name)
        head, entry = out.split("\n", 1)
        assert head.startswith(f"# {rule.name}: stage {rule.stage}, o")
        assert entry.rstrip() in (ROOT / rule.file).read_text(encoding="utf-8")
        assert re.findall(r"^- rewrite: (\w+)$", entry, re.MULTILINE) == [rule.name]
        if not re.search(r": \*\w+$", entry, re.MULTILINE):  # a YAML alias refers to another entry
            diagnostics = Diagnostics()
            (parsed,) = read_rewrites_text(entry, "shown.yaml", diagnostics, BY_TRAIT)
            assert not diagnostics.errors and parsed.name == rule.name


def test_without_the_spec_files_show_prints_what_was_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrites, "_read_entry", lambda rule, file: None)
    rule = rule_selection.package_rules()[0]
    out = run(capsys, "rewrites", "show", rule.name)
    assert f"# {rule.why}" in out and f"{rule.file} is not installed, or" in out
    assert f"def match_{rule.name}" in out and f"def make_{rule.name}" in out


def test_show_suggests_names(capsys: pytest.CaptureFixture[str], rules_file: Path) -> None:
    rule = rule_selection.package_rules()[0]
    err = run(capsys, "rewrites", "show", rule.name[:-1], status=2)
    assert f"Did you mean '{rule.name}'" in err
    err = run(capsys, "rewrites", "show", Path(rule.file).stem, status=2)
    assert "is a file of rules; it has " in err and rule.name in err
    err = run(capsys, "rewrites", "show", "default", status=2)
    assert "'default' is a set of rules; it has " in err and rule.name in err
    err = run(capsys, "rewrites", "show", "absent", str(rules_file), status=2)
    assert "mine.yaml has no rule 'absent'" in err


def test_check(capsys: pytest.CaptureFixture[str], rules_file: Path) -> None:
    out = run(capsys, "rewrites", "check", str(rules_file))
    assert out.startswith(f"{rules_file}: 2 rules, no error\n")
    assert "minus_minus (simplify): two changes of the sign are none" in out
    rules_file.write_text(RULES.replace("Neg(Neg(x))", "Neg(Negg(x))"))
    err = run(capsys, "rewrites", "check", str(rules_file), status=1)
    assert re.search(r"mine\.yaml:16:\d+: error: .*Negg", err) and "^" in err
    assert "Traceback" not in err
    err = run(capsys, "rewrites", "check", "absent.yaml", status=1)
    assert "cannot read the file of rewrites 'absent.yaml'" in err


def test_the_file_of_the_example_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert "5 rules, no error" in run(capsys, "rewrites", "check", str(BERT_RULES))


@pytest.mark.usefixtures("fresh_dynamo")
def test_explain_says_which_rules_fired_for_which_lines(
    capsys: pytest.CaptureFixture[str], sums: str, rules_file: Path
) -> None:
    out = run(capsys, "explain", sums, "--rewrites", f"none,{rules_file}")
    assert "  1 rewrite by 1 rule\n" in out
    assert re.search(r"^    add_itself +1  models_with_sums\.py:6$", out, re.MULTILINE)
    assert "  named rules that did not fire: minus_minus\n" in out
    assert "reasons of rejected matches, by rule:\n    add_itself  rank_of(x) == 2\n" in out


@pytest.mark.usefixtures("fresh_dynamo")
def test_explain_without_rules(capsys: pytest.CaptureFixture[str], sums: str) -> None:
    out = run(capsys, "explain", sums, "--rewrites", "none")
    assert "  0 rewrites by 0 rules\n" in out and "refused" not in out
    err = run(capsys, "explain", sums, "--rewrites", "default,defalt", status=2)
    assert "Did you mean 'default'" in err


def test_export_takes_rules(
    capsys: pytest.CaptureFixture[str], sums: str, rules_file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sums.onnx"
    out = run(capsys, "export", sums, "-o", str(path), "--rewrites", f"none,{rules_file}")
    assert re.search(r"wrote .*: \d+ nodes, opset 18, 1 rewrite by 1 rule\n  add_itself +1 ", out)
    assert [node.op_type for node in onnx.load(path).graph.node].count("Mul") == 1
    out = run(capsys, "export", sums, "-o", str(path), "--rewrites", f"{rules_file},-add_itself")
    assert "0 rewrites by 0 rules" in out
    assert "Mul" not in [node.op_type for node in onnx.load(path).graph.node]
    err = run(capsys, "export", sums, "-o", str(path), "--rewrites", "defalt", status=2)
    assert "Did you mean 'default'" in err


@pytest.mark.usefixtures("fresh_dynamo")
def test_debug_finds_the_rule_that_is_wrong(
    capsys: pytest.CaptureFixture[str], sums: str, rules_file: Path
) -> None:
    names = f"none,{rules_file}"
    assert "nothing differs from eager" in run(capsys, "debug", sums, "--rewrites", names)
    rules_file.write_text(RULES.replace("const_like(2, x)", "const_like(3, x)"))
    assert main(["debug", sums, "--rewrites", names]) == 1
    out = capsys.readouterr().out
    assert f"rule add_itself at {rules_file}:" in out
    assert "models_with_sums.py:6" in out


def _page_examples() -> list[str]:
    text = (ROOT / "docs" / "rewrites.md").read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", _page_examples(), ids=["first", "with_other_graphs"])
def test_the_samples_of_the_page_hold(tmp_path: Path, example: str) -> None:
    path = tmp_path / "squares.yaml"
    path.write_text(example)
    diagnostics = Diagnostics()
    (rewrite,) = read_rewrites_text(example, path.name, diagnostics, BY_TRAIT)
    for sample in rewrite.samples:
        trial = RewriteTrial(rewrite, sample, 18, None)
        record = trial.apply(rule_selection.load_rules(path))
        assert record.counts() == ({} if sample.unchanged else {"sum_of_squares": 1})
        if sample.unchanged:
            assert list(record.refusals()["sum_of_squares"]) == [sample.unchanged]
        else:
            assert list_operators(trial.builder) == (sample.expect or "").split()
        trial.compare()


def chain(*sources: tuple[str, str]) -> onnx.ModelProto:
    """Return a model with a chain of nodes, each with a rule and a source line."""
    nodes = []
    for index, (rules, source) in enumerate(sources):
        node = onnx.helper.make_node("Relu", [f"x{index}"], [f"x{index + 1}"])
        for key, value in (("ortable.passes.rewrite", rules), ("source", source)):
            if value:
                node.metadata_props.add(key=key, value=value)
        nodes.append(node)
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []))


def test_nodes_of_several_rules_count_for_each() -> None:
    model = chain(("a, b", "m.py:3: x: y"), ("b", "m.py:3: x: y"), ("", "m.py:9: z"), ("b", ""))
    counts = lines_by_rule(model)
    assert counts == {"a": {"m.py:3": 1}, "b": {"m.py:3": 2, "": 1}}


def test_many_lines_are_shortened() -> None:
    model = chain(*[("a", f"m.py:{line}: x") for line in range(1, 8)])
    lines = list(fired_lines({"took_away": 9, "a": 7}, model))
    assert lines == ["took_away    9", "a            7  m.py:1, m.py:2, m.py:3 and 4 more lines"]


def test_reasons_that_name_results_are_one() -> None:
    refused = {
        "one": {"y1 is read elsewhere": 4, "y2 is read elsewhere": 2, "rank_of(x) == 2": 1},
        **{f"rule_{n}": {"when": 1} for n in range(6)},
    }
    lines = list(refused_lines(refused))
    assert lines[0].split(maxsplit=1) == ["one", "y1, y2 are read elsewhere; rank_of(x) == 2"]
    assert len(lines) == 6 and lines[-1] == "and 2 other rules"
    lines = list(refused_lines(refused, ["rule_5", "rule_3"], max_rules=1))
    assert lines == ["rule_3  when", "rule_5  when", "and 5 other rules"]
