"""ExportOptions(validate=True): the exported program returns what the module does on the
example, before anything is converted. In come the program and the request, out goes an error or
nothing. Called by strategies.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import pytree
from ortable.errors import ExportError, OptionError
from ortable.exporter.account.tolerances import Tolerance, tolerance_of
from ortable.exporter.request.ambient import autocast_again
from ortable.exporter.request.copies import copied_call, copied_module
from ortable.exporter.request.program import Request
from ortable.ir.initializers import is_fake

_NUMBER = Tolerance(atol=0.0, rtol=1e-9)  # of Python's numbers


def check_program(exported: ExportedProgram, request: Request) -> None:
    """Compare the exported program with the module on the example call: results, and the buffers
    that both have afterwards.

    Neither the module nor the arguments are changed; both sides draw the same random numbers.

    Raises:
        OptionError: the weights have no data.
        ExportError: the program cannot be run, or something differs; the message names it.
    """
    module = request.model
    tensors = pytree.tree_leaves((dict(exported.state_dict), request.args, request.kwargs))
    if any(is_fake(tensor) for tensor in tensors):
        raise OptionError("ExportOptions(validate=True) needs weights and inputs with data")
    with autocast_again():
        expected = _called(copied_module(module), request)
    try:
        computed = _called(copied_module(exported.module()), request)
    except Exception as error:  # the program checks its inputs with plain Python assertions
        raise ExportError(
            f"the exported program cannot be run on the example inputs: "
            f"{type(error).__name__}: {error}"
        ) from error
    problems = [
        text
        for path, wanted in expected.items()
        if (text := _difference(path, computed.get(path), wanted)) is not None
    ]
    problems += [
        f"  {path}: the module returns none"
        for path in computed
        if path not in expected and path.startswith("result")
    ]
    if problems:
        raise ExportError(
            f"the exported program and {type(module).__name__} differ on the example inputs, "
            "before any conversion to ONNX:\n" + "\n".join(problems)
        )


def _called(module: Any, request: Request) -> dict[str, Any]:
    """Flat results of a call and the buffers after it, by name."""
    args, kwargs = copied_call(request.args, request.kwargs)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        returned = module(*args, **kwargs)
    leaves = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    found = {f"result {index}": leaf for index, leaf in enumerate(leaves)}
    persistent = module.state_dict()
    found.update(
        {f"buffer '{name}'": value for name, value in module.named_buffers() if name in persistent}
    )
    return found


def _difference(path: str, value: Any, wanted: Any) -> str | None:
    if value is None:
        return f"  {path}: the program returns none"
    dtype = wanted.dtype if isinstance(wanted, torch.Tensor) else None
    tolerance = tolerance_of(dtype) if dtype else _NUMBER
    try:
        torch.testing.assert_close(
            value, wanted, **tolerance._asdict(), equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return f"  {path}: " + " ".join(str(error).split())
    return None


def differences(found: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    """What differs between flat results, one line each, within the tolerance of their dtypes."""
    if len(found) != len(wanted):
        return [f"  it returns {len(found)} values, not {len(wanted)}"]
    pairs = zip(found, wanted, strict=True)
    lines = (_difference(f"result {place}", *pair) for place, pair in enumerate(pairs))
    return [line for line in lines if line is not None]


def results_of(module: Any, call: Any) -> list[Any]:
    """Flat results of a call, with the same random numbers each time; what it writes into its
    arguments goes into copies."""
    args, kwargs = copied_call(*call)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if leaf is not None]
