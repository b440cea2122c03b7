"""Tries every rewrite on small graphs and says how far what it makes is the same.

    python -m tests.rewrites.proofs            # all rules, written down in recorded.yaml
    python -m tests.rewrites.proofs div_one    # some of them
    python -m tests.rewrites.proofs --changed  # those that are new, or say something else

A rule is proven when each element of each result is one term before and after, or two terms that
agree for all values of a toy float."""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ortable.debug.harness import trial as harness
from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortablegen.rewrites.model import Rewrite
from tests.passes.rewrite.harness import FOLDER, all_rewrites

from .compare import Comparer, Level, Verdict
from .graphs import Graph, read, run
from .instances import Instance, instances
from .operators import Invalid, Unsupported
from .terms import NotConstant, Table

FILE = Path(__file__).with_name("recorded.yaml")
MEANING = ("pattern", "let", "when", "replace", "allow_external_uses", "opset", "target")

SIZES = (0, 1, 2, 3)
MOST_SIZES = 24
INSTANCES = 400


@dataclass
class Proof:
    """What came out for one rule."""

    name: str
    tried: int = 0
    fired: int = 0
    compared: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    worst: Verdict = field(default_factory=Verdict)
    where: str = ""
    unsupported: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    by: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, where: str) -> None:
        """The verdict of one graph at one choice of sizes."""
        self.compared += 1
        self.levels[verdict.level.name] += 1
        if verdict.level > self.worst.level or self.compared == 1:
            self.worst, self.where = verdict, where


def prove(rewrite: Rewrite, seed: int = 0, most: int = INSTANCES) -> Proof:
    """The rule on about ``most`` small graphs."""
    proof = Proof(rewrite.name)
    known: dict[object, Level] = {}
    for instance in instances(rewrite, seed, most):
        proof.tried += 1
        _try(rewrite, instance, proof, known, seed)
    return proof


def _try(
    rewrite: Rewrite, instance: Instance, proof: Proof, known: dict[object, Level], seed: int
) -> None:
    where = list(harness.list_targets(rewrite, instance.case))
    if not where:
        return
    opset, target = where[proof.tried % len(where)]
    try:
        built = harness.build_case(rewrite, instance.case, opset, target)
        before = read(built.builder)
    except Exception as error:  # a graph that cannot be built is none
        proof.problems[f"{type(error).__name__}: {str(error)[:60]}"] += 1
        return
    try:
        record = run_engine(
            built.builder, harness.select_rewrite_rules(rewrite.name, target, opset)
        )
    except Exception as error:  # no graph that is one may stop a rule
        if not _runs(before, built.symbols, seed):
            return
        told = f"{type(error).__name__}: {str(error)[:200]}"
        proof.add(Verdict(Level.WRONG, told), f"{instance.how}: {_shown(rewrite, instance)}")
        return
    if not record.fired:
        return
    built.builder.remove_unused()
    after = read(built.builder)
    proof.fired += 1
    proof.by[instance.how] += 1
    ranges = {
        name: (float(sample.low), float(sample.high))
        for name, sample in built.inputs.items()
        if sample.low is not None and sample.high is not None
    }
    for sizes in _sizes(built.symbols, seed):
        verdict = _compare(before, after, sizes, ranges, known, proof)
        if verdict is not None:
            text = f"{instance.how}: {_shown(rewrite, instance)} at {sizes}, opset {opset}"
            proof.add(verdict, text)


def _runs(graph: Graph, symbols: dict[str, int], seed: int) -> bool:
    """Whether the graph computes something at any of the sizes."""
    for sizes in _sizes(symbols, seed):
        try:
            run(Table(), graph, sizes)
            return True
        except Invalid:
            continue
        except (NotConstant, Unsupported):
            return True
    return False


def _sizes(symbols: dict[str, int], seed: int) -> list[dict[str, int]]:
    names = sorted(symbols)
    found = [
        dict(zip(names, each, strict=True)) for each in itertools.product(SIZES, repeat=len(names))
    ]
    if len(found) > MOST_SIZES:
        found = random.Random(seed).sample(found, MOST_SIZES)
    return [*found, dict(symbols)] if names else found


def _shown(rewrite: Rewrite, instance: Instance) -> str:
    code = instance.case.graph
    body = "" if code is None else "; ".join(ast.unparse(each) for each in code.body)
    return f"{dict(instance.case.values)} {body}"


def _compare(
    before: Graph, after: Graph, sizes: dict[str, int],
    ranges: dict[str, tuple[float, float]], known: dict[object, Level], proof: Proof,
) -> Verdict | None:  # fmt: skip
    """The worst of the outputs; constants of numbers are any numbers first, what they are then."""
    floats = [
        name
        for name, (array, dtype) in before.constants.items()
        if array.dtype.kind == "f" and name in after.constants
    ]
    best: Verdict | None = None
    for free in [floats, []] if floats else [[]]:
        table = Table()
        try:
            old = run(table, before, sizes, free)
        except (Invalid, NotConstant, Unsupported) as error:
            _note(error, proof)
            continue
        try:
            new = run(table, after, sizes, free)
        except Unsupported as error:
            _note(error, proof)
            continue
        except (Invalid, NotConstant) as error:
            found = Verdict(Level.WRONG, f"{type(error).__name__}: {error}")
        else:
            found = Comparer(table, ranges, known).tensors(old, new)
        if best is None or found.level < best.level:
            best = found
        if best.level <= Level.ROUNDING:
            return best
    return best


def _note(error: Exception, proof: Proof) -> None:
    if not isinstance(error, Invalid):
        proof.unsupported[str(error)[:80]] += 1


def entry(proof: Proof) -> dict[str, Any]:
    """What is written down of a proof."""
    found: dict[str, Any] = {
        "verdict": proof.worst.level.name if proof.compared else "NONE",
        "graphs": proof.fired,
        "compared": proof.compared,
        "rule": digests()[proof.name],
    }
    if proof.worst.level >= Level.ZERO and proof.worst.level != Level.ROUNDING:
        found["example"] = proof.worst.example
    if proof.unsupported and not proof.compared:
        found["why"] = proof.unsupported.most_common(1)[0][0]
    return found


@cache
def digests() -> dict[str, int]:
    """A number for each rule that another pattern, condition or replacement changes."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for each in yaml.safe_load(path.read_text()):
            said = {key: value for key, value in each.items() if key in MEANING}
            found[each["rewrite"]] = zlib.crc32(repr(sorted(said.items())).encode())
    return found


def recorded() -> dict[str, dict[str, Any]]:
    """What the last runs found, by rule."""
    return yaml.safe_load(FILE.read_text()) if FILE.exists() else {}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="rules, or files of rules")
    parser.add_argument("--most", type=int, default=INSTANCES, help="graphs for a rule, about")
    parser.add_argument("--changed", action="store_true", help="rules that are not written down")
    given = parser.parse_args()
    for rewrite in all_rewrites():
        name, file = rewrite.name, Path(rewrite.file).stem
        if given.names and name not in given.names and file not in given.names:
            continue
        known = recorded().get(name, {})
        if given.changed and known.get("rule") == digests()[name] and known["verdict"] != "WRONG":
            continue
        start = time.process_time()
        proof = prove(rewrite, most=given.most)
        kept = {name: each for name, each in recorded().items() if name in digests()}
        kept[name] = entry(proof)
        seconds = time.process_time() - start
        told = f"{dict(proof.levels)} of {proof.fired} graphs, {proof.tried} tried, {seconds:.1f} s"
        print(f"{name}: {kept[name]['verdict']} {told} {dict(proof.unsupported)}", flush=True)
        if proof.worst.level >= Level.ZERO and proof.worst.level != Level.ROUNDING:
            print(f"    {proof.worst.example}\n    {proof.where}", flush=True)
        written = FILE.with_suffix(f".{os.getpid()}")
        written.write_text(yaml.safe_dump({key: kept[key] for key in sorted(kept)}, width=100))
        written.replace(FILE)  # another run may read it


if __name__ == "__main__":
    main()
