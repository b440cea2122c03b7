"""Recurrent layers with a dynamic sequence length, which torch.export alone specializes."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import ExportError, InputError
from ortable.exporter.capture.patches import patch_recurrent_lengths

from .helpers import assert_same

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True),
    "projected": lambda: torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True, proj_size=3),
    "gru": lambda: torch.nn.GRU(4, 5, num_layers=2),
    "rnn_tanh": lambda: torch.nn.RNN(4, 5, batch_first=True),
    "rnn_relu": lambda: torch.nn.RNN(4, 5, nonlinearity="relu", bidirectional=True),
}
DIMS = {"input": {0: "rows", 1: "columns"}}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_both_sizes_of_a_recurrent_layer_stay_free(name: str) -> None:
    module, x = LAYERS[name]().eval(), torch.randn(3, 6, 4)
    with ortable.bypass_export_some_errors():
        model = ortable.to_onnx(module, (x,), dynamic_shapes=DIMS)
    sizes = [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == ["rows", "columns", ""]
    for shape in ((3, 6, 4), (5, 2, 4), (1, 7, 4)):
        assert_same(model, module, (torch.randn(shape),))


class LayerAfterWrite(torch.nn.Module):
    """A layer after an in-place write, for which torch traces the graph a second time."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[:, 0] = 1
        return self.layer(x)[0] * 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_sizes_stay_free_in_a_program_that_is_traced_again(name: str) -> None:
    module, x = LayerAfterWrite(LAYERS[name]()).eval(), torch.randn(3, 6, 4)
    torch.export.export(module, (x,)).run_decompositions({})  # registers torch's decompositions
    with ortable.bypass_export_some_errors():
        model = ortable.to_onnx(module, (x,), dynamic_shapes={"x": DIMS["input"]})
    sizes = [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == ["rows", "columns", ""]
    for shape in ((3, 6, 4), (5, 2, 4), (1, 7, 4)):
        assert_same(model, module, (torch.randn(shape),))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_decomposition_that_fixes_a_length_is_refused() -> None:
    module, x = LAYERS["lstm"]().eval(), torch.randn(3, 6, 4)
    options = ortable.ExportOptions(decomposition_table="all")
    with ortable.bypass_export_some_errors():
        dynamic_dims = dict.fromkeys(DIMS["input"], torch.export.Dim.DYNAMIC)
        program = torch.export.export(module, (x,), dynamic_shapes={"input": dynamic_dims})
        for _ in range(2):  # the first call makes torch specialize the program's own sizes
            with pytest.raises(ExportError, match="dimension 1 of input 'input' is 6 once operato"):
                ortable.to_onnx(program, export_options=options)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_the_patch_torch_fixes_the_length_and_the_error_says_which() -> None:
    module, x = LAYERS["lstm"]().eval(), torch.randn(3, 6, 4)
    with ortable.bypass_export_some_errors():
        pass
    with pytest.raises(ExportError, match="dimension 1 \\(columns\\)"):
        ortable.to_onnx(module, (x,), dynamic_shapes=DIMS)


def test_eager_results_are_torchs_own_while_the_patch_is_in_place() -> None:
    module, x = LAYERS["gru"]().eval(), torch.randn(3, 6, 4)
    expected = module(x)
    undo = patch_recurrent_lengths(lambda: True)
    try:
        for result, expected_result in zip(module(x), expected, strict=True):
            assert torch.equal(result, expected_result)
    finally:
        undo()


@pytest.mark.parametrize("layer_type", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_an_empty_batch_is_taken_and_an_empty_sequence_refused(layer_type) -> None:
    """ONNX Runtime's kernels abort the process for both; eager accepts an empty batch."""
    module = layer_type(4, 3, batch_first=True, bidirectional=True, num_layers=2).eval()
    with ortable.bypass_export_some_errors():
        program = ortable.export(
            module, (torch.rand(2, 5, 4),), dynamic_shapes=({0: "batch", 1: "time"},)
        )
    for x in (torch.rand(0, 5, 4), torch.ones(1, 1, 4)):
        torch.testing.assert_close(program(x), module(x))
    with pytest.raises(InputError, match=r"dimension 1 of 'input' is 0; .* 1 or more"):
        program(torch.rand(2, 0, 4))


def test_a_projected_lstm_takes_an_empty_batch() -> None:
    module = torch.nn.LSTM(4, 3, proj_size=2, bidirectional=True).eval()
    program = ortable.export(module, (torch.rand(5, 2, 4),), dynamic_shapes=({1: "batch"},))
    for x in (torch.rand(5, 0, 4), torch.ones(5, 3, 4)):
        torch.testing.assert_close(program(x), module(x))


def test_a_batch_of_a_known_size_is_not_padded() -> None:
    model = ortable.to_onnx(torch.nn.LSTM(4, 3).eval(), (torch.rand(5, 2, 4),))
    assert "Pad" not in {node.op_type for node in model.graph.node}
