"""User mistakes in each interface of ortable; golden.txt has the error messages."""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import ortable
from ortable.cli.main import main

LIBRARY = "errors_library"
CASES: dict[str, Callable[[], object]] = {}


def case(function: Callable[[], object]) -> Callable[[], object]:
    """Register a function as a case."""
    CASES[function.__name__] = function
    return function


@contextlib.contextmanager
def soft_step() -> Iterator[object]:
    """Define an operator that has no converter."""
    with torch.library._scoped_library(LIBRARY, "DEF") as library:
        library.define("soft_step(Tensor x, float slope=1.) -> Tensor")
        library.impl("soft_step", lambda x, slope=1.0: torch.sigmoid(slope * x), "CPU")
        library.impl("soft_step", lambda x, slope=1.0: torch.empty_like(x), "Meta")
        yield getattr(torch.ops, LIBRARY).soft_step


class Neuron(torch.nn.Module):
    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(x))


X = torch.arange(12, dtype=torch.float32).reshape(4, 3)


@functools.cache
def bert() -> torch.nn.Module:
    """Return a small BERT with all kinds of nodes of the original."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 100}
    config = BertConfig(num_hidden_layers=4, num_attention_heads=2, **sizes)
    return BertModel(config).eval()


class BertAndMore(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bert = bert()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids).last_hidden_state
        return getattr(torch.ops, LIBRARY).soft_step(hidden, 2.0)


IDS = torch.arange(8).reshape(1, 8)


@case
def to_onnx_missing_operator_behind_bert() -> None:
    with soft_step():
        ortable.to_onnx(BertAndMore(), (IDS,))


@case
def compile_missing_operator_behind_bert() -> None:
    with soft_step(), torch.no_grad():
        torch.compile(BertAndMore(), backend="ortable", options={"fallback": "error"})(IDS)


@case
def compile_unknown_option() -> None:
    torch.compile(torch.nn.Linear(3, 2), backend="ortable", options={"fall_back": "eager"})(X)


@case
def compile_unsupported_dtype() -> None:
    class Half(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z * 2

    half = torch.compile(Half(), backend="ortable", options={"fallback": "error"})
    half(torch.zeros(3, dtype=torch.complex32))


class Table(torch.nn.Embedding):
    """An embedding without a check of its indices, so that ONNX Runtime gets invalid ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._unsafe_index(self.weight, [x])


class Lookup(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = Table(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x).relu()


@case
def compile_index_out_of_range() -> None:
    with torch.no_grad():
        torch.compile(Lookup(), backend="ortable")(torch.tensor([1, 9]))


@case
def compile_missing_provider() -> None:
    options = {"providers": ["MIGraphXExecutionProvider"]}
    torch.compile(torch.nn.Linear(3, 2), backend="ortable", options=options)(X)


@case
def to_onnx_word_of_torch_onnx() -> None:
    ortable.to_onnx(torch.nn.Linear(3, 2), (X,), dynamic_axes={"input": {0: "batch"}})


@case
def to_onnx_unknown_argument() -> None:
    ortable.to_onnx(torch.nn.Linear(3, 2), (X,), opset=18)


@case
def to_onnx_unknown_dimension() -> None:
    ortable.to_onnx(Neuron(torch.relu), (X,), dynamic_shapes={"y": {0: "batch"}})


class Fixed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, 6)


@case
def to_onnx_dimension_that_is_fixed() -> None:
    batch = torch.export.Dim("batch")
    ortable.to_onnx(Fixed(), (X,), dynamic_shapes={"x": {0: batch}})


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


@case
def to_onnx_branch_on_data() -> None:
    ortable.to_onnx(Branch(), (X,))


@case
def to_onnx_branch_on_data_with_fallback() -> None:
    class Loop(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while x.sum() > float(x.max()):
                x = x - 1
            return x

    ortable.to_onnx(Loop(), (X,), export_options=ortable.ExportOptions(fallback=True))


@case
def to_onnx_converter_that_fails() -> None:
    def my_relu(graph: object, res: object, x: str) -> str:
        return graph.make_node("Relu", [x, "slope"], res.outputs)

    ortable.to_onnx(Neuron(torch.relu), (X,), dispatcher={"aten::relu": my_relu})


@case
def to_onnx_converter_with_another_shape() -> None:
    def my_relu(graph: object, res: object, x: str) -> str:
        return graph.make_node("Transpose", [x], res.outputs)

    ortable.to_onnx(Neuron(torch.relu), (X,), dispatcher={"aten::relu": my_relu})


@case
def to_onnx_missing_folder() -> None:
    ortable.to_onnx(torch.nn.Linear(3, 2), (X,), filename="no_such_folder/model.onnx")


@case
def to_onnx_no_module() -> None:
    ortable.to_onnx(torch.nn.Linear, (X,))


@case
def to_onnx_refused_opset() -> None:
    ortable.to_onnx(torch.nn.Linear(3, 2), (X,), target_opset=12)


@case
def to_onnx_unsupported_dtype() -> None:
    class Half(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return z * 2

    ortable.to_onnx(Half(), (torch.zeros(3, dtype=torch.complex32),))


@case
def to_onnx_validates_a_model_that_draws() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(x)

    ortable.to_onnx(Noise(), (X,), validate=True)


@case
def to_onnx_validates_a_wrong_converter() -> None:
    def my_relu(graph: object, res: object, x: str) -> str:
        return graph.make_node("Neg", [x], res.outputs)

    class Two(Neuron):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(super().forward(x)) * 2

    torch.manual_seed(0)
    two = Two(torch.relu)
    ortable.to_onnx(two, (X,), dispatcher={"aten::relu": my_relu}, validate=True)


INVALID_SPECS = """\
- op: aten::relu(Tensor self) -> Tensor
  out: {shape: same(x), dtype: same(self)}
  lower: return Relux(self)
  samples: [{self: "f32[2,3]"}]
- op: aten::tanh(Tensor self) -> Tensor
  output: {shape: same(self), dtype: same(self)}
  lower: return Tanh(self
"""


@case
def load_specs_with_mistakes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mine.yaml"
        path.write_text(INVALID_SPECS)
        ortable.load_specs(path)


def shell(*arguments: str) -> None:
    """Run a command and raise its output as an error."""
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        if main(arguments) != 0:
            text = output.getvalue().rstrip("\n")
            raise ShellError(text[text.index("error: ") :])  # skips torch's output


class ShellError(Exception):
    """A command ended with a nonzero status."""


def bert_and_more() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Return a model with a missing operator and its arguments, for the shell."""
    return BertAndMore(), (IDS,)


def branch() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """Return a model with a branch and its arguments, for the shell."""
    return Branch(), (X,)


def untouched() -> None:
    """Fail if the shell builds the model."""
    raise AssertionError("the model was built")


@case
def shell_export_of_a_missing_operator() -> None:
    with soft_step(), tempfile.TemporaryDirectory() as folder:
        shell("export", f"{__name__}:bert_and_more", "-o", f"{folder}/model.onnx")


@case
def shell_export_of_a_branch_on_data() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shell("export", f"{__name__}:branch", "-o", f"{folder}/model.onnx")


@case
def shell_export_into_a_missing_folder() -> None:
    shell("export", f"{__name__}:untouched", "-o", "no_such_folder/model.onnx")


@case
def shell_debug_of_a_missing_operator() -> None:
    with soft_step():
        shell("debug", "--no-fallback", f"{__name__}:bert_and_more")
