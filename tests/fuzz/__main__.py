"""Run the fuzzer: `python -m tests.fuzz --count 1000 --seed 1 --jobs 2`.

A find is a script in build/fuzz. The exit status is 1 where there is a find, or where too few
programs were exact.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path

from tests.rotation import rotation_seed

from . import again, runner
from .catalog import BUILD, ROOT, catalog
from .script import kept


def main(arguments: list[str]) -> int:
    """Run a command line."""
    options = _parser().parse_args(arguments)
    if options.again:
        still_finds, count = again.report(options.again)
        print("\n".join([*still_finds, f"{len(still_finds)} of {count} are still finds"]))
        return 1 if still_finds else 0
    if options.keep is not None:
        print(kept(options.keep, ROOT / "tests" / "regressions"))
        return 0
    seeds = [options.seed]
    if options.rotating:
        seeds = [options.seed, rotation_seed()]
    print(f"seeds {seeds}, {options.count} programs", flush=True)
    started = time.time()
    catalog()
    tally = runner.Tally()
    for number in seeds:
        tally.add(_run(options, number, options.count // len(seeds)))
    print(runner.report(tally, time.time() - started))
    if options.total is not None:
        total = runner.Tally()
        if options.total.exists():
            total = pickle.loads(options.total.read_bytes())
        total.add(tally)
        options.total.write_bytes(pickle.dumps(total))
        tally = total
        print("all runs of this total:")
        print(runner.report(tally, 0))
    (BUILD / "unreached.json").write_text(runner.unreached(tally))
    print(f"not reached, with reasons: {BUILD / 'unreached.json'}")
    return 1 if tally.finds or runner.too_little(tally) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rotating", action="store_true", help="run half of the programs with a seed of the commit"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="2/5: the second fifth of the programs")
    parser.add_argument(
        "--total", type=Path, metavar="FILE", help="add the run to those of FILE, and report all"
    )
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument(
        "--keep", type=Path, metavar="SCRIPT", help="save the script of a find as a test"
    )
    parser.add_argument(
        "--again", type=Path, nargs="+", metavar="SCRIPT", help="check the scripts of finds again"
    )
    return parser


def _run(options: argparse.Namespace, seed: int, count: int) -> runner.Tally:
    """Run the processes of one seed."""
    part, _, parts = options.part.partition("/")
    size = -(-count // (options.jobs * int(parts or 1)))
    first = (int(part) - 1) * size
    deadline = time.time() + 60 * options.minutes if options.minutes else None
    return runner.run(
        [
            runner.Share(number, options.jobs, seed, first, first + size, deadline)
            for number in range(options.jobs)
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
