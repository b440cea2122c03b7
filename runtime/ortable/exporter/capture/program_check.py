"""Check a captured program before conversion.

With ExportOptions(validate=True) the program must return the same as the module on the example.
Tensor subclasses and non-dense tensors of modules are always checked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.compat.torch import disable_torch_function, is_traceable_wrapper_subclass, pytree
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.frontend.export_request import Request
from ortable.exporter.frontend.module_state import caller_autocast, copy_call, copy_module
from ortable.exporter.reporting.numeric_diff import Tolerance, tolerance_of
from ortable.exporter.signature.dataclass_nodes import register_dataclasses
from ortable.ir.initializers import is_fake

_NUMBER = Tolerance(atol=0.0, rtol=1e-9)  # for Python numbers


def check_program(exported: ExportedProgram, request: Request) -> None:
    """Compare the results and the final buffers of program and module on the example call.

    Neither the module nor the arguments are changed; both sides draw the same random numbers.

    Raises:
        OptionError: weights or inputs have no data.
        ExportError: the program cannot be run, or a result or buffer differs; the message names it.
    """
    module = request.model
    tensors = pytree.tree_leaves((dict(exported.state_dict), request.args, request.kwargs))
    if any(is_fake(tensor) for tensor in tensors):
        raise OptionError("ExportOptions(validate=True) needs weights and inputs with data")
    with caller_autocast():
        expected = _call_results(copy_module(module), request, exported)
    try:
        computed = _call_results(copy_module(exported.module()), request)
    except Exception as error:  # the program checks its inputs with plain Python assertions
        raise ExportError(
            f"the exported program cannot be run on the example inputs: "
            f"{type(error).__name__}: {error}"
        ) from error
    problems = [
        text
        for path, reference in expected.items()
        if (text := _describe_difference(path, computed.get(path), reference)) is not None
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


def _call_results(
    module: Any, request: Request, exported: ExportedProgram | None = None
) -> dict[str, Any]:
    """Return the flat results of a call and the buffers after it, by name."""
    leaves = results_of(module, (request.args, request.kwargs), exported)
    results = {f"result {index}": leaf for index, leaf in enumerate(leaves)}
    persistent = module.state_dict()
    results.update(
        {f"buffer '{name}'": value for name, value in module.named_buffers() if name in persistent}
    )
    return results


def _describe_difference(path: str, value: Any, reference: Any) -> str | None:
    if value is None:
        return f"  {path}: the program returns none"
    dtype = reference.dtype if isinstance(reference, torch.Tensor) else None
    tolerance = tolerance_of(dtype) if dtype else _NUMBER
    try:
        torch.testing.assert_close(
            value, reference, **tolerance._asdict(), equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return f"  {path}: " + " ".join(str(error).split())
    return None


def find_differences(actual: Sequence[Any], expected: Sequence[Any]) -> list[str]:
    """Describe the differences between flat results that exceed tolerances, one line each."""
    if len(actual) != len(expected):
        return [f"  it returns {len(actual)} values, not {len(expected)}"]
    pairs = zip(actual, expected, strict=True)
    lines = (_describe_difference(f"result {index}", *pair) for index, pair in enumerate(pairs))
    return [line for line in lines if line is not None]


def results_of(module: Any, call: Any, exported: ExportedProgram | None = None) -> list[Any]:
    """Return the flat results of a call, with the same random numbers each time.

    The module gets copies of the arguments, which it may write into. It runs in the caller's
    gradient mode if ``exported`` was captured below autograd, since forward computes gradients.
    """
    has_gradients = exported is not None and exported.dialect == "ATEN" and torch.is_grad_enabled()
    args, kwargs = copy_call(*call)
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(has_gradients):
        torch.manual_seed(0)
        returned = register_dataclasses(module(*args, **kwargs))
        return [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]


# -- tensor subclasses that override ``__torch_function__``, which torch.export does not trace


def check_subclasses(exported: ExportedProgram, request: Request) -> None:
    """Compare program and module on the example call if a tensor overrides ``__torch_function__``.

    Neither the module nor the arguments are changed.

    Raises:
        ExportError: the results differ; the message names the class.
    """
    tensors = [*_tensor_leaves((request.args, request.kwargs)), *_module_tensors(request.model)]
    subclass_tensor = next(
        (tensor for tensor in tensors if _overrides_torch_functions(tensor)), None
    )
    if subclass_tensor is None or any(map(is_fake, tensors)):
        return
    expected = _plain_results(request.model, request, _clone_with_attributes)
    lines = find_differences(_plain_results(exported.module(), request, _to_plain_tensor), expected)
    if lines:
        name = type(subclass_tensor).__name__
        raise ExportError(
            f"{name}.__torch_function__ changes what the model computes, which torch.export does "
            "not trace; program and module differ on the example inputs:\n" + "\n".join(lines)
        ).with_advice(
            "What to do: give plain tensors (x.as_subclass(torch.Tensor)), and write the "
            f"operations of {name} into forward."
        )


def _plain_results(
    module: Any, request: Request, copy_tensor: Callable[[torch.Tensor], torch.Tensor]
) -> list[Any]:
    """Call a copy of the module; return the flat results as plain tensors.

    ``copy_tensor`` copies tensors whose class overrides ``__torch_function__``.
    """
    leaves = list(_tensor_leaves((request.args, request.kwargs)))
    overriding = [
        tensor
        for tensor in (*leaves, *_module_tensors(module))
        if _overrides_torch_functions(tensor)
    ]
    memo = {id(tensor): copy_tensor(tensor) for tensor in overriding}
    args, kwargs = _copy_tensors((request.args, request.kwargs), memo)
    module_copy = copy.deepcopy(module, memo)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        returned = register_dataclasses(module_copy(*args, **kwargs))
    result_leaves = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    return [
        _to_plain_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in result_leaves
    ]


def _copy_tensors(tree: Any, memo: dict[int, Any]) -> Any:
    """Copy the tensors of a tree; ``memo`` maps ids to copies to reuse."""

    def copy_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return memo.setdefault(id(leaf), leaf.detach().clone())

    return pytree.tree_map(copy_leaf, tree)


def _to_plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    with disable_torch_function():
        return tensor.detach().clone().as_subclass(torch.Tensor)


def _clone_with_attributes(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor with its class and attributes."""
    clone = _to_plain_tensor(tensor).as_subclass(type(tensor))
    vars(clone).update(vars(tensor))
    return clone


def _tensor_leaves(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _module_tensors(model: Any) -> Iterator[torch.Tensor]:
    """Yield parameters and buffers of a module, and tensors that are plain attributes."""
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        for attributes in (vars(module), module._parameters, module._buffers):
            yield from (value for value in attributes.values() if isinstance(value, torch.Tensor))


def _overrides_torch_functions(tensor: torch.Tensor) -> bool:
    """Whether the tensor's class overrides torch's functions, and is not a wrapper subclass."""
    handler = type(tensor).__torch_function__
    is_default = getattr(handler, "__func__", handler) in (
        torch.Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
        torch.nn.Parameter.__torch_function__,
    )
    return not is_default and not is_fake(tensor) and not is_traceable_wrapper_subclass(tensor)


# -- tensors packed for mkldnn, quantized and nested tensors: torch.export takes them for dense
# tensors, or rejects them with an unrelated error


def check_layouts(request: Request) -> None:
    """Raise InputError for a non-dense tensor among the arguments, parameters and buffers."""
    for label, value in _labeled_values(request):
        for leaf in pytree.tree_leaves(value):
            description = _describe_non_dense(leaf) if isinstance(leaf, torch.Tensor) else None
            if description is not None:
                raise InputError(f"{label} is {description}")


def check_not_nested(label: str, value: Any) -> None:
    """Raise InputError if ``value``, an input of a graph, is a nested tensor: it has no shape."""
    if isinstance(value, torch.Tensor) and value.is_nested and value.layout is torch.strided:
        raise InputError(f"{label} is {_describe_non_dense(value)}")


def _labeled_values(request: Request) -> Iterator[tuple[str, Any]]:
    yield from ((f"args[{index}]", value) for index, value in enumerate(request.args))
    yield from ((f"kwargs[{name!r}]", value) for name, value in request.kwargs.items())
    if isinstance(request.model, torch.nn.Module):
        tensor_lists = (request.model.named_parameters(), request.model.named_buffers())
        for name, value in (pair for pairs in tensor_lists for pair in pairs):
            if not value.is_mkldnn:  # torch.export accepts it, and the interpreter rejects it
                yield f"'{name}' of the model", value


def _describe_non_dense(tensor: torch.Tensor) -> str | None:
    """Describe a tensor whose elements are not stored as its shape implies; None for others."""
    if tensor.is_mkldnn:
        return f"of layout {tensor.layout}: an ONNX model takes dense tensors; give x.to_dense()"
    if tensor.is_quantized:
        return (
            f"a quantized tensor ({tensor.dtype}), which holds its scale inside: give "
            "x.dequantize(), or use quantization through torch.export, which keeps codes and "
            "scales separate"
        )
    if tensor.is_nested and tensor.layout is torch.strided:
        return (
            "a nested tensor: an ONNX model takes dense tensors; give "
            "torch.nested.to_padded_tensor(x, 0.0)"
        )
    return None
