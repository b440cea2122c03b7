"""The scripts of examples/ and the notebook print correct results.

tests/sweeps runs the multi-process examples.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
from accelerate.state import AcceleratorState

from ortable.backend.aot import build

from . import EXAMPLES, script

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture
def run_script(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Return a function that runs the main function of a script and returns its output."""
    environment = dict(os.environ)  # the Trainer sets variables for accelerate
    AcceleratorState._reset_state(True)

    def run(name: str, *arguments: Any) -> str:
        assert script(name).main(*arguments) == 0
        return capsys.readouterr().out

    yield run
    AcceleratorState._reset_state(True)
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def compiled_graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each graph that ortable compiles appends an entry."""
    compiled: list[Any] = []
    original = build.log_compiled

    def record_compiled(*args: Any) -> None:
        compiled.append(args)
        original(*args)

    monkeypatch.setattr(build, "log_compiled", record_compiled)
    return compiled


def find_numbers(text: str, prefix: str) -> list[float]:
    """Return the numbers that follow `prefix` in a line, for all lines of the text."""
    rests = re.findall(rf"{re.escape(prefix)}(.*)", text)
    return [float(n) for rest in rests for n in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?", rest)]


# -- training


@pytest.mark.slow
def test_the_trainer_of_transformers(run_script, compiled_graphs) -> None:
    text = run_script("trainer_bert")
    steps = [line.split() for line in text.splitlines() if re.match(r" +\d+ +\d\.\d{4} +\d", line)]
    assert [step for step, _, _ in steps] == ["1", "9", "16"]
    assert all(float(eager) == pytest.approx(float(loss), abs=1e-3) for _, eager, loss in steps)
    assert float(steps[-1][2]) < float(steps[0][2])
    assert "graphs: 1 compiled" in text and len(compiled_graphs) == 2  # forward and backward
    assert text.rstrip().endswith("the loss falls")
    assert find_numbers(text, "largest difference of 16 losses:")[0] < 1e-3


def test_a_network_of_convolutions_under_autocast(run_script) -> None:
    text = run_script("train_cnn_amp")
    eager, compiled = find_numbers(text, "  eager   "), find_numbers(text, "  compiled")
    assert len(eager) == len(compiled) == 16  # eight epochs in each precision
    assert compiled == pytest.approx(eager, abs=5e-2)
    assert compiled[7] < 0.2 * compiled[0] and compiled[15] < 0.2 * compiled[8]
    assert max(find_numbers(text, "largest difference from eager")) < 1e-4
    (autocast_part, bfloat16_part) = text.split("bfloat16:")
    assert "forward: 0 operators in ONNX Runtime" in autocast_part
    assert "inference: 20 operators in ONNX Runtime, 0 in torch" in autocast_part
    assert int(re.search(r"backward: (\d+) operators in ONNX", bfloat16_part)[1]) > 10


def test_accelerate(run_script, compiled_graphs) -> None:
    text = run_script("accelerate_loop")
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d ", line)]
    assert len(rows) == 5
    assert all(float(eager) == pytest.approx(float(loss), abs=1e-4) for _, eager, loss in rows)
    assert float(rows[-1][2]) < 0.5 * float(rows[0][2])
    assert "graphs: 1 compiled" in text and len(compiled_graphs) == 2  # forward and backward


# -- language models and vision


@pytest.mark.parametrize("is_int8", [False, True], ids=["float32", "int8"])
def test_generation_over_a_static_cache(run_script, is_int8) -> None:
    text = run_script("generate_static_cache", ["--int8"] if is_int8 else [])
    assert "graphs: 2 for 16 tokens" in text
    rounded = int(re.search(r"weights of 8 bits: (\d+)", text)[1])
    equal = int(re.search(r"(\d+) of 32 tokens", text)[1])
    # two layers of 7 products and the head; the embedding table also counts
    assert (rounded, equal) == (0, 32) if not is_int8 else rounded >= 15 and equal >= 16
    eager, compiled = re.findall(r"\[(.*)\]", text)
    assert len(eager.split(",")) == 16 and (is_int8 or eager == compiled)


def test_densenet(run_script) -> None:
    text = run_script("densenet_inference")
    differences = find_numbers(text, "largest difference from eager")
    assert len(differences) == 4 and max(differences) < 1e-4
    assert "14 batch norms in the model, 8 in the ONNX graph" in text
    assert "ms a call" in text and "graph 1 (inference) of Sequential.forward" in text


# -- user-defined operators and rewrites


def test_an_operator_of_your_own(run_script, own_specs) -> None:
    text = run_script("your_own_operator")
    assert "example::softcap: it has no converter, at your_own_operator.py" in text
    nodes = re.search(r"ONNX nodes: (.*)", text)[1].split()
    assert nodes[0] == "Gemm" and "Tanh" in nodes and nodes[-1] == "Softmax"
    assert len(find_numbers(text, "largest difference from eager")) == 2


def test_a_rewrite_of_your_own(run_script) -> None:
    text = run_script("your_own_rewrite")
    assert "default: 9 nodes" in text and "length_of_vectors fired 0 times" in text
    assert "default + yours: 5 nodes {'ReduceL2': 2, 'Div': 2, 'Gemm': 1}" in text
    assert "compiled: rules that fired {'length_of_vectors': 2}" in text
    assert len(find_numbers(text, "largest difference from eager")) == 3


def test_a_wrong_entry_is_found(run_script, own_specs) -> None:
    text = run_script("find_a_wrong_kernel")
    first, second, third = text.split("== ")[1:]
    assert "over the tolerance" in first
    assert "shop::leaky(Tensor x) -> Tensor" in second and "spec: wrong_ops.yaml" in second
    assert "module: " in second and "return leaky(shift(self.fc(x)))" in second
    assert "ONNX [-0.01, 1.0]" in third and "has the wrong factor" in third


# -- files


def test_weights_beside_the_graph(run_script) -> None:
    text = run_script("large_export", ["--gigabytes", "0.02"])
    weights = int(re.search(r"weights: (\d+) MB", text)[1])
    assert weights == 21
    sizes = dict(re.findall(r"(model\.onnx\S*): ([\d.]+) MB", text))
    assert float(sizes["model.onnx"]) < 0.1 and float(sizes["model.onnx.data"]) >= weights
    assert find_numbers(text, "largest difference from eager")[0] < 1e-4


def test_the_folders_of_triton(run_script, tmp_path) -> None:
    text = run_script("serve/triton_repository", ["--folder", str(tmp_path)])
    config = (tmp_path / "classifier" / "config.pbtxt").read_text()
    assert config in text
    assert "max_batch_size: 32" in config and "dynamic_batching {" in config
    graph = onnx.load(tmp_path / "classifier" / "1" / "model.onnx").graph
    for value, dims in ((graph.input[0], 16), (graph.output[0], 4)):
        assert f'name: "{value.name}" data_type: TYPE_FP32 dims: [ {dims} ]' in config
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert config.count("{") == config.count("}") and config.count("[") == config.count("]")
    assert find_numbers(text, "each alone:")[0] < 1e-5


# -- the notebook and the page


def test_the_notebook(capsys) -> None:
    notebook = json.loads((EXAMPLES / "walk.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {"__name__": "walk"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    text = capsys.readouterr().out
    assert names["difference"] < 1e-5 and names["losses"][-1] < 0.5 * names["losses"][0]
    assert [r.kind for r in names["storage"]["instance"]] == ["inference", "forward", "backward"]
    assert names["validation"] and "batch=1" in text
    assert "LayerNormalization(gelu, norm.weight, norm.bias" in text
    assert "walk::mystery: it has no converter" in names["message"]


def test_the_page_has_every_example() -> None:
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\(\.\./examples/([\w/.]+)\)", page))
    files = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert linked == files
