"""Ctrl-C at any spot undoes temporary changes of process state and of the user's module."""

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
MAX_SPOTS = 200  # spots of one test, at equal distances


class StatefulModel(torch.nn.Module):
    """A model with parameters, buffers, a list, and a branch that torch traces as a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.history: list[int] = [1, 2]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.linear(x))
        with torch.no_grad():
            y = torch.nn.functional.dropout(y, training=False)
        return torch.cond(y.sum() > 0, lambda z: z + 1.0, lambda z: z - 1.0, (y,))


MODULE = StatefulModel().eval()
MODULE(X).sum().backward()
WEIGHTS = list(MODULE.parameters())
OPTIMIZER = torch.optim.SGD(WEIGHTS, lr=0.1, momentum=0.9)
PROGRAM = torch.export.export(MODULE, (X,))


def _get_module_state(module: torch.nn.Module) -> Any:
    """Return the identities of the attributes of all modules, and the values of tensors."""
    attributes = [[(name, id(value)) for name, value in vars(m).items()] for m in module.modules()]
    members = [
        [(name, id(value)) for name, value in values.items()]
        for m in module.modules()
        for values in (m._parameters, m._buffers, m._modules, m._forward_pre_hooks)
    ]
    values = {name: value.tolist() for name, value in module.state_dict().items()}
    return attributes, members, list(module.history), values  # type: ignore[call-overload]


def _get_program_state(program: Any) -> Any:
    """Return the graphs of a program as text, its constants, and its call signature."""
    graphs = [
        ([(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in graph.graph.nodes],
         [(name, id(inner)) for name, inner in graph.named_children()])
        for graph in functionalize.find_graph_modules(program.graph_module)
    ]  # fmt: skip
    call = program.module_call_graph[0].signature
    return (
        graphs, list(program.constants), str(call.in_spec), str(call.out_spec),
        list(call.forward_arg_names or []), id(program.example_inputs),
    )  # fmt: skip


def _get_state() -> dict[str, Any]:
    loggers = [logging.getLogger(name) for name in LOGGERS]
    holders = (compat.lift_constants_pass, compat.export_trace)
    kernel = torch._C.DispatchKey.CompositeImplicitAutograd
    return {
        **process_state(),
        "ONNX export": compat.get_onnx_export_results(),
        "patched functions": [getattr(owner, name) for owner, name in PATCHED],
        "kernel": torch.ops.aten.lstm.input.py_kernels[kernel] is LSTM_KERNEL,
        "fake rules": len(compat.fake_rules()),
        "SymBool.__bool__": torch.SymBool.__bool__,
        "pytree classes": set(pytree.SUPPORTED_NODES),
        "backed_size_oblivious": compat.fx_config.backed_size_oblivious,
        "constant lifting": [holder._materialize_and_lift_constants for holder in holders],
        "active patches": ACTIVE_PATCHES.get(),
        "autocast regions": module_state.caller_autocast_regions(),
        "bisector": bisector._State.active,
        "profile": dict(compat.dynamo_profile.get_code_state()),
        "loggers": [(logger.level, logger.disabled) for logger in loggers],
        "globals": set(globals()),
        "free": compat.compile_lock.acquire(blocking=False) and not compat.compile_lock.release(),
        "folder lock": _is_free(FOLDER),
        "module": _get_module_state(MODULE),
        "gradients": [None if w.grad is None else w.grad.tolist() for w in WEIGHTS],
        "optimizer": copy.deepcopy(OPTIMIZER.state_dict()),
        "random": torch.get_rng_state().tolist(),
        "program": _get_program_state(PROGRAM),
    }  # fmt: skip


def _is_free(folder: Path) -> bool:
    """Return whether no process, including this one, holds the writer lock of a folder."""
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
def _change_module() -> Iterator[None]:
    """Change the module as its forward may do."""
    with module_state.restore_state(MODULE, (X,)):
        MODULE.history.append(3)
        MODULE.register_buffer("new", torch.ones(1))
        MODULE.linear.weight.requires_grad_(False)
        yield


@contextmanager
def _write_module() -> Iterator[None]:
    with preserve_state(MODULE, (X,)):
        MODULE.train()
        MODULE.norm.running_mean.add_(1)  # type: ignore[union-attr]
        yield


@contextmanager
def _step_optimizer() -> Iterator[None]:
    with preserve_optimizers(OPTIMIZER.step):
        OPTIMIZER.step()
        yield


@contextmanager
def _silence_torch_onnx() -> Iterator[None]:
    with onnxscript_dispatcher._silence_torch_onnx():
        yield


def _suspend_autocast() -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module_state.suspend_autocast()(module_state.caller_autocast_regions)()


def _use_autocast_regions() -> Any:
    with module_state.use_autocast_regions(
        (module_state.AutocastRegion("cpu", torch.bfloat16, True),)
    ):
        pass


def _lock_folder() -> None:
    lock = atomic_files.FolderLock(FOLDER)
    with restore_on_exit(lock.release):
        lock.acquire()
        assert atomic_files.fcntl is None or not _is_free(FOLDER)


def _enter(make_context: Callable[[], Any]) -> Callable[[], None]:
    def work() -> None:
        with make_context():
            pass

    return work


TENSORS = module_state.module_tensors(MODULE)
FOLDER = Path(tempfile.mkdtemp())  # other processes do not lock this folder
GRAPH = PROGRAM.graph_module
CONTEXTS: dict[str, Callable[[], Any]] = {
    "in_onnx_export": _enter(module_state.in_onnx_export),
    "suspend_autocast": _suspend_autocast,
    "use_autocast_regions": _use_autocast_regions,
    "bypass_export_some_errors": _enter(ortable.bypass_export_some_errors),
    "replace_forward": _enter(lambda: module_state.replace_forward(MODULE, torch.sin)),
    "replace_tensors": _enter(lambda: module_state.replace_tensors(TENSORS, torch.clone)),
    "discard_new_buffers": _enter(lambda: module_state.discard_new_buffers(MODULE)),
    "restore_state": _enter(_change_module),
    "preserve_state": _enter(_write_module),
    "observe": _enter(lambda: ortable.observe(MODULE)),
    "isolated_profile": _enter(isolated_profile),
    "filter_applications": _enter(lambda: bisector.filter_applications(lambda *_: False)),
    "preserve_model": _enter(lambda: preserve_model(MODULE, ((X,), {}), True)),
    "preserve_optimizers": _enter(_step_optimizer),
    "silence_loggers": _enter(
        lambda: module_state.silence_loggers(module_state.GUARDS_LOGGER, module_state.TRACE_LOGGER)
    ),
    "silence_torch_onnx": _enter(_silence_torch_onnx),
    "mark_regions": _enter(lambda: functionalize.mark_regions(GRAPH)),
    "replace_scalar_constants": _enter(lambda: functionalize.replace_scalar_constants(GRAPH)),
    "expose_aliases": _enter(lambda: functionalize.expose_aliases(GRAPH)),
    "flat_call_spec": _enter(lambda: functionalize._flat_call_spec(PROGRAM)),
    "preserve_constants": _enter(lambda: functionalize._preserve_constants(PROGRAM)),
    "pause_gc": _enter(pause_gc),
    "FolderLock": _lock_folder,
    "intercept_loops": _enter(
        lambda: dynamic_loops.intercept_loops(dynamic_loops.LoopSession(2, frozenset()), MODULE)
    ),
}


@pytest.mark.alternates(parts=5)
@pytest.mark.parametrize("name", CONTEXTS)
def test_an_interrupt_at_any_spot_leaves_nothing_changed(name: str) -> None:
    work = CONTEXTS[name]
    work()  # warms up caches of this process
    before = _get_state()
    count = interrupted_at(-1, work).passed
    assert count >= 2
    assert _get_state() == before
    for index in range(0, count, -(-count // MAX_SPOTS)):
        spots = interrupted_at(index, work)
        after = _get_state()
        changed_keys = [key for key, value in before.items() if after[key] != value]
        assert not changed_keys, f"{changed_keys} after an interrupt at {spots.where}"
