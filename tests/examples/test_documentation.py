"""The Python snippets of README.md and of pages in docs run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def snippets(document: str) -> list[tuple[int, str]]:
    """(line, code) of every block marked as Python."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    ]


def run_all(document: str) -> dict[str, object]:
    """Runs the snippets in order in one namespace, which is returned."""
    names: dict[str, object] = {"__name__": "snippets"}
    for line, code in snippets(document):
        # Blank lines put the line numbers of a traceback where they are in the document.
        exec(compile("\n" * (line - 1) + code, str(ROOT / document), "exec"), names)
    return names


@pytest.mark.usefixtures("fresh_dynamo")
def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_all("README.md")
    assert (tmp_path / "neuron.onnx").stat().st_size > 0
    loss = names["loss"]
    assert isinstance(loss, torch.Tensor) and loss.grad_fn is not None


@pytest.mark.usefixtures("fresh_dynamo")
def test_getting_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_all("docs/getting-started.md")
    storage, session, model = names["storage"], names["session"], names["model"]
    assert len(storage["instance"]) >= 1
    x = torch.randn(7, 10)
    with torch.no_grad():
        expected = model(x)
    got = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_graph_builder() -> None:
    names = run_all("docs/graph-builder.md")
    assert [node.op_type for node in names["model"].graph.node] == ["MatMul", "Relu"]  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "graph-builder.md").read_text(encoding="utf-8")
    assert "# GraphBuilder(opset 18: 1 input, 1 output, 2 nodes, 1 initializer)" in text


@pytest.mark.usefixtures("fresh_dynamo")
def test_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's file of rules is the one that its snippets read."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "rewrites.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "squares.yaml").write_text(rules)
    names = run_all("docs/rewrites.md")
    assert names["first"].made and names["statistics"].refused  # type: ignore[attr-defined]
