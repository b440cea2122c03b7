"""Run thousands of programs in child processes, and write the finds as scripts to build/fuzz."""

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
TIMEOUT_S = 120  # for one program
# percent of the programs by mode; the others use torch.export
SHARES = {"gradient": 6, "compile": 8, "fx": 16, "nodes": 24}
# the order of modes for an entry that random programs did not reach
MODES_IN_TURN = ("nodes", "export", "fx", "compile")
GRAPH_INTERVAL = 4  # every fourth batch has ONNX graphs
# the share of a mode's programs that must be exact; torch differentiates only half of them
MIN_PROGRAMS = 20
MIN_EXACT_SHARE, MIN_EXACT_GRADIENTS = 0.6, 0.3


@dataclass
class Tally:
    """The results of a run: programs by mode and outcome, operators reached and called, finds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    called: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    rewrites: Counter[str] = field(default_factory=Counter)
    finds: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  # of CPU

    def add(self, other: Tally) -> None:
        """Add the results of another process."""
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
    """The programs of one process of ``of``, by number, and the results so far."""

    number: int
    of: int
    seed: int
    first: int
    end: int
    until: float | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def is_finished(self) -> bool:
        """Return whether no program or no time is left."""
        return self.first >= self.end or (self.until is not None and time.time() > self.until)

    @property
    def after_batch(self) -> Share:
        """Return the share without the next batch."""
        return replace(self, first=self.first + BATCH)


class Worker:
    """Runs the share of one process."""

    def __init__(self, share: Share, folder: Path = BUILD, send: Say = lambda _: None) -> None:
        self.share, self.folder, self.send = share, folder, send
        self.tally = share.tally
        self.attempts: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(1)
        for name in ("torch", "ortable"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def run(self) -> Tally:
        """Run all batches; send the remaining share after each."""
        while not self.share.is_finished:
            begin = time.process_time()
            self.batch(min(BATCH, self.share.end - self.share.first))
            self.tally.seconds += time.process_time() - begin
            self.share = self.share.after_batch
            self.send(self.share)
        return self.tally

    def batch(self, size: int) -> None:
        """Run ``size`` programs, each built from its own seed."""
        number, keys = self.share.first // BATCH, iter(self.next_keys(size))
        for index in range(size):
            numbers = random.Random(f"{self.share.seed}/{self.share.number}/{number}/{index}")
            if self.share.is_finished:
                return
            if number % GRAPH_INTERVAL == GRAPH_INTERVAL - 1:
                self.random_graph(numbers)
            else:
                self.random_program(keys, numbers)

    def next_keys(self, size: int) -> list[tuple[str, ...]]:
        """Return the keys of the next programs, two each, the least tested of the process first."""
        own_keys = catalog().keys[self.share.number :: self.share.of]
        unreached = [key for key in own_keys if key not in self.tally.reached]
        pool = sorted(unreached or own_keys, key=lambda key: self.attempts[key])
        selected = [pool[index % len(pool)] for index in range(2 * size)]
        self.attempts.update(selected)
        return list(zip(selected[::2], selected[1::2], strict=True))

    def random_program(self, remaining: Iterator[tuple[str, ...]], numbers: random.Random) -> None:
        """Build and check a program; entries still unreached are tested as unchanged samples."""
        keys = next(remaining, None) or (numbers.choice(catalog().keys),)
        attempts = self.attempts[keys[0]]
        is_plain = keys[0] not in self.tally.reached and attempts > 2 and attempts % 4 != 0
        mode = (
            MODES_IN_TURN[attempts % len(MODES_IN_TURN)]
            if is_plain
            else _select_mode(numbers.randrange(100))
        )
        self.send((None, "growing"))
        program = grow(numbers.randrange, catalog().keys, keys, mode == "nodes", is_plain)
        if program is not None:
            self.check_program(program, mode)

    # -- torch programs

    def check_program(self, program: Program, mode: str) -> None:
        """Check a program and count its outcome."""
        self.send((program, mode))
        outcome = self.outcome(program, mode)
        if outcome.detail == oracle.NO_GRADIENT:
            mode = "compile"
            outcome = self.outcome(program, mode)
        keys = {step.key for step in program.steps if not step.key.startswith("context")}
        self.tally.called |= keys
        self.tally.outcomes[f"{mode} {outcome.kind}"] += 1
        if outcome.kind in ("refused", "discarded"):
            self.tally.reasons[f"{outcome.kind}: {_without_numbers(outcome.detail)}"] += 1
        self.tally.rewrites.update(outcome.rewrites)
        if outcome.kind == "exact":
            self.tally.reached |= {_operator_key(target) for target in outcome.targets}
        if outcome.is_find:
            self.shrink_find(program, mode, outcome)

    def outcome(self, program: Program, mode: str) -> Outcome:
        try:
            with at_most(TIMEOUT_S, Timeout):
                return oracle.check(program, mode)
        except Timeout:
            return Outcome("timeout", f"more than {TIMEOUT_S} seconds")

    def shrink_find(self, program: Program, mode: str, outcome: Outcome) -> None:
        """Minimize a new find and write its script; count a known find."""
        keys = _entry_keys(program)
        for find in self.tally.finds:
            if find["like"] == outcome.like and set(find["keys"]) <= keys:
                find["times"] += 1
                return

        def fails(smaller: Program) -> bool:
            return self.outcome(smaller, mode).like == outcome.like

        seconds = 10.0 if outcome.kind == "timeout" else 60.0
        small = shrunk(program, fails, seconds if mode in ("export", "fx") else 40.0)
        small_outcome = self.outcome(small, mode)
        if not small_outcome.is_find:  # the find does not repeat
            small, small_outcome = program, outcome
        self.add_find(_entry_keys(small), mode, small_outcome, script(small, mode, small_outcome))

    def add_find(self, keys: set[str], mode: str, outcome: Outcome, text: str) -> None:
        for find in self.tally.finds:
            if find["like"] == outcome.like and set(find["keys"]) == keys:
                find["times"] += 1
                return
        name = "_".join(sorted(re.sub(r"\W+", "_", key.split("::")[-1]) for key in keys))[:70]
        path = self.folder / f"{outcome.kind}_{name}_{abs(hash(text)) % 10000}.py"
        path.write_text(text)
        self.tally.finds.append(_make_find(keys, mode, outcome, path))

    # -- graphs of rewrites

    def random_graph(self, numbers: random.Random) -> None:
        """Build and check a graph."""
        self.check_graph(self._make_graph(numbers))

    def _make_graph(self, numbers: random.Random) -> onnx_programs.GraphProgram:
        """Return a program of samples; samples of rules that have not fired come first."""
        all_samples = onnx_programs.rule_samples()
        rare = [
            index for index, row in enumerate(all_samples)
            if row.sample.unchanged is None and not self.tally.rewrites[row.rewrite.name]
        ]  # fmt: skip
        count = numbers.choice((1, 2, 2, 3, 4))
        pieces = []
        for index in range(count):
            number = (
                numbers.choice(rare) if rare and index == 0 else numbers.randrange(len(all_samples))
            )
            pieces.append((number, *(numbers.randrange(256) for _ in range(3))))
        opset = numbers.choice((oracle.FLOOR, 21, 23, onnx_programs.newest()))
        target = numbers.choice((None, "onnxruntime"))
        return onnx_programs.GraphProgram(tuple(pieces), opset, target, numbers.random() < 0.5)

    def check_graph(self, program: onnx_programs.GraphProgram) -> None:
        """Check a graph, for the target and opset of its program."""
        self.send((program, "onnx"))
        try:
            with at_most(TIMEOUT_S, Timeout):
                outcome, model = onnx_programs.check(program)
        except Timeout:
            outcome, model = Outcome("timeout", f"more than {TIMEOUT_S} seconds"), b""
        self.tally.outcomes[f"onnx {outcome.kind}"] += 1
        self.tally.rewrites.update(outcome.rewrites)
        if outcome.kind == "discarded":
            self.tally.reasons[f"discarded: {_without_numbers(outcome.detail)}"] += 1
        if outcome.is_find:
            pieces, small = program.pieces, program
            for index in range(len(pieces)):
                single = onnx_programs.GraphProgram(
                    (pieces[index],), program.opset, program.target, program.dynamic
                )
                single_outcome, text = onnx_programs.check(single)
                if single_outcome.kind == outcome.kind:
                    small, outcome, model = single, single_outcome, text
                    break
            names = {onnx_programs.rule_samples()[p[0]].rewrite.name for p in small.pieces}
            text = onnx_programs.script(model, outcome, program.target) if model else ""
            self.add_find({f"rewrite {name}" for name in names}, "onnx", outcome, text)


def _select_mode(number: int) -> str:
    for mode, share in SHARES.items():
        if number < share:
            return mode
        number -= share
    return "export"


def _entry_keys(program: Program) -> set[str]:
    keys = {step.key for step in program.steps}
    return {key for key in keys if not key.startswith("context")} or keys


def _operator_key(name: str) -> str:
    return name.removesuffix(".default")


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+|\([^)]*\)|\[[^\]]*\]", "#", text)[:100]


def _make_find(keys: set[str], mode: str, outcome: Outcome, path: Path) -> dict[str, Any]:
    return {
        "kind": outcome.kind, "mode": mode, "like": outcome.like, "keys": sorted(keys),
        "detail": outcome.detail[:300], "where": outcome.where, "script": str(path), "times": 1,
    }  # fmt: skip


# -- processes


def run(shares: Sequence[Share]) -> Tally:
    """Return the results of all processes; one that dies continues after its current batch."""
    total, running = Tally(), dict.fromkeys(range(len(shares)), (None, "growing"))
    remaining = {share.number: share for share in shares}
    pool = Pool(lambda share, send: Worker(share, send=send).run(), len(shares), 3 * TIMEOUT_S)
    for share, message in pool.run(shares):
        number = share.number
        if isinstance(message, Share):
            remaining[number] = message
        elif isinstance(message, Died):
            total.finds += crashed(*running[number], message.detail)
            remaining[number] = remaining[number].after_batch
            pool.again.append(remaining[number])
        elif message is not None:
            running[number] = message
        else:
            total.add(remaining[number].tally)
    return total


def crashed(program: Any, mode: str, detail: str) -> list[dict[str, Any]]:
    """Return the find for a process that died, unless it crashed while building or in eager.

    Such crashes are torch's: kernels read out of bounds for a NaN or an unchecked size.
    """
    if program is None or (mode != "onnx" and dies_in_eager(program, mode)):
        return []
    outcome, keys, text = Outcome("crash", detail, ""), {mode}, f"# {program}\n"
    if mode != "onnx":
        keys, text = _entry_keys(program), script(program, mode, outcome)
    path = BUILD / f"crash_{abs(hash(text)) % 100_000}.py"
    path.write_text(text)
    return [_make_find(keys, mode, outcome, path)]


def dies_in_eager(program: Program, mode: str) -> bool:
    """Return whether a process that only runs the program in eager dies."""

    def in_eager() -> None:
        with contextlib.suppress(Exception):
            oracle.reference(program, None, mode == "gradient")

    return bool(run_isolated([in_eager])[0].signal)


def too_little(tally: Tally) -> list[str]:
    """Return the modes with too few exact programs to rely on an absence of finds."""
    messages = []
    for mode in (*oracle.MODES, "onnx"):
        total = sum(count for key, count in tally.outcomes.items() if key.startswith(f"{mode} "))
        exact = tally.outcomes[f"{mode} exact"]
        share = MIN_EXACT_GRADIENTS if mode == "gradient" else MIN_EXACT_SHARE
        if total >= MIN_PROGRAMS and exact < share * total:
            messages.append(f"{mode}: {exact} of {total} programs are exact")
    return messages


def report(tally: Tally, seconds: float) -> str:
    """Return the summary that is printed."""
    keys = set(catalog().keys)
    rules = {row.rewrite.name for row in onnx_programs.rule_samples()}
    reached, fired = tally.reached & keys, {name for name in tally.rewrites if name in rules}
    lines = [f"{tally.programs} programs in {seconds:.0f} s, {tally.seconds:.0f} s of CPU"]
    lines += [f"  {kind}: {count}" for kind, count in sorted(tally.outcomes.items())]
    lines.append(
        f"operators reached: {len(reached)} of {len(keys)} ({len(reached) / len(keys):.1%})"
    )
    lines.append(f"rewrites reached: {len(fired)} of {len(rules)} ({len(fired) / len(rules):.1%})")
    kinds = Counter(find["kind"] for find in tally.finds)
    lines += [f"too little: {message}" for message in too_little(tally)]
    lines.append(f"finds: {len(tally.finds)} {dict(kinds)}")
    for find in sorted(tally.finds, key=lambda row: (row["kind"], row["keys"])):
        lines.append(f"  {find['kind']} x{find['times']} {find['mode']}: {', '.join(find['keys'])}")
        lines.append(f"    {find['where']}: {find['detail'][:160]}\n    {find['script']}")
    return "\n".join(lines)


def unreached(tally: Tally) -> str:
    """Return as JSON the operators and rewrites that no program reached, and the reasons."""
    rules = {row.rewrite.name for row in onnx_programs.rule_samples()}
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
