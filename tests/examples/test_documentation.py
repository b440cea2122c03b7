"""The Python blocks of README.md and all pages of docs run, in order and in one namespace per page.

Blocks marked `python` run, blocks marked `pycon` are sessions whose output is compared, and blocks
marked `py` are excerpts (generated code, code with elisions) that must parse.
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.utils.benchmark  # before a page does: setuptools must be imported before distutils

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def find_blocks(page: str, *languages: str) -> list[tuple[int, str, str]]:
    """Return (line, language, code) of the blocks of a page in the given languages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match[1], match[2])
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


def run_page(page: str, folder: Path, names: dict[str, object]) -> dict[str, object]:
    """Run the blocks of a page in order in one namespace and return it.

    The code is also written to a file, because torch reads sources; blank lines give each line the
    number it has in the page.
    """
    file = folder / (Path(page).stem.replace("-", "_") + ".py")
    source = ""
    for line, language, code in find_blocks(page, "python", "pycon"):
        if language == "python":
            source += "\n" * (line - 1 - source.count("\n")) + code
            file.write_text(source, encoding="utf-8")
            exec(compile("\n" * (line - 1) + code, str(file), "exec"), names)
            continue
        session = doctest.DocTestParser().get_doctest(code, names, page, str(ROOT / page), line - 1)
        failures: list[str] = []
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(session, out=failures.append, clear_globs=False)
        assert not failures, "".join(failures)
    return names


def write_files(page: str, folder: Path) -> None:
    """Write the YAML blocks that begin with `# name.yaml`, which the page's code reads."""
    for _, _, text in find_blocks(page, "yaml"):
        if name := re.match(r"# (\w+\.yaml)\n", text):
            (folder / name[1]).write_text(text, encoding="utf-8")


@pytest.fixture
def names(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_dynamo: None,
    own_specs: None,
) -> dict[str, object]:
    """Run the blocks of a page in a new folder and return their namespace."""
    monkeypatch.chdir(tmp_path)
    write_files(request.param, tmp_path)
    module = types.ModuleType("page")  # objects that a page defines can be pickled
    monkeypatch.setitem(sys.modules, "page", module)
    return run_page(request.param, tmp_path, vars(module))


def find_pages(*languages: str) -> list[str]:
    return [page for page in PAGES if find_blocks(page, *languages)]


@pytest.mark.alternates(parts=3)
@pytest.mark.filterwarnings("default::ortable.errors.FallbackWarning")  # a page shows this warning
@pytest.mark.parametrize("names", find_pages("python", "pycon"), indirect=True)
def test_every_block_of_the_page_runs(names: dict[str, object]) -> None:
    assert len(names) > 1


@pytest.mark.parametrize("page", find_pages("py"))
def test_excerpts_parse(page: str) -> None:
    for line, _, code in find_blocks(page, "py"):
        ast.parse("\n" * (line - 1) + code, page)


def test_the_blocks_are_found() -> None:
    assert len(find_pages("python")) >= 8
    assert sum(len(find_blocks(page, "python")) for page in PAGES) >= 35


@pytest.mark.parametrize("names", ["README.md"], indirect=True)
def test_readme(names: dict[str, object], tmp_path: Path) -> None:
    assert (tmp_path / "neuron.onnx").stat().st_size > 0
    loss = names["loss"]
    assert isinstance(loss, torch.Tensor) and loss.grad_fn is not None


@pytest.mark.parametrize("names", ["docs/getting-started.md"], indirect=True)
def test_getting_started(names: dict[str, object]) -> None:
    storage, session, model = names["storage"], names["session"], names["model"]
    assert len(storage["instance"]) >= 1  # type: ignore[index]
    x = torch.randn(7, 10)
    with torch.no_grad():
        expected = model(x)  # type: ignore[operator]
    result = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])  # type: ignore[attr-defined]
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("names", ["docs/graph-builder.md"], indirect=True)
def test_graph_builder(names: dict[str, object]) -> None:
    assert [node.op_type for node in names["model"].graph.node] == ["MatMul", "Relu"]  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "graph-builder.md").read_text(encoding="utf-8")
    assert "# GraphBuilder(opset 18: 1 input, 1 output, 2 nodes, 1 initializer)" in text


@pytest.mark.parametrize("names", ["docs/rewrites.md"], indirect=True)
def test_rewrites(names: dict[str, object]) -> None:
    assert names["first"].made and names["statistics"].refused  # type: ignore[attr-defined]
