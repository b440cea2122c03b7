"""A complex tensor is a pair inside a graph, and a real tensor of last size 2 at its boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.fx.passes.shape_prop

import ortable
from ortable import dtypes
from ortable.errors import ConversionError, UnsupportedCase
from ortable.prelude.complex_value import ComplexValue


class Filter(torch.nn.Module):
    """Filter in the frequency domain with complex weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(5, dtype=torch.complex64))
        self.register_buffer("shift", torch.randn(5, dtype=torch.complex64))

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = torch.fft.rfft(x) * self.weight + self.shift * c
        return torch.fft.irfft(spectrum), spectrum.mT.conj()


def test_inputs_initializers_and_outputs_have_a_last_dimension_of_two() -> None:
    x, c = torch.randn(3, 8), torch.randn(3, 5, dtype=torch.complex64)
    batch = {0: torch.export.Dim("batch")}
    model = ortable.to_onnx(Filter(), (x, c), dynamic_shapes=(batch, batch), validate=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert [value.shape for value in session.get_inputs()] == [["batch", 8], ["batch", 5, 2]]
    x, c = torch.randn(4, 8), torch.randn(4, 5, dtype=torch.complex64)
    feeds = {"x": x.numpy(), "c": torch.view_as_real(c).numpy()}
    expected = Filter()(x, c)
    actual = session.run(None, feeds)
    torch.testing.assert_close(torch.from_numpy(actual[0]), expected[0].detach())
    torch.testing.assert_close(
        torch.view_as_complex(torch.from_numpy(actual[1])), expected[1].detach().resolve_conj()
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_graphs_take_and_return_complex_tensors_and_gradients(dynamic: bool) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.fft.rfft(x) * w + w.conj()
        return torch.fft.irfft(y, n=8), y.t(), w

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ortable", dynamic=dynamic, fullgraph=True)
    for size in (3, 4):
        x = torch.randn(size, 8, requires_grad=True)
        w = torch.randn(size, 5, dtype=torch.complex64, requires_grad=True)
        expected, actual = function(x, w), compiled(x, w)
        for value, reference in zip(actual, expected, strict=True):
            torch.testing.assert_close(value, reference)
            assert value.stride() == reference.stride()
        gradients = [
            torch.autograd.grad(outputs[0].sum() + outputs[1].abs().sum(), [x, w])
            for outputs in (actual, expected)
        ]
        for value, reference in zip(*gradients, strict=True):
            torch.testing.assert_close(value, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["ortable", ortable.onnx_debug_backend])
def test_a_conjugated_argument_is_resolved(backend: object) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda z: z * 2, backend=backend)
    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(compiled(z.conj()), z.conj().resolve_conj() * 2)


def test_a_write_into_a_complex_tensor_of_the_graph_is_the_functional_operator() -> None:
    class ZeroInPlace(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return (z * 2).zero_() + 1

    model = ortable.to_onnx(ZeroInPlace(), (torch.randn(3, dtype=torch.complex64),))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (actual,) = session.run(None, {session.get_inputs()[0].name: torch.randn(3, 2).numpy()})
    assert actual.tolist() == [[1, 0]] * 3


def test_an_operator_without_a_complex_form_is_refused_with_the_lines_to_add() -> None:
    class Scatter(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.scatter(z, 0, torch.tensor([0]), 2.0, reduce="add")

    with pytest.raises(UnsupportedCase, match=r"has no form for complex tensors"):
        ortable.to_onnx(Scatter(), (torch.randn(3, dtype=torch.complex64),))


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda graph, res, self, *rest, **more: graph.op.Slice(self, *_make_bounds(graph)),
         "the ONNX graph computes float32, torch computes complex64"),
        (lambda graph, res, self, *rest, **more: ComplexValue(self, self, dtypes.complex64),
         "the ONNX graph computes shape 3x8, torch computes shape 3x5"),
    ],
)  # fmt: skip
def test_a_converter_of_another_kind_of_result_than_torchs_is_an_error(
    convert: Any, message: str
) -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x)

    with pytest.raises(ConversionError, match=f"fft_rfft could not be converted: .*{message}"):
        ortable.to_onnx(Spectrum(), (torch.randn(3, 8),), dispatcher={"aten::fft_rfft": convert})


@pytest.mark.parametrize("has_complex", [False, True])
def test_a_pair_in_place_of_a_real_result_is_an_error(has_complex: bool) -> None:
    class ReluOfAbs(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.fft.rfft(x).abs() if has_complex else x)

    def convert(graph: Any, res: Any, self: str) -> Any:
        return ComplexValue(self, self, dtypes.complex64)

    message = "the ONNX graph computes complex64, torch float32"
    with pytest.raises(ConversionError, match=message):
        ortable.to_onnx(ReluOfAbs(), (torch.randn(3, 8),), dispatcher={"aten::relu": convert})


def _make_bounds(graph: Any) -> list[str]:
    return [graph.make_initializer("", np.array([bound])) for bound in (0, 5, 1)]


def test_python_functions_and_indexing_of_a_traced_graph() -> None:
    class Pairs(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(z[:, 1:] * 2)

    z = torch.randn(2, 3, dtype=torch.complex64)
    graph = torch.fx.symbolic_trace(Pairs())
    torch.fx.passes.shape_prop.ShapeProp(graph).propagate(z)
    model = ortable.to_onnx(graph)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (actual,) = session.run(None, {session.get_inputs()[0].name: torch.view_as_real(z).numpy()})
    torch.testing.assert_close(torch.from_numpy(actual), Pairs()(z))
