"""Run calls that eager refuses through the backend: ``python -m tests.data_checks``.

The calls are the samples of the rows of `checks:` in specs/aten, and those of PyTorch's operator
database that eager refuses. The exit status is 1 when a compiled call passes or raises another
error without a reason in tests/data_checks/expected.yaml. ``--bounded`` runs a part of the
database, which the commit selects; ``--record`` writes results.yaml.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings

from ortable.errors import FallbackWarning

from .judge import Verdict, judge_calls, judge_rows, unexpected, write_results


def main() -> int:
    """Run the calls, and print the differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.data_checks", description=__doc__)
    parser.add_argument("--bounded", action="store_true", help="a tenth of the operators")
    parser.add_argument("--record", action="store_true", help="write the counts of a complete run")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # torch runs what is refused for sizes that are known, and raises eager's error
    warnings.simplefilter("ignore", FallbackWarning)
    verdicts: list[Verdict] = [*judge_rows(), *judge_calls(options.bounded)]
    findings = unexpected(verdicts, is_complete=not options.bounded)
    for line in findings:
        print(line)
    if options.record and not options.bounded and not findings:
        write_results(verdicts)
    print(f"{len(verdicts)} calls that eager refuses, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
