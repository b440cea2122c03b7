"""BERT base with random weights gives eager's results with to_onnx and torch.compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import ortable
from benchmarks.models.bert import bert, bert_inputs

OUTPUTS = ("last_hidden_state", "pooler_output")
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return bert(12)


def run_eager(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        result = model(**inputs)
    return [result[name] for name in OUTPUTS]


def assert_equal_to_eager(results: Sequence[object], expected: Sequence[torch.Tensor]) -> None:
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        tensor = torch.from_numpy(result) if isinstance(result, np.ndarray) else result
        assert isinstance(tensor, torch.Tensor)
        assert tensor.dtype == reference.dtype
        assert tensor.shape == reference.shape
        assert (tensor - reference).abs().max().item() < TOLERANCE


def run_model(path: str, inputs: Mapping[str, torch.Tensor]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: value.numpy() for name, value in inputs.items()})


def test_the_model_is_bert_base(model: torch.nn.Module) -> None:
    assert sum(p.numel() for p in model.parameters()) == 109_482_240


@pytest.mark.slow
def test_static_export_equals_eager(model: torch.nn.Module, tmp_path) -> None:
    inputs = bert_inputs(2, 16)
    path = str(tmp_path / "bert.onnx")
    proto = ortable.to_onnx(model, (), inputs, filename=path)
    assert [i.name for i in proto.graph.input] == list(inputs)
    assert_equal_to_eager(run_model(path, inputs), run_eager(model, inputs))


@pytest.mark.slow
def test_dynamic_export_runs_other_batches_and_lengths(model: torch.nn.Module, tmp_path) -> None:
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=512)
    shape = {0: batch, 1: length}
    path = str(tmp_path / "bert.onnx")
    proto = ortable.to_onnx(
        model,
        (),
        bert_inputs(2, 16),
        dynamic_shapes={"input_ids": shape, "attention_mask": shape},
        filename=path,
    )
    for value in proto.graph.input:
        dims = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        assert dims == ["batch", "length"]
    for rows, columns in ((2, 16), (3, 7), (1, 40)):
        inputs = bert_inputs(rows, columns)
        assert_equal_to_eager(run_model(path, inputs), run_eager(model, inputs))


def test_weights_left_in_torch_are_saved_beside_the_graph(model: torch.nn.Module, tmp_path) -> None:
    inputs = bert_inputs(2, 16)
    path = str(tmp_path / "bert.onnx")
    ortable.to_onnx(model, (), inputs, large_model=True).save(path)
    assert len(onnx.load(path, load_external_data=False).SerializeToString()) < 4_000_000
    assert_equal_to_eager(run_model(path, inputs), run_eager(model, inputs))


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_forward_equals_eager(model: torch.nn.Module) -> None:
    compiled = torch.compile(model, backend="ortable")
    for padded in (True, False):
        inputs = bert_inputs(2, 16, padded=padded)
        with torch.no_grad():
            result = compiled(**inputs)
        assert_equal_to_eager([result[name] for name in OUTPUTS], run_eager(model, inputs))
