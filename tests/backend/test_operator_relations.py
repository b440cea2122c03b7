"""Views share memory and in-place variants write into arguments, as torch's schemas declare.

Strides and versions are those of eager. The first argument is plain, a slice of a larger tensor
that is an argument too, or transposed. The calls are the sample calls of the specs
(tests/fuzz/catalog.py), which include those of new entries. `make test` takes some operators, which
change with the commit; ``--every-program`` takes all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from ortable.errors import FunctionNotFoundError, UnsupportedCase
from ortable.testing.entries import make_tensor
from tests.backend.relations import compare
from tests.fuzz.catalog import CallSite, catalog
from tests.rotation import rotation_seed

pytestmark = pytest.mark.alternates(parts=3)

SAMPLE_SIZE = 12  # operators of each kind in `make test`
NO_FALLBACK = {"fallback": "error"}

Tensors = Sequence[torch.Tensor]


def plain_form(tensor: torch.Tensor) -> Tensors:
    """Return the tensor only."""
    return [tensor]


def slice_form(tensor: torch.Tensor) -> Tensors:
    """Return the middle of a larger tensor, and the larger tensor."""
    base = torch.stack([tensor, tensor, tensor])
    return base[1], base


def transposed_form(tensor: torch.Tensor) -> Tensors:
    """Return the tensor with its axes in reverse order in memory."""
    axes = list(range(tensor.ndim))[::-1]
    return [tensor.permute(axes).contiguous().permute(axes)]


FORMS = (plain_form, slice_form, transposed_form)


@cache
def find_overload(key: str) -> Any:
    """Return the overload of an entry of the namespace aten, else None."""
    namespace, _, rest = key.partition("::")
    name, _, kind = rest.partition(".")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
    return getattr(packet, kind or "default", None)


@cache
def find_in_place_variant(key: str) -> Any:
    """Return the variant that writes into the first argument, else None."""
    name, dot, kind = key.partition(".")
    variant = find_overload(f"{name}_{dot}{kind}") if not name.endswith("_") else None
    alias = variant._schema.arguments[0].alias_info if variant is not None else None
    return variant if alias is not None and alias.is_write else None


def returns_views(key: str) -> bool:
    """Return whether results share memory with arguments according to the schema."""
    op = find_overload(key)
    aliases = [result.alias_info for result in op._schema.returns] if op is not None else []
    return any(alias is not None and not alias.is_write for alias in aliases)


def choose_calls(has_property: Callable[[str], Any], all_entries: bool) -> dict[str, CallSite]:
    """Choose one sample call without random numbers for all entries or for some of them."""
    calls = {
        key: [site for site in sites if not site.random and site.leaves]
        for key, sites in catalog().sites.items()
        if has_property(key)
    }
    keys = sorted(key for key, sites in calls.items() if sites)
    keys = keys if all_entries else random.Random(rotation_seed()).sample(keys, SAMPLE_SIZE)
    return {key: calls[key][rotation_seed() % len(calls[key])] for key in keys}


def build_function(site: CallSite, text: str) -> Callable[..., Any]:
    """Build a function of the call's tensors and of a base tensor that is read after the call."""
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


def compare_forms(site: CallSite, text: str) -> int:
    """Compare a call with eager in each supported form of the first argument; return their number.

    Where the call differs from eager, it must agree with aot_eager: torch's functionalization
    causes the difference.
    """
    function = build_function(site, text)

    def make_tensors(form: Callable[[torch.Tensor], Tensors]) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        first, *other_tensors = [make_tensor(leaf, generator) for leaf in site.leaves]
        first, *base = form(first)
        return [first, *other_tensors, *base]

    comparisons = 0
    for form in FORMS:
        torch._dynamo.reset()
        make_args = partial(make_tensors, form)
        if not is_supported(function, make_args):
            continue
        # for overlapping arguments AOTAutograd returns a view where eager returns the argument
        same_objects = form is not slice_form
        try:
            compare(function, make_args, identity=same_objects, options=NO_FALLBACK)
        except BackendCompilerFailed as error:
            assert isinstance(error.inner_exception, FunctionNotFoundError | UnsupportedCase), error
        except AssertionError:
            torch._dynamo.reset()
            traced = torch.compile(function, backend="aot_eager", fullgraph=True)
            try:
                compare(function, make_args, identity=same_objects, reference=traced)
            except AssertionError as error:
                raise AssertionError(f"{text}, {form.__name__}: {error}") from error
        comparisons += 1
    return comparisons


def is_supported(function: Callable[..., Any], make_args: Callable[[], list[torch.Tensor]]) -> bool:
    """Return whether eager runs a call and torch traces it; some dtypes cannot be written."""
    try:
        with torch.no_grad():
            function(*make_args())
            torch.compile(function, backend="eager", fullgraph=True)(*make_args())
    except Exception:
        return False
    return True


def test_results_share_memory_as_in_eager(pytestconfig: pytest.Config) -> None:
    calls = choose_calls(returns_views, pytestconfig.getoption("--every-program"))
    assert all(compare_forms(site, site.text) for site in calls.values())


def test_in_place_variants_write_as_in_eager(pytestconfig: pytest.Config) -> None:
    calls = choose_calls(find_in_place_variant, pytestconfig.getoption("--every-program"))
    comparisons = 0
    for key, site in calls.items():
        _, _, rest = site.text.partition("(")
        comparisons += compare_forms(site, f"torch.ops.{find_in_place_variant(key)}({rest}")
    assert comparisons > len(calls)
