"""docs/options.md agrees with the sources, contains every option, and its examples run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import ortable

from . import options

EXAMPLES = options.examples()


def test_the_page_is_that_of_the_sources() -> None:
    assert options.PAGE.read_text(encoding="utf-8") == options.page(), (
        "generate the pages: python -m tests.reference"
    )


@pytest.mark.parametrize("group", options.GROUPS, ids=lambda group: group.key)
def test_each_option_has_an_example_and_no_other_has(group: options.Group) -> None:
    names = [option.name for option in options.options(group)]
    assert list(EXAMPLES[group.key]["options"]) == names


def test_options_of_the_backend_have_anchors_of_their_own_name() -> None:
    text = options.PAGE.read_text(encoding="utf-8")
    for option in options.options(options.GROUPS[0]):
        assert text.count(f"\n### {option.name}\n") == 1


@pytest.mark.parametrize(
    ("key", "name"),
    [(group.key, name) for group in options.GROUPS for name in EXAMPLES[group.key]["options"]],
)
def test_an_example_runs(
    key: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, fresh_dynamo
) -> None:
    """Run an example of the page, and call the module that an example of the backend compiles."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # cache folders go below HOME
    (tmp_path / "graphs").mkdir()
    model = torch.nn.Sequential(torch.nn.Linear(32, 4), torch.nn.Tanh()).eval()
    names = {"torch": torch, "ortable": ortable, "model": model, "x": torch.randn(2, 32)}
    code = EXAMPLES[key]["options"][name]["example"]
    assert f"{name}=" in code or f'"{name}"' in code
    with torch.no_grad():
        *statements, last = ast.parse(code).body
        exec(compile(ast.Module(statements, []), name, "exec"), names)
        result = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if key == "backend":
            result = result if callable(result) else names["compiled"]
            result(names["x"])  # type: ignore[operator]
