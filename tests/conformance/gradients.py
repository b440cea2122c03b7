"""Run one sample of an OpInfo with torch.compile, forward and backward, and compare with eager.

A function of the sample's tensors is compiled whole; its results and the gradients of fixed random
cotangents must be those of eager. In-place variants and `out=` run with the same backend, the
latter without gradients, which torch does not define for it.
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

# every outcome; those of FAULTS are defects
STAGES = (
    "exact",  # values and gradients equal eager's
    "uncaptured",  # torch cannot compile or differentiate the sample, whatever the backend
    "missing",  # an operator has no converter
    "refused",  # a named refusal
    "mismatch",  # a value, dtype or shape differs
    "no_kernel",  # ONNX Runtime has no kernel for a node
    "invalid",  # ONNX Runtime refuses the model
    "error",  # anything else
)
FAULTS = ("mismatch", "no_kernel", "invalid", "error")

# (relative, absolute) differences that another order of summation causes
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-9),
    torch.complex64: (1e-4, 1e-5),
    torch.complex128: (1e-7, 1e-9),
}
# torch does not define which of two equal elements comes first, so that their gradients may be
# exchanged. (From some length on, eager's order differs from that of a stable sort.)
UNSTABLE = ("msort", *ANY_OF_EQUAL)
EXACT_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.complex64}
SEED = 11


@dataclass(frozen=True)
class GradientOutcome:
    """The outcome of a sample: one of STAGES, and the operators without converter."""

    stage: str
    detail: str = ""
    missing: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Return whether the outcome is no defect."""
        return self.stage not in FAULTS


def gradient_samples(op_info: Any, dtype: torch.dtype, count: int = 3) -> list[Any]:
    """Return up to `count` samples spread over those of the OpInfo, the same at every call."""
    return [sample for _, sample in numbered_samples(op_info, dtype, count)[1]]


def numbered_samples(
    op_info: Any, dtype: torch.dtype, count: int = 3
) -> tuple[int, list[tuple[int, Any]]]:
    """Return the number of samples considered, and the selected samples with their indices."""
    _seed()
    samples = []
    for sample in op_info.sample_inputs("cpu", dtype, requires_grad=True):
        samples.append(sample)
        if len(samples) == 60:
            break
    step = max(len(samples) // count, 1)
    return len(samples), list(enumerate(samples))[::step][:count]


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
    """Run one sample, forward and backward, with eager and with the backend.

    Args:
        op_info: an OpInfo.
        sample: one of its SampleInputs, made for `dtype` with gradients required.
        dtype: the dtype of the sample, which selects the tolerance.
        variant: "function", "inplace" (on a copy of the input) or "out" (values only).
        backend: the backend; None for ortable's.
        options: the options of the backend.
        dynamic: compile with dynamic sizes, and then call with longer dimensions, too.
    """
    torch._dynamo.reset()
    try:
        call = _SampleCall(op_info, sample, variant)
        expected = call.run(call.function, call.tensors)
    except Exception as error:
        return GradientOutcome("uncaptured", f"eager: {_first_line(error)}")
    if not expected.values:
        return GradientOutcome("uncaptured", "eager: no tensor comes out")
    selected = backend if backend is not None else _ortable_backend(options)
    compiled = _compile(call.function, selected, dynamic)
    call.dynamic = dynamic
    outcome = _run_and_compare(call, call.tensors, compiled, expected, dtype)
    longer = _lengthen(call) if dynamic and outcome.stage == "exact" else None
    if longer is None:
        return outcome
    try:
        expected = call.run(call.function, longer)
    except Exception:
        return outcome  # eager refuses this combination of sizes
    last = _run_and_compare(call, longer, compiled, expected, dtype)
    if last.stage == "uncaptured":
        return outcome
    return replace(last, detail=last.detail and f"at other sizes: {last.detail}")


def _run_and_compare(
    call: _SampleCall,
    tensors: Sequence[torch.Tensor],
    compiled: Callable[..., Any],
    expected: _Results,
    dtype: torch.dtype,
) -> GradientOutcome:
    try:
        results = call.run(compiled, tensors)
    except Exception as error:
        return _classify_error(error, call)
    return _compare_results(call, tensors, expected, results, dtype)


def _lengthen(call: _SampleCall) -> list[torch.Tensor] | None:
    """Lengthen dimensions above one by two; return None where there are none."""
    tensors = []
    for tensor in call.tensors:
        resized = resize(tensor, [size + 2 if size > 1 else size for size in tensor.shape])
        if resized is None:
            return None
        tensors.append(resized)
    if all(new.shape == old.shape for new, old in zip(tensors, call.tensors, strict=True)):
        return None
    longer = fulfilling(with_tensors(call.sample, tensors))
    if longer is None:
        return None
    pairs = zip(longer.tensors(), call.tensors, strict=True)
    return [new.detach().requires_grad_(old.requires_grad) for new, old in pairs]


@dataclass
class _Results:
    """The results of a run, and the gradients by tensor (None where eager has none)."""

    values: list[torch.Tensor]
    gradients: list[torch.Tensor | None]


class _SampleCall:
    """A sample as a function of its tensors, with the state that its runs share."""

    def __init__(self, op_info: Any, sample: Any, variant: str) -> None:
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        slots = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        operator = _find_operator(op_info, variant)
        postprocess = sample.output_process_fn_grad if variant == "function" else _identity
        self.tensors = [leaves[index] for index in slots]
        self.out = _make_out_tensors(op_info, sample) if variant == "out" else []
        self.dynamic: bool | None = None  # the argument of torch.compile
        self.unstable = op_info.name in UNSTABLE
        self.sample = Call(
            name_of(op_info), "", 0, operator, (sample.input, *sample.args), dict(sample.kwargs)
        )
        has_several_outs = len(self.out) > 1

        def function(*tensors: torch.Tensor) -> Any:
            arguments = list(leaves)
            for index, tensor in zip(slots, tensors):  # noqa: B905 - dynamo traces it
                arguments[index] = tensor
            first, args, kwargs = pytree.tree_unflatten(arguments, spec)
            if variant == "inplace":
                first = first.clone()
            return postprocess(operator(first, *args, **kwargs))

        def write_out(*tensors: torch.Tensor) -> Any:
            arguments = list(leaves)
            for index, tensor in zip(slots, tensors):  # noqa: B905
                arguments[index] = tensor
            first, args, kwargs = pytree.tree_unflatten(arguments, spec)
            targets = tensors[len(slots) :]
            out = targets if has_several_outs else targets[0]
            return operator(first, *args, out=out, **kwargs)

        self.function: Callable[..., Any] = write_out if variant == "out" else function

    def run(
        self, function: Callable[..., Any], tensors: Sequence[torch.Tensor], wide: bool = False
    ) -> _Results:
        """Call `function` on copies of the tensors, and run backward from fixed cotangents."""
        copies = [_copy(tensor, wide and not self.out) for tensor in tensors]
        if self.out:
            copies = [copy.detach() for copy in copies]
        _seed()
        output = function(*copies, *(target.clone() for target in self.out))
        values = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        roots = [value for value in values if value.requires_grad]
        sources = [copy for copy in copies if copy.requires_grad]
        gradients: dict[int, torch.Tensor | None] = {}
        if roots and sources:
            cotangents = [_cotangent(root, index) for index, root in enumerate(roots)]
            torch.autograd.backward(roots, cotangents, inputs=sources)
            gradients = {id(source): source.grad for source in sources}
        return _Results(
            [value.detach() for value in values], [gradients.get(id(copy)) for copy in copies]
        )


def _identity(value: Any) -> Any:
    return value


def _find_operator(op_info: Any, variant: str) -> Callable[..., Any]:
    operator = op_info.inplace_variant if variant == "inplace" else op_info.op
    if operator is None:
        raise ValueError(f"{op_info.name} has no {variant} variant")
    names = getattr(getattr(operator, "__code__", None), "co_names", ())
    if "wrapper_set_seed" in names and variant == "function":
        # the wrapper seeds with functions of torch.testing that dynamo does not support
        function: Any = torch
        for part in op_info.name.split("."):
            function = getattr(function, part, None)
        if function is not None and function.__name__ in names:
            return function
    return operator


def _make_out_tensors(op_info: Any, sample: Any) -> list[torch.Tensor]:
    """Return `out` tensors of the right shapes that are filled with ones."""
    with torch.no_grad():
        value = op_info.op(sample.input, *sample.args, **sample.kwargs)
    values = [value] if isinstance(value, torch.Tensor) else list(value)
    return [torch.full(tensor.shape, 1, dtype=tensor.dtype) for tensor in values]


def _copy(tensor: torch.Tensor, wide: bool) -> torch.Tensor:
    copy = tensor.detach().clone()
    if wide:
        copy = (
            copy.to({torch.complex64: torch.complex128}.get(copy.dtype, torch.float64))
            if (copy.dtype in EXACT_DTYPES)
            else copy
        )
    return copy.requires_grad_(tensor.requires_grad)


def _cotangent(root: torch.Tensor, index: int) -> torch.Tensor:
    """Return random numbers of one float32 stream, so that a wider run has the same cotangent."""
    generator = torch.Generator().manual_seed(SEED + index)
    dtype = torch.complex64 if root.is_complex() else torch.float32
    noise = torch.randn(root.shape, generator=generator, dtype=dtype)
    return noise.to(torch.float16).to(root.dtype) if not root.is_complex() else noise.to(root.dtype)


def _seed() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


def _ortable_backend(options: dict[str, Any] | None) -> Callable[..., Any]:
    from ortable.backend.aot.entry import ortable

    strict = {**(options or {}), "fallback": "error"}
    return lambda module, inputs: ortable(module, inputs, options=strict)


def _torch_backend(module: Any, inputs: Any) -> Any:
    """Run the same graphs as ortable in torch, to attribute a difference."""
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


def _compile(
    function: Callable[..., Any], backend: Any, dynamic: bool = False
) -> Callable[..., Any]:
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)


# -- failures -------------------------------------------------------------------------------------


def _classify_error(error: Exception, call: _SampleCall) -> GradientOutcome:
    """Return the outcome for an exception of the compiled run."""
    causes = list(causes_of(error))
    for cause in causes:
        if isinstance(cause, FunctionNotFoundError):
            return GradientOutcome("missing", _first_line(cause), _missing_operators(str(cause)))
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
    if not _runs_in_torch(call):
        return GradientOutcome("uncaptured", f"torch: {_first_line(causes[-1])}")
    return GradientOutcome("error", f"{type(causes[-1]).__name__}: {_first_line(causes[-1])}")


def _runs_in_torch(call: _SampleCall) -> bool:
    try:
        torch._dynamo.reset()
        call.run(_compile(call.function, _torch_backend, call.dynamic), call.tensors)
    except Exception:
        return False
    return True


def _missing_operators(text: str) -> tuple[str, ...]:
    """Return the operators that FunctionNotFoundError lists, one a line: `aten::x, 1 call`."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line.split(",")[0] for line in lines if "::" in line and " call" in line)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else repr(error)[:300]


# -- comparison -----------------------------------------------------------------------------------


# Results of eager and of float64, for the sample and its neighbours.
_Runs = list[tuple[_Results, _Results]]


def _compare_results(
    call: _SampleCall,
    tensors: Sequence[torch.Tensor],
    expected: _Results,
    results: _Results,
    dtype: torch.dtype,
) -> GradientOutcome:
    """Return `exact`, or the first difference; torch's own graphs may explain a difference."""
    if call.sample.op in UNINITIALISED:
        expected, results = _zero_values(expected), _zero_values(results)
    detail = _find_difference(expected, results, dtype, lambda: _run_neighbours(call, tensors))
    if detail is None or (call.unstable and _differs_in_ties(call, tensors, expected, results)):
        return GradientOutcome("exact")
    try:
        torch._dynamo.reset()
        torch_results = call.run(_compile(call.function, _torch_backend), tensors)
    except Exception as error:
        return GradientOutcome("uncaptured", f"torch: {_first_line(error)}")
    if _find_difference(torch_results, results, dtype, list) is None:
        return GradientOutcome("uncaptured", f"torch's own graphs differ from eager: {detail}")
    return GradientOutcome("mismatch", detail)


def _zero_values(results: _Results) -> _Results:
    """Return results with values of zero, for operators that return uninitialised memory."""
    return _Results([torch.zeros_like(value) for value in results.values], results.gradients)


def _differs_in_ties(
    call: _SampleCall, tensors: Sequence[torch.Tensor], expected: _Results, results: _Results
) -> bool:
    """Return whether only the gradients of equal elements are exchanged."""
    sample = replace(call.sample, args=(tensors[0], *call.sample.args[1:]))
    for index, (eager, ours) in enumerate(zip(expected.values, results.values, strict=True)):
        if _compare(eager, ours, eager.dtype) and not points_to_the_same(
            sample, index, eager, ours
        ):
            return False
    for tensor, eager, ours in zip(tensors, expected.gradients, results.gradients, strict=True):
        if eager is None or ours is None or eager.shape != ours.shape:
            if eager is not ours:
                return False
            continue
        elements = tensor.detach().flatten().tolist()
        pairs = [sorted(zip(elements, g.flatten().tolist(), strict=True)) for g in (eager, ours)]
        if pairs[0] != pairs[1]:
            return False
    return True


def _run_neighbours(call: _SampleCall, tensors: Sequence[torch.Tensor]) -> _Runs:
    """Return eager's results and float64's for the sample and its neighbours; see compare.py."""
    runs: _Runs = []
    for number in range(NEIGHBOURS + 1):
        generator = torch.Generator().manual_seed(number)
        inputs = [nudged(tensor, generator) if number else tensor for tensor in tensors]
        try:
            runs.append(
                (call.run(call.function, inputs), call.run(call.function, inputs, wide=True))
            )
        except Exception:
            if number == 0:
                return []
    return runs


def _find_difference(
    expected: _Results, ours: _Results, dtype: torch.dtype, evidence: Callable[[], _Runs]
) -> str | None:
    if len(expected.values) != len(ours.values):
        return f"{len(ours.values)} results, eager gives {len(expected.values)}"
    for kind in ("values", "gradients"):
        pairs = zip(getattr(expected, kind), getattr(ours, kind), strict=True)
        for index, (eager, result) in enumerate(pairs):
            detail = _compare(eager, result, dtype)
            if detail is None:
                continue
            runs = evidence() if isinstance(eager, torch.Tensor) and eager.dtype in WIDER else []
            lists = [(getattr(narrow, kind), getattr(wide, kind)) for narrow, wide in runs]
            outputs = [(a[index], b[index]) for a, b in lists if index < min(len(a), len(b))]
            candidates = [(a, b) for a, b in outputs if a is not None and b is not None]
            if eager is None or result is None or not _is_close(candidates, eager, result, dtype):
                return f"{kind[:-1]} {index}: {detail}"
    return None


def _compare(
    eager: torch.Tensor | None, ours: torch.Tensor | None, dtype: torch.dtype
) -> str | None:
    """Describe how two tensors differ; a gradient of zeros equals a missing gradient."""
    if eager is None or ours is None:
        grad = ours if eager is None else eager
        return None if grad is None or not grad.count_nonzero() else "no gradient on one side"
    relative, absolute = _tolerances(eager, dtype)
    try:
        torch.testing.assert_close(
            ours, eager, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def _tolerances(tensor: torch.Tensor, dtype: torch.dtype) -> tuple[float, float]:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0, 0
    return TOLERANCES.get(dtype) or TOLERANCES.get(tensor.dtype, (0, 0))


def _is_close(runs: Any, eager: torch.Tensor, result: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether each element is within the tolerance, or as exact as eager's."""
    if eager.shape != result.shape or eager.dtype != result.dtype or not eager.numel():
        return False
    if eager.dtype not in WIDER:
        return False
    relative, absolute = _tolerances(eager, dtype)
    near = torch.isclose(result, eager, rtol=relative, atol=absolute, equal_nan=True)
    parts, eager_parts = as_real(result.resolve_conj()), as_real(eager.resolve_conj())
    exact = as_exact(parts, eager_parts, runs, eager.is_complex())
    return bool((near | (exact.all(-1) if eager.is_complex() else exact)).all())
