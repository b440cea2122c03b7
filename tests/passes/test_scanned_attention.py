"""A Scan of linear attention becomes one `LinearAttention` node; other Scans stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch._higher_order_ops.scan import scan

import ortable

pytestmark = pytest.mark.alternates(parts=3)

HEADS, KEYS, VALUES = 3, 8, 6


def gated(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """Gated linear attention with one decay per head and a matrix product with the query."""
    state = state * a.exp()[..., None, None] + k[..., :, None] * v[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def gated_by_key(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """Gated linear attention with one decay per key; the step scales the query."""
    state = k.unsqueeze(-1) * v.unsqueeze(-2) + g.unsqueeze(-1).exp() * state
    return state, (state * (q * 0.5).unsqueeze(-1)).sum(-2)


def delta(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The delta rule; a matrix product reads the value of the key from the state."""
    stored_value = (k.unsqueeze(-2) @ state).squeeze(-2)
    state = state + k.unsqueeze(-1) * ((v - stored_value) * b.sigmoid()).unsqueeze(-2)
    return state, (state * q.unsqueeze(-1)).sum(-2)


def gated_delta(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The gated delta rule, as Qwen3-Next writes it."""
    state = state * a.exp()[..., None, None]
    stored_value = (state * k.unsqueeze(-1)).sum(-2)
    state = state + k.unsqueeze(-1) * ((v - stored_value) * b).unsqueeze(-2)
    return state, (state * q.unsqueeze(-1)).sum(-2)


STEPS = [gated, gated_by_key, delta, gated_delta]


class Scanned(torch.nn.Module):
    """Scan a step along the length of inputs [batch, heads, length, ...]."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step

    def forward(self, state: Any, *rows: torch.Tensor) -> Any:
        return scan(lambda carry, inputs: self.step(carry, *inputs), state, rows, dim=2)


def rows(batch: int, length: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Return the state, queries, keys, values, log decays per key and per head, and rates."""
    torch.manual_seed(length)
    shape = (batch, HEADS, length)
    tensors = (
        torch.randn(batch, HEADS, KEYS, VALUES),
        torch.randn(*shape, KEYS),
        torch.randn(*shape, KEYS) / KEYS**0.5,
        torch.randn(*shape, VALUES),
        -torch.rand(*shape, KEYS),
        -torch.rand(*shape),
        torch.rand(*shape, 1),
    )
    return tuple(tensor.to(dtype) for tensor in tensors)


def export_for_runtime(module: torch.nn.Module, args: Any, **options: Any) -> Any:
    """Export for ONNX Runtime; return the model and its number of nodes per operator."""
    options = {"target": "onnxruntime", "target_opset": 23, **options}
    model = ortable.to_onnx(module, args, **options)
    return model, Counter(node.op_type for node in model.graph.node)


def check(model: Any, module: Any, args: Any) -> None:
    """Assert that the model equals eager up to rounding, NaN and infinities included."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {info.name: x.numpy() for info, x in zip(session.get_inputs(), args, strict=False)}
    for result, expected in zip(session.run(None, feeds), module(*args), strict=True):
        torch.testing.assert_close(
            torch.from_numpy(result), expected, atol=2e-5, rtol=2e-5, equal_nan=True
        )


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_every_length_and_batch(step: Any, batch: int) -> None:
    """A model with a dynamic length matches eager, and so does a model of length one."""
    batch_dim, length_dim = torch.export.Dim("b"), torch.export.Dim("n")
    dynamic_dims = {2: length_dim} if batch == 1 else {0: batch_dim, 2: length_dim}
    shapes = ({} if batch == 1 else {0: batch_dim}, (dynamic_dims,) * 6)
    module = Scanned(step)
    model, counts = export_for_runtime(module, rows(batch, 4), dynamic_shapes=shapes)
    assert (counts["Scan"], counts["LinearAttention"]) == (0, 1)
    for length in (1, 2, 9, 40):
        check(model, module, rows(batch, length))
    model, counts = export_for_runtime(module, rows(batch, 1))
    assert counts["Scan"] == 0
    check(model, module, rows(batch, 1))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("step", STEPS)
def test_not_a_number_and_infinities(step: Any) -> None:
    """A NaN or infinite input element affects the same results as in eager."""
    args = rows(2, 5)
    model, _ = export_for_runtime(Scanned(step), args)
    for index, value in ((1, np.nan), (2, np.inf), (3, -np.inf), (3, np.nan), (5, -np.inf)):
        inputs = [tensor.clone() for tensor in args]
        inputs[index][0, 1, 2] = value
        check(model, Scanned(step), inputs)


def test_a_state_that_is_passed_on() -> None:
    """Passing the final state to a second call equals one call on the whole sequence."""
    module = Scanned(gated_delta)
    state, *inputs = rows(2, 8)
    expected_state, expected = module(state, *inputs)
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    compiled = torch.compile(module, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        first_state, first = compiled(state, *(x[:, :, :4] for x in inputs))
        last_state, last = compiled(first_state, *(x[:, :, 4:] for x in inputs))
    op_types = [node.op_type for node in storage["instance"][0]["onnx"].graph.node]
    assert "LinearAttention" in op_types
    assert "Scan" not in op_types
    torch.testing.assert_close(last_state, expected_state, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(torch.cat([first, last], 2), expected, atol=2e-5, rtol=2e-5)


def sigmoid_decay_step(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The decay is a sigmoid instead of an exponential."""
    state = state * b.sigmoid().unsqueeze(-1) + k[..., :, None] * v[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def state_output_step(state: torch.Tensor, *inputs: Any) -> Any:
    """The step also returns every state."""
    state, output = gated_delta(state, *inputs)
    return state, (output, state.clone())


def state_key_step(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """The key depends on the state."""
    return gated_delta(state, q, k + state.mean(-1), v, g, a, b)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("step", [sigmoid_decay_step, state_output_step, state_key_step])
def test_other_recurrences_stay(step: Any) -> None:
    """Recurrences outside linear attention stay a Scan."""
    module, args = Scanned(step), rows(2, 3)
    model, counts = export_for_runtime(module, args)
    assert counts["Scan"] == 1
    assert counts["LinearAttention"] == 0
    if step is not state_output_step:
        check(model, module, args)


def batch_rate_step(state: torch.Tensor, q: Any, k: Any, v: Any, g: Any, a: Any, b: Any) -> Any:
    """Rates reshaped from the batch axis scale the columns of the values."""
    state = state * a.exp()[..., None, None] + k[..., :, None] * (v * b.reshape(-1))[..., None, :]
    return state, (q[..., None, :] @ state).squeeze(-2)


def test_a_batch_that_stands_along_another_axis_stays() -> None:
    state, *inputs = (tensor[:, :1].clone() for tensor in rows(VALUES, 3))
    args = (state, *inputs)
    model, counts = export_for_runtime(Scanned(batch_rate_step), args)
    assert counts["Scan"] == 1
    check(model, Scanned(batch_rate_step), args)


def test_only_for_the_runtime_that_has_it() -> None:
    """The Scan stays in standard ONNX, without rewrite rules, and in float64."""
    for options in (
        {"target": None},
        {"rewrites": "none"},
        {"rewrites": ["default", "-ort_recurrence"]},
    ):
        _, counts = export_for_runtime(Scanned(gated_delta), rows(2, 3), **options)
        assert counts["Scan"] == 1
    model, counts = export_for_runtime(Scanned(gated), rows(2, 3, torch.float64))
    assert counts["Scan"] == 1
    check(model, Scanned(gated), rows(2, 3, torch.float64))


def test_a_state_of_single_numbers_stays() -> None:
    """For values of width one, as in Mamba, the kernel is slower than the Scan."""
    state, q, k, v, *rest = rows(2, 3)
    args = (state[..., :1].clone(), q, k, v[..., :1].clone(), *rest)
    model, counts = export_for_runtime(Scanned(gated_by_key), args)
    assert counts["Scan"] == 1
    check(model, Scanned(gated_by_key), args)


class Looped(torch.nn.Module):
    """A loop of Python over the tokens of inputs [batch, heads, length, ...]."""

    def __init__(self, step: Any, backward: bool = False) -> None:
        super().__init__()
        self.step, self.backward = step, backward

    def forward(self, state: torch.Tensor, *rows: torch.Tensor) -> Any:
        results = torch.zeros_like(rows[2])
        length = results.shape[2]
        for token in range(length):
            place = length - 1 - token if self.backward else token
            inputs = [x[:, :, place] for x in rows]
            state, results[:, :, token] = self.step(state, *inputs)
        return state, results


@pytest.mark.parametrize("step", STEPS)
def test_a_loop_that_indexes_its_inputs(step: Any) -> None:
    """An input that each step indexes by its number counts as scanned."""
    module = Looped(step)
    shapes = ({0: "batch"}, ({0: "batch", 2: "length"},) * 6)
    options = {"dynamic_shapes": shapes, "export_options": ortable.ExportOptions(loops=True)}
    model, counts = export_for_runtime(module, rows(2, 4), **options)
    assert (counts["Scan"], counts["LinearAttention"]) == (0, 1)
    for batch, length in ((1, 1), (2, 2), (3, 9)):
        check(model, module, rows(batch, length))


def test_a_loop_from_the_last_token_stays() -> None:
    module = Looped(gated_delta, backward=True)
    shapes = ({0: "batch"}, ({0: "batch", 2: "length"},) * 6)
    options = {"dynamic_shapes": shapes, "export_options": ortable.ExportOptions(loops=True)}
    model, counts = export_for_runtime(module, rows(2, 4), **options)
    assert counts["Scan"] == 1
    for batch, length in ((1, 1), (3, 9)):
        check(model, module, rows(batch, length))
