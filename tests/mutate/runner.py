"""Runs the tests of mutants, first without the fault and then with it.

In come mutants and a number of processes, out come Verdicts; called by the command line.
"""

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
LIMIT = 120.0  # seconds for the tests of one fault, which take a few; then they hang
MOST = 600.0  # for those of many without a fault


@dataclass(frozen=True)
class Verdict:
    """What became of one run; see `worker` for the outcomes. ``name``: of the mutant, or the
    arguments of pytest for a run without a fault."""

    name: str
    outcome: str
    test: str
    said: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether tests noticed the fault."""
        return self.outcome in ("failed", "crashed", "late", "refused")


class Worker:
    """An overlay, and the process that runs tests in it."""

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
        """What pytest says; ``keep``: compiled files stay, since no fault is in them."""
        asked = {"run": list(run), "generate": generate, "seconds": seconds, "keep": keep}
        assert self.process.stdin is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
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
    """Several of them; each item of a list goes to the one that is free."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers

    def each(
        self, items: Sequence[Item], work: Callable[[Worker, Item], Verdict]
    ) -> Iterator[Verdict]:
        """The verdict on each item, as they come.

        Raises:
            AssertionError: a process has ended.
        """
        waiting: queue.Queue[Item] = queue.Queue()
        for item in items:
            waiting.put(item)
        done: queue.Queue[Verdict | BaseException] = queue.Queue()

        def serve(worker: Worker) -> None:
            try:
                while True:
                    done.put(work(worker, waiting.get_nowait()))
            except queue.Empty:
                return
            except BaseException as error:
                done.put(error)

        for worker in self._workers:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        for _ in items:
            found = done.get()
            if isinstance(found, BaseException):
                raise found
            yield found


@contextmanager
def workers(jobs: int, root: Path = ROOT) -> Iterator[Workers]:
    """Processes with an overlay each, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        started = [Worker(root, Path(folder, str(number))) for number in range(jobs)]
        try:
            yield Workers(started)
        finally:
            for worker in started:
                worker.close()


def baseline(pool: Workers, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """Every test that mutants name, once, without any fault: those of a folder in one run."""
    return pool.each(
        together([each.run for each in mutants]),
        lambda worker, run: worker.run(" ".join(run), run, "", MOST, True),
    )


def together(runs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Fewer runs of the same tests: those of one folder, with the same options, are one."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for run in runs:
        tests = [each for each in run if each.startswith("tests/")]
        options = tuple(each for each in run if not each.startswith("tests/"))
        for test in tests:
            folder = test.partition("::")[0].rpartition("/")[0]
            found.setdefault((folder, *options), {})[test] = None
    return [(*sorted(tests), *key[1:]) for key, tests in sorted(found.items())]


def faults(pool: Workers, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """The tests of every mutant with its fault."""

    def work(worker: Worker, mutant: Mutant) -> Verdict:
        worker.overlay.apply(mutant)
        try:
            return worker.run(mutant.name, mutant.run, mutant.generates, LIMIT, False)
        finally:
            worker.overlay.restore(mutant)

    return pool.each(mutants, work)
