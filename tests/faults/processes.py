"""Run tasks repeatedly in processes that share folders, and kill some of the processes."""

from __future__ import annotations

import collections
import faulthandler
import os
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ortable.backend.cache.memory import clear_caches, conversions
from ortable.backend.store import CONVERSION, Limits

from .scenarios import ABSENT, NEW, OLD, SCENARIOS, STATE_VALUES, compile_graph

Task = Callable[[random.Random], str]  # one round; returns the outcome that is counted
SHARED_SCENARIOS = ("cache entry", "settings of tune", "decision of autotune")
DAMAGE_MESSAGE = "is not used"  # part of the warning about a damaged entry


@dataclass(frozen=True)
class RunSummary:
    """Numbers of killed and of hung processes, counts of the outcomes of rounds, and errors."""

    killed: int
    counts: collections.Counter[str]
    errors: tuple[str, ...]
    hung: int


def run_processes(
    tasks: Sequence[Task], kills: int, interval: float, seed: int, folder: Path, rounds: int = 0
) -> RunSummary:
    """Run a process for each task; kill and replace random processes.

    A kill follows after about ``interval`` seconds and at least ``rounds`` more rounds.
    """
    rng, log, stop = random.Random(seed), folder / "log", folder / "stop"
    stacks = folder / "stacks"
    log.touch()
    started = 0

    def start(task: Task) -> int:
        nonlocal started
        started += 1
        return _fork(task, random.Random(seed + started), log, stop, stacks)

    tasks_by_pid = {start(task): task for task in tasks}
    killed = rounds_done = 0
    while killed < kills:
        rounds_done = _wait_for_rounds(log, rounds_done + rounds)
        time.sleep(rng.uniform(0, 2 * interval))
        pid = rng.choice(sorted(tasks_by_pid))
        task = tasks_by_pid.pop(pid)
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killed += code == -signal.SIGKILL  # else it had ended and logged the error
        if code != -signal.SIGKILL:
            break
        tasks_by_pid[start(task)] = task
    stop.touch()
    hung = _wait_for_exit(set(tasks_by_pid), 60, stacks)
    lines = log.read_text(encoding="utf-8").splitlines()
    errors = tuple(line for line in lines if line.startswith("!"))
    counts = collections.Counter(line for line in lines if not line.startswith("!"))
    return RunSummary(killed, counts, errors, hung)


def _wait_for_rounds(log: Path, rounds: int) -> int:
    """Wait at most a minute until so many rounds are done; return their number."""
    end, done = time.monotonic() + 60, 0
    while time.monotonic() < end:
        done = log.read_bytes().count(b"\n")
        if done >= rounds:
            break
        time.sleep(0.01)
    return done


def _fork(task: Task, rng: random.Random, log: Path, stop: Path, stacks: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        faulthandler.register(signal.SIGUSR1, open(stacks, "a"), all_threads=True)  # noqa: SIM115
        try:
            while not stop.exists():
                os.write(log_file, f"{task(rng)}\n".encode())
            code = 0
        except BaseException as error:
            message = f"! {type(error).__name__}: {error}".replace("\n", " ")[:1000]
            os.write(log_file, f"{message}\n".encode())
    finally:
        os._exit(code)


def _wait_for_exit(pids: set[int], seconds: float, stacks: Path) -> int:
    """Wait for processes to exit; kill the others, print their stacks, and return their number."""
    end = time.monotonic() + seconds
    while pids and time.monotonic() < end:
        for pid in sorted(pids):
            if os.waitpid(pid, os.WNOHANG)[0]:
                pids.discard(pid)
        time.sleep(0.01)
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if pids:
        print(stacks.read_text(encoding="utf-8"))
    return len(pids)


# -- tasks of processes


def slow_task(task: Task) -> Task:
    """Return a task that sleeps before each round, so that other processes run."""

    def run_round(rng: random.Random) -> str:
        time.sleep(rng.uniform(0, 0.3))
        return task(rng)

    return run_round


def write_and_read_task(folder: Path) -> Task:
    """Return a task that writes and reads the same files as other processes."""

    def run_round(rng: random.Random) -> str:
        name, state = rng.choice(SHARED_SCENARIOS), rng.choice((OLD, NEW))
        if rng.random() < 0.5:
            SCENARIOS[name].write(folder, state)
        state_read = SCENARIOS[name].read(folder)
        assert state_read in (OLD, NEW, ABSENT), state_read
        return f"read {state_read}"

    return run_round


def fill_task(folder: Path, keys: int = 6, capacity: int = 3) -> Task:
    """Return a task that writes more entries than fit, so that writers remove entries of others."""
    states = {f"key{number}": (OLD, NEW)[number % 2] for number in range(keys)}
    size = max(len(conversions._encode("key0", compile_graph(state))) for state in (OLD, NEW))

    def run_round(rng: random.Random) -> str:
        key = rng.choice(sorted(states))
        with collect_damage_warnings() as messages:
            entry = conversions.load(str(folder), key)
            if entry is None:
                compiled = compile_graph(states[key])
                assert conversions.save(str(folder), key, compiled, Limits(size=capacity * size))
        if entry is not None:
            assert entry.model == compile_graph(states[key]).model, f"{key} contains another graph"
        return "damaged" if messages else "missing" if entry is None else "found"

    return run_round


class Model(torch.nn.Module):
    """A model with another graph for each size and number."""

    def __init__(self, size: int, number: float) -> None:
        super().__init__()
        self.layer, self.number = torch.nn.Linear(4, size), number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) * self.number


def compile_task(folder: Path, models: int = 4) -> Task:
    """Return a task that compiles models with a shared `cache_dir` and compares with eager."""

    def run_round(rng: random.Random) -> str:
        torch._dynamo.reset()
        clear_caches()
        number = rng.randrange(models)
        module, x = Model(3 + number, 1.5 + number), torch.rand(2, 4)
        storage: dict[str, Any] = {}
        options = {"cache_dir": str(folder), "storage": storage}
        model = torch.compile(module, backend="ortable", options=options)
        with collect_damage_warnings() as messages:
            if rng.random() < 0.5:
                with torch.no_grad():
                    torch.testing.assert_close(model(x), module(x))
            else:
                torch.testing.assert_close(
                    _compute_gradients(model, module, x), _compute_gradients(module, module, x)
                )
        origins = "+".join(sorted({record.cache for record in storage["instance"]}))
        return "damaged" if messages else origins

    return run_round


def _compute_gradients(model: Any, module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    module.zero_grad()
    model(x).square().sum().backward()
    return [weight.grad.clone() for weight in module.parameters() if weight.grad is not None]


def damage_task(folder: Path) -> Task:
    """Return a task that truncates entries, overwrites bytes, or moves one entry over another."""

    def run_round(rng: random.Random) -> str:
        time.sleep(rng.uniform(0, 0.02))
        entries = sorted(folder.glob(f"*{CONVERSION}"))
        if len(entries) < 2:
            return "nothing to damage"
        entry, other_entry = rng.sample(entries, 2)
        try:
            kind = rng.randrange(3)
            if kind == 0:
                os.truncate(entry, rng.randrange(entry.stat().st_size))
            elif kind == 1:
                with open(entry, "r+b") as stream:
                    stream.seek(rng.randrange(entry.stat().st_size))
                    stream.write(bytes(rng.randrange(256) for _ in range(8)))
            else:
                os.replace(entry, other_entry)
        except FileNotFoundError:  # another process removed it
            return "removed meanwhile"
        return "damage done"

    return run_round


@contextmanager
def collect_damage_warnings() -> Iterator[list[str]]:
    """Collect warnings about damaged entries; any other warning of ortable is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        messages: list[str] = []
        yield messages
    for warning in caught:
        message = str(warning.message)
        if message.startswith("ortable"):
            assert DAMAGE_MESSAGE in message, message
            messages.append(message)


def compile_all_graphs(folder: Path) -> None:
    """Compile all graphs before processes are forked."""
    first = folder / "first"
    first.mkdir()
    for name in SHARED_SCENARIOS:
        for state in STATE_VALUES:
            SCENARIOS[name].write(first, state)
            assert SCENARIOS[name].read(first) == state
