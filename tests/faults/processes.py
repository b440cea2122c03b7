"""Processes that share folders while some of them are killed. In come functions that a process does
again and again, out goes what they said; called by the tests of this folder.

Each function raises where it finds something wrong. What a killed process leaves behind (half
files, locks) is met by those who stay, and by the ones that take its place."""

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

from .scenarios import ABSENT, NEW, NUMBERS, OLD, SCENARIOS, _compiled

Work = Callable[[random.Random], str]  # one round; the word that is counted
SHARED = ("cache entry", "settings of tune", "decision of autotune")
DAMAGE = "is not used"  # what a reader of a damaged entry says


@dataclass(frozen=True)
class Herd:
    """What happened: how many processes were killed, how often each word was said, what went
    wrong, and which processes waited for ever after the others had been told to end."""

    killed: int
    said: collections.Counter[str]
    wrong: tuple[str, ...]
    stuck: int


def herd(
    works: Sequence[Work], kills: int, every: float, seed: int, folder: Path, rounds: int = 0
) -> Herd:
    """A process for each of ``works``; about each ``every`` seconds, and not before ``rounds`` more
    are done, one of them, drawn at random, is killed at whatever it does, and another takes its
    place. At the end the ones that are left finish their rounds."""
    draw, log, stop = random.Random(seed), folder / "log", folder / "stop"
    stacks = folder / "stacks"
    log.touch()
    started = 0

    def start(work: Work) -> int:
        nonlocal started
        started += 1
        return _fork(work, random.Random(seed + started), log, stop, stacks)

    alive = {start(work): work for work in works}
    killed = done = 0
    while killed < kills:
        done = _more(log, done + rounds)
        time.sleep(draw.uniform(0, 2 * every))
        pid = draw.choice(sorted(alive))
        work = alive.pop(pid)
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killed += code == -signal.SIGKILL  # else it had ended, and has said why
        if code != -signal.SIGKILL:
            break
        alive[start(work)] = work
    stop.touch()
    stuck = _wait(set(alive), 60, stacks)
    lines = log.read_text(encoding="utf-8").splitlines()
    wrong = tuple(line for line in lines if line.startswith("!"))
    said = collections.Counter(line for line in lines if not line.startswith("!"))
    return Herd(killed, said, wrong, stuck)


def _more(log: Path, lines: int) -> int:
    """Waits until so many rounds are done, at most a minute; how many it were."""
    end, there = time.monotonic() + 60, 0
    while time.monotonic() < end:
        there = log.read_bytes().count(b"\n")
        if there >= lines:
            break
        time.sleep(0.01)
    return there


def _fork(work: Work, draw: random.Random, log: Path, stop: Path, stacks: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        faulthandler.register(signal.SIGUSR1, open(stacks, "a"), all_threads=True)  # noqa: SIM115
        try:
            while not stop.exists():
                os.write(to, f"{work(draw)}\n".encode())
            code = 0
        except BaseException as error:
            text = f"! {type(error).__name__}: {error}".replace("\n", " ")[:1000]
            os.write(to, f"{text}\n".encode())
    finally:
        os._exit(code)


def _wait(pids: set[int], seconds: float, stacks: Path) -> int:
    """How many are still there after so long; they are killed, and the test's output says where
    they waited."""
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


# -- what processes do


def slowly(work: Work) -> Work:
    """Leaves the processor to others between rounds."""

    def once(draw: random.Random) -> str:
        time.sleep(draw.uniform(0, 0.3))
        return work(draw)

    return once


def writes_and_reads(folder: Path) -> Work:
    """Files of one name that all write and read: whole, and one of two states."""

    def once(draw: random.Random) -> str:
        name, state = draw.choice(SHARED), draw.choice((OLD, NEW))
        if draw.random() < 0.5:
            SCENARIOS[name].write(folder, state)
        found = SCENARIOS[name].read(folder)
        assert found in (OLD, NEW, ABSENT), found
        return f"read {found}"

    return once


def fills(folder: Path, keys: int = 6, kept: int = 3) -> Work:
    """More entries than the folder may hold, so that each writer removes what others read."""
    states = {f"key{number}": (OLD, NEW)[number % 2] for number in range(keys)}
    size = max(len(conversions._encode("key0", _compiled(state))) for state in (OLD, NEW))

    def once(draw: random.Random) -> str:
        key = draw.choice(sorted(states))
        with damage_is_told() as told:
            found = conversions.load(str(folder), key)
            if found is None:
                compiled = _compiled(states[key])
                assert conversions.save(str(folder), key, compiled, Limits(size=kept * size))
        if found is not None:
            assert found.model == _compiled(states[key]).model, f"{key} is another graph's"
        return "damaged" if told else "missing" if found is None else "found"

    return once


class Model(torch.nn.Module):
    """One graph for each size and number."""

    def __init__(self, size: int, number: float) -> None:
        super().__init__()
        self.layer, self.number = torch.nn.Linear(4, size), number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) * self.number


def compiles(folder: Path, models: int = 4) -> Work:
    """Models that others compile too, with one `cache_dir`: results and gradients are eager's."""

    def once(draw: random.Random) -> str:
        torch._dynamo.reset()
        clear_caches()
        number = draw.randrange(models)
        module, x = Model(3 + number, 1.5 + number), torch.rand(2, 4)
        storage: dict[str, Any] = {}
        options = {"cache_dir": str(folder), "storage": storage}
        model = torch.compile(module, backend="ortable", options=options)
        with damage_is_told() as told:
            if draw.random() < 0.5:
                with torch.no_grad():
                    torch.testing.assert_close(model(x), module(x))
            else:
                torch.testing.assert_close(
                    _gradients(model, module, x), _gradients(module, module, x)
                )
        found = "+".join(sorted({record.cache for record in storage["instance"]}))
        return "damaged" if told else found

    return once


def _gradients(run: Any, module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    module.zero_grad()
    run(x).square().sum().backward()
    return [each.grad.clone() for each in module.parameters() if each.grad is not None]


def damages(folder: Path) -> Work:
    """Entries are cut off, changed in the middle, or get each other's names."""

    def once(draw: random.Random) -> str:
        time.sleep(draw.uniform(0, 0.02))
        entries = sorted(folder.glob(f"*{CONVERSION}"))
        if len(entries) < 2:
            return "nothing to damage"
        one, other = draw.sample(entries, 2)
        try:
            kind = draw.randrange(3)
            if kind == 0:
                os.truncate(one, draw.randrange(one.stat().st_size))
            elif kind == 1:
                with open(one, "r+b") as stream:
                    stream.seek(draw.randrange(one.stat().st_size))
                    stream.write(bytes(draw.randrange(256) for _ in range(8)))
            else:
                os.replace(one, other)
        except FileNotFoundError:  # somebody removed it
            return "removed meanwhile"
        return "damage done"

    return once


@contextmanager
def damage_is_told() -> Iterator[list[str]]:
    """Collects warnings of damaged entries; every other one of ours is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told: list[str] = []
        yield told
    for each in caught:
        text = str(each.message)
        if text.startswith("ortable"):
            assert DAMAGE in text, text
            told.append(text)


def prepare(folder: Path) -> None:
    """What is done once in a process is done before there are several: the graphs are compiled."""
    first = folder / "first"
    first.mkdir()
    for name in SHARED:
        for state in NUMBERS:
            SCENARIOS[name].write(first, state)
            assert SCENARIOS[name].read(first) == state
