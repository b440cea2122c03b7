"""Functions and modules on CUDA, compiled and in eager, side by side. In come a function and
tensors of CUDA, out come the records of its graphs; the tests of this folder call it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

CUDA = "CUDAExecutionProvider"
# Relative and absolute, by dtype: sums in another order.
TOLERANCES = {
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
    torch.float32: (1e-3, 1e-4),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1e-3, 1e-4),
}


def compiled(function: Any, *, dynamic: bool | None = False, **options: Any) -> Any:
    """The function compiled whole."""
    return torch.compile(
        function, backend="ortable", fullgraph=True, dynamic=dynamic, options=options
    )


def equal(got: Any, expected: Any) -> None:
    """Same dtypes, shapes, strides and devices; values within the tolerance of the dtype."""
    found, wanted = pytree.tree_leaves(got), pytree.tree_leaves(expected)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        relative, absolute = TOLERANCES.get(other.dtype, (0, 0))
        assert one.device == other.device and one.stride() == other.stride()
        torch.testing.assert_close(one, other, rtol=relative, atol=absolute, equal_nan=True)


def agree(function: Callable[..., Any], *calls: Sequence[Any], **options: Any) -> list[Any]:
    """Calls of the compiled function equal eager's, arguments included; the records of its graphs,
    each of which has run on CUDA."""
    storage: dict[str, Any] = {}
    run = compiled(function, storage=storage, **options)
    for arguments in calls:
        ours, theirs = copy.deepcopy(tuple(arguments)), copy.deepcopy(tuple(arguments))
        equal(run(*ours), function(*theirs))
        equal(ours, theirs)
    records = storage["instance"]
    for record in records:
        if record["onnx"] is not None:
            assert record["providers"][0] == CUDA, record["providers"]
    return list(records)


def gradients_agree(
    model: torch.nn.Module, arguments: Sequence[torch.Tensor], steps: int = 2
) -> None:
    """Losses and gradients of a few steps of SGD are as near to those in float64 as eager's, and
    buffers are eager's."""
    models = {"ours": model, "eager": copy.deepcopy(model), "exact": copy.deepcopy(model).double()}
    runs = {**models, "ours": compiled(model)}
    wide = [a.double() if a.is_floating_point() else a for a in arguments]
    dtype = next(model.parameters()).dtype
    relative = TOLERANCES[dtype][0]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in models.values()]
    for _ in range(steps):
        for each in optimizers:
            each.zero_grad(set_to_none=True)
        losses = {
            name: run(*(wide if name == "exact" else arguments)).double().pow(2).mean()
            for name, run in runs.items()
        }
        for loss in losses.values():
            loss.backward()
        as_near(*losses.values(), relative, "loss")
        parameters = zip(*(m.named_parameters() for m in models.values()), strict=True)
        for (name, one), (_, other), (_, exact) in parameters:
            assert (one.grad.device, one.grad.dtype) == (other.grad.device, other.grad.dtype), name
            as_near(one.grad, other.grad, exact.grad, relative, name)
        for each in optimizers:
            each.step()
    for one, other in zip(model.buffers(), models["eager"].buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=relative, atol=relative)


def as_near(
    got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, relative: float, name: str
) -> None:
    """The norm of the error is at most twice eager's, and what an order of summation may change: an
    activation near zero that rounding turns on or off changes single elements by more."""
    scale = exact.norm().item()
    ours, theirs = [(each.double() - exact).norm().item() for each in (got, eager)]
    assert ours <= 2 * theirs + min(10 * relative, 0.1) * scale, (name, ours, theirs, scale)
