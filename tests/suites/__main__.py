"""Run a suite: ``python -m tests.suites NAME``.

The exit status is 1 when a case is not exact and not listed in expected/NAME.yaml, or when that
file is out of date.

- node_tests: the models of the onnx wheel with our reader, our rules of inference, every rewrite
  and our writer; the results must be those of the original model, with the same types and shapes.
- module_tests: torch's modules, optimizers, custom and higher-order operators with
  torch.compile(backend="ortable") and export.
- decompositions: every decomposition of the backend's graphs, torch's Python kernels included,
  against the operator itself, over torch's operator tests and the samples of specs/aten; an
  operator that differs stays whole (the trait `never_decompose`) or is listed.
- extremes: every operator of specs/aten with integers at their limits: the smallest by -1, shifts
  by the width, casts of NaN, indices of 2**31.
- inductor: 1,645 programs of ours by topic (tests/suites/inductor), about what torch's tests of
  compilers cover, compiled with constant and with dynamic sizes, trained and exported.
- torch_mlir: the end-to-end programs of torch-mlir, from a checkout of it, compiled and exported.
- torch_mlir_peer: the same programs with torch.onnx.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from .command import Suite, main
from .workers import Record

Counts = Mapping[str, int]


def module_tests() -> Suite:
    from .torch_cases import names
    from .torch_check import check_case

    def counts(records: Sequence[Record]) -> Counts:
        captured = Counter(r.case.split("/")[0] for r in records if r.outcome != "uncaptured")
        exact = Counter(r.case.split("/")[0] for r in records if r.outcome == "exact")
        totals = {f"{kind} captured": count for kind, count in sorted(captured.items())}
        return totals | {f"{kind} exact": count for kind, count in sorted(exact.items())}

    return Suite("module_tests", names, check_case, counts, parts=12, limit_s=180.0)


def node_tests() -> Suite:
    from .node_check import check_case
    from .onnx_cases import cases

    def counts(records: Sequence[Record]) -> Counts:
        runners = Counter(str(record.facts.get("runner")) for record in records)
        rules = {rule for record in records for rule in record.facts.get("rules", ())}
        return {
            "run by ONNX Runtime": runners["onnxruntime"],
            "run by onnx.reference": runners["reference"],
            "with all sizes inferred": sum(r.facts.get("inferred") == "sizes" for r in records),
            "rules of rewriting that fired": len(rules),
        }

    return Suite("node_tests", lambda: list(cases()), check_case, counts, parts=5)


def decompositions() -> Suite:
    from .decomposition_check import cases, check_case

    def counts(records: Sequence[Record]) -> Counts:
        used = {name for record in records for name in record.facts.get("decompositions", ())}
        calls = sum(record.facts.get("compared", 0) for record in records)
        return {"calls": calls, "decompositions": len(used)}

    return Suite("decompositions", cases, check_case, counts, parts=12)


def extremes() -> Suite:
    from .extreme_check import cases, check_case

    def counts(records: Sequence[Record]) -> Counts:
        compared = [record for record in records if record.facts.get("compared")]
        operators = {record.case.rpartition("/")[0] for record in compared}
        calls = sum(record.facts["compared"] for record in compared)
        return {"calls": calls, "operators": len(operators)}

    return Suite("extremes", cases, check_case, counts, parts=40, limit_s=240.0)


def inductor() -> Suite:
    from .inductor_check import cases, check_case

    return Suite("inductor", cases, check_case, _count_modes, parts=16)


def torch_mlir() -> Suite:
    from .torch_mlir_check import cases, check_case

    return Suite("torch_mlir", cases, check_case, _count_modes, parts=30, limit_s=240.0)


def torch_mlir_peer() -> Suite:
    from .torch_mlir_check import check_case, peer_cases

    return Suite("torch_mlir_peer", peer_cases, check_case, _count_modes, parts=30, limit_s=240.0)


def _count_modes(records: Sequence[Record]) -> Counts:
    exact = Counter(r.case.rpartition("/")[2] for r in records if r.outcome == "exact")
    return {f"{mode} exact": count for mode, count in sorted(exact.items())}


SUITES = {
    suite.__name__: suite
    for suite in (
        node_tests,
        module_tests,
        decompositions,
        extremes,
        inductor,
        torch_mlir,
        torch_mlir_peer,
    )
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in SUITES:
        sys.exit(f"python -m tests.suites {'|'.join(SUITES)} [...]")
    sys.exit(main(SUITES[sys.argv[1]](), sys.argv[2:]))
