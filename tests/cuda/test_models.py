"""Inference and training of models on CUDA equal eager, also in half precision."""

from __future__ import annotations

import copy

import pytest
import torch

import ortable
from benchmarks.models.inference import MODELS
from benchmarks.models.training import TRAINABLES
from tests.cuda.against_eager import CUDA, TOLERANCES, compiled, gradients_agree

HALVES = [torch.float32, torch.float16, torch.bfloat16]


def on_device(values, dtype):
    return tuple(v.to("cuda", dtype) if v.is_floating_point() else v.to("cuda") for v in values)


def near(actual, expected):
    """Check the difference against the largest element, since models sum thousands of terms."""
    assert actual.dtype == expected.dtype and actual.device == expected.device
    relative, _ = TOLERANCES[expected.dtype]
    scale = expected.float().abs().max().item()
    difference = (actual.float() - expected.float()).abs().max().item()
    assert difference <= 2 * relative * max(scale, 1e-3), (difference, scale)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_inference(name, dtype):
    case = MODELS[name]
    model = case.make(True).eval().to("cuda", dtype)
    arguments = on_device(case.inputs(True, case.batch), dtype)
    storage = {}
    run = torch.compile(model, backend="ortable", dynamic=False, options={"storage": storage})
    with torch.no_grad():
        expected = model(*arguments)
        for _ in range(3):
            near(run(*arguments), expected)
    for record in storage["instance"]:
        if record["onnx"] is not None:
            assert record["providers"][0] == CUDA


@pytest.mark.parametrize("name", ["mlp", "bert", "llama", "resnet18"])
def test_sizes_that_change(name):
    case = MODELS[name]
    model = case.make(True).eval().cuda()
    run = torch.compile(model, backend="ortable", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5):
            arguments = on_device(case.inputs(True, batch), torch.float32)
            near(run(*arguments), model(*arguments))


@pytest.mark.parametrize("name", TRAINABLES)
def test_training(name):
    trainable, count = TRAINABLES[name]
    model = trainable.build().train().cuda()
    gradients_agree(model, on_device(trainable.batch(min(count, 4)), torch.float32))


@pytest.mark.parametrize("dtype", HALVES[1:], ids=str)
def test_training_in_half_precision(dtype):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 4)).to("cuda", dtype)
    gradients_agree(model, (torch.randn(8, 16, device="cuda", dtype=dtype),), steps=1)


@pytest.mark.parametrize("dtype", HALVES[1:], ids=str)
def test_autocast(dtype):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    model.cuda()
    run = compiled(model)
    x = torch.randn(8, 16, device="cuda")
    with torch.autocast("cuda", dtype):
        actual, expected = run(x), model(x)
    near(actual, expected)


def test_a_weight_that_is_written_shows():
    model = torch.nn.Linear(4, 4).cuda()
    run = compiled(model)
    x = torch.randn(2, 4, device="cuda")
    with torch.no_grad():
        near(run(x), model(x))
        near(run(x), model(x))
        model.weight.mul_(2)
        near(run(x), model(x))
        model.weight.data[1] = 0
        near(run(x), model(x))
    copied = copy.deepcopy(model)
    with torch.no_grad():
        near(compiled(copied)(x), model(x))


def test_weights_are_constants_of_the_session_for_who_trusts_them():
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).eval().cuda()
    storage = {}
    run = compiled(model, freeze="trust", storage=storage)
    x = torch.randn(2, 3, 16, 16, device="cuda")
    with torch.no_grad():
        expected = model(x)
        near(run(x), expected)
        assert len(storage["instance"][0].frozen) == 6
        model[0].weight.mul_(2)
        near(run(x), expected)
        ortable.refresh(model)
        near(run(x), model(x))
