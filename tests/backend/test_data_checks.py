"""The compiled call rejects the data that eager rejects, with the same error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F

from ortable.backend.roles import DATA_CHECKS

X = torch.arange(12.0).reshape(4, 3)
MAPS = torch.arange(12.0).reshape(1, 3, 2, 2)


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "embedding": (lambda i, w: F.embedding(i, w), (ids(0, 3), X), (ids(0, -1), X)),
    "embedding, too large": (lambda i, w: F.embedding(i, w), (ids(0, 3), X), (ids(0, 4), X)),
    "embedding, int32": (
        lambda i, w: F.embedding(i, w), (ids(0, 3).int(), X), (ids(0, -1).int(), X),
    ),
    "embedding_bag": (
        lambda i, w, o: F.embedding_bag(i, w, o), (ids(0, 3), X, ids(0)), (ids(0, -1), X, ids(0)),
    ),
    "gather": (lambda x, i: x.gather(1, i), (X, ids(0, 2)[None]), (X, ids(0, -1)[None])),
    "scatter": (lambda x, i: x.scatter(1, i, x), (X, ids(0, 2)[None]), (X, ids(0, -1)[None])),
    "scatter_add": (
        lambda x, i: x.scatter_add(1, i, x), (X, ids(0, 2)[None]), (X, ids(0, 3)[None]),
    ),
    "index": (lambda x, i: x[i], (X, ids(0, -4)), (X, ids(0, -5))),
    "index of two axes": (
        lambda x, i, j: x[i, j], (X, ids(0, -4), ids(-1, 2)), (X, ids(0, -4), ids(-1, 3)),
    ),
    "index_put": (
        lambda x, i: x.index_put((i,), x[0, :1]), (X, ids(0, -4)), (X, ids(0, 4)),
    ),
    "index_select": (lambda x, i: x.index_select(0, i), (X, ids(0, 3)), (X, ids(0, -1))),
    "index_select of columns": (
        lambda x, i: x.index_select(1, i), (X, ids(0, 2)), (X, ids(0, 3)),
    ),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2]), (X, ids(0, 3)), (X, ids(0, -1))),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:2]), (X, ids(0, 3)), (X, ids(0, -1))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), (X, ids(0, -4)), (X, ids(0, -5))),
    "take": (lambda x, i: x.take(i), (X, ids(0, -12)), (X, ids(0, -13))),
    "cross_entropy": (F.cross_entropy, (X, ids(0, 1, 2, -100)), (X, ids(0, 1, 2, -1))),
    "nll_loss of maps": (
        F.nll_loss, (MAPS, ids(0, 1, 2, 0).view(1, 2, 2)), (MAPS, ids(0, 1, 2, 3).view(1, 2, 2)),
    ),
    "nll_loss without a batch": (F.nll_loss, (X[0], torch.tensor(1)), (X[0], torch.tensor(-1))),
    "multi_margin_loss": (F.multi_margin_loss, (X, ids(0, 1, 2, 0)), (X, ids(0, 1, 2, -1))),
    "one_hot": (lambda i: F.one_hot(i, 3), (ids(0, 2),), (ids(0, -1),)),
    "binary_cross_entropy": (
        F.binary_cross_entropy,
        (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5])),
        (torch.tensor([0.0, 1.5]), torch.tensor([1.0, 0.5])),
    ),
    "binary_cross_entropy of NaN": (
        F.binary_cross_entropy,
        (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.5])),
        (torch.tensor([0.0, torch.nan]), torch.tensor([1.0, 0.5])),
    ),
    "whole numbers by 0": (lambda a, b: a // b, (ids(4, 5), ids(2, 3)), (ids(4, 5), ids(2, 0))),
    "cholesky": (torch.linalg.cholesky, (torch.eye(2),), (-torch.eye(2),)),
    "inv": (torch.linalg.inv, (torch.eye(2),), (torch.ones(2, 2),)),
    "solve": (torch.linalg.solve, (torch.eye(2), torch.eye(2)), (torch.ones(2, 2), torch.eye(2))),
}  # fmt: skip
# Torch decomposes these operators, and an operator of the decomposition raises the error.
OTHER_MESSAGES = {"multi_margin_loss", "one_hot", "embedding_bag"}


def compile_function(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(function, backend="ortable", fullgraph=True, options=options or None)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_call_raises_what_eager_raises(name: str, dynamic: bool) -> None:
    function, good, bad = CALLS[name]
    torch.compiler.reset()
    run = torch.compile(function, backend="ortable", fullgraph=True, dynamic=dynamic)
    if name != "scatter":  # in eager, the result for equal indices is unspecified
        torch.testing.assert_close(run(*good), function(*good))
    with pytest.raises(Exception) as expected_error:
        function(*bad)
    with pytest.raises(expected_error.type) as error:
        run(*bad)
    if name not in OTHER_MESSAGES:
        assert str(error.value).startswith(str(expected_error.value).splitlines()[0])
    torch.testing.assert_close(run(*good), run(*good))  # the session is still usable


def test_the_error_names_the_line_of_the_model() -> None:
    with pytest.raises(IndexError, match=r"(?s)index out of range in self.at test_data_checks.py"):
        compile_function(lambda i, w: F.embedding(i, w) * 2)(ids(0, -1), X)


def test_empty_indices_of_a_size_that_varies() -> None:
    torch.compiler.reset()
    run = torch.compile(lambda x, i: x[i[1:]], backend="ortable", dynamic=True)
    for length in (5, 3, 2, 1):
        indices = torch.zeros(length, dtype=torch.int64)
        torch.testing.assert_close(run(X, indices), X[indices[1:]])


def test_empty_indices_of_several_axes() -> None:
    def select_positive(x: torch.Tensor) -> torch.Tensor:
        rows, columns = torch.nonzero(x > 5, as_tuple=True)
        return x[rows, columns].sum() + x[rows].sum() + x.index_select(1, columns).sum()

    torch.compiler.reset()
    run = torch.compile(select_positive, backend="ortable", dynamic=True)
    for x in (X, torch.zeros(4, 3), torch.zeros(2, 5), torch.full((1, 2), 7.0)):
        torch.testing.assert_close(run(x), select_positive(x))


@pytest.mark.parametrize("index", [-(1 << 63), -(1 << 62) - 9, (1 << 62) + 9, (1 << 63) - 1])
def test_indices_near_the_limits_of_int64(index: int) -> None:
    def look_up(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x[i] + x[j]

    torch.compiler.reset()
    run = torch.compile(look_up, backend="ortable")
    torch.testing.assert_close(run(X, ids(0, -4), ids(3, 1)), look_up(X, ids(0, -4), ids(3, 1)))
    for i, j in ((ids(0, index), ids(0, 1)), (ids(0, 1), ids(index, 0))):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            run(X, i, j)


def test_training_checks_the_forward_graph_alone() -> None:
    storage: dict[str, Any] = {}
    model = torch.nn.Sequential(torch.nn.Embedding(4, 3), torch.nn.Linear(3, 2))
    run = torch.compile(model, backend="ortable", options={"storage": storage})
    run(ids(0, 3)).sum().backward()
    kinds = {record["kind"]: has_data_checks(record) for record in get_records(storage)}
    assert kinds == {"forward": True, "backward": False}
    with pytest.raises(IndexError, match="index out of range in self"):
        run(ids(0, -1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x.argmax(0)],
        lambda x: x.gather(1, x.argmin(1, keepdim=True)),
        lambda x: x[x[:, 0].topk(2).indices],
        lambda x: x[torch.tensor([0, -1])],
        lambda x: x[torch.arange(2)],
        lambda x: x.gather(1, (x > 0).long()),
        lambda x: F.interpolate(x[None, None], scale_factor=2.0, mode="nearest"),
    ],
)
def test_what_cannot_be_out_of_range_is_not_checked(function: Callable[..., Any]) -> None:
    storage: dict[str, Any] = {}
    torch.testing.assert_close(compile_function(function, storage=storage)(X), function(X))
    assert not any(has_data_checks(record) for record in get_records(storage))


def test_one_check_serves_many_readers() -> None:
    storage: dict[str, Any] = {}

    def function(i: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, w) + F.embedding(i, v)

    compile_function(function, storage=storage)(ids(0, 1), X, X + 1)
    (record,) = get_records(storage)
    assert len(record["onnx"].graph.output) == 2
    reductions = [n.op_type for n in record["onnx"].graph.node if n.op_type.startswith("Reduce")]
    assert sorted(reductions) == ["ReduceMax", "ReduceMin"]


def get_records(storage: dict[str, Any]) -> list[Any]:
    return list(storage["instance"])


def has_data_checks(record: Any) -> bool:
    model: onnx.ModelProto | None = record["onnx"]
    return model is not None and any(value.name == DATA_CHECKS for value in model.graph.output)


EXTREMES = {
    "max": lambda x: x[3:].max(),
    "min of ints": lambda x: x[3:].long().min(),
    "max along": lambda x: x[3:].max(0).values,
    "median": lambda x: x[3:].median(0),
    "mode": lambda x: x[3:].mode(0),
    "selected": lambda x: x[x > 9].max(),
    "pool": lambda x: torch.nn.functional.adaptive_avg_pool1d(x[None, None, 3:], 2),
}


@pytest.mark.filterwarnings("ignore::ortable.errors.FallbackWarning")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_no_elements_raise_the_error_of_eager(name, dynamic, fresh_dynamo):
    function, empty = EXTREMES[name], torch.ones(3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend="ortable", dynamic=dynamic)
        if name != "selected":
            torch.testing.assert_close(compiled(torch.ones(7)), function(torch.ones(7)))
        with pytest.raises((RuntimeError, IndexError)) as expected:
            function(empty)
        with pytest.raises(expected.type) as raised:
            compiled(empty)
    assert str(expected.value)[:60] in str(raised.value)
