"""Ctrl-C while something of the whole process, or of the user's module, is changed for a while: at
every spot where Python takes one, what was changed is as it was afterwards."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.compat import bisector
from ortable.compat import torch as compat
from ortable.compat.scoped_patch import pause_gc, restore_on_exit
from ortable.compat.torch_explain import isolated_profile
from ortable.debug.explain_state import preserve_model, preserve_optimizers
from ortable.exporter.capture import dynamic_loops, functionalize
from ortable.exporter.dispatchers import onnxscript_dispatcher
from ortable.exporter.frontend import module_state
from ortable.exporter.frontend.export_request import ACTIVE_PATCHES
from ortable.exporter.observation.proof import preserve_state
from ortable.ir.proto import atomic_files
from tests.exporter.test_workarounds import LSTM_KERNEL, PATCHED
from tests.process_state import process_state

from .spots import interrupted_at

X = torch.linspace(-1, 1, 12).reshape(3, 4)
LOGGERS = ("torch._guards", "torch.export", "torch.onnx", "onnxscript", "ortable")
MOST = 200  # spots of one work: more are taken at equal distances


class Batches(torch.nn.Module):
    """Has parameters, buffers, a list, and a branch that torch keeps as a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.seen: list[int] = [1, 2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.linear(x))
        with torch.no_grad():
            y = torch.nn.functional.dropout(y, training=False)
        return torch.cond(y.sum() > 0, lambda z: z + 1.0, lambda z: z - 1.0, (y,))


MODULE = Batches().eval()
MODULE(X).sum().backward()
WEIGHTS = list(MODULE.parameters())
OPTIMIZER = torch.optim.SGD(WEIGHTS, lr=0.1, momentum=0.9)
PROGRAM = torch.export.export(MODULE, (X,))


def _of_module(module: torch.nn.Module) -> Any:
    """The attributes of a module and its parts by identity, and the values of tensors."""
    held = [[(name, id(value)) for name, value in vars(each).items()] for each in module.modules()]
    inside = [
        [(name, id(value)) for name, value in values.items()]
        for each in module.modules()
        for values in (each._parameters, each._buffers, each._modules, each._forward_pre_hooks)
    ]
    values = {name: value.tolist() for name, value in module.state_dict().items()}
    return held, inside, list(module.seen), values  # type: ignore[call-overload]


def _of_program(program: Any) -> Any:
    """Its graphs in words, its constants, and how it is called."""
    graphs = [
        ([(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in each.graph.nodes],
         [(name, id(inner)) for name, inner in each.named_children()])
        for each in functionalize.find_graph_modules(program.graph_module)
    ]  # fmt: skip
    call = program.module_call_graph[0].signature
    return (
        graphs, list(program.constants), str(call.in_spec), str(call.out_spec),
        list(call.forward_arg_names or []), id(program.example_inputs),
    )  # fmt: skip


def _state() -> dict[str, Any]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    holders = (compat.lift_constants_pass, compat.export_trace)
    kernel = torch._C.DispatchKey.CompositeImplicitAutograd
    return {
        **process_state(),
        "in an export": compat.get_onnx_export_results(),
        "patched": [getattr(owner, name) for owner, name in PATCHED],
        "kernel": torch.ops.aten.lstm.input.py_kernels[kernel] is LSTM_KERNEL,
        "rules": len(compat.fake_rules()),
        "truth": torch.SymBool.__bool__,
        "classes": set(pytree.SUPPORTED_NODES),
        "sizes of one": compat.fx_config.backed_size_oblivious,
        "lifting": [each._materialize_and_lift_constants for each in holders],
        "region": ACTIVE_PATCHES.get(),
        "autocast around": module_state.caller_autocast_regions(),
        "judge": bisector._State.active,
        "profile": dict(compat.dynamo_profile.get_code_state()),
        "loggers": [(each.level, each.disabled) for each in loggers],
        "globals": set(globals()),
        "free": compat.compile_lock.acquire(blocking=False) and not compat.compile_lock.release(),
        "folder": _is_free(FOLDER),
        "module": _of_module(MODULE),
        "gradients": [None if each.grad is None else each.grad.tolist() for each in WEIGHTS],
        "optimizer": copy.deepcopy(OPTIMIZER.state_dict()),
        "random": torch.get_rng_state().tolist(),
        "program": _of_program(PROGRAM),
    }  # fmt: skip


def _is_free(folder: Path) -> bool:
    """Whether nobody, this process included, holds the lock that writers of a folder take."""
    if atomic_files.fcntl is None:
        return True
    handle = os.open(folder, os.O_RDONLY)
    try:
        atomic_files.fcntl.flock(handle, atomic_files.fcntl.LOCK_EX | atomic_files.fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


@contextmanager
def _changed() -> Iterator[None]:
    """What a forward may leave in its module."""
    with module_state.restore_state(MODULE, (X,)):
        MODULE.seen.append(3)
        MODULE.register_buffer("new", torch.ones(1))
        MODULE.linear.weight.requires_grad_(False)
        yield


@contextmanager
def _written() -> Iterator[None]:
    with preserve_state(MODULE, (X,)):
        MODULE.train()
        MODULE.norm.running_mean.add_(1)  # type: ignore[union-attr]
        yield


@contextmanager
def _stepped() -> Iterator[None]:
    with preserve_optimizers(OPTIMIZER.step):
        OPTIMIZER.step()
        yield


@contextmanager
def _silent() -> Iterator[None]:
    with onnxscript_dispatcher._silence_torch_onnx():
        yield


def _under_autocast() -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module_state.suspend_autocast()(module_state.caller_autocast_regions)()


def _called_within() -> Any:
    with module_state.use_autocast_regions(
        (module_state.AutocastRegion("cpu", torch.bfloat16, True),)
    ):
        pass


def _locked_folder() -> None:
    lock = atomic_files.FolderLock(FOLDER)
    with restore_on_exit(lock.release):
        lock.acquire()
        assert atomic_files.fcntl is None or not _is_free(FOLDER)


def _in(made: Callable[[], Any]) -> Callable[[], None]:
    def work() -> None:
        with made():
            pass

    return work


HELD = module_state.module_tensors(MODULE)
FOLDER = Path(tempfile.mkdtemp())  # one of this process, or others would hold its lock
GRAPH = PROGRAM.graph_module
WORKS: dict[str, Callable[[], Any]] = {
    "in_onnx_export": _in(module_state.in_onnx_export),
    "outside_autocast": _under_autocast,
    "called_within": _called_within,
    "bypass_export_some_errors": _in(ortable.bypass_export_some_errors),
    "forward_replaced": _in(lambda: module_state.replace_forward(MODULE, torch.sin)),
    "tensors_replaced": _in(lambda: module_state.replace_tensors(HELD, torch.clone)),
    "new_buffers_forgotten": _in(lambda: module_state.discard_new_buffers(MODULE)),
    "state_restored": _in(_changed),
    "state_kept": _in(_written),
    "observe": _in(lambda: ortable.observe(MODULE)),
    "own_profile": _in(isolated_profile),
    "judged_by": _in(lambda: bisector.filter_applications(lambda *_: False)),
    "model_untouched": _in(lambda: preserve_model(MODULE, ((X,), {}), True)),
    "optimizers_untouched": _in(_stepped),
    "quiet guards": _in(
        lambda: module_state.silence_loggers(module_state.GUARDS_LOGGER, module_state.TRACE_LOGGER)
    ),
    "silent": _in(_silent),
    "mark_regions": _in(lambda: functionalize.mark_regions(GRAPH)),
    "replace_scalar_constants": _in(lambda: functionalize.replace_scalar_constants(GRAPH)),
    "shown_views": _in(lambda: functionalize.expose_aliases(GRAPH)),
    "a flat call": _in(lambda: functionalize._flat_call_spec(PROGRAM)),
    "constants kept": _in(lambda: functionalize._preserve_constants(PROGRAM)),
    "pause_gc": _in(pause_gc),
    "FolderLock": _locked_folder,
    "loops": _in(
        lambda: dynamic_loops.intercept_loops(dynamic_loops.LoopSession(2, frozenset()), MODULE)
    ),
}


@pytest.mark.alternates(parts=5)
@pytest.mark.parametrize("name", WORKS)
def test_an_interrupt_at_any_spot_leaves_nothing_changed(name: str) -> None:
    work = WORKS[name]
    work()  # what is done once in a process is done
    before = _state()
    count = interrupted_at(-1, work).passed
    assert count >= 2
    assert _state() == before
    for at in range(0, count, -(-count // MOST)):
        spots = interrupted_at(at, work)
        after = _state()
        left = [key for key, value in before.items() if after[key] != value]
        assert not left, f"{left} after an interrupt at {spots.where}"
