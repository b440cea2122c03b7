"""Define the patches of bypass_export_some_errors, workarounds for failures of torch.export.

workarounds.py installs them. A replacement returns the same as the original function, but uses
only operations that torch.export supports, or leaves out a check.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ortable.compat.scoped_patch import apply_or_undo
from ortable.compat.torch import (
    DispatchKey,
    FakeTensor,
    GuardOnDataDependentSymNode,
    ModuleStackTracer,
    check,
    clear_dispatch_cache,
    decomposition_table,
    dynamo,
    fake_rules,
    fx_config,
    get_proxy_mode,
    script_method,
)
from ortable.exporter.frontend.export_request import Undo, active_patches
from ortable.exporter.signature import caches

from .fake_quantization import patch_fake_rules
from .tracing import answer_size_condition


@dataclass(frozen=True)
class Patch:
    """One workaround.

    ``description`` says for the documentation what fails without the patch. ``apply`` installs
    the patch completely or not at all and returns the function that removes it, or None if there is
    nothing to do; removing twice is harmless. ``once_imported`` is for a library that may be
    slow or unable to load: the library is patched only if it is already imported.
    ``is_thread_local`` means that the patch changes thread-local state of torch.
    """

    name: str
    library: str
    description: str
    apply: Callable[[], Undo | None]
    once_imported: bool = False
    is_thread_local: bool = False

    def is_available(self) -> bool:
        """Whether the library is installed or, with ``once_imported``, its ``ops`` are imported."""
        if self.once_imported:
            return f"{self.library}.ops" in sys.modules
        return importlib.util.find_spec(self.library) is not None


def _assign_attribute(owner: Any, attribute: str, value: Any) -> Undo:
    original = getattr(owner, attribute)
    return apply_or_undo(
        lambda: setattr(owner, attribute, value), lambda: setattr(owner, attribute, original)
    )


def _patch_function(
    name: str, owner: Any, attribute: str, make: Callable[[Any], Any]
) -> Callable[[], Undo]:
    """Return the ``apply`` of a patch that replaces ``owner.attribute`` by ``make(original)``.

    The replacement runs in threads that are inside a block with the patch ``name``, and wherever
    dynamo traces code meanwhile, because dynamo cannot distinguish threads.
    """

    def apply_patch() -> Undo:
        original = getattr(owner, attribute)
        replacement = make(original)

        # no functools.wraps: dynamo skips functions by their names
        def call_patched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling() or name in active_patches():
                return replacement(*args, **kwargs)
            return original(*args, **kwargs)

        return _assign_attribute(owner, attribute, call_patched)

    return apply_patch


def _make_one_hot(original: Any) -> Any:
    """Compute the number of classes, a data-dependent size, without torch's check of its value."""

    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if num_classes != -1:
            return original(tensor, num_classes)
        count = tensor.max().item() + 1
        check(count >= 1)
        return (tensor.unsqueeze(-1) == torch.arange(count, device=tensor.device)).to(torch.int64)

    return one_hot


def _make_tensor(original: Any) -> Any:
    """Stack a list of 0-d tensors; torch.tensor would read their values."""

    def stacked_tensor(
        data: Any, *, dtype: Any = None, device: Any = None, **options: Any
    ) -> torch.Tensor:
        if not _has_tensors(data) or any(options.values()):
            return original(data, dtype=dtype, device=device, **options)
        stacked = _stack_nested(data)
        result_type = (
            functools.reduce(torch.promote_types, _element_dtypes(data)) if dtype is None else dtype
        )
        return stacked.to(dtype=result_type, device=device or "cpu")

    return stacked_tensor


def _has_tensors(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_tensors(item) or isinstance(item, torch.Tensor) for item in data)
    return False


def _stack_nested(data: Any) -> torch.Tensor:
    if isinstance(data, (list, tuple)):
        items = [_stack_nested(item) for item in data]
        dtype = functools.reduce(torch.promote_types, [item.dtype for item in items])
        return torch.stack([item.to(dtype) for item in items])
    return data.reshape(()) if isinstance(data, torch.Tensor) else torch.scalar_tensor(
        data, dtype=_number_type(data)
    )  # fmt: skip


def _element_dtypes(data: Any) -> list[torch.dtype]:
    if isinstance(data, (list, tuple)):
        return [dtype for item in data for dtype in _element_dtypes(item)]
    return [data.dtype if isinstance(data, torch.Tensor) else _number_type(data)]


def _number_type(value: Any) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, (float, torch.SymFloat)):
        return torch.get_default_dtype()
    return torch.int64


def _make_shape_as_tensor(original: Any) -> Any:
    """Stack the sizes; torch's function writes into memory, which a fake tensor has not."""

    def shape_as_tensor(self: torch.Tensor) -> torch.Tensor:
        if not isinstance(self, FakeTensor) or not self.dim():
            return original(self)
        return torch.stack([torch.scalar_tensor(size, dtype=torch.int64) for size in self.shape])

    return shape_as_tensor


def _make_deepcopy(original: Any) -> Any:
    """Clone a fake tensor; copy.deepcopy reads its storage."""

    def copy_fake_tensor(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if not isinstance(self, FakeTensor):
            return original(self, memo)
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    return copy_fake_tensor


def _make_jit_isinstance(original: Any) -> Any:
    """Use Python's isinstance for a class; dynamo does not support torch.jit.isinstance."""

    def jit_isinstance(obj: Any, target_type: Any) -> bool:
        if isinstance(target_type, type):
            return isinstance(obj, target_type)
        return original(obj, target_type)

    return jit_isinstance


def _make_mark_static_address(original: Any) -> Any:
    """Ignore a hint for CUDA graphs."""

    def mark_static_address(t: Any, guard: bool = False) -> None:
        return None

    return mark_static_address


def _make_script_call(original: Any) -> Any:
    """Call the compiled method of a ScriptModule with fake tensors, as if it were an operator.

    ModuleStackTracer wraps modules in an ``_AttrProxy``, and TorchScript would pass the module to
    the proxy's forward twice.
    """

    def call_module(self: Any, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(m, torch.jit.ScriptModule):
            return original(self, m, forward, args, kwargs)
        module: Any = m.get_base() if hasattr(m, "get_base") else m
        return script_method(module, "forward")(*args, **kwargs)

    return call_module


def _make_batched_nms(original: Any) -> Any:
    """Offset the boxes of each class by the largest coordinate, also if there are no boxes.

    torchvision branches on the number of boxes: whether it is 0 and, outside of tracing, whether it
    is above a limit.
    """

    def batched_nms(
        boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
    ) -> torch.Tensor:
        if not (torch.compiler.is_compiling() or isinstance(boxes, FakeTensor)):
            return original(boxes, scores, idxs, iou_threshold)
        lowest = boxes.new_full((1,), float("-inf"))
        largest = torch.cat([boxes.reshape(-1), lowest]).max()
        offset_boxes = boxes + (idxs.to(boxes) * (largest + 1))[:, None]
        return torch.ops.torchvision.nms(offset_boxes, scores, iou_threshold)

    return batched_nms


def _patch_nms_owners() -> Undo:
    """Patch both modules through which models call batched_nms."""
    owners = [sys.modules[name] for name in ("torchvision.ops", "torchvision.ops.boxes")]
    undo: list[Undo] = []

    def replace_all() -> None:
        for owner in owners:
            undo.append(_patch_function("batched_nms", owner, "batched_nms", _make_batched_nms)())

    def undo_all() -> None:
        for restore in undo:
            restore()

    return apply_or_undo(replace_all, undo_all)


_NO_SHAPE = torch.Size()


def _make_distribution_init(original: Any) -> Any:
    """Skip the default checks of parameters, which branch on values of tensors and only raise."""

    def init_distribution(
        self: Any,
        batch_shape: torch.Size = _NO_SHAPE,
        event_shape: torch.Size = _NO_SHAPE,
        validate_args: bool | None = None,
    ) -> None:
        if torch.compiler.is_compiling():
            validate_args = bool(validate_args)
        original(self, batch_shape, event_shape, validate_args)

    return init_distribution


def _make_symbolic_bool(original: Any) -> Any:
    """Let a run of ExportOptions(tracing=True) answer a condition on a data-dependent size."""

    def decide_bool(self: torch.SymBool) -> bool:
        try:
            return original(self)
        except GuardOnDataDependentSymNode:
            if "sizes of data" not in active_patches():
                raise
            answer = answer_size_condition(self)
            if answer is None:
                raise
            return answer

    # torch skips files of its own, so it records the caller's line for the condition; see guards.py
    decide_bool.__code__ = decide_bool.__code__.replace(co_filename=torch.__file__)
    return decide_bool


# -- the length of a recurrent layer. torch.export does not decompose ``aten::lstm`` and
# ``aten::gru``, but infers their shapes with torch's decomposition, a Python loop over the steps,
# which makes the length constant. The patch computes the shapes from those of the arguments

_SHAPE_DISPATCH_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def patch_recurrent_lengths(applies: Callable[[], bool]) -> Undo:
    """Patch the shape inference of LSTM, GRU and RNN; return the function that removes the patch.

    A patched kernel computes only shapes if the input is a FakeTensor, ``applies()`` is true in
    this thread, and no proxy mode, which records a graph, is active. Else it runs torch's function.
    """
    replaced: list[tuple[Any, DispatchKey, Any]] = []
    rules: dict[Any, Callable[..., Any] | None] = {}

    def replace_kernels() -> None:
        for operator in _recurrent_operators():
            for key in _SHAPE_DISPATCH_KEYS:
                original = operator.py_kernels.get(key)
                if original is not None:
                    replaced.append((operator, key, original))
                    operator.py_kernels[key] = _with_shapes(original, applies)
            # for symbolic sizes, FakeTensorMode prefers fake_rules() to decompositions
            rules[operator] = fake_rules().get(operator)
            fake_rules()[operator] = _recurrent_rule(operator, applies)
            clear_dispatch_cache(operator)

    def undo() -> None:
        for operator, rule in rules.items():
            if rule is None:
                fake_rules().pop(operator, None)
            else:
                fake_rules()[operator] = rule
        for operator, key, original in replaced:
            operator.py_kernels[key] = original
            clear_dispatch_cache(operator)

    return apply_or_undo(replace_kernels, undo)


def _recurrent_operators() -> tuple[Any, ...]:
    aten = torch.ops.aten
    return (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)


def _with_shapes(original: Callable[..., Any], applies: Callable[[], bool]) -> Callable[..., Any]:
    def shape_kernel(*args: Any, **kwargs: Any) -> Any:
        only_shapes = applies() and get_proxy_mode() is None
        # 9 arguments: those of `_recurrent_results`
        if only_shapes and not kwargs and len(args) == 9 and isinstance(args[0], FakeTensor):
            return _recurrent_results(*args)
        return original(*args, **kwargs)

    return shape_kernel


def _recurrent_rule(operator: Any, applies: Callable[[], bool]) -> Callable[..., Any]:
    """Return the shape function for fake tensors of dynamic size."""

    def shape_rule(mode: Any, *args: Any, **kwargs: Any) -> Any:
        is_plain_call = applies() and not kwargs and len(args) == 9
        with mode:
            return (
                _recurrent_results(*args)
                if is_plain_call
                else decomposition_table[operator](*args, **kwargs)
            )

    return shape_rule


def _recurrent_results(
    input: torch.Tensor,
    states: Any,
    params: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...]:
    """Return the output [steps, batch, width] or [batch, steps, width], then the last states."""
    initial_states = list(states) if isinstance(states, (list, tuple)) else [states]
    width = initial_states[0].shape[-1] * (2 if bidirectional else 1)
    first_size, second_size = input.shape[:2]
    if batch_first:  # torch transposes, computes, and transposes back, which sets the strides
        output = input.new_empty([second_size, first_size, width]).transpose(0, 1)
    else:
        output = input.new_empty([first_size, second_size, width])
    return (output, *(state.new_empty(state.shape) for state in initial_states))


PATCHES: tuple[Patch, ...] = (
    Patch(
        "sizes of 1",
        "torch",
        "a dynamic dimension whose example has size 1: torch takes 1 for a constant",
        lambda: _assign_attribute(fx_config, "backed_size_oblivious", True),
        is_thread_local=True,
    ),
    Patch(
        "one_hot",
        "torch",
        "torch.nn.functional.one_hot without num_classes",
        _patch_function("one_hot", torch.nn.functional, "one_hot", _make_one_hot),
    ),
    Patch(
        "tensor of tensors",
        "torch",
        "torch.tensor([a, b]) of 0-d tensors, with strict=False",
        _patch_function("tensor of tensors", torch, "tensor", _make_tensor),
    ),
    Patch(
        "shape as tensor",
        "torch",
        "torch._shape_as_tensor, with strict=False",
        _patch_function("shape as tensor", torch, "_shape_as_tensor", _make_shape_as_tensor),
    ),
    Patch(
        "deepcopy",
        "torch",
        "copy.deepcopy of a tensor in forward, with strict=False",
        _patch_function("deepcopy", torch.Tensor, "__deepcopy__", _make_deepcopy),
    ),
    Patch(
        "TorchScript modules",
        "torch",
        "a submodule compiled by torch.jit.script, with strict=False and static shapes",
        _patch_function("TorchScript modules", ModuleStackTracer, "call_module", _make_script_call),
    ),
    Patch(
        "recurrent layers",
        "torch",
        "torch.nn.LSTM, GRU and RNN with a dynamic number of steps",
        lambda: patch_recurrent_lengths(lambda: "recurrent layers" in active_patches()),
    ),
    Patch(
        "fake quantization",
        "torch",
        "models of quantization-aware training with dynamic shapes",
        patch_fake_rules,
    ),
    Patch(
        "jit.isinstance",
        "torch",
        "torch.jit.isinstance, with strict=True",
        _patch_function("jit.isinstance", torch.jit, "isinstance", _make_jit_isinstance),
    ),
    Patch(
        "mark_static_address",
        "torch",
        "torch._dynamo.mark_static_address, with strict=True",
        _patch_function(
            "mark_static_address", dynamo, "mark_static_address", _make_mark_static_address
        ),
    ),
    Patch(
        "distributions",
        "torch",
        "torch.distributions with its default checks of parameters and values",
        _patch_function(
            "distributions", torch.distributions.Distribution, "__init__", _make_distribution_init
        ),
    ),
    Patch(
        "sizes of data",
        "torch",
        "a branch on a size that depends on data, whose sides compute the same, with tracing",
        lambda: _assign_attribute(
            torch.SymBool, "__bool__", _make_symbolic_bool(torch.SymBool.__bool__)
        ),
    ),
    Patch(
        "batched_nms",
        "torchvision",
        "torchvision.ops.batched_nms: Faster R-CNN, RetinaNet, FCOS, SSD",
        _patch_nms_owners,
        once_imported=True,
    ),
    Patch(
        "caches",
        "transformers",
        "DynamicCache, StaticCache and EncoderDecoderCache as arguments and results",
        caches.register_cache_classes,
    ),
)
