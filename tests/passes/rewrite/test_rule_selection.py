"""The argument `rewrites` of `to_onnx` and of the backend: names, lists, user files, caching."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import ortable
from ortable.errors import OptionError, SpecError
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

# Neither rule is part of the package, so no packaged rule interferes.
ADD_RULE = """\
- rewrite: add_itself
  stage: fuse
  why: a sum of equal terms is a product
  pattern: return Add(x, x)
  when: is_float(x)
  replace: return Mul(x, const_like(2, x))
  samples:
    - {x: "f32[2,3]", expect: "Mul"}
    - {x: "i64[2,3]", unchanged: "is_float(x)"}
"""
SINE_RULE = """\
- rewrite: sine_of_cosine
  stage: fuse
  why: a rule that a test recognises by what it makes
  pattern: return Sin(Cos(x))
  when: is_float32(x)
  replace: return Sin(Cos(Add(x, const_like(0, x))))
  samples:
    - {x: "f32[2,3]"}
    - {x: "f64[2,3]", unchanged: "is_float32(x)"}
"""


class DoubleTanh(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + x)


X = torch.randn(2, 3)


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(ADD_RULE)
    return path


def rule_names(rules: tuple[Rule, ...]) -> set[str]:
    return {rule.name for rule in rules}


def all_rules() -> dict[str, Rule]:
    return {rule.name: rule for rule in rule_selection.package_rules()}


def first_default_rule() -> Rule:
    return next(rule for rule in rule_selection.package_rules() if not rule.off)


def test_default_is_every_rule_that_is_not_off() -> None:
    assert rule_names(rule_selection.select_rules()) == {
        name for name, rule in all_rules().items() if not rule.off
    }
    assert (
        rule_selection.select_rules()
        == rule_selection.select_rules("default")
        == rule_selection.select_rules(["default"])
    )


def test_all_has_those_that_are_off_too() -> None:
    assert rule_names(rule_selection.select_rules("all")) == set(all_rules())
    assert (
        rule_selection.select_rules("none")
        == rule_selection.select_rules([])
        == rule_selection.select_rules(["default", "none"])
        == ()
    )


def test_a_name_adds_its_rule_and_a_minus_takes_it_away() -> None:
    rule = first_default_rule()
    assert rule_names(rule_selection.select_rules(rule.name)) == {rule.name}
    assert rule_names(rule_selection.select_rules(["none", rule.name])) == {rule.name}
    assert rule_names(rule_selection.select_rules(["default", f"-{rule.name}"])) == rule_names(
        rule_selection.select_rules()
    ) - {rule.name}
    # entries apply from left to right
    assert rule.name in rule_names(rule_selection.select_rules([f"-{rule.name}", "default"]))
    readded = rule_selection.select_rules(["default", f"-{rule.name}", rule.name])
    assert rule_names(readded) == rule_names(rule_selection.select_rules()) and len(readded) == len(
        rule_selection.select_rules()
    )


def test_a_file_of_the_package_stands_for_its_rules() -> None:
    stem = Path(first_default_rule().file).stem
    names = {name for name, rule in all_rules().items() if Path(rule.file).stem == stem}
    assert rule_names(rule_selection.select_rules(stem)) == names
    assert rule_names(rule_selection.select_rules(["all", f"-{stem}"])) == set(all_rules()) - names


def test_unknown_names_suggest_the_closest() -> None:
    rule = first_default_rule()
    with pytest.raises(OptionError, match=f"Did you mean '{rule.name}'"):
        rule_selection.select_rules(rule.name[:-1])
    with pytest.raises(OptionError, match="Did you mean 'default'"):
        rule_selection.select_rules("defaults")
    with pytest.raises(OptionError, match="ortable rewrites lists them"):
        rule_selection.select_rules(["default", "-no_rule_has_this_name"])


@pytest.mark.parametrize("wrong", [3, None, ["default", 3], {"default"}, b"default"])
def test_what_is_no_name_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="rewrites is a name or a list of names"):
        rule_selection.select_rules(wrong)


def test_a_file_adds_its_rules(rules_file: Path) -> None:
    file_rules = rule_selection.select_rules(str(rules_file))
    assert [(rule.name, rule.file) for rule in file_rules] == [("add_itself", "mine.yaml")]
    combined = rule_selection.select_rules(["default", str(rules_file)])
    assert rule_names(combined) == rule_names(rule_selection.select_rules()) | {"add_itself"}
    assert rule_names(rule_selection.select_rules([str(rules_file), "-add_itself"])) == set()
    assert rule_names(rule_selection.select_rules([str(rules_file), "-mine"])) == set()


def test_a_rule_of_a_file_is_known_only_after_the_file(rules_file: Path) -> None:
    with pytest.raises(OptionError, match="add_itself"):
        rule_selection.select_rules(["-add_itself", str(rules_file)])


def test_files_can_be_refused(rules_file: Path) -> None:
    with pytest.raises(OptionError, match="not accepted here"):
        rule_selection.select_rules(str(rules_file), user_files=False)


def test_errors_of_a_file_say_where(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(ADD_RULE.replace("Add(x, x)", "Addd(x, x)").replace("is_float(x)", "floaty(x)"))
    with pytest.raises(SpecError, match=r"wrong\.yaml:4:\d+: error: .*Addd"):
        rule_selection.load_rules(path)
    path.write_text(ADD_RULE.replace("is_float(x)\n", "floaty(x)\n"))
    with pytest.raises(SpecError, match=r"wrong\.yaml:5:\d+: error: unknown function 'floaty'"):
        ortable.to_onnx(DoubleTanh(), (X,), rewrites=str(path))


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot read the file of rewrites .*absent\.yaml"):
        rule_selection.select_rules(str(tmp_path / "absent.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"cannot read the file of rewrites .*bytes\.yaml"):
        rule_selection.select_rules(str(tmp_path / "bytes.yaml"))


def test_a_changed_file_is_compiled_again(rules_file: Path) -> None:
    (first,) = rule_selection.load_rules(rules_file)
    assert rule_selection.load_rules(rules_file) == (first,)
    rules_file.write_text(ADD_RULE.replace("add_itself", "add_twice"))
    (second,) = rule_selection.load_rules(rules_file)
    assert second.name == "add_twice"


def export(**arguments: Any) -> tuple[list[str], dict[str, int]]:
    proto, builder = ortable.to_onnx(DoubleTanh(), (X,), return_builder=True, **arguments)
    return [node.op_type for node in proto.graph.node], builder.record.rewrites.counts()


def test_to_onnx_runs_what_is_named(rules_file: Path) -> None:
    path = str(rules_file)
    assert export(rewrites="none") == (["Add", "Tanh"], {})
    assert export(rewrites=["none", path]) == (["Mul", "Tanh"], {"add_itself": 1})
    assert export(rewrites=path, validate=True)[1] == {"add_itself": 1}
    assert export(rewrites=[path, "-add_itself"]) == (["Add", "Tanh"], {})


def test_to_onnx_runs_no_rule_without_optimize(rules_file: Path) -> None:
    operators, fired = export(rewrites=str(rules_file), optimize=False)
    assert "Add" in operators and "Mul" not in operators and not fired


def test_to_onnx_refuses_what_is_wrong_before_it_traces() -> None:
    class Untraceable(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("was traced")

    with pytest.raises(OptionError, match="Did you mean 'default'"):
        ortable.to_onnx(Untraceable(), (X,), rewrites="defalt")


def compile_graph(folder: Path | None = None, **options: Any) -> dict[str, Any]:
    """Compile the model, compare it with eager and return the record of its only graph."""
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    options["storage"] = storage
    if folder is not None:
        options["cache_dir"] = str(folder)
    compiled_model = torch.compile(DoubleTanh(), backend="ortable", options=options)
    with torch.no_grad():
        torch.testing.assert_close(compiled_model(X), DoubleTanh()(X))
    (record,) = storage["instance"]
    return record


def op_types(record: dict[str, Any]) -> list[str]:
    return [node.op_type for node in record["onnx"].graph.node]


@pytest.fixture
def no_cache(fresh_dynamo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ortable.backend.cache.memory import conversions

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    conversions.clear()


@pytest.mark.usefixtures("no_cache")
def test_the_backend_runs_what_is_named(rules_file: Path) -> None:
    path = str(rules_file)
    plain = compile_graph(rewrites="none")
    assert (op_types(plain), plain["rewrites"]) == (["Add", "Tanh"], {})
    fused = compile_graph(rewrites=["default", path])
    assert (op_types(fused), fused["rewrites"]) == (["Mul", "Tanh"], {"add_itself": 1})
    assert compile_graph(rewrites=[path, "-mine"])["rewrites"] == {}
    with pytest.raises(Exception, match=r"'rewrites' is .*, but 'optimize' is False"):
        compile_graph(rewrites=path, optimize=False)


@pytest.mark.usefixtures("no_cache")
def test_the_backend_takes_the_keyword(rules_file: Path) -> None:
    storage: dict[str, Any] = {}

    def backend(graph_module: Any, args: Any) -> Any:
        return ortable.onnx_custom_backend(
            graph_module, args, rewrites=str(rules_file), storage=storage
        )

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(DoubleTanh(), backend=backend)(X), DoubleTanh()(X))
    assert storage["instance"][0]["rewrites"] == {"add_itself": 1}


@pytest.mark.usefixtures("no_cache")
def test_the_debug_backend_runs_the_rewritten_graph(rules_file: Path) -> None:
    storage: dict[str, Any] = {}

    def backend(graph_module: Any, args: Any) -> Any:
        return ortable.onnx_debug_backend(
            graph_module, args, rewrites=str(rules_file), storage=storage, compare=True
        )

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(DoubleTanh(), backend=backend)(X), DoubleTanh()(X))
    assert op_types(storage["instance"][0]) == ["Mul", "Tanh"]


@pytest.mark.parametrize("wrong", ["defalt", ["default", "-nothing"], 3, ["absent.yaml"]])
def test_the_backend_refuses_what_is_wrong(wrong: Any) -> None:
    with pytest.raises((OptionError, SpecError)):
        ortable.OrtOptions(rewrites=wrong)


@pytest.mark.usefixtures("no_cache")
def test_conversions_in_memory_are_told_apart_by_their_rules(rules_file: Path) -> None:
    path = str(rules_file)
    assert compile_graph(rewrites=path)["cache"] == "miss"
    assert compile_graph(rewrites=path)["cache"] == "memory"
    without_rules = compile_graph(rewrites="none")
    assert without_rules["cache"] == "miss" and op_types(without_rules) == ["Add", "Tanh"]


@pytest.mark.usefixtures("no_cache")
def test_a_changed_file_is_another_conversion(rules_file: Path) -> None:
    path = str(rules_file)
    assert compile_graph(rewrites=path)["rewrites"] == {"add_itself": 1}
    rules_file.write_text(SINE_RULE)
    changed = compile_graph(rewrites=path)
    assert changed["cache"] == "miss" and op_types(changed) == ["Add", "Tanh"]
    rules_file.write_text(ADD_RULE)
    assert compile_graph(rewrites=path)["cache"] == "memory"


@pytest.mark.usefixtures("no_cache")
def test_a_file_counts_by_what_it_holds(rules_file: Path, tmp_path: Path) -> None:
    """A copy of the file and a new modification time still hit the cache."""
    assert compile_graph(rewrites=str(rules_file))["cache"] == "miss"
    copy = tmp_path / "copy" / "mine.yaml"
    copy.parent.mkdir()
    copy.write_text(rules_file.read_text())
    assert compile_graph(rewrites=str(copy))["cache"] == "memory"
    os.utime(rules_file, ns=(1, 1))
    assert compile_graph(rewrites=str(rules_file))["cache"] == "memory"


@pytest.mark.usefixtures("no_cache")
def test_conversions_on_disk_are_told_apart_by_their_rules(
    rules_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortable.backend.cache import keys
    from ortable.backend.cache.memory import conversions

    # ignore specs with functions that another test loaded
    monkeypatch.setattr(keys, "LOADED_SPECS", [])
    folder, path = tmp_path / "cache", str(rules_file)
    assert compile_graph(folder, rewrites=path)["cache"] == "miss"
    conversions.clear()
    loaded = compile_graph(folder, rewrites=path)
    assert loaded["cache"] == "disk" and loaded["rewrites"] == {"add_itself": 1}
    conversions.clear()
    assert compile_graph(folder, rewrites="none")["cache"] == "miss"
    conversions.clear()
    rules_file.write_text(SINE_RULE)
    changed = compile_graph(folder, rewrites=path)
    assert changed["cache"] == "miss" and op_types(changed) == ["Add", "Tanh"]
    assert len(list(folder.glob("*.ortable"))) == 3
