"""Try every rewrite on small graphs and record how far it preserves the results.

    python -m tests.rewrites.proofs            # all rules; writes recorded.yaml
    python -m tests.rewrites.proofs div_one    # some rules or files of rules
    python -m tests.rewrites.proofs --changed  # new and changed rules

A rule is proven if each result element is the same term before and after, or two terms that
agree for all values of a toy float.
"""

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

from ortable.passes.rewrite.engine import rewrite_graph as run_engine
from ortable.testing import trial as harness
from ortablegen.rewrites.model import Rewrite
from tests.passes.rewrite.harness import FOLDER, all_rewrites

from .compare import Comparer, Level, Verdict
from .graphs import Graph, compute_terms, read_graph
from .instances import Instance, make_instances
from .operators import Invalid, Unsupported
from .terms import NotConstant, Table

FILE = Path(__file__).with_name("recorded.yaml")
DIGESTED_KEYS = ("pattern", "let", "when", "replace", "allow_external_uses", "opset", "target")

SIZES = (0, 1, 2, 3)
MAX_SIZES = 24
INSTANCES = 400


@dataclass
class Proof:
    """The outcome for one rule."""

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
        """Add the verdict of one graph at one choice of sizes."""
        self.compared += 1
        self.levels[verdict.level.name] += 1
        if verdict.level > self.worst.level or self.compared == 1:
            self.worst, self.where = verdict, where


def prove(rewrite: Rewrite, seed: int = 0, most: int = INSTANCES) -> Proof:
    """Try the rule on about `most` small graphs."""
    proof = Proof(rewrite.name)
    levels: dict[object, Level] = {}
    for instance in make_instances(rewrite, seed, most):
        proof.tried += 1
        _try(rewrite, instance, proof, levels, seed)
    return proof


def _try(
    rewrite: Rewrite, instance: Instance, proof: Proof, levels: dict[object, Level], seed: int
) -> None:
    targets = list(harness.list_targets(rewrite, instance.sample))
    if not targets:
        return
    opset, target = targets[proof.tried % len(targets)]
    try:
        built = harness.build_sample(rewrite, instance.sample, opset, target)
        before = read_graph(built.builder)
    except Exception as error:  # skip graphs that cannot be built
        proof.problems[f"{type(error).__name__}: {str(error)[:60]}"] += 1
        return
    try:
        record = run_engine(
            built.builder, harness.select_rewrite_rules(rewrite.name, target, opset)
        )
    except Exception as error:  # a rule must not raise on a valid graph
        if not _is_valid(before, built.symbols, seed):
            return
        message = f"{type(error).__name__}: {str(error)[:200]}"
        proof.add(Verdict(Level.WRONG, message), f"{instance.kind}: {_describe(rewrite, instance)}")
        return
    if not record.fired:
        return
    built.builder.remove_unused()
    after = read_graph(built.builder)
    proof.fired += 1
    proof.by[instance.kind] += 1
    ranges = {
        name: (float(sample.low), float(sample.high))
        for name, sample in built.inputs.items()
        if sample.low is not None and sample.high is not None
    }
    for sizes in _sizes(built.symbols, seed):
        verdict = _compare(before, after, sizes, ranges, levels, proof)
        if verdict is not None:
            text = f"{instance.kind}: {_describe(rewrite, instance)} at {sizes}, opset {opset}"
            proof.add(verdict, text)


def _is_valid(graph: Graph, symbols: dict[str, int], seed: int) -> bool:
    """Return whether the graph is valid at any of the sizes."""
    for sizes in _sizes(symbols, seed):
        try:
            compute_terms(Table(), graph, sizes)
            return True
        except Invalid:
            continue
        except (NotConstant, Unsupported):
            return True
    return False


def _sizes(symbols: dict[str, int], seed: int) -> list[dict[str, int]]:
    names = sorted(symbols)
    assignments = [
        dict(zip(names, s, strict=True)) for s in itertools.product(SIZES, repeat=len(names))
    ]
    if len(assignments) > MAX_SIZES:
        assignments = random.Random(seed).sample(assignments, MAX_SIZES)
    return [*assignments, dict(symbols)] if names else assignments


def _describe(rewrite: Rewrite, instance: Instance) -> str:
    code = instance.sample.graph
    body = "" if code is None else "; ".join(ast.unparse(statement) for statement in code.body)
    return f"{dict(instance.sample.values)} {body}"


def _compare(
    before: Graph, after: Graph, sizes: dict[str, int],
    ranges: dict[str, tuple[float, float]], levels: dict[object, Level], proof: Proof,
) -> Verdict | None:  # fmt: skip
    """Return the worst verdict of the outputs.

    Float constants are arbitrary in the first attempt and have their values in the second.
    """
    floats = [
        name
        for name, (array, dtype) in before.constants.items()
        if array.dtype.kind == "f" and name in after.constants
    ]
    best: Verdict | None = None
    for free_constants in [floats, []] if floats else [[]]:
        table = Table()
        try:
            old = compute_terms(table, before, sizes, free_constants)
        except (Invalid, NotConstant, Unsupported) as error:
            _count_unsupported(error, proof)
            continue
        try:
            new = compute_terms(table, after, sizes, free_constants)
        except Unsupported as error:
            _count_unsupported(error, proof)
            continue
        except (Invalid, NotConstant) as error:
            verdict = Verdict(Level.WRONG, f"{type(error).__name__}: {error}")
        else:
            verdict = Comparer(table, ranges, levels).compare_tensors(old, new)
        if best is None or verdict.level < best.level:
            best = verdict
        if best.level <= Level.ROUNDING:
            return best
    return best


def _count_unsupported(error: Exception, proof: Proof) -> None:
    if not isinstance(error, Invalid):
        proof.unsupported[str(error)[:80]] += 1


def make_entry(proof: Proof) -> dict[str, Any]:
    record: dict[str, Any] = {
        "verdict": proof.worst.level.name if proof.compared else "NONE",
        "graphs": proof.fired,
        "compared": proof.compared,
        "rule": digests()[proof.name],
    }
    if proof.worst.level >= Level.ZERO and proof.worst.level != Level.ROUNDING:
        record["example"] = proof.worst.example
    if proof.unsupported and not proof.compared:
        record["why"] = proof.unsupported.most_common(1)[0][0]
    return record


@cache
def digests() -> dict[str, int]:
    """Return a checksum of the pattern, condition and replacement of each rule."""
    checksums = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for rewrite in yaml.safe_load(path.read_text()):
            digested = {key: value for key, value in rewrite.items() if key in DIGESTED_KEYS}
            checksums[rewrite["rewrite"]] = zlib.crc32(repr(sorted(digested.items())).encode())
    return checksums


def load_proofs() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(FILE.read_text()) if FILE.exists() else {}


def main() -> None:
    """Parse the command line, prove the rules, and update the records."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="rules, or files of rules")
    parser.add_argument(
        "--most", type=int, default=INSTANCES, help="about how many graphs per rule"
    )
    parser.add_argument("--changed", action="store_true", help="only new and changed rules")
    args = parser.parse_args()
    for rewrite in all_rewrites():
        name, file = rewrite.name, Path(rewrite.file).stem
        if args.names and name not in args.names and file not in args.names:
            continue
        record = load_proofs().get(name, {})
        if args.changed and record.get("rule") == digests()[name] and record["verdict"] != "WRONG":
            continue
        start = time.process_time()
        proof = prove(rewrite, most=args.most)
        records = {name: entry for name, entry in load_proofs().items() if name in digests()}
        records[name] = make_entry(proof)
        seconds = time.process_time() - start
        text = f"{dict(proof.levels)} of {proof.fired} graphs, {proof.tried} tried, {seconds:.1f} s"
        print(f"{name}: {records[name]['verdict']} {text} {dict(proof.unsupported)}", flush=True)
        if proof.worst.level >= Level.ZERO and proof.worst.level != Level.ROUNDING:
            print(f"    {proof.worst.example}\n    {proof.where}", flush=True)
        temp = FILE.with_suffix(f".{os.getpid()}")
        temp.write_text(yaml.safe_dump({key: records[key] for key in sorted(records)}, width=100))
        temp.replace(FILE)  # replace atomically: another run may read the file


if __name__ == "__main__":
    main()
