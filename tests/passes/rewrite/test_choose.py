"""The argument ``rewrites`` of to_onnx and of the backend: names, lists, files of the user, and
caches that notice what changed."""

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

# Neither is a rule of the package, so that each test knows what fires.
TWICE = """\
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
SINE = """\
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


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + x)


X = torch.randn(2, 3)


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(TWICE)
    return path


def names(rules: tuple[Rule, ...]) -> set[str]:
    return {rule.name for rule in rules}


def packaged() -> dict[str, Rule]:
    return {rule.name: rule for rule in rule_selection.package_rules()}


def some_rule() -> Rule:
    return next(rule for rule in rule_selection.package_rules() if not rule.off)


# -- names


def test_default_is_every_rule_that_is_not_off() -> None:
    assert names(rule_selection.select_rules()) == {
        name for name, rule in packaged().items() if not rule.off
    }
    assert (
        rule_selection.select_rules()
        == rule_selection.select_rules("default")
        == rule_selection.select_rules(["default"])
    )


def test_all_has_those_that_are_off_too() -> None:
    assert names(rule_selection.select_rules("all")) == set(packaged())
    assert (
        rule_selection.select_rules("none")
        == rule_selection.select_rules([])
        == rule_selection.select_rules(["default", "none"])
        == ()
    )


def test_a_name_adds_its_rule_and_a_minus_takes_it_away() -> None:
    rule = some_rule()
    assert names(rule_selection.select_rules(rule.name)) == {rule.name}
    assert names(rule_selection.select_rules(["none", rule.name])) == {rule.name}
    assert names(rule_selection.select_rules(["default", f"-{rule.name}"])) == names(
        rule_selection.select_rules()
    ) - {rule.name}
    # read from left to right
    assert rule.name in names(rule_selection.select_rules([f"-{rule.name}", "default"]))
    again = rule_selection.select_rules(["default", f"-{rule.name}", rule.name])
    assert names(again) == names(rule_selection.select_rules()) and len(again) == len(
        rule_selection.select_rules()
    )


def test_a_file_of_the_package_stands_for_its_rules() -> None:
    stem = Path(some_rule().file).stem
    wanted = {name for name, rule in packaged().items() if Path(rule.file).stem == stem}
    assert names(rule_selection.select_rules(stem)) == wanted
    assert names(rule_selection.select_rules(["all", f"-{stem}"])) == set(packaged()) - wanted


def test_unknown_names_suggest_the_closest() -> None:
    rule = some_rule()
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


# -- files of the user


def test_a_file_adds_its_rules(rules_file: Path) -> None:
    mine = rule_selection.select_rules(str(rules_file))
    assert [(rule.name, rule.file) for rule in mine] == [("add_itself", "mine.yaml")]
    both = rule_selection.select_rules(["default", str(rules_file)])
    assert names(both) == names(rule_selection.select_rules()) | {"add_itself"}
    assert names(rule_selection.select_rules([str(rules_file), "-add_itself"])) == set()
    assert names(rule_selection.select_rules([str(rules_file), "-mine"])) == set()


def test_a_rule_of_a_file_is_known_only_after_the_file(rules_file: Path) -> None:
    with pytest.raises(OptionError, match="add_itself"):
        rule_selection.select_rules(["-add_itself", str(rules_file)])


def test_files_can_be_refused(rules_file: Path) -> None:
    with pytest.raises(OptionError, match="not accepted here"):
        rule_selection.select_rules(str(rules_file), user_files=False)


def test_errors_of_a_file_say_where(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(TWICE.replace("Add(x, x)", "Addd(x, x)").replace("is_float(x)", "floaty(x)"))
    with pytest.raises(SpecError, match=r"wrong\.yaml:4:\d+: error: .*Addd"):
        rule_selection.load_rules(path)
    path.write_text(TWICE.replace("is_float(x)\n", "floaty(x)\n"))
    with pytest.raises(SpecError, match=r"wrong\.yaml:5:\d+: error: unknown function 'floaty'"):
        ortable.to_onnx(Twice(), (X,), rewrites=str(path))


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot read the file of rewrites .*absent\.yaml"):
        rule_selection.select_rules(str(tmp_path / "absent.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"cannot read the file of rewrites .*bytes\.yaml"):
        rule_selection.select_rules(str(tmp_path / "bytes.yaml"))


def test_a_changed_file_is_compiled_again(rules_file: Path) -> None:
    (first,) = rule_selection.load_rules(rules_file)
    assert rule_selection.load_rules(rules_file) == (first,)
    rules_file.write_text(TWICE.replace("add_itself", "add_twice"))
    (second,) = rule_selection.load_rules(rules_file)
    assert second.name == "add_twice"


# -- to_onnx


def exported(**arguments: Any) -> tuple[list[str], dict[str, int]]:
    proto, builder = ortable.to_onnx(Twice(), (X,), return_builder=True, **arguments)
    return [node.op_type for node in proto.graph.node], builder.record.rewrites.counts()


def test_to_onnx_runs_what_is_named(rules_file: Path) -> None:
    path = str(rules_file)
    assert exported(rewrites="none") == (["Add", "Tanh"], {})
    assert exported(rewrites=["none", path]) == (["Mul", "Tanh"], {"add_itself": 1})
    assert exported(rewrites=path, validate=True)[1] == {"add_itself": 1}
    assert exported(rewrites=[path, "-add_itself"]) == (["Add", "Tanh"], {})


def test_to_onnx_runs_no_rule_without_optimize(rules_file: Path) -> None:
    operators, fired = exported(rewrites=str(rules_file), optimize=False)
    assert "Add" in operators and "Mul" not in operators and not fired


def test_to_onnx_refuses_what_is_wrong_before_it_traces() -> None:
    class Untraceable(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("was traced")

    with pytest.raises(OptionError, match="Did you mean 'default'"):
        ortable.to_onnx(Untraceable(), (X,), rewrites="defalt")


# -- the backend


def compiled(folder: Path | None = None, **options: Any) -> dict[str, Any]:
    """The record of the one graph of a compiled model, after a comparison with eager."""
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    options["storage"] = storage
    if folder is not None:
        options["cache_dir"] = str(folder)
    fast = torch.compile(Twice(), backend="ortable", options=options)
    with torch.no_grad():
        torch.testing.assert_close(fast(X), Twice()(X))
    (record,) = storage["instance"]
    return record


def kinds(record: dict[str, Any]) -> list[str]:
    return [node.op_type for node in record["onnx"].graph.node]


@pytest.fixture
def no_cache(fresh_dynamo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ortable.backend.cache.memory import conversions

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    conversions.clear()


@pytest.mark.usefixtures("no_cache")
def test_the_backend_runs_what_is_named(rules_file: Path) -> None:
    path = str(rules_file)
    plain = compiled(rewrites="none")
    assert (kinds(plain), plain["rewrites"]) == (["Add", "Tanh"], {})
    fused = compiled(rewrites=["default", path])
    assert (kinds(fused), fused["rewrites"]) == (["Mul", "Tanh"], {"add_itself": 1})
    assert compiled(rewrites=[path, "-mine"])["rewrites"] == {}
    with pytest.raises(Exception, match=r"'rewrites' is .*, but 'optimize' is False"):
        compiled(rewrites=path, optimize=False)


@pytest.mark.usefixtures("no_cache")
def test_the_backend_takes_the_keyword(rules_file: Path) -> None:
    storage: dict[str, Any] = {}

    def backend(graph_module: Any, args: Any) -> Any:
        return ortable.onnx_custom_backend(
            graph_module, args, rewrites=str(rules_file), storage=storage
        )

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(Twice(), backend=backend)(X), Twice()(X))
    assert storage["instance"][0]["rewrites"] == {"add_itself": 1}


@pytest.mark.usefixtures("no_cache")
def test_the_debug_backend_runs_the_rewritten_graph(rules_file: Path) -> None:
    storage: dict[str, Any] = {}

    def backend(graph_module: Any, args: Any) -> Any:
        return ortable.onnx_debug_backend(
            graph_module, args, rewrites=str(rules_file), storage=storage, compare=True
        )

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(Twice(), backend=backend)(X), Twice()(X))
    assert kinds(storage["instance"][0]) == ["Mul", "Tanh"]


@pytest.mark.parametrize("wrong", ["defalt", ["default", "-nothing"], 3, ["absent.yaml"]])
def test_the_backend_refuses_what_is_wrong(wrong: Any) -> None:
    with pytest.raises((OptionError, SpecError)):
        ortable.OrtOptions(rewrites=wrong)


# -- caches


@pytest.mark.usefixtures("no_cache")
def test_conversions_in_memory_are_told_apart_by_their_rules(rules_file: Path) -> None:
    path = str(rules_file)
    assert compiled(rewrites=path)["cache"] == "miss"
    assert compiled(rewrites=path)["cache"] == "memory"
    other = compiled(rewrites="none")
    assert other["cache"] == "miss" and kinds(other) == ["Add", "Tanh"]


@pytest.mark.usefixtures("no_cache")
def test_a_changed_file_is_another_conversion(rules_file: Path) -> None:
    path = str(rules_file)
    assert compiled(rewrites=path)["rewrites"] == {"add_itself": 1}
    rules_file.write_text(SINE)
    changed = compiled(rewrites=path)
    assert changed["cache"] == "miss" and kinds(changed) == ["Add", "Tanh"]
    rules_file.write_text(TWICE)
    assert compiled(rewrites=path)["cache"] == "memory"


@pytest.mark.usefixtures("no_cache")
def test_a_file_counts_by_what_it_holds(rules_file: Path, tmp_path: Path) -> None:
    """Elsewhere, or touched, it is the same."""
    assert compiled(rewrites=str(rules_file))["cache"] == "miss"
    copy = tmp_path / "copy" / "mine.yaml"
    copy.parent.mkdir()
    copy.write_text(rules_file.read_text())
    assert compiled(rewrites=str(copy))["cache"] == "memory"
    os.utime(rules_file, ns=(1, 1))
    assert compiled(rewrites=str(rules_file))["cache"] == "memory"


@pytest.mark.usefixtures("no_cache")
def test_conversions_on_disk_are_told_apart_by_their_rules(
    rules_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortable.backend.cache import keys
    from ortable.backend.cache.memory import conversions

    monkeypatch.setattr(keys, "LOADED_SPECS", [])  # specs with functions, loaded by another test
    folder, path = tmp_path / "cache", str(rules_file)
    assert compiled(folder, rewrites=path)["cache"] == "miss"
    conversions.clear()
    found = compiled(folder, rewrites=path)
    assert found["cache"] == "disk" and found["rewrites"] == {"add_itself": 1}
    conversions.clear()
    assert compiled(folder, rewrites="none")["cache"] == "miss"
    conversions.clear()
    rules_file.write_text(SINE)
    changed = compiled(folder, rewrites=path)
    assert changed["cache"] == "miss" and kinds(changed) == ["Add", "Tanh"]
    assert len(list(folder.glob("*.ortable"))) == 3
