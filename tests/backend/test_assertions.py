"""A model's assertions raise the errors of torch's backend `aot_eager`, before any write."""

from __future__ import annotations

import pytest
import torch

from ortable import onnx_debug_backend
from tests.backend import asserting
from tests.backend.asserting import in_a_branch, positive


@pytest.fixture(autouse=True)
def capture_data_dependence():
    """Keep numbers read from tensors, and data-dependent sizes, in the graph."""
    names = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
    with torch._dynamo.config.patch(dict.fromkeys(names, True)):
        yield


def run_and_record(fn, backend, x):
    """Return a call's result or error, and its argument after the call."""
    x = x.clone()
    torch.manual_seed(0)
    with torch.no_grad():
        try:
            result = torch.compile(fn, backend=backend, fullgraph=True)(x)
        except Exception as error:
            result = (type(error), str(error))
    return result, x


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("fn", "good", "bad"),
    [
        (positive, [1.0, 2.0], [[1.0, 0.0]]),
        (asserting.given_flag, [1.0, 2.0], [[1.0, 0.0], [-1.0, -1.0]]),
        (asserting.number, [1.0, 2.0], [[1.0, 9.0], [1.0, -9.0]]),
        (asserting.size_from_data, [1.0, 3.0], [[-1.0, -4.0], [9.0, 1.0], [1.0, 2.0]]),
        (asserting.size_found, [1.0, 0.0, 1.0], [[1.0, 1.0, 1.0]]),
        (asserting.size_chosen_by_itself, [0.0, 0.0, 1.0], [[1.0, 1.0, -1.0]]),
        (asserting.exact_number, [1.0, 2.0], [[1.0, 1.0]]),
        (asserting.exact_size, [1.0, 0.0, 1.0], [[1.0, 1.0, 1.0]]),
        (asserting.rows, [1.0, 1.0, 0.0], [[1.0, 9.0, 0.0], [-9.0, 1.0, 0.0]]),
        (asserting.written, [1.0, 2.0], [[-5.0, 1.0]]),
        (asserting.between_draws, [1.0, 2.0], [[-5.0, 1.0]]),
        (in_a_branch, [1.0, 2.0], [[1.0, -1.0]]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_assertions_raise_what_aot_eager_raises(fn, good, bad):
    for values in (good, *bad):
        x = torch.tensor(values)
        expected, expected_argument = run_and_record(fn, "aot_eager", x)
        torch._dynamo.reset()
        got, argument = run_and_record(fn, "ortable", x)
        assert torch.equal(argument, expected_argument), (fn.__name__, values)
        if values is good:
            assert isinstance(expected, torch.Tensor), expected
            torch.testing.assert_close(got, expected)
        else:
            assert isinstance(expected, tuple), "aot_eager should raise an error"
            assert got == expected


def test_an_assertion_of_a_graph_that_trains_raises():
    fn = torch.compile(positive, backend="ortable", fullgraph=True)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    fn(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    with pytest.raises(RuntimeError, match=r"^must be positive$"):
        fn(torch.tensor([1.0, -2.0], requires_grad=True))


def test_only_results_are_copied_into_memory_that_can_be_resized(backends):
    for fn, copies in ((positive, 1), (asserting.given_flag, 1), (asserting.written, 1)):
        torch._dynamo.reset()
        with torch.no_grad():
            run = torch.compile(fn, backend="ortable", options={"resizable": True})
            run(torch.tensor([1.0, 2.0])).resize_(7)
        assert backends[-1].source.count(".clone()") == copies
        assert len(backends[-1].compiled.fetches) > copies


def test_a_condition_that_always_holds_is_not_fetched():
    storage = {}
    fn = torch.compile(lambda x: x.nonzero() * 2, backend="ortable", options={"storage": storage})
    x = torch.tensor([1.0, 0.0, 1.0])
    torch.testing.assert_close(fn(x), x.nonzero() * 2)
    (record,) = storage["instance"]
    assert len(record["onnx"].graph.output) == 1  # torch asserts that the size is 0 to 3


def test_a_mask_may_choose_more_elements_than_its_tensor_has():
    """Only the model's assertion raises an error, not torch's bound on the number of elements.

    Torch assumes that a mask selects no more elements than its tensor has, so its own backends
    raise an error here.
    """
    fn = torch.compile(asserting.size_chosen, backend="ortable", fullgraph=True)
    x = torch.tensor([1.0, -1.0, 1.0, 0.0])
    torch.testing.assert_close(fn(x), asserting.size_chosen(x))
    assert len(fn(x)) == 5
    with pytest.raises(RuntimeError, match="u0 <= 5"):
        fn(torch.tensor([1.0, 1.0, -1.0, 1.0]))


def test_what_asserts_in_a_branch_runs_in_torch():
    storage = {}
    fn = torch.compile(in_a_branch, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        fn(torch.tensor([1.0, 2.0]))
    placements = {p.operator: p for p in storage["instance"][0]["placement"]}
    assert placements["cond"].where == "torch" and "assertion" in placements["cond"].why


def test_the_debug_backend_raises_too():
    fn = torch.compile(positive, backend=onnx_debug_backend)
    with torch.no_grad():
        fn(torch.tensor([1.0]))
        with pytest.raises(RuntimeError, match=r"^must be positive$"):
            fn(torch.tensor([-1.0]))


def test_another_process_finds_the_assertions_too(tmp_path):
    for cache_state in ("miss", "disk"):
        from ortable.backend.cache.memory import clear_caches

        clear_caches()
        torch._dynamo.reset()
        storage = {}
        options = {"cache_dir": str(tmp_path), "storage": storage}
        fn = torch.compile(positive, backend="ortable", options=options)
        with torch.no_grad():
            fn(torch.tensor([1.0]))
            with pytest.raises(RuntimeError, match=r"^must be positive$"):
                fn(torch.tensor([-1.0]))
        assert storage["instance"][0]["cache"] == cache_state
