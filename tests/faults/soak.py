"""Hours of a server in minutes: many threads on many models, many calls, compilations, sizes and
epochs. In come counts, out go figures, and an exit status of 1 where a number is wrong, a thread
waits for ever, or memory, handles or threads grow; called by `python -m
tests.faults.soak` and, with small counts, by the tests of this folder."""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

import ortable

X = torch.linspace(-1, 2, 64).reshape(4, 16)


@dataclass(frozen=True)
class Held:
    """What the process holds: bytes of resident memory, open files, threads."""

    memory: int
    files: int
    threads: int


def held() -> Held:
    """Read from Linux' /proc."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[1])
    return Held(
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
    )


def growth(work: Callable[[int], None], steps: int, samples: int = 10) -> tuple[float, Held, Held]:
    """Runs ``work(step)`` so often and looks now and then: bytes a step, as the slope of a line
    through what memory was in the second half (in the first one caches fill); and what was held at
    its begin and end."""
    seen: list[tuple[int, Held]] = []
    every = max(1, steps // (2 * samples))
    for step in range(steps):
        work(step)
        if step >= steps // 2 and step % every == 0:
            seen.append((step, held()))
    at = torch.tensor([float(step) for step, _ in seen], dtype=torch.float64)
    memory = torch.tensor([float(each.memory) for _, each in seen], dtype=torch.float64)
    at, moved = at - at.mean(), memory - memory.mean()
    return float((at * moved).sum() / (at * at).sum().clamp(min=1)), seen[0][1], seen[-1][1]


class Uniform(torch.nn.Module):
    """A matrix of equal numbers: each result says of how many weights it was made."""

    def __init__(self, number: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((16, 8), number))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) + x.sum(1, keepdim=True)


class Trouble:
    """What went wrong in threads."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.wrong = 0

    def running(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # told by the one who waits
                self.said.append(f"{type(error).__name__}: {error}"[:300])

        return threading.Thread(target=guarded, daemon=True)


@torch.no_grad()
def threads(calls: int, callers: int = 8, compilers: int = 4, minutes: float = 20) -> Trouble:
    """Callers of shared models, compilers of models of their own, and one thread that writes
    weights and refreshes them, until ``calls`` are done."""
    trouble, done = Trouble(), threading.Event()
    still, written = Uniform(1.5), Uniform(0.0)
    expected = still(X)
    shared = torch.compile(still, backend="ortable")
    options = {"freeze": "trust"}
    trusting = torch.compile(written, backend="ortable", options=options)
    shared(X), trusting(X)
    whole = {float(k): torch.relu(X @ torch.full((16, 8), float(k))) for k in range(8)}
    sums = X.sum(1, keepdim=True)

    def call(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                ours = shared(X)
                if not torch.allclose(ours, expected, atol=1e-4):
                    trouble.wrong += 1
                found = trusting(X) - sums
                if not any(torch.allclose(found, each, atol=1e-3) for each in whole.values()):
                    trouble.wrong += 1  # of two sets of weights, or of none

    def compile_others(seed: int) -> None:
        draw = random.Random(seed)
        with torch.no_grad():
            while not done.is_set():
                model = Uniform(draw.random())
                x = torch.rand(draw.randint(2, 9), 16)
                if not torch.allclose(
                    torch.compile(model, backend="ortable")(x), model(x), atol=1e-4
                ):
                    trouble.wrong += 1

    def write() -> None:
        with torch.no_grad():
            number = 0
            while not done.is_set():
                number = (number + 1) % 8
                written.weight.fill_(float(number))
                ortable.refresh(written)
                time.sleep(0.001)

    calling = [
        trouble.running(lambda: call(max(1, calls // (2 * callers)))) for _ in range(callers)
    ]
    others = [trouble.running(lambda seed=i: compile_others(seed)) for i in range(compilers)]
    for each in (*calling, *others, trouble.running(write)):
        each.start()
        others.append(each)
    end = time.monotonic() + 60 * minutes
    for each in calling:
        each.join(max(0, end - time.monotonic()))
    done.set()
    for each in others:
        each.join(60)
    if any(each.is_alive() for each in (*calling, *others)):
        trouble.said.append("a thread waits for ever")
    return trouble


def long_runs(
    calls: int, cycles: int, shapes: int, epochs: int
) -> Iterator[tuple[str, int, object]]:
    """Each run with its steps and what grew."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    compiled = torch.compile(model, backend="ortable")

    @torch.no_grad()
    def call(step: int) -> None:
        compiled(X)

    yield "calls", calls, growth(call, calls)

    def cycle(backend: str) -> Callable[[int], None]:
        def once(step: int) -> None:
            torch._dynamo.reset()
            other = torch.nn.Sequential(torch.nn.Linear(16, 16 + step % 50), torch.nn.Tanh())
            with torch.no_grad():
                torch.compile(other, backend=backend)(X)

        return once

    slope, first, last = growth(cycle("ortable"), cycles)
    dynamo, *_ = growth(cycle("aot_eager"), max(20, cycles // 3))
    yield (
        f"compile and drop ({dynamo:.0f} bytes are dynamo's)",
        cycles,
        (slope - dynamo, first, last),
    )
    torch._dynamo.reset()
    free = torch.compile(model, backend="ortable", dynamic=True)

    @torch.no_grad()
    def shape(step: int) -> None:
        x = torch.rand(2 + step, 16)
        torch.testing.assert_close(free(x), model(x), rtol=1e-4, atol=1e-4)

    yield "sizes of a batch", shapes, growth(shape, shapes)
    torch._dynamo.reset()
    trained = torch.compile(model, backend="ortable")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def epoch(step: int) -> None:
        for _ in range(20):
            optimizer.zero_grad()
            trained(X).square().mean().backward()
            optimizer.step()

    yield "epochs of 20 steps", epochs, growth(epoch, epochs)


# Bytes a step that allocators may take, by how the name of a run begins.
ALLOWED = {"calls": 2, "compile": 20_000, "sizes": 4_000, "epochs": 8_000}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--threads", type=int, default=20_000, help="calls of eight threads")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--cycles", type=int, default=1_000, help="compiled and dropped")
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=50)
    asked = parser.parse_args(arguments)
    failed = 0
    started = time.monotonic()
    trouble = threads(asked.threads)
    print(
        f"threads: {asked.threads} calls, {trouble.wrong} wrong, {time.monotonic() - started:.0f} s"
    )
    for said in trouble.said:
        print(f"  {said}")
    failed += bool(trouble.wrong or trouble.said)
    for name, steps, (slope, first, last) in long_runs(
        asked.calls, asked.cycles, asked.shapes, asked.epochs
    ):
        grew = (
            slope > ALLOWED[name.split()[0]]
            or last.files > first.files
            or last.threads > first.threads
        )
        failed += grew
        print(
            f"{name}: {steps}; {slope:.1f} bytes a step, {first.memory >> 20} to "
            f"{last.memory >> 20} MiB, files {first.files} to {last.files}, threads "
            f"{first.threads} to {last.threads}{': GROWS' if grew else ''}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
