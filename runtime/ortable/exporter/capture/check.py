"""ExportOptions(validate=True): the exported program returns what the module does on the
example, before anything is converted. In come the program and the request, out goes an error or
nothing. Called by strategies.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import disable_torch_function, is_traceable_wrapper_subclass, pytree
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.account.gaps import Tolerance, tolerance_of
from ortable.exporter.request.caller_state import autocast_again, copied_call, copied_module
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
    leaves = results_of(module, (request.args, request.kwargs))
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


# -- tensors of classes that say themselves what the functions of torch do with them
# (``__torch_function__``), which torch.export does not follow


def check_subclasses(exported: ExportedProgram, request: Request) -> None:
    """Compare program and module on the example call where a tensor of it has such a class.
    Neither the module nor the arguments are changed.

    Raises:
        ExportError: they differ; the message names the class.
    """
    tensors = [*_leaves((request.args, request.kwargs)), *_held(request.model)]
    found = next((tensor for tensor in tensors if _speaks_for_itself(tensor)), None)
    if found is None or any(map(is_fake, tensors)):
        return
    wanted = _results(request.model, request, _clone)
    lines = differences(_results(exported.module(), request, _plain), wanted)
    if lines:
        name = type(found).__name__
        raise ExportError(
            f"{name}.__torch_function__ changes what the model computes, which torch.export does "
            "not follow; program and module differ on the example inputs:\n" + "\n".join(lines)
        ).advised(
            "What to do: give plain tensors (x.as_subclass(torch.Tensor)), and write into forward "
            f"what {name} does."
        )


def _results(
    module: Any, request: Request, copied: Callable[[torch.Tensor], torch.Tensor]
) -> list[Any]:
    """What a copy of the module returns for copies of the arguments, flat, as plain tensors."""
    leaves = list(_leaves((request.args, request.kwargs)))
    own = [tensor for tensor in (*leaves, *_held(module)) if _speaks_for_itself(tensor)]
    memo = {id(tensor): copied(tensor) for tensor in own}
    args, kwargs = _copied((request.args, request.kwargs), memo)
    twin = copy.deepcopy(module, memo)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        returned = twin(*args, **kwargs)
    found = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    return [_plain(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in found]


def _copied(tree: Any, memo: dict[int, Any]) -> Any:
    """The same with copies of tensors: those of the memo, where it has one."""

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return memo.setdefault(id(leaf), leaf.detach().clone())

    return pytree.tree_map(made, tree)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with disable_torch_function():
        return tensor.detach().clone().as_subclass(torch.Tensor)


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the same class, with the attributes that it has."""
    made = _plain(tensor).as_subclass(type(tensor))
    vars(made).update(vars(tensor))
    return made


def _leaves(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _held(model: Any) -> Iterator[torch.Tensor]:
    """Parameters and buffers of a module, and tensors that are plain attributes."""
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        for home in (vars(module), module._parameters, module._buffers):
            yield from (each for each in home.values() if isinstance(each, torch.Tensor))


def _speaks_for_itself(tensor: torch.Tensor) -> bool:
    """Whether its class overrides what torch's functions do; one that is made of other tensors is
    unwrapped by torch.export."""
    handler = type(tensor).__torch_function__
    plain = getattr(handler, "__func__", handler) in (
        torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
        torch.nn.Parameter.__torch_function__,
    )
    return not plain and not is_fake(tensor) and not is_traceable_wrapper_subclass(tensor)


# -- tensors that torch.export takes for dense ones, or fails on in words about something else:
# packed for mkldnn, quantized, nested


def check_layouts(request: Request) -> None:
    """Raises InputError for such a tensor among the arguments, parameters and buffers, by its
    place."""
    for place, value in _places(request):
        for leaf in pytree.tree_leaves(value):
            what = _undense(leaf) if isinstance(leaf, torch.Tensor) else None
            if what is not None:
                raise InputError(f"{place} is {what}")


def check_not_nested(place: str, value: Any) -> None:
    """Raises InputError for an input of a given graph that not even has a shape."""
    if isinstance(value, torch.Tensor) and value.is_nested and value.layout is torch.strided:
        raise InputError(f"{place} is {_undense(value)}")


def _places(request: Request) -> Iterator[tuple[str, Any]]:
    yield from ((f"args[{index}]", value) for index, value in enumerate(request.args))
    yield from ((f"kwargs[{name!r}]", value) for name, value in request.kwargs.items())
    if isinstance(request.model, torch.nn.Module):
        named = (request.model.named_parameters(), request.model.named_buffers())
        for name, value in (pair for each in named for pair in each):
            if not value.is_mkldnn:  # which torch.export keeps, and the interpreter refuses
                yield f"'{name}' of the model", value


def _undense(tensor: torch.Tensor) -> str | None:
    """What to say of a tensor whose elements do not lie as its shape says."""
    if tensor.is_mkldnn:
        return f"of layout {tensor.layout}: an ONNX model takes dense tensors; give x.to_dense()"
    if tensor.is_quantized:
        return (
            f"a quantized tensor ({tensor.dtype}), which holds its scale inside: give "
            "x.dequantize(), or use quantization through torch.export, which keeps codes and "
            "scales apart"
        )
    if tensor.is_nested and tensor.layout is torch.strided:
        return (
            "a nested tensor: an ONNX model takes dense tensors; give "
            "torch.nested.to_padded_tensor(x, 0.0)"
        )
    return None
