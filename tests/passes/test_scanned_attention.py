"""A Scan of linear attention becomes one operator, with the values of the steps; another stays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.scan import scan

import ortable

HEADS, KEYS, VALUES = 3, 8, 6


def gated(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """Gated linear attention, one decay for each head; the query is multiplied as a matrix."""
    state = state * a.exp()[..., None, None] + k[..., :, None] * v[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def gated_by_key(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """One decay for each key, and a query that a step scales."""
    state = k.unsqueeze(-1) * v.unsqueeze(-2) + g.unsqueeze(-1).exp() * state
    return state, (state * (q * 0.5).unsqueeze(-1)).sum(-2)


def delta(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The delta rule; what the state holds for a key is read as a product of matrices."""
    held = (k.unsqueeze(-2) @ state).squeeze(-2)
    state = state + k.unsqueeze(-1) * ((v - held) * b.sigmoid()).unsqueeze(-2)
    return state, (state * q.unsqueeze(-1)).sum(-2)


def gated_delta(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The gated delta rule, as Qwen3-Next writes it."""
    state = state * a.exp()[..., None, None]
    held = (state * k.unsqueeze(-1)).sum(-2)
    state = state + k.unsqueeze(-1) * ((v - held) * b).unsqueeze(-2)
    return state, (state * q.unsqueeze(-1)).sum(-2)


STEPS = [gated, gated_by_key, delta, gated_delta]


class Scanned(torch.nn.Module):
    """A step at every place of [batch, heads, length, ...]."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step

    def forward(self, state: Any, *rows: torch.Tensor) -> Any:
        return scan(lambda carry, each: self.step(carry, *each), state, rows, dim=2)


def rows(batch: int, length: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """State, queries, keys, values, logarithms of decays for keys and for heads, rates."""
    torch.manual_seed(length)
    shape = (batch, HEADS, length)
    made = (
        torch.randn(batch, HEADS, KEYS, VALUES),
        torch.randn(*shape, KEYS),
        torch.randn(*shape, KEYS) / KEYS**0.5,
        torch.randn(*shape, VALUES),
        -torch.rand(*shape, KEYS),
        -torch.rand(*shape),
        torch.rand(*shape, 1),
    )
    return tuple(each.to(dtype) for each in made)


def exported(module: torch.nn.Module, args: Any, **options: Any) -> Any:
    """The model for ONNX Runtime, and how often each operator is in it."""
    options = {"target": "onnxruntime", "target_opset": 23, **options}
    model = ortable.to_onnx(module, args, **options)
    return model, Counter(node.op_type for node in model.graph.node)


def check(model: Any, module: Any, args: Any) -> None:
    """The model computes what eager does, to the rounding of sums; NaN and infinities too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {each.name: x.numpy() for each, x in zip(session.get_inputs(), args, strict=False)}
    for found, wanted in zip(session.run(None, feeds), module(*args), strict=True):
        torch.testing.assert_close(
            torch.from_numpy(found), wanted, atol=2e-5, rtol=2e-5, equal_nan=True
        )


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_every_length_and_batch(step: Any, batch: int) -> None:
    """One model for all lengths; one for a single place."""
    b, n = torch.export.Dim("b"), torch.export.Dim("n")
    along = {2: n} if batch == 1 else {0: b, 2: n}
    shapes = ({} if batch == 1 else {0: b}, (along,) * 6)
    module = Scanned(step)
    model, counts = exported(module, rows(batch, 4), dynamic_shapes=shapes)
    assert (counts["Scan"], counts["LinearAttention"]) == (0, 1)
    for length in (1, 2, 9, 40):
        check(model, module, rows(batch, length))
    model, counts = exported(module, rows(batch, 1))
    assert counts["Scan"] == 0
    check(model, module, rows(batch, 1))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("step", STEPS)
def test_not_a_number_and_infinities(step: Any) -> None:
    """A place that is NaN or infinite spoils what it does in eager, and nothing else."""
    args = rows(2, 5)
    model, _ = exported(Scanned(step), args)
    for which, value in ((1, np.nan), (2, np.inf), (3, -np.inf), (3, np.nan), (5, -np.inf)):
        spoilt = [each.clone() for each in args]
        spoilt[which][0, 1, 2] = value
        check(model, Scanned(step), spoilt)


def test_a_state_that_is_passed_on() -> None:
    """Two calls, the state of the first one passed on, are one call."""
    module = Scanned(gated_delta)
    state, *given = rows(2, 8)
    whole, read = module(state, *given)
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    compiled = torch.compile(module, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        first, begin = compiled(state, *(each[:, :, :4] for each in given))
        last, end = compiled(first, *(each[:, :, 4:] for each in given))
    made = [node.op_type for node in storage["instance"][0]["onnx"].graph.node]
    assert "LinearAttention" in made
    assert "Scan" not in made
    torch.testing.assert_close(last, whole, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(torch.cat([begin, end], 2), read, atol=2e-5, rtol=2e-5)


def by_number(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The decay is no exponential."""
    state = state * b.sigmoid().unsqueeze(-1) + k[..., :, None] * v[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def every_state(state: torch.Tensor, *given: Any) -> Any:
    """The states are wanted as well."""
    state, read = gated_delta(state, *given)
    return state, (read, state.clone())


def of_state(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The key depends on the state."""
    return gated_delta(state, q, k + state.mean(-1), v, g, a, b)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("step", [by_number, every_state, of_state])
def test_other_recurrences_stay(step: Any) -> None:
    """What is not the same at every place, or no linear attention."""
    torch_scan, args = Scanned(step), rows(2, 3)
    model, counts = exported(torch_scan, args)
    assert counts["Scan"] == 1
    assert counts["LinearAttention"] == 0
    if step is not every_state:
        check(model, torch_scan, args)


def crossed(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """Rates of the batch, one beside the other: they scale the columns of the values."""
    state = state * a.exp()[..., None, None] + k[..., :, None] * (v * b.reshape(-1))[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def test_a_batch_that_stands_along_another_axis_stays() -> None:
    state, *given = (each[:, :1].clone() for each in rows(VALUES, 3))
    args = (state, *given)
    model, counts = exported(Scanned(crossed), args)
    assert counts["Scan"] == 1
    check(model, Scanned(crossed), args)


def test_only_for_the_runtime_that_has_it() -> None:
    """Neither in standard ONNX, nor without rules, nor in float64."""
    for options in (
        {"target": None},
        {"rewrites": "none"},
        {"rewrites": ["default", "-ort_recurrence"]},
    ):
        _, counts = exported(Scanned(gated_delta), rows(2, 3), **options)
        assert counts["Scan"] == 1
    model, counts = exported(Scanned(gated), rows(2, 3, torch.float64))
    assert counts["Scan"] == 1
    check(model, Scanned(gated), rows(2, 3, torch.float64))


def test_a_state_of_single_numbers_stays() -> None:
    """Where every value is one number, as in Mamba, the kernel is slower than the nodes."""
    state, q, k, v, *rest = rows(2, 3)
    args = (state[..., :1].clone(), q, k, v[..., :1].clone(), *rest)
    model, counts = exported(Scanned(gated_by_key), args)
    assert counts["Scan"] == 1
    check(model, Scanned(gated_by_key), args)
