"""PyTorch's operator tests (OpInfo) on CUDA: a few samples per operator and dtype equal eager."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils import _pytree as pytree

from ortable.errors import OrtableError
from tests.conformance.compare import TOLERANCES, WIDER, as_real
from tests.conformance.samples import DTYPES, Call, op_infos, seed, spread

SAMPLES = 2
TESTED_DTYPES = ("f32", "f16", "bf16", "i64")
# Outcomes that are no failure: a named refusal, and calls that torch cannot capture or run.
PASSING = {"exact", "drawn", "refused", "uncaptured"}


# Operators whose results differ from eager, and why.
_TIES = "the choice among equal elements is unspecified"
_OVERFLOW = "powers of float16 overflow where torch sums in float32"
_SIGNS = "vectors are unique up to their signs"
DIFFERENT = {
    "dist": _OVERFLOW,
    "kthvalue": _TIES,
    "mode": _TIES,
    "topk": _TIES,
    "linalg.eigh": _SIGNS,
    "linalg.svd": _SIGNS,
    "linalg.vector_norm": _OVERFLOW,
    "svd": _SIGNS,
    "torch.ops.aten._safe_softmax.default": "ONNX Runtime's largest of infinities alone is finite",
}


def calls_on_cuda(name, dtype):
    info = op_infos()[name]
    seed()
    try:
        samples = list(info.sample_inputs("cuda", DTYPES[dtype], requires_grad=False))
    except Exception:  # some need gradients of dtypes without gradients
        return
    for index in spread(len(samples), SAMPLES):
        sample = samples[index]
        args = (sample.input, *sample.args)
        yield Call(name, dtype, index, info.op, args, dict(sample.kwargs), len(samples), sample)


def run_all(function, tensors):
    leaves = pytree.tree_leaves(function(*[t.clone() for t in tensors]))
    return [value for value in leaves if value is not None]


def iter_causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or getattr(error, "inner_exception", None)


def describe(tensor):
    return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device}"


def is_close(actual, expected):
    relative, absolute = TOLERANCES.get(expected.dtype, (0, 0))
    return torch.isclose(
        actual.double(), expected.double(), rtol=relative, atol=absolute, equal_nan=True
    ).all().item()  # fmt: skip


def widen(tensor):
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


def is_as_exact(call, index, actual, expected):
    """Return whether a result is about as close to float64 as eager's."""
    try:
        exact = as_real(run_all(call.module(), [widen(t) for t in call.tensors()])[index]).double()
    except Exception:
        return False
    if exact.shape != actual.shape:
        return False
    scale = exact.abs().nan_to_num(0, 0, 0).max().item() if exact.numel() else 0.0
    error, base = [
        (v.double() - exact).abs().nan_to_num(0, 0, 0).max().item() for v in (actual, expected)
    ]
    relative = TOLERANCES.get(expected.dtype, (0, 0))[0]
    return (
        bool((actual.isfinite() | ~expected.isfinite()).all())
        and error <= 2 * base + relative * scale
    )


def run_call(call):
    """Run a call compiled and eagerly, and return the outcome and a detail."""
    tensors = call.tensors()
    module = call.module()
    try:
        seed(1)
        expected = run_all(module, tensors)
        seed(2)
        repeated = run_all(module, tensors)
    except Exception as error:
        return "uncaptured", f"eager: {error}"
    if not expected or not all(
        isinstance(item, torch.Tensor) and item.layout is torch.strided for item in expected
    ):
        return "uncaptured", "results are no dense tensors"
    try:
        seed(1)
        run = torch.compile(module, backend="ortable", fullgraph=True, dynamic=False)
        results = run_all(run, tensors)
        torch.cuda.synchronize()
    except Exception as error:
        chain = list(iter_causes(error))
        own_error = next((item for item in chain if isinstance(item, OrtableError)), None)
        if own_error is not None:
            return "refused", f"{type(own_error).__name__}: {str(own_error)[:300]}"
        if not isinstance(error, BackendCompilerFailed) and type(error).__module__.startswith(
            "torch._dynamo"
        ):
            return "uncaptured", str(error)[:200]
        return "error", f"{type(chain[-1]).__name__}: {str(chain[-1])[:300]}"
    if len(results) != len(expected):
        return "mismatch", f"{len(results)} results, eager has {len(expected)}"
    outcome = "exact"
    for index, (actual, eager, repeat) in enumerate(zip(results, expected, repeated, strict=True)):
        if describe(actual) != describe(eager):
            return "mismatch", f"{describe(actual)}, eager has {describe(eager)}"
        actual, eager, repeat = as_real(actual), as_real(eager), as_real(repeat)
        if not torch.equal(eager.nan_to_num(), repeat.nan_to_num()) and not is_close(eager, repeat):
            outcome = "drawn"
        elif not is_close(actual, eager) and not is_as_exact(call, index, actual, eager):
            difference = (actual.double() - eager.double()).abs().max().item()
            return "mismatch", f"result {index}: largest difference {difference}"
    return outcome, ""


@pytest.mark.parametrize("dtype", TESTED_DTYPES)
@pytest.mark.parametrize("name", op_infos())
def test_operator(name, dtype, record_property):
    if DTYPES[dtype] not in op_infos()[name].supported_dtypes("cuda"):
        record_property("outcomes", "[]")
        return
    torch._dynamo.reset()
    failures, outcomes = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls_on_cuda(name, dtype):
            outcome, detail = run_call(call)
            outcomes.append((outcome, detail))
            if outcome not in PASSING and not (outcome == "mismatch" and name in DIFFERENT):
                failures.append(f"{outcome}: {call.describe()[:200]}: {detail}")
    record_property("outcomes", repr(outcomes))
    assert not failures, "\n".join(failures)
