"""What the workers share: a process group, cases run in order, outcomes written for pytest.
A worker is started by torchrun; `run_cases` is its main function."""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist


def run_cases(cases):
    """Runs functions, one after the other, in all processes; the first failure ends the run, since
    the other processes would wait for its collectives.  Process 0 prints nothing: outcomes go to
    `<argv[1]>/<rank>.json`."""
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    outcome = Path(sys.argv[1]) / f"{rank}.json"
    results = {}
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    _register()
    for case in cases:
        torch._dynamo.reset()
        torch.manual_seed(0)
        try:
            case(rank, dist.get_world_size())
            results[case.__name__] = "ok"
        except BaseException:
            results[case.__name__] = traceback.format_exc()
        outcome.write_text(json.dumps(results))
        if results[case.__name__] != "ok":
            os._exit(1)
    # gloo's threads drop their last work now, for which they need Python's lock; the end of the
    # process would wait for them and keep it (torch 2.13).
    time.sleep(0.1)
    dist.destroy_process_group()


def _register():
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    from ortable.backend.aot.entry import ortable

    if "ortable" not in list_backends() and "ortable" not in _BACKENDS:
        register_backend(ortable, name="ortable")  # the package is on the path, not installed


def share(tensor, rank, world):
    """The part of a batch that belongs to one process."""
    return tensor.chunk(world)[rank]


def assert_gradients(expected, got, atol=1e-5):
    """Gradients of `got` equal those of `expected`, parameter by parameter.

    Both are named parameters or modules; sharded gradients are gathered first."""
    got = dict(got.named_parameters() if isinstance(got, torch.nn.Module) else got)
    for name, parameter in expected.named_parameters():
        mine = next(p for n, p in got.items() if plain(n) == name)
        gradient = mine.grad.full_tensor() if hasattr(mine.grad, "full_tensor") else mine.grad
        if parameter.grad is None:
            assert gradient is None or not gradient.any(), name
            continue
        assert gradient is not None, f"{name} has no gradient"
        torch.testing.assert_close(
            gradient, parameter.grad, rtol=1e-3, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


def assert_same_state(expected, got, rtol=1e-3, atol=1e-5):
    """Parameters, gradients and buffers of `got` equal those of `expected`, dtypes included;
    sharded ones are gathered first."""
    state = {plain(name): whole(value) for name, value in got.state_dict().items()}
    assert state.keys() == expected.state_dict().keys()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(
            state[name], value, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert_gradients(expected, got, atol=max(atol, 1e-5))


def whole(tensor):
    """All of a sharded tensor."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def gathered(tensor):
    """A tensor as each of the processes has it."""
    found = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(found, tensor.contiguous())
    return found


def plain(name):
    """A parameter's name without what DistributedDataParallel and torch.compile put in front."""
    return ".".join(p for p in name.split(".") if p not in ("module", "_orig_mod"))
