"""``python -m tests.suites.node_tests``: the models of the onnx wheel through our reader, our rules
of inference, every rewrite and our writer. What comes out must compute what went in, at the same
types and shapes; exit status 1 when it does not, or when expected/node_tests.yaml is out of date.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from .command import Suite, main
from .node_check import check_case
from .onnx_cases import cases
from .workers import Record


def counts(records: Sequence[Record]) -> Mapping[str, int]:
    """Who ran the models, how many outputs the rules know all sizes of, which rules fired."""
    runners = Counter(str(record.facts.get("runner")) for record in records)
    rules = {rule for record in records for rule in record.facts.get("rules", ())}
    return {
        "run by ONNX Runtime": runners["onnxruntime"],
        "run by onnx.reference": runners["reference"],
        "with all sizes inferred": sum(r.facts.get("inferred") == "sizes" for r in records),
        "rules of rewriting that fired": len(rules),
    }


SUITE = Suite(
    name="node_tests",
    about=__doc__ or "",
    collect=lambda: list(cases()),
    check=check_case,
    counts=counts,
    parts=5,
)

if __name__ == "__main__":
    sys.exit(main(SUITE))
