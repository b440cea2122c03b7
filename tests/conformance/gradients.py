"""The other front door: one sample of an OpInfo through torch.compile, forward and backward, and
eager beside it. In comes an OpInfo with a sample, out comes a GradientOutcome. workers.py calls it
with samples that require gradients (kind `gradient`) and with others (kind `compiled`).

A function of the sample's tensors is compiled whole; its results and the gradients of fixed
random cotangents must be those of eager. In-place variants and `out=` run through the same
backend, the latter without gradients, which torch does not define for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ortable.errors import FunctionNotFoundError, KernelError, OrtableError, UnsupportedCase
from tests.conformance.compare import (
    ANY_OF_EQUAL,
    NEIGHBOURS,
    WIDER,
    as_exact,
    as_real,
    nudged,
    points_to_the_same,
)
from tests.conformance.drawn import UNINITIALISED
from tests.conformance.samples import Call, name_of
from tests.conformance.sizes import fulfilling, resize, with_tensors
from tests.suites.model_check import causes_of

# every outcome; those of FAULTS are to be repaired
STAGES = (
    "exact",  # values and gradients are eager's
    "uncaptured",  # torch cannot compile or differentiate the sample, whatever the backend
    "missing",  # an operator has no converter
    "refused",  # a named refusal
    "mismatch",  # a value, dtype or shape differs
    "no_kernel",  # ONNX Runtime has no kernel for what was built
    "invalid",  # ONNX Runtime refuses the model
    "error",  # anything else
)
FAULTS = ("mismatch", "no_kernel", "invalid", "error")

# (relative, absolute): what eager's own order of summation leaves open
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-9),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-9),
}
# torch does not promise which of two equal elements comes first, so each may have the other's
# gradient. (Eager's order is another one than that of a stable sort from some length on.)
UNSTABLE = ("msort", *ANY_OF_EQUAL)
EXACT_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.complex64}
SEED = 11


@dataclass(frozen=True)
class GradientOutcome:
    """How a sample ended: `stage` is one of STAGES, `missing` names operators without converter."""

    stage: str
    detail: str = ""
    missing: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing needs repair."""
        return self.stage not in FAULTS


def gradient_samples(op_info: Any, dtype: torch.dtype, count: int = 3) -> list[Any]:
    """Up to `count` samples spread over what the OpInfo yields; always the same ones."""
    return [sample for _, sample in numbered_samples(op_info, dtype, count)[1]]


def numbered_samples(
    op_info: Any, dtype: torch.dtype, count: int = 3
) -> tuple[int, list[tuple[int, Any]]]:
    """The number of samples that are looked at, and those of :func:`gradient_samples` with their
    places."""
    _seed()
    found = []
    for sample in op_info.sample_inputs("cpu", dtype, requires_grad=True):
        found.append(sample)
        if len(found) == 60:
            break
    step = max(len(found) // count, 1)
    return len(found), list(enumerate(found))[::step][:count]


def check_gradients(
    op_info: Any,
    sample: Any,
    dtype: torch.dtype,
    *,
    variant: str = "function",
    backend: Any = None,
    options: dict[str, Any] | None = None,
    dynamic: bool = False,
) -> GradientOutcome:
    """Runs one sample, forward and backward, with eager and with the backend.

    :param op_info: an OpInfo
    :param sample: one of its SampleInputs, made for `dtype` with gradients required
    :param dtype: the dtype of the sample: it chooses the tolerance
    :param variant: "function", "inplace" (on a copy of the input) or "out" (values only)
    :param backend: default: ortable's
    :param options: the options of the backend
    :param dynamic: compile with dynamic sizes, and call again with every dimension two longer where
        eager takes it
    """
    torch._dynamo.reset()
    try:
        call = _Call(op_info, sample, variant)
        expected = call.run(call.function, call.tensors)
    except Exception as error:
        return GradientOutcome("uncaptured", f"eager: {_first_line(error)}")
    if not expected.values:
        return GradientOutcome("uncaptured", "eager: no tensor comes out")
    chosen = backend if backend is not None else _ortable_backend(options)
    compiled = _compiled(call.function, chosen, dynamic)
    call.dynamic = dynamic
    outcome = _outcome(call, call.tensors, compiled, expected, dtype)
    longer = _longer(call) if dynamic and outcome.stage == "exact" else None
    if longer is None:
        return outcome
    try:
        expected = call.run(call.function, longer)
    except Exception:
        return outcome  # eager does not take these sizes together
    again = _outcome(call, longer, compiled, expected, dtype)
    if again.stage == "uncaptured":
        return outcome
    return replace(again, detail=again.detail and f"at other sizes: {again.detail}")


def _outcome(
    call: _Call,
    tensors: Sequence[torch.Tensor],
    compiled: Callable[..., Any],
    expected: _Results,
    dtype: torch.dtype,
) -> GradientOutcome:
    try:
        found = call.run(compiled, tensors)
    except Exception as error:
        return _failure(error, call)
    return _compared(call, tensors, expected, found, dtype)


def _longer(call: _Call) -> list[torch.Tensor] | None:
    """The tensors with every dimension of more than one element two longer, so that equal sizes
    stay equal, and values that fulfil what the operator asks; None where there is nothing to
    lengthen."""
    found = []
    for tensor in call.tensors:
        grown = resize(tensor, [size + 2 if size > 1 else size for size in tensor.shape])
        if grown is None:
            return None
        found.append(grown)
    if all(new.shape == old.shape for new, old in zip(found, call.tensors, strict=True)):
        return None
    longer = fulfilling(with_tensors(call.sample, found))
    if longer is None:
        return None
    pairs = zip(longer.tensors(), call.tensors, strict=True)
    return [new.detach().requires_grad_(old.requires_grad) for new, old in pairs]


@dataclass
class _Results:
    """What a run gives: results, gradients by tensor (None where eager has none)."""

    values: list[torch.Tensor]
    gradients: list[torch.Tensor | None]


class _Call:
    """A sample as a function of its tensors, with what stays fixed between its runs."""

    def __init__(self, op_info: Any, sample: Any, variant: str) -> None:
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        slots = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        operator = _operator(op_info, variant)
        after = sample.output_process_fn_grad if variant == "function" else _as_it_is
        self.tensors = [leaves[place] for place in slots]
        self.out = _out_of(op_info, sample) if variant == "out" else []
        self.dynamic: bool | None = None  # as torch.compile takes it
        self.unstable = op_info.name in UNSTABLE
        self.sample = Call(
            name_of(op_info), "", 0, operator, (sample.input, *sample.args), dict(sample.kwargs)
        )
        several = len(self.out) > 1

        def function(*tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for place, tensor in zip(slots, tensors):  # noqa: B905 - dynamo traces it
                filled[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(filled, spec)
            if variant == "inplace":
                first = first.clone()
            return after(operator(first, *args, **kwargs))

        def into(*tensors: torch.Tensor) -> Any:
            filled = list(leaves)
            for place, tensor in zip(slots, tensors):  # noqa: B905
                filled[place] = tensor
            first, args, kwargs = pytree.tree_unflatten(filled, spec)
            targets = tensors[len(slots) :]
            out = targets if several else targets[0]
            return operator(first, *args, out=out, **kwargs)

        self.function: Callable[..., Any] = into if variant == "out" else function

    def run(
        self, function: Callable[..., Any], tensors: Sequence[torch.Tensor], wide: bool = False
    ) -> _Results:
        """Calls `function` on copies of the tensors, and backward from fixed cotangents."""
        copies = [_copy(tensor, wide and not self.out) for tensor in tensors]
        if self.out:
            copies = [copy.detach() for copy in copies]
        _seed()
        given = function(*copies, *(target.clone() for target in self.out))
        values = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        roots = [value for value in values if value.requires_grad]
        sources = [copy for copy in copies if copy.requires_grad]
        gradients: dict[int, torch.Tensor | None] = {}
        if roots and sources:
            along = [_cotangent(root, place) for place, root in enumerate(roots)]
            torch.autograd.backward(roots, along, inputs=sources)
            gradients = {id(source): source.grad for source in sources}
        return _Results(
            [value.detach() for value in values], [gradients.get(id(copy)) for copy in copies]
        )


def _as_it_is(value: Any) -> Any:
    return value


def _operator(op_info: Any, variant: str) -> Callable[..., Any]:
    operator = op_info.inplace_variant if variant == "inplace" else op_info.op
    if operator is None:
        raise ValueError(f"{op_info.name} has no {variant} variant")
    names = getattr(getattr(operator, "__code__", None), "co_names", ())
    if "wrapper_set_seed" in names and variant == "function":
        # it draws with a seed of its own, by functions of torch.testing that dynamo does not enter
        found: Any = torch
        for part in op_info.name.split("."):
            found = getattr(found, part, None)
        if found is not None and found.__name__ in names:
            return found
    return operator


def _out_of(op_info: Any, sample: Any) -> list[torch.Tensor]:
    """`out` tensors of the right shapes that hold something else."""
    with torch.no_grad():
        value = op_info.op(sample.input, *sample.args, **sample.kwargs)
    values = [value] if isinstance(value, torch.Tensor) else list(value)
    return [torch.full(each.shape, 1, dtype=each.dtype) for each in values]


def _copy(tensor: torch.Tensor, wide: bool) -> torch.Tensor:
    fresh = tensor.detach().clone()
    if wide:
        fresh = (
            fresh.to({torch.complex64: torch.complex128}.get(fresh.dtype, torch.float64))
            if (fresh.dtype in EXACT_DTYPES)
            else fresh
        )
    return fresh.requires_grad_(tensor.requires_grad)


def _cotangent(root: torch.Tensor, place: int) -> torch.Tensor:
    """Random numbers of one float32 stream, so that a wider run sees the same ones."""
    generator = torch.Generator().manual_seed(SEED + place)
    kind = torch.complex64 if root.is_complex() else torch.float32
    drawn = torch.randn(root.shape, generator=generator, dtype=kind)
    return drawn.to(torch.float16).to(root.dtype) if not root.is_complex() else drawn.to(root.dtype)


def _seed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


def _ortable_backend(options: dict[str, Any] | None) -> Callable[..., Any]:
    from ortable.backend.aot.entry import ortable

    strict = {**(options or {}), "fallback": "error"}
    return lambda module, inputs: ortable(module, inputs, options=strict)


def _plain_backend(module: Any, inputs: Any) -> Any:
    """The same graphs as ortable's, run by torch: tells whose fault a difference is."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from ortable.backend.aot.decompositions import get_decomposition_table

    def compiler(graph: Any, _: Any) -> Any:
        return make_boxed_func(graph.forward)

    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=get_decomposition_table(),
    )(module, inputs)


def _compiled(
    function: Callable[..., Any], backend: Any, dynamic: bool = False
) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)


# -- failures -----------------------------------------------------------------------------------


def _failure(error: Exception, call: _Call) -> GradientOutcome:
    """What an exception of the compiled run says."""
    causes = list(causes_of(error))
    for cause in causes:
        if isinstance(cause, FunctionNotFoundError):
            return GradientOutcome("missing", _first_line(cause), _named(str(cause)))
        if isinstance(cause, KernelError):
            return GradientOutcome("no_kernel", _first_line(cause))
        if isinstance(cause, UnsupportedCase):
            return GradientOutcome("refused", _first_line(cause))
    for cause in causes:
        text = f"{type(cause).__name__}: {_first_line(cause)}"
        if "NOT_IMPLEMENTED" in text or type(cause).__name__ == "NotImplemented":
            return GradientOutcome("no_kernel", text)
        if type(cause).__module__.startswith("onnxruntime"):
            return GradientOutcome("invalid", text)
        if isinstance(cause, OrtableError):
            return GradientOutcome("error", text)
    if not _runs_plainly(call):
        return GradientOutcome("uncaptured", f"torch: {_first_line(causes[-1])}")
    return GradientOutcome("error", f"{type(causes[-1]).__name__}: {_first_line(causes[-1])}")


def _runs_plainly(call: _Call) -> bool:
    try:
        torch._dynamo.reset()
        call.run(_compiled(call.function, _plain_backend, call.dynamic), call.tensors)
    except Exception:
        return False
    return True


def _named(text: str) -> tuple[str, ...]:
    """The operators that FunctionNotFoundError lists, one a line: `aten::x, 1 call`."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line.split(",")[0] for line in lines if "::" in line and " call" in line)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else repr(error)[:300]


# -- comparison ---------------------------------------------------------------------------------


# Results of eager, and the same in float64, for the sample and its neighbours.
_Runs = list[tuple[_Results, _Results]]


def _compared(
    call: _Call,
    tensors: Sequence[torch.Tensor],
    expected: _Results,
    found: _Results,
    dtype: torch.dtype,
) -> GradientOutcome:
    """`exact`, or what differs first; a difference that torch's own graphs show is torch's."""
    if call.sample.op in UNINITIALISED:
        expected, found = _zeroed(expected), _zeroed(found)
    detail = _difference(expected, found, dtype, lambda: _runs(call, tensors))
    if detail is None or (call.unstable and _same_but_for_ties(call, tensors, expected, found)):
        return GradientOutcome("exact")
    try:
        torch._dynamo.reset()
        plain = call.run(_compiled(call.function, _plain_backend), tensors)
    except Exception as error:
        return GradientOutcome("uncaptured", f"torch: {_first_line(error)}")
    if _difference(plain, found, dtype, list) is None:
        return GradientOutcome("uncaptured", f"torch's own graphs differ from eager: {detail}")
    return GradientOutcome("mismatch", detail)


def _zeroed(results: _Results) -> _Results:
    """Results of memory as it was found, of which shapes and dtypes alone are compared."""
    return _Results([torch.zeros_like(value) for value in results.values], results.gradients)


def _same_but_for_ties(
    call: _Call, tensors: Sequence[torch.Tensor], expected: _Results, found: _Results
) -> bool:
    """Whether the values are the same, and each gradient once equal elements have exchanged
    theirs: equal elements of a tensor have the same gradients in some order."""
    sample = replace(call.sample, args=(tensors[0], *call.sample.args[1:]))
    for place, (want, have) in enumerate(zip(expected.values, found.values, strict=True)):
        if _unlike(want, have, want.dtype) and not points_to_the_same(sample, place, want, have):
            return False
    for tensor, want, have in zip(tensors, expected.gradients, found.gradients, strict=True):
        if want is None or have is None or want.shape != have.shape:
            if want is not have:
                return False
            continue
        own = tensor.detach().flatten().tolist()
        pairs = [sorted(zip(own, each.flatten().tolist(), strict=True)) for each in (want, have)]
        if pairs[0] != pairs[1]:
            return False
    return True


def _runs(call: _Call, tensors: Sequence[torch.Tensor]) -> _Runs:
    """Eager beside eager in float64, when it takes it; see compare.py."""
    found: _Runs = []
    for number in range(NEIGHBOURS + 1):
        generator = torch.Generator().manual_seed(number)
        near = [nudged(tensor, generator) if number else tensor for tensor in tensors]
        try:
            found.append((call.run(call.function, near), call.run(call.function, near, wide=True)))
        except Exception:
            if number == 0:
                return []
    return found


def _difference(
    expected: _Results, found: _Results, dtype: torch.dtype, evidence: Callable[[], _Runs]
) -> str | None:
    if len(expected.values) != len(found.values):
        return f"{len(found.values)} results, eager gives {len(expected.values)}"
    for kind in ("values", "gradients"):
        pairs = zip(getattr(expected, kind), getattr(found, kind), strict=True)
        for place, (want, have) in enumerate(pairs):
            detail = _unlike(want, have, dtype)
            if detail is None:
                continue
            runs = evidence() if isinstance(want, torch.Tensor) and want.dtype in WIDER else []
            sides = [(getattr(one, kind), getattr(other, kind)) for one, other in runs]
            results = [(a[place], b[place]) for a, b in sides if place < min(len(a), len(b))]
            given = [(a, b) for a, b in results if a is not None and b is not None]
            if want is None or have is None or not _as_close(given, want, have, dtype):
                return f"{kind[:-1]} {place}: {detail}"
    return None


def _unlike(want: torch.Tensor | None, have: torch.Tensor | None, dtype: torch.dtype) -> str | None:
    """How two tensors differ; a gradient of zeros may stand for none."""
    if want is None or have is None:
        given = have if want is None else want
        return None if given is None or not given.count_nonzero() else "no gradient on one side"
    relative, absolute = _tolerances(want, dtype)
    try:
        torch.testing.assert_close(
            have, want, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def _tolerances(want: torch.Tensor, dtype: torch.dtype) -> tuple[float, float]:
    if not (want.is_floating_point() or want.is_complex()):
        return 0, 0
    return TOLERANCES.get(dtype) or TOLERANCES.get(want.dtype, (0, 0))


def _as_close(runs: Any, want: torch.Tensor, have: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether each element is within the tolerance, or as exact as eager's (see compare.py)."""
    if want.shape != have.shape or want.dtype != have.dtype or not want.numel():
        return False
    if want.dtype not in WIDER:
        return False
    relative, absolute = _tolerances(want, dtype)
    near = torch.isclose(have, want, rtol=relative, atol=absolute, equal_nan=True)
    ours, eagers = as_real(have.resolve_conj()), as_real(want.resolve_conj())
    exact = as_exact(ours, eagers, runs, want.is_complex())
    return bool((near | (exact.all(-1) if want.is_complex() else exact)).all())
