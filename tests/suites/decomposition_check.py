"""One operator run whole, and as the decompositions of the backend compute it, on the same values:
torch's own fault where they differ. In comes ``opinfo/kron/f32`` or ``spec/aten::relu``, out comes
a Record. Called by `decompositions`."""

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
# Entries that run with drawn numbers alone: infinities and NaN end eager's process, or never end.
DRAWN_ONLY = {
    "aten::binomial": "draws without end for an infinite count",
    "aten::grid_sampler_2d_backward": "reads outside its memory for an infinite grid",
    "aten::linalg_eigvals": "LAPACK refuses NaN, and torch reads what it did not write",
}

Run = Callable[[], Any]
_used: set[str] = set()


def cases() -> list[str]:
    """Every operator of OpInfo in the dtypes that it takes, and every entry of specs/aten, but for
    those that leave memory as it was."""
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
    """Compare every call of a case that eager takes; the worst outcome is the case's."""
    torch.set_num_threads(1)
    _record_python_kernels()
    kind, _, name = case.partition("/")
    runs = _of_opinfo(*name.rsplit("/", 1)) if kind == "opinfo" else _of_entry(name)
    record, compared = Record(case, "exact"), 0
    decompositions: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for label, run in runs:
            try:
                seed(RANDOM_SEEDS[0])
                expected = _flat(run())
            except Exception:  # eager takes no such call
                continue
            compared += 1
            _used.clear()
            outcome, detail = _judge(run, expected)
            if not _used:  # nothing was decomposed: eager gives this or that
                continue
            decompositions |= _used
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
            _Decomposing(_table()),
        ):
            found = _flat(run())
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:300]
    if len(found) != len(expected):
        return "different", f"{len(found)} results, eager has {len(expected)}"
    wrong = ""
    for got, wanted in zip(found, expected, strict=True):
        gap = difference(got, wanted, scale=8.0, norm=True)
        if gap is not None and gap[0] != "sign":
            wrong = f"{gap[0]}: {gap[1]}"
            break
    if wrong and (_is_random(run, expected) or _is_changed_by_a_mode(run, expected)):
        return "exact", ""
    return ("different", wrong) if wrong else ("exact", "")


def _is_random(run: Run, expected: list[torch.Tensor]) -> bool:
    """Whether eager itself gives something else with another seed, or from memory as it was."""
    seed(RANDOM_SEEDS[1])
    again = _flat(run())
    return any(difference(a, b) is not None for a, b in zip(again, expected, strict=True))


def _is_changed_by_a_mode(run: Run, expected: list[torch.Tensor]) -> bool:
    """Whether torch gives something else as soon as a mode is on, without any decomposition."""
    seed(RANDOM_SEEDS[0])
    with _Decomposing({}):
        again = _flat(run())
    return any(difference(a, b, scale=8.0) for a, b in zip(again, expected, strict=True))


def _of_opinfo(name: str, dtype: str) -> Iterator[tuple[str, Run]]:
    try:
        samples = calls(name, dtype, SAMPLES)
    except NotImplementedError:  # torch makes none in this dtype
        return
    for call in samples:
        args, kwargs = call.args, call.kwargs
        yield str(call.index), partial(_called, call.function, args, kwargs)


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    return function(*args, **kwargs)


def _of_entry(key: str) -> Iterator[tuple[str, Run]]:
    schema = ENTRIES[key].schema
    for number, sample in enumerate(ENTRIES[key].samples):
        values = static(parse_sample(sample, schema))
        try:
            drawn = harness.make_tensors(values)
        except Exception:
            continue
        drawn_only = sample.random or key in DRAWN_ONLY
        filled = [("drawn", drawn)] if drawn_only else fills(leaves(values), drawn)
        for name, tensors in filled:
            given = in_order(values, list(tensors))
            yield f"#{number} {name}", partial(_entry_call, schema, values, given)


def _entry_call(schema: Any, values: Any, tensors: list[torch.Tensor]) -> Any:
    return harness.call_eager(schema, values, [tensor.clone() for tensor in tensors])


def _flat(result: Any) -> list[torch.Tensor]:
    found = [
        torch.as_tensor(leaf)
        for leaf in pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor | bool | int | float | complex)
    ]
    dense = [leaf.to_dense() if leaf.layout != torch.strided else leaf for leaf in found]
    plain = [leaf.detach().resolve_conj().resolve_neg() for leaf in dense]
    return [torch.view_as_real(leaf) if leaf.is_complex() else leaf for leaf in plain]


class _Decomposing(TorchDispatchMode):
    """Runs operators of a table as what they decompose into."""

    def __init__(self, table: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        function = self.table.get(func)
        if function is None:
            return func(*args, **(kwargs or {}))
        _used.add(func.name())
        with self:
            result = function(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    return get_decomposition_table()


@cache
def _record_python_kernels() -> None:
    """Note which Python kernels run: AOTAutograd meets these before any table."""
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if not name.startswith("aten::") or operator is None:
            continue
        for key in KEYS:
            kernel = operator.py_kernels.get(key)
            if callable(kernel):
                operator.py_kernels[key] = partial(_noted, name, kernel)
                clear_dispatch_cache(operator)


def _noted(name: str, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    _used.add(name)
    return kernel(*args, **kwargs)
