"""What torch's schemas promise of memory, asked of every entry of the specs: results of operators
that return views share memory with their arguments, and in-place variants write into them, with
the strides and versions of eager. The first argument is plain, a part of a larger tensor that is an
argument too, or transposed.

The calls are the sample calls of the specs (tests/fuzz/catalog.py), so that a new entry is asked
without a line here. `make test` takes some operators, which the commit chooses; all of them run
with ``--every-program``."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from ortable.debug.harness.entries import make_tensor
from ortable.errors import FunctionNotFoundError, UnsupportedCase
from tests.backend.relations import compare
from tests.fuzz.catalog import CallSite, catalog
from tests.rotation import turn

SAMPLED = 12  # operators of each kind in `make test`
REFUSE = {"fallback": "error"}

Tensors = Sequence[torch.Tensor]


def plain(tensor: torch.Tensor) -> Tensors:
    """The tensor alone."""
    return [tensor]


def part(tensor: torch.Tensor) -> Tensors:
    """The middle of a larger tensor, and that one."""
    base = torch.stack([tensor, tensor, tensor])
    return base[1], base


def transposed(tensor: torch.Tensor) -> Tensors:
    """The tensor with its axes in the other order in memory."""
    axes = list(range(tensor.ndim))[::-1]
    return [tensor.permute(axes).contiguous().permute(axes)]


FORMS = (plain, part, transposed)


@cache
def overload(key: str) -> Any:
    """The overload of an entry of torch's own namespace, else None."""
    namespace, _, rest = key.partition("::")
    name, _, kind = rest.partition(".")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
    return getattr(packet, kind or "default", None)


@cache
def in_place(key: str) -> Any:
    """The overload that writes into the first argument, else None."""
    name, dot, kind = key.partition(".")
    found = overload(f"{name}_{dot}{kind}") if not name.endswith("_") else None
    alias = found._schema.arguments[0].alias_info if found is not None else None
    return found if alias is not None and alias.is_write else None


def returns_views(key: str) -> bool:
    """Whether the schema says that results share memory with arguments."""
    op = overload(key)
    aliases = [each.alias_info for each in op._schema.returns] if op is not None else []
    return any(alias is not None and not alias.is_write for alias in aliases)


def chosen(wanted: Callable[[str], Any], every: bool) -> dict[str, CallSite]:
    """A sample call of each entry, or of some of them: one that draws nothing."""
    calls = {
        key: [site for site in sites if not site.random and site.leaves]
        for key, sites in catalog().sites.items()
        if wanted(key)
    }
    keys = sorted(key for key, sites in calls.items() if sites)
    keys = keys if every else random.Random(turn()).sample(keys, SAMPLED)
    return {key: calls[key][turn() % len(calls[key])] for key in keys}


def function_of(site: CallSite, text: str) -> Callable[..., Any]:
    """The call as a function of its tensors and of one more, which is read after it."""
    names = [f"t{index}" for index in range(len(site.leaves))]
    lines = [
        f"def call({', '.join(names)}, *base):",
        f"    found = {text.format(*names)}",
        "    return found, [each * 1 for each in (t0, *base)]",
    ]
    namespace: dict[str, Any] = {"torch": torch}
    exec("\n".join(lines), namespace)
    call: Callable[..., Any] = namespace["call"]
    return call


def check(site: CallSite, text: str) -> int:
    """Compares a call with eager in each form that eager and torch's tracing take, or with
    aot_eager where torch's own functionalization is what differs; how many there were."""
    function = function_of(site, text)

    def made(form: Callable[[torch.Tensor], Tensors]) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        first, *others = [make_tensor(leaf, generator) for leaf in site.leaves]
        first, *base = form(first)
        return [first, *others, *base]

    tried = 0
    for form in FORMS:
        torch._dynamo.reset()
        make = partial(made, form)
        if not works(function, make):
            continue
        # of arguments that overlap AOTAutograd returns a view where eager returns the argument
        one = form is not part
        try:
            compare(function, make, identity=one, options=REFUSE)
        except BackendCompilerFailed as error:
            assert isinstance(error.inner_exception, FunctionNotFoundError | UnsupportedCase), error
        except AssertionError:
            torch._dynamo.reset()
            traced = torch.compile(function, backend="aot_eager", fullgraph=True)
            try:
                compare(function, make, identity=one, reference=traced)
            except AssertionError as error:
                raise AssertionError(f"{text}, {form.__name__}: {error}") from error
        tried += 1
    return tried


def works(function: Callable[..., Any], make: Callable[[], list[torch.Tensor]]) -> bool:
    """Whether eager takes a call and torch traces it: not all dtypes can be written, say."""
    try:
        with torch.no_grad():
            function(*make())
            torch.compile(function, backend="eager", fullgraph=True)(*make())
    except Exception:
        return False
    return True


def test_results_share_memory_as_in_eager(pytestconfig: pytest.Config) -> None:
    found = chosen(returns_views, pytestconfig.getoption("--every-program"))
    assert all(check(site, site.text) for site in found.values())


def test_in_place_variants_write_as_in_eager(pytestconfig: pytest.Config) -> None:
    found = chosen(in_place, pytestconfig.getoption("--every-program"))
    tried = 0
    for key, site in found.items():
        _, _, rest = site.text.partition("(")
        tried += check(site, f"torch.ops.{in_place(key)}({rest}")
    assert tried > len(found)
