"""Soak test that fails if a result is wrong, a thread hangs, or memory, files or threads grow."""

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
class Usage:
    """Usage of resources by the process: bytes of resident memory, open files, threads."""

    memory: int
    files: int
    threads: int


def measure_resources() -> Usage:
    """Measure the resources of this process with Linux' /proc."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[1])
    return Usage(
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
    )


def measure_growth(
    work: Callable[[int], None], steps: int, samples: int = 10
) -> tuple[float, Usage, Usage]:
    """Run ``work(step)`` repeatedly; return bytes per step, and usage at the beginning and end.

    Only the second half of the steps is measured, as caches fill in the first half.
    """
    usages: list[tuple[int, Usage]] = []
    interval = max(1, steps // (2 * samples))
    for step in range(steps):
        work(step)
        if step >= steps // 2 and step % interval == 0:
            usages.append((step, measure_resources()))
    x = torch.tensor([float(step) for step, _ in usages], dtype=torch.float64)
    memory = torch.tensor([float(usage.memory) for _, usage in usages], dtype=torch.float64)
    x, y = x - x.mean(), memory - memory.mean()
    return float((x * y).sum() / (x * x).sum().clamp(min=1)), usages[0][1], usages[-1][1]


class UniformModel(torch.nn.Module):
    """A layer whose weights are all equal, so that results reveal a mixture of weights."""

    def __init__(self, number: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((16, 8), number))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) + x.sum(1, keepdim=True)


class Failures:
    """Errors and the number of wrong results in threads."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.wrong_results = 0

    def make_thread(self, work: Callable[[], None]) -> threading.Thread:
        def run_guarded() -> None:
            try:
                work()
            except BaseException as error:  # reported by the main thread
                self.messages.append(f"{type(error).__name__}: {error}"[:300])

        return threading.Thread(target=run_guarded, daemon=True)


@torch.no_grad()
def run_threads(calls: int, callers: int = 8, compilers: int = 4, minutes: float = 20) -> Failures:
    """Run threads that call shared models, compile models, or write and refresh weights."""
    failures, done = Failures(), threading.Event()
    fixed_model, written_model = UniformModel(1.5), UniformModel(0.0)
    expected = fixed_model(X)
    call_fixed = torch.compile(fixed_model, backend="ortable")
    options = {"freeze": "trust"}
    call_written = torch.compile(written_model, backend="ortable", options=options)
    call_fixed(X), call_written(X)
    products = {float(k): torch.relu(X @ torch.full((16, 8), float(k))) for k in range(8)}
    sums = X.sum(1, keepdim=True)

    def call(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                result = call_fixed(X)
                if not torch.allclose(result, expected, atol=1e-4):
                    failures.wrong_results += 1
                product = call_written(X) - sums
                if not any(torch.allclose(product, y, atol=1e-3) for y in products.values()):
                    failures.wrong_results += 1  # the result is of no single set of weights

    def compile_models(seed: int) -> None:
        rng = random.Random(seed)
        with torch.no_grad():
            while not done.is_set():
                model = UniformModel(rng.random())
                x = torch.rand(rng.randint(2, 9), 16)
                if not torch.allclose(
                    torch.compile(model, backend="ortable")(x), model(x), atol=1e-4
                ):
                    failures.wrong_results += 1

    def write() -> None:
        with torch.no_grad():
            value = 0
            while not done.is_set():
                value = (value + 1) % 8
                written_model.weight.fill_(float(value))
                ortable.refresh(written_model)
                time.sleep(0.001)

    call_threads = [
        failures.make_thread(lambda: call(max(1, calls // (2 * callers)))) for _ in range(callers)
    ]
    threads = [failures.make_thread(lambda seed=i: compile_models(seed)) for i in range(compilers)]
    for thread in (*call_threads, *threads, failures.make_thread(write)):
        thread.start()
        threads.append(thread)
    end = time.monotonic() + 60 * minutes
    for thread in call_threads:
        thread.join(max(0, end - time.monotonic()))
    done.set()
    for thread in threads:
        thread.join(60)
    if any(thread.is_alive() for thread in (*call_threads, *threads)):
        failures.messages.append("a thread did not end")
    return failures


def iterate_long_runs(
    calls: int, cycles: int, shapes: int, epochs: int
) -> Iterator[tuple[str, int, object]]:
    """Yield the name of each run, its steps, and its growth."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    compiled = torch.compile(model, backend="ortable")

    @torch.no_grad()
    def call_once(step: int) -> None:
        compiled(X)

    yield "calls", calls, measure_growth(call_once, calls)

    def make_cycle(backend: str) -> Callable[[int], None]:
        def compile_and_drop(step: int) -> None:
            torch._dynamo.reset()
            module = torch.nn.Sequential(torch.nn.Linear(16, 16 + step % 50), torch.nn.Tanh())
            with torch.no_grad():
                torch.compile(module, backend=backend)(X)

        return compile_and_drop

    slope, first, last = measure_growth(make_cycle("ortable"), cycles)
    dynamo, *_ = measure_growth(make_cycle("aot_eager"), max(20, cycles // 3))
    yield (
        f"compile and drop ({dynamo:.0f} bytes are Dynamo's)",
        cycles,
        (slope - dynamo, first, last),
    )
    torch._dynamo.reset()
    dynamic = torch.compile(model, backend="ortable", dynamic=True)

    @torch.no_grad()
    def call_with_size(step: int) -> None:
        x = torch.rand(2 + step, 16)
        torch.testing.assert_close(dynamic(x), model(x), rtol=1e-4, atol=1e-4)

    yield "sizes of a batch", shapes, measure_growth(call_with_size, shapes)
    torch._dynamo.reset()
    compiled_for_training = torch.compile(model, backend="ortable")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def train_epoch(step: int) -> None:
        for _ in range(20):
            optimizer.zero_grad()
            compiled_for_training(X).square().mean().backward()
            optimizer.step()

    yield "epochs of 20 steps", epochs, measure_growth(train_epoch, epochs)


# Allowed growth in bytes per step, by the first word of the name of a run.
ALLOWED_GROWTH = {"calls": 2, "compile": 20_000, "sizes": 4_000, "epochs": 8_000}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--threads", type=int, default=20_000, help="calls of eight threads")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--cycles", type=int, default=1_000, help="compilations of dropped models")
    parser.add_argument("--shapes", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=50)
    options = parser.parse_args(arguments)
    failed = 0
    started = time.monotonic()
    failures = run_threads(options.threads)
    print(
        f"threads: {options.threads} calls, {failures.wrong_results} wrong, "
        f"{time.monotonic() - started:.0f} s"
    )
    for message in failures.messages:
        print(f"  {message}")
    failed += bool(failures.wrong_results or failures.messages)
    for name, steps, (slope, first, last) in iterate_long_runs(
        options.calls, options.cycles, options.shapes, options.epochs
    ):
        has_grown = (
            slope > ALLOWED_GROWTH[name.split()[0]]
            or last.files > first.files
            or last.threads > first.threads
        )
        failed += has_grown
        print(
            f"{name}: {steps}; {slope:.1f} bytes per step, {first.memory >> 20} to "
            f"{last.memory >> 20} MiB, files {first.files} to {last.files}, threads "
            f"{first.threads} to {last.threads}{': GROWS' if has_grown else ''}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
