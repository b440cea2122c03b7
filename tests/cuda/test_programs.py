"""`to_onnx` and `export` of models on CUDA run with the CUDA provider."""

from __future__ import annotations

import onnxruntime
import pytest
import torch

import ortable
from benchmarks.models.inference import MODELS
from tests.cuda.against_eager import CUDA
from tests.cuda.test_models import near, on_device


@pytest.mark.parametrize("name", ["mlp", "resnet18", "bert", "llama", "vit", "lstm"])
def test_a_plain_session_runs_the_model(name):
    """IOBinding reads arguments from torch's memory and keeps results on the device."""
    case = MODELS[name]
    model = case.make(True).eval().cuda()
    arguments = on_device(case.inputs(True, case.batch), torch.float32)
    with torch.no_grad():
        expected = model(*arguments)
    proto = ortable.to_onnx(model, arguments)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=[(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"]
    )
    assert session.get_providers()[0] == CUDA
    binding = session.io_binding()
    type_names = {torch.float32: "float32", torch.int64: "int64"}
    import numpy as np

    tensors = []
    for value, tensor in zip(session.get_inputs(), arguments, strict=True):
        tensor = tensor.contiguous()
        tensors.append(tensor)
        binding.bind_input(
            value.name, "cuda", 0, np.dtype(type_names[tensor.dtype]), tuple(tensor.shape),
            tensor.data_ptr(),
        )  # fmt: skip
    result = torch.empty_like(expected, memory_format=torch.contiguous_format)
    outputs = session.get_outputs()
    binding.bind_output(
        outputs[0].name, "cuda", 0, np.dtype("float32"), tuple(result.shape), result.data_ptr()
    )
    for output in outputs[1:]:
        binding.bind_output(output.name, "cuda")
    torch.cuda.synchronize()
    session.run_with_iobinding(binding)
    near(result, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_program_takes_and_gives_tensors_of_the_device(dtype):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    model.eval().to("cuda", dtype)
    x = torch.randn(3, 8, device="cuda", dtype=dtype)
    program = ortable.export(model, (x,))
    with torch.no_grad():
        near(program(x).to("cuda"), model(x))
