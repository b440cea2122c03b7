"""The other engines: their packages, and the call of a model in each, as its users run it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import ortable
from benchmarks.candidates import Arguments, Candidate
from benchmarks.packages import CACHE

FOLDER = CACHE / "rivals"
PACKAGES = (
    "openvino==2026.4.1", "openvino-telemetry==2025.2.0", "executorch==1.5.1",
    "flatbuffers==25.12.19", "ruamel.yaml==0.19.1", "tabulate==0.10.0",
)  # fmt: skip


def compile_with_openvino(model: torch.nn.Module, arguments: Arguments, threads: int) -> Candidate:
    """Compile with OpenVINO for latency, in float32 and for the sizes of the arguments.

    A model that OpenVINO cannot read from torch is read from an ONNX file of ortable.
    """
    import openvino

    sizes = [tuple(argument.shape) for argument in arguments]
    try:
        converted = openvino.convert_model(model, example_input=arguments, input=sizes)
    except Exception:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = Path(folder) / "model.onnx"
            ortable.export(model, arguments).save(path)
            converted = openvino.Core().read_model(path)
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
    }
    request = openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
    inputs = [argument.numpy() for argument in arguments]
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)[0]


def lower_to_executorch(model: torch.nn.Module, arguments: Arguments, threads: int) -> Candidate:
    """Lower to XNNPACK with ExecuTorch; its runtime has a thread for each core."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    exported = torch.export.export(model, arguments)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program = Runtime.get().load_program(lowered.to_executorch().buffer)
    method = program.load_method("forward")
    # the method does not keep its program alive
    return lambda program=program: method.execute(arguments)[0]


def compile_ahead_of_time(model: torch.nn.Module, arguments: Arguments, threads: int) -> Candidate:
    """Compile ahead of time with inductor, whose `freezing` makes the weights constants."""
    import torch._inductor.config as inductor_config

    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        with inductor_config.patch(freezing=True):
            exported = torch.export.export(model, arguments)
            path = torch._inductor.aoti_compile_and_package(
                exported, package_path=str(Path(folder) / "model.pt2")
            )
        loaded = torch._inductor.aoti_load_package(path)

    def call() -> Any:
        with torch.no_grad():
            return loaded(*arguments)

    return call


ENGINES: Mapping[str, Callable[[torch.nn.Module, Arguments, int], Candidate]] = {
    "AOTInductor, freezing": compile_ahead_of_time,
    "OpenVINO": compile_with_openvino,
    "ExecuTorch": lower_to_executorch,
}
