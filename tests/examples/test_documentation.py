"""The Python blocks of README.md and of every page of docs run as they stand, each page in order
and in one namespace.

A block marked `python` runs; one marked `pycon` is a session whose answers are compared; one marked
`py` is an excerpt (generated code, an elision) that only has to parse.
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
import torch.utils.benchmark  # as a page does: setuptools refuses to come behind distutils

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(page: str, *languages: str) -> list[tuple[int, str, str]]:
    """(line, language, code) of the blocks of a page in some languages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match[1], match[2])
        for match in BLOCK.finditer(text)
        if match[1] in languages
    ]


def run_page(page: str, folder: Path, names: dict[str, object]) -> dict[str, object]:
    """Runs the blocks of a page in order in one namespace, which is returned.

    The code lies in a file of the folder, as a reader's would, because torch reads sources; blank
    lines put each line where it is in the page.
    """
    file = folder / (Path(page).stem.replace("-", "_") + ".py")
    so_far = ""
    for line, language, code in blocks(page, "python", "pycon"):
        if language == "python":
            so_far += "\n" * (line - 1 - so_far.count("\n")) + code
            file.write_text(so_far, encoding="utf-8")
            exec(compile("\n" * (line - 1) + code, str(file), "exec"), names)
            continue
        session = doctest.DocTestParser().get_doctest(code, names, page, str(ROOT / page), line - 1)
        said: list[str] = []
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(session, out=said.append, clear_globs=False)
        assert not said, "".join(said)
    return names


def write_files(page: str, folder: Path) -> None:
    """A YAML block whose first line is `# name.yaml` is a file that the page's snippets read."""
    for _, _, text in blocks(page, "yaml"):
        if name := re.match(r"# (\w+\.yaml)\n", text):
            (folder / name[1]).write_text(text, encoding="utf-8")


@pytest.fixture
def ran(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_dynamo: None,
    own_specs: None,
) -> dict[str, object]:
    """The names that the snippets of a page leave, run in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    write_files(request.param, tmp_path)
    module = types.ModuleType("page")  # what a page defines can be pickled, as a script's can
    monkeypatch.setitem(sys.modules, "page", module)
    return run_page(request.param, tmp_path, vars(module))


def with_code(*languages: str) -> list[str]:
    return [page for page in PAGES if blocks(page, *languages)]


@pytest.mark.alternates(parts=2)
@pytest.mark.filterwarnings("default::ortable.errors.FallbackWarning")  # a page shows it
@pytest.mark.parametrize("ran", with_code("python", "pycon"), indirect=True)
def test_every_block_of_the_page_runs(ran: dict[str, object]) -> None:
    assert len(ran) > 1


@pytest.mark.parametrize("page", with_code("py"))
def test_excerpts_parse(page: str) -> None:
    for line, _, code in blocks(page, "py"):
        ast.parse("\n" * (line - 1) + code, page)


def test_the_blocks_are_found() -> None:
    assert len(with_code("python")) >= 8
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 35


@pytest.mark.parametrize("ran", ["README.md"], indirect=True)
def test_readme(ran: dict[str, object], tmp_path: Path) -> None:
    assert (tmp_path / "neuron.onnx").stat().st_size > 0
    loss = ran["loss"]
    assert isinstance(loss, torch.Tensor) and loss.grad_fn is not None


@pytest.mark.parametrize("ran", ["docs/getting-started.md"], indirect=True)
def test_getting_started(ran: dict[str, object]) -> None:
    storage, session, model = ran["storage"], ran["session"], ran["model"]
    assert len(storage["instance"]) >= 1  # type: ignore[index]
    x = torch.randn(7, 10)
    with torch.no_grad():
        expected = model(x)  # type: ignore[operator]
    got = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])  # type: ignore[attr-defined]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("ran", ["docs/graph-builder.md"], indirect=True)
def test_graph_builder(ran: dict[str, object]) -> None:
    assert [node.op_type for node in ran["model"].graph.node] == ["MatMul", "Relu"]  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "graph-builder.md").read_text(encoding="utf-8")
    assert "# GraphBuilder(opset 18: 1 input, 1 output, 2 nodes, 1 initializer)" in text


@pytest.mark.parametrize("ran", ["docs/rewrites.md"], indirect=True)
def test_rewrites(ran: dict[str, object]) -> None:
    assert ran["first"].made and ran["statistics"].refused  # type: ignore[attr-defined]
