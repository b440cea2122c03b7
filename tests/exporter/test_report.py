"""The record and the report of a conversion."""

from __future__ import annotations

import onnxruntime
import pytest
import torch

from ortable import export, to_onnx
from ortable.errors import FunctionNotFoundError, InputError, OptionError
from ortable.exporter.frontend.export_request import PHASES
from tests.modules import Neuron


def test_the_record_has_the_seconds_of_every_phase(tmp_path, capsys) -> None:
    _, builder = to_onnx(
        Neuron(),
        (torch.rand(5, 3),),
        return_builder=True,
        validate=True,
        filename=tmp_path / "model.onnx",
        verbose=1,
    )
    record = builder.record
    assert tuple(record.seconds) == tuple(phase for phase in PHASES if phase != "round weights")
    assert all(seconds > 0 for seconds in record.seconds.values())
    assert record.strategy == "torch.export, strict=False"
    printed = capsys.readouterr().out
    for phase in ("export", "convert", "rewrite", "validate", "write"):
        assert f"[to_onnx] {phase}" in printed


def test_the_report_shows_what_was_done(tmp_path) -> None:
    path = tmp_path / "report.md"
    to_onnx(
        Neuron(),
        (torch.rand(5, 3),),
        dynamic_shapes={"x": {0: "batch"}},
        report=path,
        validate=True,
    )
    text = path.read_text()
    assert text.startswith("# Export of Neuron: done\n")
    assert "| input | x | float | [batch, 3] |" in text
    assert "| Gemm | 1 |" in text and "| aten::linear | 1 |" in text
    assert "| batch=6 | output_0 | float32 | [6, 1] |" in text
    assert f"| torch | {torch.__version__} |" in text
    assert "2 nodes, 2 initializers of " in text


def test_the_report_says_what_compared_and_how_closely(tmp_path) -> None:
    path = tmp_path / "report.md"
    to_onnx(Neuron(), (torch.rand(5, 3),), report=path, validate=True)
    text = path.read_text()
    version = onnxruntime.__version__
    assert f"| onnxruntime | {version} |" in text
    assert f"With onnxruntime {version}; float32 within 0.0001 + 0.001 * abs(eager);" in text
    # 3 weights and a bias: no "0.0 MB"
    assert "2 initializers of 16 bytes" in text


def test_the_report_says_the_difference_that_the_caller_accepts(tmp_path) -> None:
    path = tmp_path / "report.md"
    to_onnx(torch.nn.Linear(64, 64), (torch.rand(5, 64),), report=path, validate=0.01)
    text = path.read_text()
    assert "; floats within 0.01; dtypes, shapes, integers and booleans are equal." in text
    assert "initializers of 16.6 kB" in text


def test_the_report_has_the_range_of_each_dimension(tmp_path) -> None:
    path = tmp_path / "report.md"
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
    to_onnx(Neuron(), (torch.rand(5, 3),), dynamic_shapes=shapes, report=path)
    assert "| dimension | smallest | largest |\n| --- | --- | --- |\n| batch | 1 | 64 |\n" in (
        path.read_text()
    )
    to_onnx(Neuron(), (torch.rand(5, 3),), dynamic_shapes={"x": {0: "rows"}}, report=path)
    # no range was given
    assert "| rows |  |  |\n" in path.read_text()


def test_the_short_form_says_where_the_graph_is_from() -> None:
    module, x = Neuron(), torch.rand(5, 3)
    assert repr(export(module, (x,)).report).startswith("ExportReport(torch.export, strict=False, ")
    program = torch.export.export(module, (x,))
    assert repr(export(program).report).startswith("ExportReport(graph given, ")


class Strided(torch.nn.Module):
    """A model for which torch derives a lower bound of the width from its strides."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.second = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.second(self.first(image).relu()).relu().mean(2)
        return self.last(features.permute(0, 2, 1))


def test_a_smallest_size_that_torch_found_is_told() -> None:
    shapes = {"image": {0: torch.export.Dim("batch", max=64), 2: "height", 3: "width"}}
    program = export(Strided().eval(), (torch.rand(2, 1, 16, 40),), dynamic_shapes=shapes)
    assert "| width | 5 |  |\n" in str(program.report)
    assert "\n  sizes    batch 1 to 64, width from 5\n" in repr(program)
    with pytest.raises(InputError, match=r"5 or more there, a bound that torch.export found$"):
        program(torch.rand(1, 1, 16, 4))
    assert program(torch.rand(1, 1, 16, 5)).shape == (1, 2, 5)
    # the message does not attribute the caller's own bounds to torch.export
    with pytest.raises(InputError, match=r"the model takes 16 or more there$"):
        shapes["image"][3] = torch.export.Dim("width", min=16)
        program = export(Strided().eval(), (torch.rand(2, 1, 16, 40),), dynamic_shapes=shapes)
        program(torch.rand(1, 1, 16, 15))
    with pytest.raises(InputError, match=r"the model takes . to 64 there$"):
        program(torch.rand(65, 1, 16, 5))


class Narrow(Strided):
    """A model that checks that the width is at most 50."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        torch._check(image.shape[3] <= 50)
        return super().forward(image)


class Plain(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image + 1


def test_a_bound_that_torch_found_is_told_apart_from_the_one_beside_it() -> None:
    images = torch.rand(1, 1, 16, 40)
    with pytest.warns(UserWarning, match="width <= 50"):
        program = export(Narrow().eval(), (images,), dynamic_shapes={"image": {3: "width"}})
    with pytest.raises(InputError, match=r"is 4; .* 5 to 50 there, of which 5 is a bound that"):
        program(images[..., :4])
    with pytest.raises(InputError, match=r"5 to 50 there, of which 50 is a bound that torch.exp"):
        program(torch.rand(1, 1, 16, 51))
    width = torch.export.Dim("width", max=45)
    program = export(Plain(), (images,), dynamic_shapes={"image": {3: width}})
    with pytest.raises(InputError, match=r"the model takes \d to 45 there$"):
        program(torch.rand(1, 1, 16, 46))


class Checked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all(), "x must be positive")
        torch._check(x.sum().item() > 1, lambda: "the sum is small")
        return x + x.nonzero().shape[0]


def test_assertions_that_the_model_does_not_make_are_told(tmp_path, capsys) -> None:
    path = tmp_path / "report.md"
    _, builder = to_onnx(
        Checked(), (torch.ones(2, 3),), report=path, return_builder=True, verbose=1
    )
    lines = builder.record.assertions
    assert any(line.startswith("x must be positive (test_report.py:") for line in lines), lines
    assert any("the sum is small" in line or "1.0 <" in line for line in lines), lines
    assert not any(">= 0" in line for line in lines), "reports that a size is not negative"
    text = path.read_text()
    assert "## Assertions that the model does not make" in text
    assert all(f"- {line}" in text for line in lines)
    assert f"{len(lines)} assertions dropped" in capsys.readouterr().out


@torch.library.custom_op("reported::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@unknown.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_conversion_that_fails_leaves_its_report(tmp_path) -> None:
    class Custom(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return unknown(x) + 1

    path = tmp_path / "report.md"
    with pytest.raises(FunctionNotFoundError):
        to_onnx(Custom(), (torch.rand(3),), report=path)
    text = path.read_text()
    assert text.startswith("# Export of Custom: failed\n")
    assert "FunctionNotFoundError" in text and "| reported::unknown | 1 |" in text


def test_a_report_in_a_missing_folder_is_refused_at_once(tmp_path) -> None:
    with pytest.raises(OptionError, match="does not exist"):
        to_onnx(Neuron(), (torch.rand(5, 3),), report=tmp_path / "nowhere" / "report.md")


def test_large_models_say_what_is_outside(tmp_path) -> None:
    path = tmp_path / "report.md"
    to_onnx(Neuron(), (torch.rand(5, 3),), large_model=True, external_threshold=0, report=path)
    assert ", 2 of them outside of the ModelProto" in path.read_text()
