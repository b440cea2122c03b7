"""Run the tests of mutants in worker processes, first without a mutant and then with each."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .mutants import ROOT, Mutant
from .overlay import Overlay

Item = TypeVar("Item")
LIMIT = 120.0  # seconds for the tests of one mutant, which take a few unless they hang
BASELINE_LIMIT = 600.0  # seconds for many tests without a mutant


@dataclass(frozen=True)
class Verdict:
    """The outcome of one run; `worker` lists the outcomes.

    ``name`` is the name of a mutant, or the arguments of pytest for a run without one.
    """

    name: str
    outcome: str
    test: str
    message: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Return whether tests noticed the mutant."""
        return self.outcome in ("failed", "crashed", "late", "refused")


class Worker:
    """An overlay and the process that runs tests in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.overlay = Overlay(root, folder)
        script = Path(__file__).with_name("worker.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=self.overlay.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._answer() == {"outcome": "ready"}

    def run(
        self, name: str, run: Sequence[str], generate: str, seconds: float, keep: bool
    ) -> Verdict:
        """Run pytest; ``keep`` writes bytecode, for runs without a mutant."""
        request = {"run": list(run), "generate": generate, "seconds": seconds, "keep": keep}
        assert self.process.stdin is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return Verdict(name=name, **self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that forks the runs has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Workers:
    """A pool of workers; each item of a list goes to a free worker."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers

    def map(
        self, items: Sequence[Item], work: Callable[[Worker, Item], Verdict]
    ) -> Iterator[Verdict]:
        """Yield the verdict on each item, in order of completion.

        Raises:
            AssertionError: a process has ended.
        """
        waiting: queue.Queue[Item] = queue.Queue()
        for item in items:
            waiting.put(item)
        results: queue.Queue[Verdict | BaseException] = queue.Queue()

        def serve(worker: Worker) -> None:
            try:
                while True:
                    results.put(work(worker, waiting.get_nowait()))
            except queue.Empty:
                return
            except BaseException as error:
                results.put(error)

        for worker in self._workers:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        for _ in items:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            yield result


@contextmanager
def workers(jobs: int, root: Path = ROOT) -> Iterator[Workers]:
    """Run workers with an overlay each for the duration of a block."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        started = [Worker(root, Path(folder, str(number))) for number in range(jobs)]
        try:
            yield Workers(started)
        finally:
            for worker in started:
                worker.close()


def baseline(pool: Workers, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """Run every test of the mutants once without a mutant; tests of a folder share a run."""
    return pool.map(
        together([mutant.run for mutant in mutants]),
        lambda worker, run: worker.run(" ".join(run), run, "", BASELINE_LIMIT, True),
    )


def together(runs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Merge runs of tests in one folder with the same options."""
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    for run in runs:
        tests = [argument for argument in run if argument.startswith("tests/")]
        options = tuple(argument for argument in run if not argument.startswith("tests/"))
        for test in tests:
            folder = test.partition("::")[0].rpartition("/")[0]
            groups.setdefault((folder, *options), {})[test] = None
    return [(*sorted(tests), *key[1:]) for key, tests in sorted(groups.items())]


def faults(pool: Workers, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """Run the tests of every mutant with the mutant applied."""

    def work(worker: Worker, mutant: Mutant) -> Verdict:
        worker.overlay.apply(mutant)
        try:
            return worker.run(mutant.name, mutant.run, mutant.generates, LIMIT, False)
        finally:
            worker.overlay.restore(mutant)

    return pool.map(mutants, work)
