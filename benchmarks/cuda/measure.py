"""Measure calls and training steps of one model on the GPU, each compiler in turns with eager.

The GPU is asynchronous: the time of a call ends when the device has finished it.
"""

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
# Batches so large that kernel launches do not dominate a call, except for `mlp`.
BATCHES = {"mlp": 64, "resnet50": 16, "vit": 16, "bert": 8, "llama": 8, "unet": 4, "convnext": 8}


def _to_device(values: tuple[torch.Tensor, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(
        value.to("cuda", dtype) if value.is_floating_point() else value.cuda() for value in values
    )


def _time_call(call: Callable[[], Any]) -> float:
    """Return the seconds of a call, until the device has finished it."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _measure_calls(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Measure medians of all candidates, ratios to eager, and the noise band of eager."""
    for call in [*calls.values()] * 3:
        _time_call(call)
    seconds = measure_round_robin(calls, rounds, lambda name: _time_call(calls[name]))
    compared = [name for name in calls if not name.startswith("eager")]
    return {
        "ms": {name: statistics.median(times) * 1e3 for name, times in seconds.items()},
        "ratio": {name: median_ratio(seconds, name, "eager") for name in compared},
        "band": band(seconds, "eager", "eager again"),
    }


def _get_result(call: Callable[[], Any], bound_result: torch.Tensor | None) -> torch.Tensor:
    result = call()
    return bound_result if result is None and bound_result is not None else result


def _compile_all(
    make: Callable[[str], Callable[[], Any]], compilers: list[str]
) -> tuple[dict[str, Callable[[], Any]], dict[str, float], dict[str, str]]:
    """Return calls by compiler, the seconds of first calls, and the errors of failed compilers."""
    calls, seconds, failed = {}, {}, {}
    torch._dynamo.reset()
    for name in compilers:
        try:
            call = make(name)
            seconds[name] = _time_call(call)
            calls[name] = call
        except Exception as error:
            failed[name] = reason(error)
    return calls, seconds, failed


def bare_session(
    model: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> tuple[Callable[[], Any], torch.Tensor]:
    """Return a call of an ONNX Runtime session over bound torch tensors, and its first result."""
    import onnxruntime

    import ortable
    from ortable import dtypes

    proto = ortable.to_onnx(model, arguments)
    providers = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=providers)
    binding = session.io_binding()
    result = model(*arguments).contiguous()
    input_names = [value.name for value in session.get_inputs()]
    inputs = list(zip(input_names, arguments, strict=True))
    for bind, (name, tensor) in [(binding.bind_input, pair) for pair in inputs]:
        bind(
            name, "cuda", 0, dtypes.from_torch(tensor.dtype), tuple(tensor.shape), tensor.data_ptr()
        )
    first_output, *other_outputs = [value.name for value in session.get_outputs()]
    dtype = dtypes.from_torch(result.dtype)
    binding.bind_output(first_output, "cuda", 0, dtype, tuple(result.shape), result.data_ptr())
    for output in other_outputs:
        binding.bind_output(output, "cuda")
    return lambda: session.run_with_iobinding(binding), result


def inference(name: str, dtype: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """Measure a model under `torch.no_grad()`."""
    case = MODELS[name]
    torch.manual_seed(0)
    model = case.make(False).eval().to("cuda", DTYPES[dtype])
    arguments = _to_device(case.inputs(False, BATCHES.get(name, case.batch)), DTYPES[dtype])

    def make(compiler: str) -> Callable[[], Any]:
        backend, _, freeze = compiler.partition("+")
        settings = {"options": {"freeze": freeze}} if freeze else {}
        model_copy = copy.deepcopy(model)
        run = torch.compile(model_copy, backend=backend, dynamic=False, **settings)
        return functools.partial(run, *arguments)

    with torch.no_grad():
        eager = functools.partial(model, *arguments)
        calls, seconds, failed = _compile_all(make, compilers)
        bound_result: Any = None
        try:
            start = time.perf_counter()
            calls["bare session"], bound_result = bare_session(copy.deepcopy(model), arguments)
            seconds["bare session"] = time.perf_counter() - start
            calls["bare session"]()
        except Exception as error:
            calls.pop("bare session", None)
            failed["bare session"] = reason(error)
        expected = eager().float()
        scale = expected.abs().max().item()
        differences = {
            label: (_get_result(call, bound_result).float() - expected).abs().max().item() / scale
            for label, call in calls.items()
        }
        figures = _measure_calls({"eager": eager, "eager again": eager, **calls}, rounds)
    return {
        "model": name, "dtype": dtype, "batch": len(arguments[0]), **figures,
        "first_seconds": seconds, "difference": differences, "failed": failed,
    }  # fmt: skip


def training(name: str, dtype: str, rounds: int, compilers: list[str]) -> dict[str, Any]:
    """Measure a training step: forward and backward, without the optimizer."""
    trainable, count = TRAINABLES[name]
    torch.manual_seed(0)
    model = trainable.build().train().to("cuda", DTYPES[dtype])
    arguments = _to_device(trainable.batch(count), DTYPES[dtype])

    def step(function: Any) -> None:
        function.zero_grad(set_to_none=True)
        function(*arguments).backward()

    def make(compiler: str) -> Callable[[], Any]:
        model_copy = copy.deepcopy(model)
        return functools.partial(step, torch.compile(model_copy, backend=compiler, dynamic=False))

    usable = [name for name in compilers if "+" not in name]  # weights that train cannot be frozen
    calls, seconds, failed = _compile_all(make, usable)
    eager = functools.partial(step, model)
    figures = _measure_calls({"eager": eager, "eager again": eager, **calls}, rounds)
    return {
        "model": name, "dtype": dtype, "batch": count, **figures,
        "first_seconds": seconds, "failed": failed,
    }  # fmt: skip
