"""Compare compiled functions and modules with eager on CUDA."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

CUDA = "CUDAExecutionProvider"
# Relative and absolute tolerances by dtype, for another order of summation.
TOLERANCES = {
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
    torch.float32: (1e-3, 1e-4),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1e-3, 1e-4),
}


def compiled(function: Any, *, dynamic: bool | None = False, **options: Any) -> Any:
    """Compile a function without graph breaks."""
    return torch.compile(
        function, backend="ortable", fullgraph=True, dynamic=dynamic, options=options
    )


def equal(actual: Any, expected: Any) -> None:
    """Check dtypes, shapes, strides and devices, and values within the tolerance of the dtype."""
    actual_leaves, expected_leaves = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    assert len(actual_leaves) == len(expected_leaves)
    for value, reference in zip(actual_leaves, expected_leaves, strict=True):
        if not isinstance(reference, torch.Tensor):
            assert value == reference
            continue
        relative, absolute = TOLERANCES.get(reference.dtype, (0, 0))
        assert value.device == reference.device and value.stride() == reference.stride()
        torch.testing.assert_close(value, reference, rtol=relative, atol=absolute, equal_nan=True)


def agree(function: Callable[..., Any], *calls: Sequence[Any], **options: Any) -> list[Any]:
    """Check that calls of the compiled function equal eager, including the arguments.

    Returns the records of the graphs, each of which ran on CUDA.
    """
    storage: dict[str, Any] = {}
    run = compiled(function, storage=storage, **options)
    for arguments in calls:
        copied, eager_copy = copy.deepcopy(tuple(arguments)), copy.deepcopy(tuple(arguments))
        equal(run(*copied), function(*eager_copy))
        equal(copied, eager_copy)
    records = storage["instance"]
    for record in records:
        if record["onnx"] is not None:
            assert record["providers"][0] == CUDA, record["providers"]
    return list(records)


def gradients_agree(
    model: torch.nn.Module, arguments: Sequence[torch.Tensor], steps: int = 2
) -> None:
    """Check the losses and gradients of a few SGD steps, and the buffers.

    The error against float64 must be close to eager's, and the buffers must equal eager's.
    """
    models = {"ours": model, "eager": copy.deepcopy(model), "exact": copy.deepcopy(model).double()}
    runs = {**models, "ours": compiled(model)}
    exact_arguments = [a.double() if a.is_floating_point() else a for a in arguments]
    dtype = next(model.parameters()).dtype
    relative = TOLERANCES[dtype][0]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in models.values()]
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses = {
            name: run(*(exact_arguments if name == "exact" else arguments)).double().pow(2).mean()
            for name, run in runs.items()
        }
        for loss in losses.values():
            loss.backward()
        check_error(*losses.values(), relative, "loss")
        parameters = zip(*(m.named_parameters() for m in models.values()), strict=True)
        for (name, one), (_, eager), (_, exact) in parameters:
            assert (one.grad.device, one.grad.dtype) == (eager.grad.device, eager.grad.dtype), name
            check_error(one.grad, eager.grad, exact.grad, relative, name)
        for optimizer in optimizers:
            optimizer.step()
    for ours, eager in zip(model.buffers(), models["eager"].buffers(), strict=True):
        torch.testing.assert_close(ours, eager, rtol=relative, atol=relative)


def check_error(
    actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, relative: float, name: str
) -> None:
    """Check that the norm of the error is at most twice eager's, plus a summation tolerance.

    Norms are compared, since rounding may switch an activation near zero on or off.
    """
    scale = exact.norm().item()
    error, reference = [(value.double() - exact).norm().item() for value in (actual, eager)]
    assert error <= 2 * reference + min(10 * relative, 0.1) * scale, (name, error, reference, scale)
