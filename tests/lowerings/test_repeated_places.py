"""Additions at repeated indices, some of which ONNX Runtime's parallel ScatterND would lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ortable
from tests.modules import Function

torch.manual_seed(0)
ROWS = torch.randint(-4, 4, (6000,))
COLUMNS = torch.randint(-8, 8, (6000,))
UPDATES = torch.ones(6000, 64)


def _model(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    converted = ortable.to_onnx(Function(function), args)
    return getattr(converted, "model_proto", converted)


def _run(model: Any, args: tuple[torch.Tensor, ...]) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feeds = {value.name: arg.numpy() for value, arg in zip(session.get_inputs(), args, strict=True)}
    return np.asarray(session.run(None, feeds)[0])


def _find_additions(model: Any) -> list[str]:
    return [
        node.op_type
        for node in model.graph.node
        if any(a.name == "reduction" and a.s == b"add" for a in node.attribute)
    ]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda i, u: torch.zeros(4, 64).index_put((i,), u, accumulate=True), (ROWS, UPDATES)),
        (
            lambda i, j, u: torch.zeros(4, 8, 64).index_put((i, j), u, accumulate=True),
            (ROWS, COLUMNS, UPDATES),
        ),
        (
            lambda i, j, u: torch.ops.aten.index_put(torch.zeros(4, 3, 8), [i, None, j], u, True),
            (ROWS, COLUMNS, UPDATES[:, :3]),
        ),
        (lambda i, u: torch.zeros(4, 64).index_add(0, i, u), (ROWS % 4, UPDATES)),
        (lambda i, u: torch.zeros(64, 4).index_add(1, i, u), (ROWS % 4, UPDATES.t())),
        (
            lambda i, u: torch.ops.aten.embedding_dense_backward(u, i, 4, -1, False),
            (ROWS % 4, UPDATES),
        ),
    ],
)
def test_no_update_is_lost(function: Any, args: tuple[torch.Tensor, ...]) -> None:
    args = tuple(arg.contiguous() for arg in args)
    model = _model(function, *args)
    assert _find_additions(model) == ["ScatterElements"]
    np.testing.assert_array_equal(_run(model, args), function(*args).numpy())


def test_places_that_are_known_to_differ_are_written_at_once() -> None:
    indices = torch.tensor([3, 0, 2])

    def function(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return x.index_put((torch.tensor([3, 0, 2]),), u, accumulate=True)

    args = (torch.randn(4, 5), torch.randn(3, 5))
    model = _model(function, *args)
    assert _find_additions(model) == ["ScatterND"]
    expected = args[0].index_add(0, indices, args[1])
    np.testing.assert_allclose(_run(model, args), expected.numpy(), rtol=1e-6)


def test_a_tuple_outside_of_its_axis_is_refused_and_not_taken_for_another_place() -> None:
    def function(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x.index_put((i, j), torch.ones(2), accumulate=True)

    valid = (torch.zeros(2, 3), torch.tensor([0, -1]), torch.tensor([2, -3]))
    model = _model(function, *valid)
    np.testing.assert_array_equal(_run(model, valid), function(*valid).numpy())
    with pytest.raises(Exception, match=r"(?i)scatter|indices"):
        _run(model, (valid[0], torch.tensor([0, 0]), torch.tensor([0, 4])))
