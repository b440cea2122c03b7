"""Results equal eager's in value, dtype, shape, strides and aliasing for all kinds of arguments."""

from __future__ import annotations

import pytest
import torch

from ortable import dims
from ortable.backend.execute.results import SymbolValues
from ortable.backend.roles import DimSource
from ortable.errors import InputError
from tests.backend.against_eager import every_warning_an_error
from tests.backend.threads import in_threads


def test_float_graph(run_both):
    run_both(lambda x, y: torch.relu(x @ y) + 1, torch.randn(3, 4), torch.randn(4, 5))


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32],
)
def test_element_types(run_both, dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    run_both(lambda x: x * 2 + x, x)


def test_bool_in_and_out(run_both):
    x = torch.tensor([True, False, True])
    y = torch.tensor([1.0, -1.0, 2.0])
    _, results = run_both(lambda x, y: (torch.where(x, y, -y), y > 0), x, y)
    assert results[1].dtype is torch.bool


def test_zero_dimensional(run_both):
    run_both(lambda x: x + 1, torch.tensor(3.0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_zero_size(run_both, shape):
    run_both(lambda x: x * 2 + 1, torch.randn(shape))


def test_no_tensor_input(run_both):
    run_both(lambda: torch.ones(2, 3) + 1)


def test_constant_result_belongs_to_the_caller():
    fn = torch.compile(lambda: torch.full((3,), 2.0), backend="ortable")
    first = fn()
    first.add_(10)
    torch.testing.assert_close(fn(), torch.full((3,), 2.0))


def test_int_argument_zero(run_both):
    run_both(lambda x, k: x + k, torch.randn(3), 0, dynamic=True)


def test_int_argument_changes_without_recompiling():
    storage = {}
    fn = torch.compile(
        lambda x, k: x * k + k, backend="ortable", dynamic=True, options={"storage": storage}
    )
    x = torch.randn(3)
    for k in (7, 5, 11, -3):
        torch.testing.assert_close(fn(x, k), x * k + k)
    assert len(storage["instance"]) <= 2  # torch may recompile for a negative int


def test_batch_of_one_under_dynamic_shapes():
    fn = torch.compile(lambda x, w: torch.relu(x @ w), backend="ortable", dynamic=True)
    w = torch.randn(4, 2)
    for batch in (3, 5, 1, 2):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(fn(x, w), torch.relu(x @ w))


def test_one_session_for_all_batch_sizes():
    storage = {}
    fn = torch.compile(
        lambda x, w: torch.relu(x @ w),
        backend="ortable",
        dynamic=True,
        options={"storage": storage},
    )
    w = torch.randn(4, 2)
    for batch in (3, 5, 7, 100):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(fn(x, w), torch.relu(x @ w))
    assert len(storage["instance"]) == 1


@pytest.mark.parametrize(
    "make_argument",
    [
        lambda: torch.randn(4, 6).t(),
        lambda: torch.randn(4, 12)[:, ::2],
        lambda: torch.randn(4, 1).expand(4, 6),
        lambda: torch.randn(2, 4, 6)[1],
    ],
)
def test_arguments_in_any_layout(run_both, make_argument):
    run_both(lambda x: x * 2 + 1, make_argument())


def test_negative_bit_is_resolved():
    z = torch.randn(3, dtype=torch.complex64)
    x = z.conj().imag
    assert x.is_neg()
    fn = torch.compile(lambda x: x + 0.5, backend="ortable")
    torch.testing.assert_close(fn(x), x + 0.5)


def test_promised_strides_of_results(run_both):
    run_both(lambda x: torch.relu(x), torch.randn(3, 4).t())
    run_both(lambda x: x * 2, torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))


def test_promised_strides_under_dynamic_shapes(run_both):
    run_both(lambda x: x * 2, torch.randn(5, 4).t(), dynamic=True)


def test_aliasing_of_a_result_and_its_transpose(run_both):
    _, (y, yt) = run_both(lambda x: ((y := x + 1), y.t()), torch.randn(3, 4))
    assert y.data_ptr() == yt.data_ptr()
    y.zero_()
    assert float(yt.abs().sum()) == 0.0


def test_slices_and_expansions_share_memory(run_both):
    def fn(x):
        y = x * 2
        return y, y[1:], y[:, :1].expand(3, 4), y.view(12)

    _, (y, tail, expanded, flat) = run_both(fn, torch.randn(3, 4))
    assert tail.data_ptr() == y[1:].data_ptr()
    assert expanded.data_ptr() == y.data_ptr() == flat.data_ptr()


def test_views_with_symbolic_sizes(run_both):
    run_both(lambda x: (x * 2).view(x.shape[0] * x.shape[1]), torch.randn(3, 4), dynamic=True)


def test_copies_do_not_alias():
    fn = torch.compile(lambda x: (x.clone(), (y := x + 1), y.clone()), backend="ortable")
    x = torch.randn(3)
    x_before = x.clone()
    x_copy, y, y_copy = fn(x)
    x_copy.zero_()
    y.zero_()
    torch.testing.assert_close(x, x_before)
    torch.testing.assert_close(y_copy, x_before + 1)


def test_arguments_come_back_as_themselves():
    fn = torch.compile(lambda x, y: (x, y + 1, x), backend="ortable")
    x, y = torch.randn(3), torch.randn(3)
    first, _, second = fn(x, y)
    assert first is x and second is x


def test_earlier_results_stay_intact():
    fn = torch.compile(lambda x: x * 2, backend="ortable")
    results = [(i, fn(torch.full((4,), float(i)))) for i in range(6)]
    for i, result in results:
        torch.testing.assert_close(result, torch.full((4,), 2.0 * i))


def test_results_may_be_written():
    fn = torch.compile(lambda x: (x * 2, x + 1), backend="ortable")
    x = torch.randn(3)
    a, _ = fn(x)
    a.add_(100)
    torch.testing.assert_close(fn(x)[0], x * 2)


def test_results_outlive_the_compiled_code():
    import gc

    fn = torch.compile(lambda x: x * 3, backend="ortable")
    result = fn(torch.ones(1000))
    del fn
    torch._dynamo.reset()
    gc.collect()
    torch.testing.assert_close(result, torch.full((1000,), 3.0))


def test_argument_written_in_place(run_both):
    def fn(x):
        x.add_(1)
        return x * 2

    run_both(fn, torch.randn(3))


def test_argument_written_through_a_view(run_both):
    def fn(x):
        x.t()[0].mul_(2)
        return x + 1

    run_both(fn, torch.randn(3, 4))


def test_weights_updated_in_place_are_seen():
    model = torch.nn.Linear(3, 2)
    compiled = torch.compile(model, backend="ortable")
    x = torch.randn(4, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.weight.mul_(3)
        torch.testing.assert_close(compiled(x), model(x))
        model.weight.data = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x), model(x))
        model.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
        torch.testing.assert_close(compiled(x), model(x))


def test_inference_mode():
    model = torch.nn.Linear(3, 2)
    compiled = torch.compile(model, backend="ortable")
    x = torch.randn(4, 3)
    with torch.inference_mode():
        torch.testing.assert_close(compiled(x), model(x))


def test_four_threads_on_one_compiled_function():
    fn = torch.compile(lambda x, w: torch.relu(x @ w) + x.sum(), backend="ortable")
    w = torch.randn(8, 8)
    fn(torch.randn(4, 8), w)
    failed_threads = []

    def compare_with_eager(number):
        generator = torch.Generator().manual_seed(number)
        for _ in range(100):
            x = torch.randn(4, 8, generator=generator)
            if not torch.allclose(fn(x, w), torch.relu(x @ w) + x.sum(), atol=1e-4):
                failed_threads.append(number)

    in_threads(4, compare_with_eager)
    assert failed_threads == []


def test_recompiled_after_reset():
    storage = {}
    fn = torch.compile(lambda x: x + 1, backend="ortable", options={"storage": storage})
    x = torch.randn(3)
    torch.testing.assert_close(fn(x), x + 1)
    torch._dynamo.reset()
    torch.testing.assert_close(fn(x), x + 1)
    assert len(storage["instance"]) == 2


def test_no_warning(recwarn):
    with every_warning_an_error():
        fn = torch.compile(torch.nn.Linear(3, 2), backend="ortable")
        fn(torch.randn(4, 3)).sum().backward()


def test_constants_written_in_the_function(run_both):
    constant = torch.tensor([1.0, 2.0, 3.0])
    run_both(lambda x: x * torch.tensor([3.0, 2.0, 1.0]) + constant, torch.randn(3))


def test_mutations_that_aotautograd_leaves_in_the_graph():
    from torch._dynamo.backends.common import aot_autograd

    from ortable import onnx_custom_backend

    def fn(x):
        x.mul_(2)
        return x + 1

    storage = {}
    backend = aot_autograd(
        fw_compiler=lambda *args: onnx_custom_backend(*args, storage=storage),
        keep_inference_input_mutations=True,
    )
    x = torch.randn(3)
    x_before = x.clone()
    torch.testing.assert_close(torch.compile(fn, backend=backend)(x), x_before * 2 + 1)
    torch.testing.assert_close(x, x_before * 2)
    assert len(storage["instance"][0]["mutations"]) == 1
    assert len(storage["instance"][0]["outputs"]) == 1


def test_a_graph_of_views_needs_no_session(run_both):
    storage = {}

    def fn(x):
        return x.t(), x[1:], x.view(12), x.unsqueeze(0).expand(5, 3, 4)

    x = torch.randn(3, 4)
    results = torch.compile(fn, backend="ortable", fullgraph=True, options={"storage": storage})(x)
    for expected, result in zip(fn(x), results, strict=True):
        assert result.data_ptr() == expected.data_ptr()
        assert result.stride() == expected.stride()
    assert len(storage["instance"][0]["onnx"].graph.node) == 0


def test_ints_computed_from_sizes():
    fn = torch.compile(
        lambda x: (x.shape[0] * 2 + 1, x * 2), backend="ortable", dynamic=True, fullgraph=True
    )
    assert fn(torch.randn(3, 4))[0] == 7
    assert fn(torch.randn(5, 4))[0] == 11


def test_view_with_an_int_argument(run_both):
    run_both(lambda x, n: x.view(n, -1) * 2, torch.randn(3, 4), 6, dynamic=True)


def test_strides_that_no_permutation_gives(run_both):
    run_both(lambda x: (x * 2).as_strided((2, 2), (1, 2), 1), torch.randn(3, 4))


def test_results_can_be_resized_on_demand():
    def fn(x):
        y = x.sigmoid()
        return y, x > 0, (x * 2).t(), y.t()

    x = torch.randn(3, 4)
    fixed_results = torch.compile(fn, backend="ortable")(x)
    with pytest.raises(RuntimeError, match="not resizable"):
        fixed_results[0].resize_(7, 5)
    torch._dynamo.reset()
    results = torch.compile(fn, backend="ortable", options={"resizable": True})(x)
    for result, expected in zip(results, fn(x), strict=True):
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)
    assert results[3].data_ptr() == results[0].data_ptr()
    for result in results[:3]:
        result.resize_(7, 5)
    result = torch.compile(torch.tanh, backend="ortable", options={"resizable": True})(x)
    long_input = torch.randn(30)
    result.resize_(0)
    assert torch.sigmoid(long_input, out=result) is result
    torch.testing.assert_close(result, long_input.sigmoid())


def test_bits_of_other_dtypes(run_both):
    def fn(x, y):
        return x.view(torch.float64) + 1, x.view(torch.int16) + 1, y.view(torch.float32) * 2

    run_both(fn, torch.randn(3, 4), torch.arange(24, dtype=torch.uint8).view(2, 12))


def test_new_memory_is_filled_under_deterministic_algorithms(run_both):
    def fn(x):
        new = torch.empty(2), torch.empty(2, dtype=torch.int64), x.new_empty(2, 3)
        return *new, torch.empty_like(x, dtype=torch.bool), torch.empty(2, dtype=torch.complex64)

    def make_ones(x):
        return [tensor.bool() | True for tensor in fn(x)]

    run_both(make_ones, torch.randn(2, 3))  # the cached conversion must not be reused below
    torch.use_deterministic_algorithms(True)
    try:
        torch._dynamo.reset()
        run_both(fn, torch.randn(2, 3))
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch._dynamo.reset()
        results = torch.compile(fn, backend="ortable")(torch.randn(2, 3))
        assert not any(bool(torch.isnan(tensor).any()) for tensor in results)
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_results_without_elements_have_the_strides_of_eager(dtype, run_both):
    """ONNX Runtime 1.32 returns strides of 0, which torch cannot view as another dtype."""
    _, results = run_both(lambda x: (x == x, x * x), torch.zeros(0, 3, dtype=dtype))
    assert [result.stride() for result in results] == [(3, 1), (3, 1)]


def make_ragged():
    values, offsets = torch.arange(12.0).view(6, 2), torch.tensor([0, 2, 6])
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def test_the_length_of_a_ragged_dimension_is_no_int():
    length = make_ragged().size(1)
    sources = [DimSource("j", 0, None), DimSource("n", 1, 0)]
    values = SymbolValues((length, torch.ones(3)), sources)
    j, n = dims.make_symbol("j"), dims.make_symbol("n")
    assert values([n, n + 1, 4]) == [3, 4, 4]
    assert values(j) is length
    with pytest.raises(InputError, match=r"j is j\d+, the length of a ragged dimension"):
        values(2 * j + n)


def test_views_beside_the_length_of_a_ragged_dimension():
    ragged = make_ragged()
    fn = torch.compile(lambda x: (x.unflatten(-1, (1, 2)), x.size(1)), backend="ortable")
    result, length = fn(ragged)
    assert length == ragged.size(1)
    assert torch.equal(result.values(), ragged.values().view(6, 1, 2))
