"""`python -m tests.fuzz --count 1000 --seed 1 --jobs 2`: runs programs, prints what was found and
reached. A find is a script in build/fuzz. The exit status is 1 where there is a find, or where too
few programs were exact to say that there is none."""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path

from tests.rotation import turn

from . import again, runner
from .catalog import BUILD, ROOT, catalog
from .script import kept


def main(arguments: list[str]) -> int:
    """Runs a command line."""
    options = _parser().parse_args(arguments)
    if options.again:
        left, count = again.report(options.again)
        print("\n".join([*left, f"{len(left)} of {count} are finds still"]))
        return 1 if left else 0
    if options.keep is not None:
        print(kept(options.keep, ROOT / "tests" / "regressions"))
        return 0
    seeds = [options.seed]
    if options.rotating:
        seeds = [options.seed, turn()]
    print(f"seeds {seeds}, {options.count} programs", flush=True)
    begin = time.time()
    catalog()
    tally = runner.Tally()
    for number in seeds:
        tally.add(_run(options, number, options.count // len(seeds)))
    print(runner.report(tally, time.time() - begin))
    if options.total is not None:
        all_of_them = runner.Tally()
        if options.total.exists():
            all_of_them = pickle.loads(options.total.read_bytes())
        all_of_them.add(tally)
        options.total.write_bytes(pickle.dumps(all_of_them))
        tally = all_of_them
        print("all runs of this total:")
        print(runner.report(tally, 0))
    (BUILD / "unreached.json").write_text(runner.unreached(tally))
    print(f"not reached, and why: {BUILD / 'unreached.json'}")
    return 1 if tally.finds or runner.too_little(tally) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rotating", action="store_true", help="half of the programs by a seed of the commit"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="2/5: the second fifth of the programs")
    parser.add_argument(
        "--total", type=Path, metavar="FILE", help="adds the run to those of FILE, and reports all"
    )
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument(
        "--keep", type=Path, metavar="SCRIPT", help="make a regression test of the script of a find"
    )
    parser.add_argument(
        "--again", type=Path, nargs="+", metavar="SCRIPT", help="judge the scripts of finds again"
    )
    return parser


def _run(options: argparse.Namespace, seed: int, count: int) -> runner.Tally:
    """The processes of one seed."""
    part, _, parts = options.part.partition("/")
    size = -(-count // (options.jobs * int(parts or 1)))
    first = (int(part) - 1) * size
    until = time.time() + 60 * options.minutes if options.minutes else None
    return runner.run(
        [
            runner.Share(number, options.jobs, seed, first, first + size, until)
            for number in range(options.jobs)
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
