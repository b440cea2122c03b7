"""PyTorch's own operator tests (OpInfo) with tensors of CUDA: a few samples of each operator and
dtype, compiled, against eager on the device."""

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
CHOSEN = ("f32", "f16", "bf16", "i64")
# What is no wrong answer: a refusal by name, and what torch itself does not capture or compute.
FINE = {"exact", "drawn", "refused", "uncaptured"}


# Where results differ, and why that is so.
_TIES = "which of equal elements is found is left open"
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
    except Exception:  # some want gradients, of dtypes that have none
        return
    for index in spread(len(samples), SAMPLES):
        sample = samples[index]
        args = (sample.input, *sample.args)
        yield Call(name, dtype, index, info.op, args, dict(sample.kwargs), len(samples), sample)


def results(function, tensors):
    found = pytree.tree_leaves(function(*[t.clone() for t in tensors]))
    return [value for value in found if value is not None]


def causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or getattr(error, "inner_exception", None)


def kind_of(tensor):
    return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device}"


def close(got, wanted):
    relative, absolute = TOLERANCES.get(wanted.dtype, (0, 0))
    return torch.isclose(
        got.double(), wanted.double(), rtol=relative, atol=absolute, equal_nan=True
    ).all().item()  # fmt: skip


def widened(tensor):
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


def as_exact(call, place, got, wanted):
    """Whether float64 shows a result to be about as exact as eager's."""
    try:
        true = as_real(results(call.module(), [widened(t) for t in call.tensors()])[place]).double()
    except Exception:
        return False
    if true.shape != got.shape:
        return False
    scale = true.abs().nan_to_num(0, 0, 0).max().item() if true.numel() else 0.0
    ours, theirs = [
        (each.double() - true).abs().nan_to_num(0, 0, 0).max().item() for each in (got, wanted)
    ]
    relative = TOLERANCES.get(wanted.dtype, (0, 0))[0]
    return (
        bool((got.isfinite() | ~wanted.isfinite()).all()) and ours <= 2 * theirs + relative * scale
    )


def outcome_of(call):
    """What came of a call: a word and a detail."""
    tensors = call.tensors()
    module = call.module()
    try:
        seed(1)
        expected = results(module, tensors)
        seed(2)
        again = results(module, tensors)
    except Exception as error:
        return "uncaptured", f"eager: {error}"
    if not expected or not all(
        isinstance(e, torch.Tensor) and e.layout is torch.strided for e in expected
    ):
        return "uncaptured", "results are no dense tensors"
    try:
        seed(1)
        run = torch.compile(module, backend="ortable", fullgraph=True, dynamic=False)
        found = results(run, tensors)
        torch.cuda.synchronize()
    except Exception as error:
        chain = list(causes(error))
        ours = next((e for e in chain if isinstance(e, OrtableError)), None)
        if ours is not None:
            return "refused", f"{type(ours).__name__}: {str(ours)[:300]}"
        if not isinstance(error, BackendCompilerFailed) and type(error).__module__.startswith(
            "torch._dynamo"
        ):
            return "uncaptured", str(error)[:200]
        return "error", f"{type(chain[-1]).__name__}: {str(chain[-1])[:300]}"
    if len(found) != len(expected):
        return "mismatch", f"{len(found)} results, eager has {len(expected)}"
    word = "exact"
    for place, (got, wanted, other) in enumerate(zip(found, expected, again, strict=True)):
        if kind_of(got) != kind_of(wanted):
            return "mismatch", f"{kind_of(got)}, eager has {kind_of(wanted)}"
        got, wanted, other = as_real(got), as_real(wanted), as_real(other)
        if not torch.equal(wanted.nan_to_num(), other.nan_to_num()) and not close(wanted, other):
            word = "drawn"
        elif not close(got, wanted) and not as_exact(call, place, got, wanted):
            difference = (got.double() - wanted.double()).abs().max().item()
            return "mismatch", f"result {place}: largest difference {difference}"
    return word, ""


@pytest.mark.parametrize("dtype", CHOSEN)
@pytest.mark.parametrize("name", op_infos())
def test_operator(name, dtype, record_property):
    if DTYPES[dtype] not in op_infos()[name].supported_dtypes("cuda"):
        record_property("outcomes", "[]")
        return
    torch._dynamo.reset()
    wrong, words = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls_on_cuda(name, dtype):
            word, detail = outcome_of(call)
            words.append((word, detail))
            if word not in FINE and not (word == "mismatch" and name in DIFFERENT):
                wrong.append(f"{word}: {call.describe()[:200]}: {detail}")
    record_property("outcomes", repr(words))
    assert not wrong, "\n".join(wrong)
