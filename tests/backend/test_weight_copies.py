"""Many sessions with one set of weights: option `weight_copies`, and swapped adapters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch._dynamo.utils import counters

from .freezing import backends, is_frozen

__all__ = ["backends"]  # a fixture that the tests use

SIZES = (1, 2, 3, 5, 8)


def make_model(width=64):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers).eval()


def run_all(compiled, model, sizes=SIZES):
    for size in sizes:
        x = torch.linspace(-1, 1, size * 64).reshape(size, 64)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("copies", [1, 2, None])
def test_so_many_sessions_have_the_weights(backends, copies):
    model = make_model()
    options = {} if copies is None else {"weight_copies": copies}
    compiled = torch.compile(model, backend="ortable", dynamic=False, options=options)
    run_all(compiled, model)
    assert len(backends) == len(SIZES)
    assert [is_frozen(backend) for backend in backends].count(True) == (copies or len(SIZES))
    assert is_frozen(backends[0])
    with torch.no_grad():
        model[0].weight.mul_(3)
    run_all(compiled, model)
    model[2].weight = torch.nn.Parameter(torch.eye(64))
    run_all(compiled, model)
    model[2].weight.data[3] = 7.0  # visible to sessions without a copy
    run_all(compiled, model, SIZES[2:] if copies == 1 else ())


def test_other_weights_have_a_copy_of_their_own(backends):
    models = [make_model(), make_model()]
    for model in models:
        torch._dynamo.reset()
        compiled = torch.compile(
            model, backend="ortable", dynamic=False, options={"weight_copies": 1}
        )
        run_all(compiled, model)
    assert [is_frozen(backend) for backend in backends].count(True) == 2


MEMORY_SCRIPT = """
import gc, sys, torch
from torch._dynamo.backends.registry import register_backend
from ortable.backend.aot.entry import ortable
register_backend(ortable, name="ortable")
torch.set_num_threads(1)

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

layers = [torch.nn.Linear(1024, 1024) for _ in range(16)]
model = torch.nn.Sequential(*layers).eval()  # 64 MB
with torch.no_grad():
    torch.compile(torch.nn.Linear(2, 2).eval(), backend="ortable")(torch.ones(1, 2))
    before = resident()
    compiled = torch.compile(
        model, backend="ortable", dynamic=False, options={"weight_copies": 1}
    )
    compiled(torch.ones(2, 1024))
    one = resident() - before
    for size in range(3, 10):
        compiled(torch.ones(size, 1024))
    eight = resident() - before
    print(one / 2**20, eight / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_eight_sizes_take_the_memory_of_one_session():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT], capture_output=True, text=True, env=environment
    )
    assert process.returncode == 0, process.stderr[-2000:]
    one_session, eight_sessions = map(float, process.stdout.split()[-2:])
    assert one_session > 60  # the weights take 64 MB
    assert eight_sessions < 1.4 * one_session


class AdaptedModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(64, 64)
        self.down, self.up = make_adapter(0)

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


def make_adapter(seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((64, 4), (4, 64))
    return tuple(torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes)


def compile_adapted_model():
    model = AdaptedModel().eval()
    compiled = torch.compile(model, backend="ortable", dynamic=False)
    run_all(compiled, model, (3,))
    return model, compiled


def count_graphs():
    return counters["stats"]["unique_graphs"]


def test_adapters_assigned_in_turn_need_one_session_each(backends):
    model, compiled = compile_adapted_model()
    before, adapters = count_graphs(), [(model.down, model.up), make_adapter(1), make_adapter(2)]
    for _ in range(10):
        for model.down, model.up in adapters:
            run_all(compiled, model, (3,))
    assert count_graphs() == before
    assert backends[-1].sessions.count(True) <= len(adapters)
    assert is_frozen(backends[-1])


def test_adapters_written_in_place_need_no_session_each(backends):
    model, compiled = compile_adapted_model()
    before = count_graphs()
    for seed in range(40):
        with torch.no_grad():
            for weight, new_weight in zip((model.down, model.up), make_adapter(seed), strict=True):
                weight.copy_(new_weight)
        run_all(compiled, model, (3,))
    assert count_graphs() == before
    assert backends[-1].sessions.count(True) <= 8
