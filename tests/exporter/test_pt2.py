"""Export of ExportedProgram objects, in memory and from files of torch.export.save."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from ortable.errors import ExportError
from ortable.exporter.capture.pt2_expressions import is_arithmetic
from ortable.exporter.to_onnx import to_onnx

from .helpers import assert_close, assert_same, eager, feeds_of, run_onnx
from .test_inputs import PAST, Cached, cache, sizes


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(self.norm(x))) * scale


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x.sum(0))
        return x + self.count


def export_with_rows(module: torch.nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(
        module,
        (torch.rand(3, 4),),
        {"scale": torch.rand(3, 1)},
        dynamic_shapes={"x": {0: Dim("rows")}, "scale": {0: Dim("rows")}},
    )


def check_results(model, module: torch.nn.Module) -> None:
    for rows in (3, 5):
        assert_same(model, module, (torch.rand(rows, 4),), {"scale": torch.rand(rows, 1)})


@pytest.mark.parametrize("table", [None, {}, "default"])
def test_a_program_before_and_after_decomposition(table) -> None:
    module = Block()
    program = export_with_rows(module)
    if table is not None:
        program = program.run_decompositions({} if table == {} else None)
    model = to_onnx(program)
    assert sizes(model.graph.input) == {"x": ["rows", 4], "scale": ["rows", 1]}
    check_results(model, module)


def test_a_program_in_training_form_is_taken() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).eval()
    program = torch.export.export_for_training(module, (torch.rand(3, 4),)) if hasattr(
        torch.export, "export_for_training"
    ) else torch.export.export(module, (torch.rand(3, 4),))  # fmt: skip
    assert any("batch_norm" in str(node.target) for node in program.graph.nodes)
    assert_same(to_onnx(program), module, (torch.rand(3, 4),))


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_buffer_that_changes_is_an_output_of_the_program_too(decomposed) -> None:
    module, x = Counter(), torch.rand(3, 2)
    program = torch.export.export(module, (x,))
    model = to_onnx(program.run_decompositions({}) if decomposed else program)
    assert list(sizes(model.graph.output)) == ["output_0", "count"]
    results = run_onnx(model, feeds_of(model, (x,)))
    (expected,) = eager(module, (x,))
    assert_close(results, [expected, x.sum(0)])


@pytest.mark.parametrize("path_type", [str, Path])
def test_a_saved_program_is_given_by_its_path(path_type, tmp_path) -> None:
    module = Block()
    path = tmp_path / "block.pt2"
    torch.export.save(export_with_rows(module), path)
    model = to_onnx(path_type(path), validate=True)
    check_results(model, module)
    renamed_model = to_onnx(path_type(path), dynamic_shapes={"x": {0: "batch"}}, output_names=["y"])
    assert sizes(renamed_model.graph.input) == {"x": ["batch", 4], "scale": ["batch", 1]}
    assert sizes(renamed_model.graph.output) == {"y": ["batch", 4]}


def test_a_saved_program_without_its_example_still_takes_names(tmp_path) -> None:
    program = export_with_rows(Block())
    program.example_inputs = None
    torch.export.save(program, tmp_path / "block.pt2")
    model = to_onnx(tmp_path / "block.pt2", dynamic_shapes={"scale": {0: "batch"}})
    assert sizes(model.graph.input) == {"x": ["batch", 4], "scale": ["batch", 1]}


def test_a_dimension_that_the_program_fixes_cannot_be_named() -> None:
    with pytest.raises(ExportError, match="dimension 1 of 'x' is named 'width', but the program"):
        to_onnx(export_with_rows(Block()), dynamic_shapes={"x": {1: "width"}})
    with pytest.raises(ExportError, match=r"the arguments of the model are \['x', 'scale'\]"):
        to_onnx(export_with_rows(Block()), dynamic_shapes={"y": {1: "width"}})


def test_what_a_model_cannot_return_is_named() -> None:
    class WritesParameter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.weight.add_(1)
            return x + self.weight

    with pytest.raises(ExportError, match=r"writes to its parameter 'weight'.*register_buffer"):
        to_onnx(WritesParameter(), (torch.rand(4),))
    program = export_with_rows(Block())
    del program.state_dict["linear.bias"]
    with pytest.raises(ExportError, match=r"has no tensor for 'linear\.bias' \(PARAMETER\)"):
        to_onnx(program)


def test_a_saved_program_with_a_cache(tmp_path, monkeypatch) -> None:
    args = (torch.rand(3, 2, 6, 4), cache(3, 5))
    to_onnx(Cached(), args)  # registers the cache class with pytree for torch.export.export
    dynamic_dims = dict.fromkeys(PAST, Dim.DYNAMIC)
    shapes = {"x": dynamic_dims, "past": [[dynamic_dims] * 2, [dynamic_dims] * 2]}
    torch.export.save(
        torch.export.export(Cached(), args, dynamic_shapes=shapes), tmp_path / "c.pt2"
    )
    model = to_onnx(tmp_path / "c.pt2", dynamic_shapes={"x": {0: "batch", 2: "new"}})
    assert sizes(model.graph.input)["x"] == ["batch", 2, "new", 4]
    for rows, new, past in ((3, 6, 5), (2, 3, 9)):
        assert_same(model, Cached(), (torch.rand(rows, 2, new, 4), cache(rows, past)))
    monkeypatch.setitem(sys.modules, "transformers.cache_utils", None)
    with pytest.raises(ExportError, match=r"c\.pt2' has an argument of .* is not installed"):
        to_onnx(tmp_path / "c.pt2")


def archive(path: Path, *names: str, content: str = "{") -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(f"model/{name}", content)


@pytest.mark.parametrize(
    ("write_file", "message"),
    [
        (lambda path: None, "to export is missing"),
        (lambda path: path.mkdir(), "to export is a folder"),
        (lambda path: path.write_bytes(b"PK broken"), "broken, or no file of torch.export.save"),
        (lambda path: torch.save({"a": torch.rand(2)}, path), "a pickle of torch.save"),
        (lambda path: archive(path, "code/__torch__.py", "constants.pkl"), "a TorchScript archive"),
        (lambda path: archive(path, "data/aotinductor/model/a.so"), "a package of AOTInductor"),
        (lambda path: archive(path, "readme.txt"), "no program of torch.export.save"),
        (lambda path: archive(path, "models/model.json"), "is a broken archive: .* is not JSON"),
        (
            lambda path: archive(path, "models/model.json", content="[" * 100_000),
            "not opened: model/models/model.json is nested too deep",
        ),
    ],
)
def test_other_files_are_refused_by_name(write_file, message, tmp_path) -> None:
    path = tmp_path / "model.pt2"
    write_file(path)
    with pytest.raises(ExportError, match=message):
        to_onnx(path)


def test_an_onnx_file_is_no_program(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(torch.nn.ReLU(), (torch.rand(2),), filename=path)
    with pytest.raises(ExportError, match="an ONNX model already"):
        to_onnx(path)


@pytest.mark.parametrize(
    ("text", "beyond"),
    [
        ("s0 * 9", "s0 * 'x'"), ("9 * s0", "'x' * s0"), ("9 * s0", "9 * b'x'"),
        ("s0 * 9", "b'x' * 9"), (f"s0 - {1 << 64}", f"s0 - {(1 << 64) + 1}"),
        ("s0**64", "s0**65"), ("s0**-64", "s0**-65"), ("1 << 64", "1 << 65"),
        ("Pow(s0, Integer(64))", "Pow(s0, Integer(65))"), ("s0**2", "2**s0"),
        ("s0**2 * s0**2", "(s0**2)**2"), ("Symbol('s0')", "Symbol('s__0')"),
        ("Float('1e308', precision=64)", "Float('1', precision=65)"),
        ("Float('1e308')", "Float('1e309')"),
    ],
)  # fmt: skip
def test_texts_whose_values_may_be_too_large_are_no_arithmetic(text: str, beyond: str) -> None:
    assert is_arithmetic(text)
    assert not is_arithmetic(beyond)
