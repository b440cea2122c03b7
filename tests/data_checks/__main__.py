"""Run what eager refuses through the backend: ``python -m tests.data_checks``.

The calls are the samples of the rows of `checks:` in specs/aten, and those of PyTorch's operator
database that eager refuses. Exit status 1 when a compiled call passes or raises another error, and
tests/data_checks/expected.yaml does not give the reason. ``--bounded`` takes a part of the
database, another one for each change of the code; ``--record`` writes results.yaml.
"""

from __future__ import annotations

import argparse
import logging
import sys

from .judge import Verdict, judge_calls, judge_rows, unexpected, write_results


def main() -> int:
    """Runs the sweep, and prints what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.data_checks", description=__doc__)
    parser.add_argument("--bounded", action="store_true", help="a tenth of the operators")
    parser.add_argument("--record", action="store_true", help="write the counts of a whole run")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    verdicts: list[Verdict] = [*judge_rows(), *judge_calls(options.bounded)]
    wrong = unexpected(verdicts, whole=not options.bounded)
    for line in wrong:
        print(line)
    if options.record and not options.bounded and not wrong:
        write_results(verdicts)
    print(f"{len(verdicts)} calls that eager refuses, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
