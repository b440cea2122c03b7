"""Gradients of single operators that have a backward operator equal eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from ortable.errors import UnsupportedCase

# functions and the shapes of their tensors
FUNCTIONS = {
    "average pool in three dimensions": (
        lambda x: F.avg_pool3d(x, 2, 2, 1, count_include_pad=False),
        [(2, 3, 4, 5, 4)],
    ),
    "uneven adaptive average pool": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), [(2, 3, 8, 7)]),
    "max pool in three dimensions": (lambda x: F.max_pool3d(x, 2, 1), [(1, 2, 4, 4, 3)]),
    "padding at the edge": (lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"), [(1, 2, 3, 4)]),
    "matrix and vector": (lambda a, b: a @ b, [(5, 7), (7,)]),
    "matrices and vector": (lambda a, b: a.transpose(1, 2) @ b, [(3, 5, 7), (5,)]),
    "masked scatter": (lambda a, b: a.masked_scatter(a > 0, b), [(3, 4), (3, 4)]),
    "product with a complex number": (
        lambda x: torch.view_as_real(torch.view_as_complex(x) * (0.5 + 1j)),
        [(3, 4, 2)],
    ),
    "weight norm": (lambda v, g: torch._weight_norm(v, g, 0), [(3, 4, 2), (3, 1, 1)]),
    "rows counted": (
        lambda w: F.embedding(torch.tensor([0, 3, 0, 1]), w, scale_grad_by_freq=True),
        [(5, 3)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_equal_eager(name, run_gradients):
    function, shapes = FUNCTIONS[name]
    run_gradients(function, [torch.randn(shape) for shape in shapes])


def test_gradient_of_a_float64_convolution(run_gradients):
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in ((2, 4, 7, 8), (6, 2, 3, 2))]
    run_gradients(lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2), tensors)


def test_scaled_products_keep_float64():
    """ONNX Runtime's fusion of a product and a factor would round the factor to float32."""
    a, b = torch.rand(3, 8, dtype=torch.float64), torch.rand(8, 6, dtype=torch.float64)
    got = torch.compile(lambda a, b: (a * 0.5946035575013605) @ b, backend="ortable")(a, b)
    torch.testing.assert_close(got, (a * 0.5946035575013605) @ b, rtol=1e-14, atol=1e-14)


@pytest.fixture
def run_gradients():
    """Return a function that compares results and gradients, for a fixed cotangent, with eager."""

    def compute_gradients(function, tensors):
        sources = [tensor.clone().requires_grad_(True) for tensor in tensors]
        result = function(*sources)
        cotangent = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
        result.backward(cotangent)
        return [result.detach(), *(source.grad for source in sources)]

    def compare(function, tensors):
        compiled = torch.compile(function, backend="ortable", fullgraph=True, dynamic=False)
        for got, expected in zip(
            compute_gradients(compiled, tensors), compute_gradients(function, tensors), strict=True
        ):
            torch.testing.assert_close(got, expected)

    return compare


def test_views_at_places_that_only_data_know_are_refused():
    """AOTAutograd would rebuild the views from the start of the argument."""

    def split(x, indices):
        return torch.tensor_split(x, indices)

    options = {"fallback": "error"}
    compiled = torch.compile(split, backend="ortable", fullgraph=True, options=options)
    with pytest.raises(Exception, match="storage offset depends on data") as error_info:
        compiled(torch.randn(5, 2), torch.tensor([1, 3]))
    error = error_info.value
    assert isinstance(getattr(error, "inner_exception", error), UnsupportedCase)


@pytest.mark.parametrize("name", ["inv", "cholesky", "solve", "slogdet", "det"])
def test_factors_and_checks_of_linear_algebra_train(name: str, fresh_dynamo: None) -> None:
    """Torch checks `info` with an effectful operator; LU factors depend on the matrix's layout."""

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        square = a @ a.mT + torch.eye(3)
        operator = getattr(torch.linalg, name)
        result = operator(square, b) if name == "solve" else operator(square)
        return result[1] if name == "slogdet" else result

    inputs = [torch.randn(3, 3, requires_grad=True), torch.randn(3, requires_grad=True)]
    copies = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    expected = function(*inputs)
    got = torch.compile(function, backend="ortable", fullgraph=True)(*copies)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    expected.square().sum().backward()
    got.square().sum().backward()
    for compiled_input, eager_input in zip(copies, inputs, strict=True):
        if eager_input.grad is not None:
            torch.testing.assert_close(compiled_input.grad, eager_input.grad, rtol=1e-3, atol=1e-3)
