"""Runs programs by the thousand: batches of hypothesis in a process of their own, each program
logged before it runs, so that a crash names it. In come counts and seeds, out go the finds as
scripts in build/fuzz and a `Tally`. Called by `__main__` and by the tests."""

from __future__ import annotations

import faulthandler
import functools
import json
import logging
import os
import pickle
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.limits import at_most

from . import onnx_programs, oracle
from .catalog import BUILD, catalog, unreachable
from .oracle import Outcome
from .program import Program
from .script import script
from .shrink import shrunk
from .strategies import grow

BATCH = 25
SLOWEST = 120  # seconds of one program
# of a hundred programs; the rest goes through torch.export
SHARES = {"gradient": 6, "compile": 8, "fx": 16, "nodes": 24}
# modes in turn for an entry that programs around it did not reach
TURNS = ("nodes", "export", "fx", "compile")
GRAPHS = 4  # every so many batches is one of ONNX graphs
# what must be exact of a mode's programs, from so many on; torch differentiates half of them
ENOUGH = 20
EXACT_SHARE, EXACT_GRADIENTS = 0.6, 0.3
DEFAULT_CHECK = oracle.check


@dataclass
class Tally:
    """What was run: programs by mode and outcome, what was reached and tried, finds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    called: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    rewrites: Counter[str] = field(default_factory=Counter)
    finds: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  # of CPU

    def add(self, other: Tally) -> None:
        """Takes in what another process did."""
        self.outcomes.update(other.outcomes)
        self.reasons.update(other.reasons)
        self.called |= other.called
        self.reached |= other.reached
        self.rewrites.update(other.rewrites)
        self.finds += other.finds
        self.seconds += other.seconds

    @property
    def programs(self) -> int:
        return sum(self.outcomes.values())


class Timeout(BaseException):
    """A program takes too long."""


class Worker:
    """One process's share of a run."""

    def __init__(
        self, number: int, of: int, start: int, folder: Path = BUILD,
        check: Callable[[Program, str], Outcome] = DEFAULT_CHECK, until: float | None = None,
    ) -> None:  # fmt: skip
        self.number, self.of, self.start, self.folder, self.check = number, of, start, folder, check
        self.until = until
        self.tally = Tally()
        self.attempts: Counter[str] = Counter()
        self.log = folder / f"current-{start}-{number}.pickle"
        folder.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(1)
        for name in ("torch", "ortable"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def run(self, first: int, count: int) -> Tally:
        """Programs number ``first`` and on, of this process."""
        done = first
        while done < first + count and not self._late():
            size = min(BATCH, first + count - done)
            self.batch(done // BATCH, size)
            done += size
        return self.tally

    def _late(self) -> bool:
        return self.until is not None and time.time() > self.until

    def batch(self, number: int, size: int) -> None:
        """Some programs, each grown from a number that hypothesis draws."""
        drawn = random.Random(f"{self.start}/{self.number}/{number}").getrandbits(60)
        if number % GRAPHS == GRAPHS - 1:
            each: Callable[[random.Random], None] = self.random_graph
        else:
            each = functools.partial(self.random_program, iter(self.wanted(size)))

        @seed(drawn)
        @settings(
            max_examples=size,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=False,
        )
        @given(st.integers(0, 2**62))
        def explore(chosen: int) -> None:
            if not self._late():
                each(random.Random(f"{drawn}/{chosen}"))

        explore()

    def wanted(self, size: int) -> list[tuple[str, ...]]:
        """The entries that the next programs are around, two for each: those that this process has
        seen least, of its share."""
        own = catalog().keys[self.number :: self.of]
        open_ends = [key for key in own if key not in self.tally.reached]
        pool = sorted(open_ends or own, key=lambda key: self.attempts[key])
        chosen = [pool[place % len(pool)] for place in range(2 * size)]
        self.attempts.update(chosen)
        return list(zip(chosen[::2], chosen[1::2], strict=True))

    def random_program(self, wanted: Iterator[tuple[str, ...]], numbers: random.Random) -> None:
        """Grows and checks a program. Entries that stay unreached come as their samples are
        written, through one front door after the other."""
        keys = next(wanted, None) or (numbers.choice(catalog().keys),)
        tried = self.attempts[keys[0]]
        plain = keys[0] not in self.tally.reached and tried > 2 and tried % 4 != 0
        mode = TURNS[tried % len(TURNS)] if plain else _mode(numbers.randrange(100))
        self.log.write_bytes(pickle.dumps((None, "growing")))
        program = grow(numbers.randrange, catalog().keys, keys, mode == "nodes", plain)
        if program is not None:
            self.one(program, mode)

    # -- torch programs

    def one(self, program: Program, mode: str) -> None:
        """Checks a program and notes what came of it."""
        self.log.write_bytes(pickle.dumps((program, mode)))
        outcome = self.outcome(program, mode)
        if outcome.detail == oracle.NO_GRADIENT:
            mode = "compile"
            outcome = self.outcome(program, mode)
        keys = {step.key for step in program.steps if not step.key.startswith("context")}
        self.tally.called |= keys
        self.tally.outcomes[f"{mode} {outcome.kind}"] += 1
        if outcome.kind in ("refused", "discarded"):
            self.tally.reasons[f"{outcome.kind}: {_plain(outcome.detail)}"] += 1
        self.tally.rewrites.update(outcome.rewrites)
        if outcome.kind == "exact":
            self.tally.reached |= {_key(each) for each in outcome.targets}
        if outcome.is_find:
            self.find(program, mode, outcome)

    def outcome(self, program: Program, mode: str) -> Outcome:
        try:
            with at_most(SLOWEST, Timeout):
                return self.check(program, mode)
        except Timeout:
            return Outcome("timeout", f"more than {SLOWEST} seconds")

    def find(self, program: Program, mode: str, outcome: Outcome) -> None:
        """Makes a new find small and writes its script; counts one that is known."""
        keys = _keys(program)
        for known in self.tally.finds:
            if known["like"] == outcome.like and set(known["keys"]) <= keys:
                known["times"] += 1
                return

        def fails(smaller: Program) -> bool:
            return self.outcome(smaller, mode).like == outcome.like

        seconds = 10.0 if outcome.kind == "timeout" else 60.0
        small = shrunk(program, fails, seconds if mode in ("export", "fx") else 40.0)
        last = self.outcome(small, mode)
        if not last.is_find:  # it does not repeat
            small, last = program, outcome
        self.note(_keys(small), mode, last, script(small, mode, last))

    def note(self, keys: set[str], mode: str, outcome: Outcome, text: str) -> None:
        for known in self.tally.finds:
            if known["like"] == outcome.like and set(known["keys"]) == keys:
                known["times"] += 1
                return
        name = "_".join(sorted(re.sub(r"\W+", "_", key.split("::")[-1]) for key in keys))[:70]
        path = self.folder / f"{outcome.kind}_{name}_{abs(hash(text)) % 10000}.py"
        path.write_text(text)
        self.tally.finds.append(
            {
                "kind": outcome.kind, "mode": mode, "like": outcome.like, "keys": sorted(keys),
                "detail": outcome.detail[:300], "where": outcome.where,
                "script": str(path), "times": 1,
            }
        )  # fmt: skip

    # -- graphs of rewrites

    def random_graph(self, numbers: random.Random) -> None:
        """Draws and checks a graph."""
        self.one_graph(self._graph(numbers))

    def _graph(self, numbers: random.Random) -> onnx_programs.GraphProgram:
        """A program of cases; those of rules that have not fired come first."""
        every = onnx_programs.cases()
        rare = [
            place for place, each in enumerate(every)
            if each.case.unchanged is None and not self.tally.rewrites[each.rewrite.name]
        ]  # fmt: skip
        count = numbers.choice((1, 2, 2, 3, 4))
        pieces = []
        for place in range(count):
            which = numbers.choice(rare) if rare and place == 0 else numbers.randrange(len(every))
            pieces.append((which, *(numbers.randrange(256) for _ in range(3))))
        opset = numbers.choice((oracle.FLOOR, 21, 23, onnx_programs.newest()))
        target = numbers.choice((None, "onnxruntime"))
        return onnx_programs.GraphProgram(tuple(pieces), opset, target, numbers.random() < 0.5)

    def one_graph(self, program: onnx_programs.GraphProgram) -> None:
        """Checks a graph, for the target and opset that its first case is for."""
        self.log.write_bytes(pickle.dumps((program, "onnx")))
        try:
            with at_most(SLOWEST, Timeout):
                outcome, model = onnx_programs.check(program)
        except Timeout:
            outcome, model = Outcome("timeout", f"more than {SLOWEST} seconds"), b""
        self.tally.outcomes[f"onnx {outcome.kind}"] += 1
        self.tally.rewrites.update(outcome.rewrites)
        if outcome.kind == "discarded":
            self.tally.reasons[f"discarded: {_plain(outcome.detail)}"] += 1
        if outcome.is_find:
            pieces, small = program.pieces, program
            for place in range(len(pieces)):
                one = onnx_programs.GraphProgram(
                    (pieces[place],), program.opset, program.target, program.dynamic
                )
                found, text = onnx_programs.check(one)
                if found.kind == outcome.kind:
                    small, outcome, model = one, found, text
                    break
            names = {onnx_programs.cases()[p[0]].rewrite.name for p in small.pieces}
            text = onnx_programs.script(model, outcome, program.target) if model else ""
            self.note({f"rewrite {each}" for each in names}, "onnx", outcome, text)


def _mode(number: int) -> str:
    for mode, share in SHARES.items():
        if number < share:
            return mode
        number -= share
    return "export"


def _keys(program: Program) -> set[str]:
    found = {step.key for step in program.steps}
    return {each for each in found if not each.startswith("context")} or found


def _key(name: str) -> str:
    return name.removesuffix(".default")


def _plain(text: str) -> str:
    return re.sub(r"[0-9]+|\([^)]*\)|\[[^\]]*\]", "#", text)[:100]


# -- processes


def work(number: int, of: int, start: int, first: int, count: int, until: float | None) -> None:
    """The body of a process: the tally goes to a file after every batch."""
    faulthandler.enable()
    os.environ.setdefault("TORCH_LOGS", "-all")
    target = BUILD / f"tally-{start}-{number}.pickle"
    worker = Worker(number, of, start, until=until)
    if target.exists():
        worker.tally, done = pickle.loads(target.read_bytes())
        first, count = done, count - (done - first)
    at = first
    while at < first + count and not worker._late():
        size = min(BATCH, first + count - at)
        begin = time.process_time()
        worker.batch(at // BATCH, size)
        worker.tally.seconds += time.process_time() - begin
        at += size
        own = target.with_suffix(".new")
        own.write_bytes(pickle.dumps((worker.tally, at)))
        own.replace(target)
    worker.log.unlink(missing_ok=True)


def too_little(tally: Tally) -> list[str]:
    """The front doors through which too small a share of programs came out exact: a run that
    refuses everything, or that torch captures nothing of, finds nothing either."""
    short = []
    for mode in (*oracle.MODES, "onnx"):
        total = sum(n for key, n in tally.outcomes.items() if key.startswith(f"{mode} "))
        exact = tally.outcomes[f"{mode} exact"]
        share = EXACT_GRADIENTS if mode == "gradient" else EXACT_SHARE
        if total >= ENOUGH and exact < share * total:
            short.append(f"{mode}: {exact} of {total} programs are exact")
    return short


def report(tally: Tally, seconds: float) -> str:
    """The summary that is printed."""
    keys = set(catalog().keys)
    rules = {each.rewrite.name for each in onnx_programs.cases()}
    reached, fired = tally.reached & keys, {name for name in tally.rewrites if name in rules}
    lines = [f"{tally.programs} programs in {seconds:.0f} s, {tally.seconds:.0f} s of CPU"]
    lines += [f"  {kind}: {count}" for kind, count in sorted(tally.outcomes.items())]
    lines.append(
        f"operators reached: {len(reached)} of {len(keys)} ({len(reached) / len(keys):.1%})"
    )
    lines.append(f"rewrites reached: {len(fired)} of {len(rules)} ({len(fired) / len(rules):.1%})")
    kinds = Counter(each["kind"] for each in tally.finds)
    lines += [f"too little: {each}" for each in too_little(tally)]
    lines.append(f"finds: {len(tally.finds)} {dict(kinds)}")
    for each in sorted(tally.finds, key=lambda each: (each["kind"], each["keys"])):
        lines.append(f"  {each['kind']} x{each['times']} {each['mode']}: {', '.join(each['keys'])}")
        lines.append(f"    {each['where']}: {each['detail'][:160]}\n    {each['script']}")
    return "\n".join(lines)


def unreached(tally: Tally) -> str:
    """What no program reached, and why programs stopped, as JSON."""
    rules = {each.rewrite.name for each in onnx_programs.cases()}
    return json.dumps(
        {
            "operators": sorted(set(catalog().keys) - tally.reached),
            "rewrites": sorted(rules - set(tally.rewrites)),
            "absent": catalog().absent,
            "unreachable": unreachable(),
            "reasons": tally.reasons.most_common(200),
        },
        indent=1,
    )


def merged(start: int, count: int) -> Tally:
    """The tallies of all processes."""
    found = Tally()
    for number in range(count):
        path = BUILD / f"tally-{start}-{number}.pickle"
        if path.exists():
            found.add(pickle.loads(path.read_bytes())[0])
            path.unlink()
    return found


Arguments = Sequence[str]
