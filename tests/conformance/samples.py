"""Sample calls from PyTorch's operator tests: a reproducible choice for an OpInfo and a dtype."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}


@dataclass(frozen=True)
class Call:
    """One sample call: the positional and keyword arguments of an OpInfo's operator."""

    op: str
    dtype: str
    index: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    total: int = 0  # how many samples torch yields
    sample: Any = None  # torch's SampleInput, whose output_process_fn_grad gradients need

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments, lists and dictionaries included, in order."""
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def module(self) -> torch.nn.Module:
        """Return a module whose inputs are the tensors; other arguments are constants."""
        return _CallModule(self)

    def describe(self) -> str:
        """Return the call as source code, with tensors as dtype and shape."""
        parts = [_text(value) for value in self.args]
        parts += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return f"{self.op}({', '.join(parts)})"


class _CallModule(torch.nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        leaves, self.structure = pytree.tree_flatten((call.args, call.kwargs))
        self.others = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.indices = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.function = call.function

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self.others)
        for index, tensor in zip(self.indices, tensors, strict=True):
            leaves[index] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.function(*args, **kwargs)


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        short = next((k for k, v in DTYPES.items() if v == value.dtype), str(value.dtype))
        sizes = ",".join(str(size) for size in value.shape)
        if value.layout != torch.strided:
            return f"{short}[{sizes}] {value.layout}"
        return f"{short}[{sizes}]" + ("" if value.is_contiguous() else " strided")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return repr(value)


def name_of(info: Any) -> str:
    """Return the OpInfo's name, with its variant where it has one."""
    return info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")


@cache
def op_infos() -> dict[str, Any]:
    """Return every OpInfo by name (``name.variant`` for a named variant), in name order."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.hop_db import hop_db

    infos: dict[str, Any] = {}
    for info in [*op_db, *hop_db]:
        infos.setdefault(name_of(info), info)
    return dict(sorted(infos.items()))


def takes(info: Any, dtype: str) -> bool:
    """Return whether torch's CPU kernels support this dtype."""
    return DTYPES[dtype] in info.supported_dtypes("cpu")


def takes_gradients(info: Any, dtype: str) -> bool:
    """Return whether torch differentiates this dtype on the CPU."""
    return info.supports_autograd and DTYPES[dtype] in info.supported_backward_dtypes("cpu")


def seed(number: int = 0) -> None:
    """Seed every random generator that samples may use."""
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def spread(total: int, count: int) -> Sequence[int]:
    """Return at most ``count`` indices below ``total``, evenly spread from the first one."""
    if total <= count:
        return range(total)
    if count == 1:
        return [0]
    return sorted({round(i * (total - 1) / (count - 1)) for i in range(count)})


def calls(name: str, dtype: str, count: int, requires_grad: bool = False) -> list[Call]:
    """Return at most ``count`` sample calls of an OpInfo, spread over all that it yields."""
    info = op_infos()[name]
    seed()
    samples = list(info.sample_inputs("cpu", DTYPES[dtype], requires_grad=requires_grad))
    selected = []
    for index in spread(len(samples), count):
        sample = samples[index]
        function = info.op
        if name.startswith(AMBIGUOUS):
            function = _Composed(info.op, sample.output_process_fn_grad)
        args = (sample.input, *sample.args)
        kwargs = dict(sample.kwargs)
        selected.append(Call(name, dtype, index, function, args, kwargs, len(samples), sample))
    return selected


# Prefixes of OpInfos whose results are not unique (signs or phases of vectors). The function
# `output_process_fn_grad` of their samples maps them to what is unique, such as a product.
AMBIGUOUS = ("linalg.eig", "linalg.svd", "svd", "pca_lowrank", "linalg.lstsq")


@dataclass(frozen=True)
class _Composed:
    inner: Callable[..., Any]
    outer: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outer(self.inner(*args, **kwargs))
