"""Complex tensors are pairs inside a graph, and real tensors with a last dimension of 2 at its
boundary."""

from __future__ import annotations

import onnxruntime
import pytest
import torch
import torch.fx.passes.shape_prop

import ortable
from ortable.errors import UnsupportedCase


class Filter(torch.nn.Module):
    """A filter in the frequency domain, with complex weights."""

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
    got = session.run(None, feeds)
    torch.testing.assert_close(torch.from_numpy(got[0]), expected[0].detach())
    torch.testing.assert_close(
        torch.view_as_complex(torch.from_numpy(got[1])), expected[1].detach().resolve_conj()
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
        wanted, got = function(x, w), compiled(x, w)
        for left, right in zip(got, wanted, strict=True):
            torch.testing.assert_close(left, right)
            assert left.stride() == right.stride()
        gradients = [
            torch.autograd.grad(each[0].sum() + each[1].abs().sum(), [x, w])
            for each in (got, wanted)
        ]
        for left, right in zip(*gradients, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["ortable", ortable.onnx_debug_backend])
def test_a_conjugated_argument_is_resolved(backend: object) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda z: z * 2, backend=backend)
    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(compiled(z.conj()), z.conj().resolve_conj() * 2)


def test_a_write_into_a_complex_tensor_of_the_graph_is_the_functional_operator() -> None:
    class Cleared(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return (z * 2).zero_() + 1

    model = ortable.to_onnx(Cleared(), (torch.randn(3, dtype=torch.complex64),))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (got,) = session.run(None, {session.get_inputs()[0].name: torch.randn(3, 2).numpy()})
    assert got.tolist() == [[1, 0]] * 3


def test_an_operator_without_a_complex_form_is_refused_with_the_lines_to_add() -> None:
    class Scattered(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.scatter(z, 0, torch.tensor([0]), 2.0, reduce="add")

    with pytest.raises(UnsupportedCase, match=r"has no form for complex tensors"):
        ortable.to_onnx(Scattered(), (torch.randn(3, dtype=torch.complex64),))


def test_python_functions_and_indexing_of_a_traced_graph() -> None:
    class Traced(torch.nn.Module):
        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(z[:, 1:] * 2)

    z = torch.randn(2, 3, dtype=torch.complex64)
    graph = torch.fx.symbolic_trace(Traced())
    torch.fx.passes.shape_prop.ShapeProp(graph).propagate(z)
    model = ortable.to_onnx(graph)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (got,) = session.run(None, {session.get_inputs()[0].name: torch.view_as_real(z).numpy()})
    torch.testing.assert_close(torch.from_numpy(got), Traced()(z))
