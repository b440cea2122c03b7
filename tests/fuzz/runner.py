"""Runs programs by the thousand in processes of their own, each program told before it runs, so
that a crash names it. In come counts and seeds, out go the finds as scripts in build/fuzz and a
`Tally`. Called by `__main__` and by the tests."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from tests.forked import Died, Pool, Say
from tests.limits import at_most
from tests.suites.isolation import run_isolated

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


@dataclass(frozen=True)
class Share:
    """The programs of one process of ``of``, by number; and what came of earlier ones."""

    number: int
    of: int
    seed: int
    first: int
    end: int
    until: float | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to run, or no time."""
        return self.first >= self.end or (self.until is not None and time.time() > self.until)

    @property
    def rest(self) -> Share:
        """What is left behind the next batch."""
        return replace(self, first=self.first + BATCH)


class Worker:
    """One process's share of a run."""

    def __init__(self, share: Share, folder: Path = BUILD, say: Say = lambda _: None) -> None:
        self.share, self.folder, self.say = share, folder, say
        self.tally = share.tally
        self.attempts: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(1)
        for name in ("torch", "ortable"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def run(self) -> Tally:
        """All batches; what is left is said after each."""
        while not self.share.is_over:
            begin = time.process_time()
            self.batch(min(BATCH, self.share.end - self.share.first))
            self.tally.seconds += time.process_time() - begin
            self.share = self.share.rest
            self.say(self.share)
        return self.tally

    def batch(self, size: int) -> None:
        """Some programs, each grown from a number of its own."""
        number, wanted = self.share.first // BATCH, iter(self.wanted(size))
        for place in range(size):
            draws = random.Random(f"{self.share.seed}/{self.share.number}/{number}/{place}")
            if self.share.is_over:
                return
            if number % GRAPHS == GRAPHS - 1:
                self.random_graph(draws)
            else:
                self.random_program(wanted, draws)

    def wanted(self, size: int) -> list[tuple[str, ...]]:
        """The entries that the next programs are around, two for each: those that this process has
        seen least, of its share."""
        own = catalog().keys[self.share.number :: self.share.of]
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
        self.say((None, "growing"))
        program = grow(numbers.randrange, catalog().keys, keys, mode == "nodes", plain)
        if program is not None:
            self.one(program, mode)

    # -- torch programs

    def one(self, program: Program, mode: str) -> None:
        """Checks a program and notes what came of it."""
        self.say((program, mode))
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
                return oracle.check(program, mode)
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
        self.tally.finds.append(_find(keys, mode, outcome, path))

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
        self.say((program, "onnx"))
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


def _find(keys: set[str], mode: str, outcome: Outcome, path: Path) -> dict[str, Any]:
    return {
        "kind": outcome.kind, "mode": mode, "like": outcome.like, "keys": sorted(keys),
        "detail": outcome.detail[:300], "where": outcome.where, "script": str(path), "times": 1,
    }  # fmt: skip


# -- processes


def run(shares: Sequence[Share]) -> Tally:
    """What all processes did; one that dies goes on behind the batch that it died in."""
    total, begun = Tally(), dict.fromkeys(range(len(shares)), (None, "growing"))
    left = {share.number: share for share in shares}
    pool = Pool(lambda share, say: Worker(share, say=say).run(), len(shares), 3 * SLOWEST)
    for share, said in pool.run(shares):
        number = share.number
        if isinstance(said, Share):
            left[number] = said
        elif isinstance(said, Died):
            total.finds += crashed(*begun[number], said.detail)
            left[number] = left[number].rest
            pool.again.append(left[number])
        elif said is not None:
            begun[number] = said
        else:
            total.add(left[number].tally)
    return total


def crashed(program: Any, mode: str, detail: str) -> list[dict[str, Any]]:
    """The find of a process that died: the program that it had begun. A program that was still
    growing, or that dies in eager alone, is torch's own crash: such kernels read what a NaN or a
    size that they do not check points to."""
    if program is None or (mode != "onnx" and dies_in_eager(program, mode)):
        return []
    outcome, keys, text = Outcome("crash", detail, ""), {mode}, f"# {program}\n"
    if mode != "onnx":
        keys, text = _keys(program), script(program, mode, outcome)
    path = BUILD / f"crash_{abs(hash(text)) % 100_000}.py"
    path.write_text(text)
    return [_find(keys, mode, outcome, path)]


def dies_in_eager(program: Program, mode: str) -> bool:
    """Whether the program ends a process of its own that only runs it in eager."""

    def in_eager() -> None:
        with contextlib.suppress(Exception):
            oracle.reference(program, None, mode == "gradient")

    return bool(run_isolated([in_eager])[0].signal)


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
