"""8-bit floats as arguments, results and weights; ONNX Runtime's dlpack does not support them."""

from __future__ import annotations

import pytest
import torch

from ortable.errors import OrtableError
from tests.backend.against_eager import compiled

FLOAT8 = [
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
]
every_float8 = pytest.mark.parametrize("dtype", FLOAT8, ids=lambda dtype: str(dtype)[6:])


def assert_same_bytes(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    assert torch.equal(got.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))


def make_every_byte(dtype):
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).reshape(4, 64)


@pytest.mark.alternates(parts=2)
@every_float8
def test_arguments_and_results(dtype):
    def fn(x, y):
        wide = x.to(torch.float32)
        small = y.to(dtype)
        return wide, x.t(), x.reshape(8, 32), small, wide.bool(), small.to(torch.float16), x

    y = torch.cat([torch.randn(50) * 100, torch.tensor([0.0, -0.0, 1e-9, 1e9, float("inf")])])
    limits = torch.tensor([447, 448, 463, 464, 465, 57344, 61439, 61440, 61441, 240, 247, 248, 249])
    y = torch.cat([y, limits, -limits])
    run = compiled(fn)
    for x in (make_every_byte(dtype), make_every_byte(dtype).t().contiguous().t()):
        for got, expected in zip(run(x, y), fn(x, y), strict=True):
            if got.is_floating_point() and got.dtype.itemsize > 1:
                torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            else:
                assert_same_bytes(got, expected)


@pytest.mark.alternates(parts=2)
@every_float8
def test_every_size(dtype):
    run = compiled(lambda x: (x.float() * 2).to(dtype), dynamic=True)
    for shape in ((2, 3), (5, 7), (0, 3), ()):
        x = torch.randn(shape).to(dtype)
        assert_same_bytes(run(x), (x.float() * 2).to(dtype))


def test_results_are_no_views():
    for grad in (False, True):
        x = torch.randn(4, 4, requires_grad=grad)
        with torch.set_grad_enabled(grad):
            results = compiled(lambda x: [x.to(dtype) for dtype in FLOAT8])(x)
        for result in results:
            assert not result._is_view()
            assert grad or result._base is None


@pytest.mark.parametrize("source", [torch.float64, torch.bfloat16, torch.int32, torch.bool])
def test_casts_from_other_types(source):
    x = torch.arange(-300, 300).to(source)

    def fn(x):
        return [x.to(dtype) for dtype in FLOAT8]

    for got, expected in zip(compiled(fn)(x), fn(x), strict=True):
        assert_same_bytes(got, expected)


@every_float8
def test_float64_beside_a_limit_is_rounded_through_float32(dtype):
    limits = torch.tensor([61440, 464, 248, 240, 1.125, 2.0**-7], dtype=torch.float64)
    x = torch.cat([limits, limits.nextafter(limits * 0), limits.nextafter(limits * 2)])
    x = torch.cat([x, -x])
    assert_same_bytes(compiled(lambda x: x.to(dtype))(x), x.to(dtype))


def test_weights_are_read_at_every_call():
    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(64, 64).to(torch.float8_e4m3fn))

        def forward(self, x):
            return x @ self.weight.float()

    model, x, storage = Linear(), torch.randn(3, 64), {}
    run = compiled(model, storage=storage)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(x), model(x))
            model.weight.copy_(torch.randn(64, 64).to(torch.float8_e4m3fn))
        torch.testing.assert_close(run(x), model(x))
    assert "weight" not in storage["instance"][0]["frozen"]
    x.requires_grad_()
    for _ in range(2):
        torch.testing.assert_close(run(x), model(x))
        model.weight.copy_(torch.randn(64, 64).to(torch.float8_e4m3fn))


def test_what_has_no_kernel_is_refused_or_runs_in_torch():
    x = torch.randn(4, 8).to(torch.float8_e4m3fn)

    def fn(x):
        return torch.cat([x, x]).float() + 1

    with pytest.raises(Exception, match="cat") as error:
        compiled(fn, fallback="error")(x)
    assert isinstance(error.value.__cause__ or error.value.inner_exception, OrtableError)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(fn, hints=False)(x), fn(x))


def test_rounding_to_powers_of_two_is_refused():
    x = torch.rand(4) + 0.1

    def fn(x):
        return x.to(torch.float8_e8m0fnu).float() * 2

    with pytest.raises(Exception, match="float8_e8m0fnu"):
        compiled(fn, fallback="error")(x)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(fn, hints=False)(x), fn(x))
    scales = x.to(torch.float8_e8m0fnu)
    torch.testing.assert_close(compiled(lambda s: s.float() * 2)(scales), scales.float() * 2)
