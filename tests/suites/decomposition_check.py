"""Compare an operator with its decomposition in the backend, on the same values.

A difference is a defect of torch. A case is ``opinfo/kron/f32`` or ``spec/aten::relu``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ortable.backend.aot.decompositions import get_decomposition_table
from ortable.backend.aot.preserved_operators import preserve_operators
from ortable.compat.torch import DispatchKey, clear_dispatch_cache
from ortable.testing import entries as harness
from ortable_generated.aten import traits
from ortablegen.aten.samples import parse_sample
from tests.conformance.samples import calls, name_of, op_infos, seed, takes
from tests.derive.compare import difference
from tests.derive.fills import fills
from tests.derive.forms import leaves, static
from tests.derive.runner import in_order
from tests.specs.test_cases import ENTRIES, why_absent

from .workers import Record

DTYPES = ("f32", "i64", "bool", "c64")
SAMPLES = 40  # of an OpInfo in a dtype
KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
RANDOM_SEEDS = (1, 2)
# Entries that run only with random numbers: infinities and NaN crash or hang eager.
RANDOM_ONLY = {
    "aten::binomial": "loops forever for an infinite count",
    "aten::grid_sampler_2d_backward": "reads out of bounds for an infinite grid",
    "aten::linalg_eigvals": "LAPACK refuses NaN, and torch reads uninitialised memory",
}

Run = Callable[[], Any]
_used_decompositions: set[str] = set()


def cases() -> list[str]:
    """Return the cases of OpInfo and of specs/aten, without uninitialised results."""
    from torch.testing._internal.common_methods_invocations import op_db

    operators = sorted({name_of(info) for info in op_db if _is_computed(f"aten::{info.aten_name}")})
    infos = [(name, dtype) for name in operators for dtype in DTYPES
             if takes(op_infos()[name], dtype)]  # fmt: skip
    keys = [
        key for key in sorted(ENTRIES) if _is_computed(key) and why_absent(ENTRIES[key]) is None
    ]
    return [f"opinfo/{name}/{dtype}" for name, dtype in infos] + [f"spec/{key}" for key in keys]


def _is_computed(key: str) -> bool:
    packets = {name.partition(".")[0] for name in traits.UNINITIALIZED}
    return key.partition(".")[0] not in packets


def check_case(case: str) -> Record:
    """Compare every call of a case that eager accepts, and return the worst outcome."""
    torch.set_num_threads(1)
    _record_python_kernels()
    kind, _, name = case.partition("/")
    runs = _opinfo_calls(*name.rsplit("/", 1)) if kind == "opinfo" else _entry_calls(name)
    record, compared = Record(case, "exact"), 0
    decompositions: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, run in runs:
            try:
                seed(RANDOM_SEEDS[0])
                expected = _flatten(run())
            except Exception:  # eager refuses the call
                continue
            compared += 1
            _used_decompositions.clear()
            outcome, detail = _judge(run, expected)
            if not _used_decompositions:  # nothing was decomposed
                continue
            decompositions |= _used_decompositions
            if outcome != "exact" and record.outcome in ("exact", "error"):
                record.outcome, record.where, record.detail = outcome, label, detail
    record.facts = {"compared": compared, "decompositions": sorted(decompositions)}
    return record


def _judge(run: Run, expected: list[torch.Tensor]) -> tuple[str, str]:
    try:
        seed(RANDOM_SEEDS[0])
        with (
            preserve_operators(),
            torch._dispatch.python.enable_python_dispatcher(),
            _DecompositionMode(_decomposition_table()),
        ):
            results = _flatten(run())
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:300]
    if len(results) != len(expected):
        return "different", f"{len(results)} results, eager has {len(expected)}"
    detail = ""
    for result, eager in zip(results, expected, strict=True):
        gap = difference(result, eager, scale=8.0, norm=True)
        if gap is not None and gap[0] != "sign":
            detail = f"{gap[0]}: {gap[1]}"
            break
    if detail and (_is_random(run, expected) or _is_changed_by_a_mode(run, expected)):
        return "exact", ""
    return ("different", detail) if detail else ("exact", "")


def _is_random(run: Run, expected: list[torch.Tensor]) -> bool:
    """Return whether eager differs with another seed, or from uninitialised memory."""
    seed(RANDOM_SEEDS[1])
    repeated = _flatten(run())
    return any(difference(a, b) is not None for a, b in zip(repeated, expected, strict=True))


def _is_changed_by_a_mode(run: Run, expected: list[torch.Tensor]) -> bool:
    """Return whether torch differs under a dispatch mode, without any decomposition."""
    seed(RANDOM_SEEDS[0])
    with _DecompositionMode({}):
        repeated = _flatten(run())
    return any(difference(a, b, scale=8.0) for a, b in zip(repeated, expected, strict=True))


def _opinfo_calls(name: str, dtype: str) -> Iterator[tuple[str, Run]]:
    try:
        samples = calls(name, dtype, SAMPLES)
    except NotImplementedError:  # torch has no samples of this dtype
        return
    for call in samples:
        args, kwargs = call.args, call.kwargs
        yield str(call.index), partial(_call, call.function, args, kwargs)


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    return function(*args, **kwargs)


def _entry_calls(key: str) -> Iterator[tuple[str, Run]]:
    schema = ENTRIES[key].schema
    for number, sample in enumerate(ENTRIES[key].samples):
        values = static(parse_sample(sample, schema))
        try:
            random = harness.make_tensors(values)
        except Exception:
            continue
        is_random_only = sample.random or key in RANDOM_ONLY
        named_fills = [("drawn", random)] if is_random_only else fills(leaves(values), random)
        for name, tensors in named_fills:
            ordered = in_order(values, list(tensors))
            yield f"#{number} {name}", partial(_call_entry, schema, values, ordered)


def _call_entry(schema: Any, values: Any, tensors: list[torch.Tensor]) -> Any:
    return harness.call_eager(schema, values, [tensor.clone() for tensor in tensors])


def _flatten(result: Any) -> list[torch.Tensor]:
    tensors = [
        torch.as_tensor(leaf)
        for leaf in pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor | bool | int | float | complex)
    ]
    strided = [leaf.to_dense() if leaf.layout != torch.strided else leaf for leaf in tensors]
    real = [leaf.detach().resolve_conj().resolve_neg() for leaf in strided]
    return [torch.view_as_real(leaf) if leaf.is_complex() else leaf for leaf in real]


class _DecompositionMode(TorchDispatchMode):
    """Runs operators of a table as their decompositions."""

    def __init__(self, table: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        function = self.table.get(func)
        if function is None:
            return func(*args, **(kwargs or {}))
        _used_decompositions.add(func.name())
        with self:
            result = function(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


@cache
def _decomposition_table() -> dict[Any, Callable[..., Any]]:
    return get_decomposition_table()


@cache
def _record_python_kernels() -> None:
    """Record the Python kernels that run, which AOTAutograd uses before any table."""
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if not name.startswith("aten::") or operator is None:
            continue
        for key in KEYS:
            kernel = operator.py_kernels.get(key)
            if callable(kernel):
                operator.py_kernels[key] = partial(_call_and_record, name, kernel)
                clear_dispatch_cache(operator)


def _call_and_record(name: str, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    _used_decompositions.add(name)
    return kernel(*args, **kwargs)
