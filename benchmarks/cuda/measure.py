"""What benchmarks.cuda measures of one model on the GPU: milliseconds of a call, or of a training
step, of each compiler in turns with eager. In come a name, a dtype and rounds, out comes a record.

Work of a GPU is asynchronous: a call is timed from before it is issued until the device has done
it."""

from __future__ import annotations

import copy
import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.measure import band, reason
from benchmarks.models.inference import MODELS
from benchmarks.models.training import TRAINABLES
from ortable.backend.timing import measure_round_robin, median_ratio

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Enough of a batch that a call is no matter of launching kernels alone, but for `mlp`.
BATCHES = {"mlp": 64, "resnet50": 16, "vit": 16, "bert": 8, "llama": 8, "unet": 4, "convnext": 8}


def _to_device(values: tuple[torch.Tensor, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(
        value.to("cuda", dtype) if value.is_floating_point() else value.cuda() for value in values
    )


def _timed(call: Callable[[], Any]) -> float:
    """Seconds of a call, until the device has done it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def _figures(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Medians of all candidates, ratios to eager, and the A/A band of eager with itself."""
    for call in [*calls.values()] * 3:
        _timed(call)
    found = measure_round_robin(calls, rounds, lambda name: _timed(calls[name]))
    compared = [name for name in calls if not name.startswith("eager")]
    return {
        "ms": {name: statistics.median(taken) * 1e3 for name, taken in found.items()},
        "ratio": {name: median_ratio(found, name, "eager") for name in compared},
        "band": band(found, "eager", "eager again"),
    }


def _result(call: Callable[[], Any], kept: torch.Tensor | None) -> torch.Tensor:
    found = call()
    return kept if found is None and kept is not None else found


def _compiled(
    make: Callable[[str], Callable[[], Any]], compilers: list[str]
) -> tuple[dict[str, Callable[[], Any]], dict[str, float], dict[str, str]]:
    """Calls of each compiler that works, the seconds of their first call, and why others do not."""
    calls, seconds, failed = {}, {}, {}
    torch._dynamo.reset()
    for name in compilers:
        try:
            call = make(name)
            seconds[name] = _timed(call)
            calls[name] = call
        except Exception as error:
            failed[name] = reason(error)
    return calls, seconds, failed


def bare_session(
    model: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> tuple[Callable[[], Any], torch.Tensor]:
    """A call of an ONNX Runtime session of the exported model, weights as constants, over memory of
    torch that is bound once; and where its first result goes."""
    import onnxruntime

    import ortable
    from ortable import dtypes

    proto = ortable.to_onnx(model, arguments)
    providers = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=providers)
    binding = session.io_binding()
    result = model(*arguments).contiguous()
    places = [value.name for value in session.get_inputs()]
    bound = list(zip(places, arguments, strict=True))
    for bind, (name, tensor) in [(binding.bind_input, each) for each in bound]:
        bind(
            name, "cuda", 0, dtypes.from_torch(tensor.dtype), tuple(tensor.shape), tensor.data_ptr()
        )
    first, *others = [value.name for value in session.get_outputs()]
    kind = dtypes.from_torch(result.dtype)
    binding.bind_output(first, "cuda", 0, kind, tuple(result.shape), result.data_ptr())
    for each in others:
        binding.bind_output(each, "cuda")
    return lambda: session.run_with_iobinding(binding), result


def inference(name: str, dtype: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """A record of a model under `torch.no_grad()`."""
    case = MODELS[name]
    torch.manual_seed(0)
    model = case.make(False).eval().to("cuda", DTYPES[dtype])
    arguments = _to_device(case.inputs(False, BATCHES.get(name, case.batch)), DTYPES[dtype])

    def make(compiler: str) -> Callable[[], Any]:
        backend, _, freeze = compiler.partition("+")
        given = {"options": {"freeze": freeze}} if freeze else {}
        own = copy.deepcopy(model)
        run = torch.compile(own, backend=backend, dynamic=False, **given)
        return functools.partial(run, *arguments)

    with torch.no_grad():
        eager = functools.partial(model, *arguments)
        calls, seconds, failed = _compiled(make, compilers)
        kept: Any = None
        try:
            begin = time.perf_counter()
            calls["bare session"], kept = bare_session(copy.deepcopy(model), arguments)
            seconds["bare session"] = time.perf_counter() - begin
            calls["bare session"]()
        except Exception as error:
            calls.pop("bare session", None)
            failed["bare session"] = reason(error)
        expected = eager().float()
        scale = expected.abs().max().item()
        differences = {
            each: (_result(call, kept).float() - expected).abs().max().item() / scale
            for each, call in calls.items()
        }
        figures = _figures({"eager": eager, "eager again": eager, **calls}, rounds)
    return {
        "model": name, "dtype": dtype, "batch": len(arguments[0]), **figures,
        "first_seconds": seconds, "difference": differences, "failed": failed,
    }  # fmt: skip


def training(name: str, dtype: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """A record of a step: forward and backward, without the optimizer."""
    trainable, count = TRAINABLES[name]
    torch.manual_seed(0)
    model = trainable.build().train().to("cuda", DTYPES[dtype])
    arguments = _to_device(trainable.batch(count), DTYPES[dtype])

    def step(function: Any) -> None:
        function.zero_grad(set_to_none=True)
        function(*arguments).backward()

    def make(compiler: str) -> Callable[[], Any]:
        own = copy.deepcopy(model)
        return functools.partial(step, torch.compile(own, backend=compiler, dynamic=False))

    trained = [name for name in compilers if "+" not in name]  # weights that train are no constants
    calls, seconds, failed = _compiled(make, trained)
    eager = functools.partial(step, model)
    figures = _figures({"eager": eager, "eager again": eager, **calls}, rounds)
    return {
        "model": name, "dtype": dtype, "batch": count, **figures,
        "first_seconds": seconds, "failed": failed,
    }  # fmt: skip
