"""`python -m tests.fuzz --count 1000 --seed 1 --jobs 2`: runs programs, prints what was found and
reached. A find is a script in build/fuzz. The exit status is 1 where there is a find, or where too
few programs were exact to say that there is none."""

from __future__ import annotations

import argparse
import contextlib
import pickle
import subprocess
import sys
import time
from pathlib import Path

from tests.rotation import turn

from . import again, runner
from .catalog import BUILD, ROOT, catalog
from .oracle import Outcome, reference
from .script import kept, script


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
    if options.worker is not None:
        runner.work(
            options.worker, options.of, options.seed, options.first, options.count, options.until
        )
        return 0
    if options.eager is not None:
        _in_eager(options.eager)
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
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--eager", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--of", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    return parser


def _run(options: argparse.Namespace, seed: int, count: int) -> runner.Tally:
    """The processes of one seed; one that dies is started again behind the program it died of."""
    part, _, parts = options.part.partition("/")
    share = -(-count // (options.jobs * int(parts or 1)))
    first = (int(part) - 1) * share
    until = time.time() + 60 * options.minutes if options.minutes else None
    crashes: list[dict[str, object]] = []
    running = {
        number: _start(number, options.jobs, seed, first, share, until)
        for number in range(options.jobs)
    }
    restarts = 0
    while running:
        time.sleep(0.2)
        for number, process in list(running.items()):
            status = process.poll()
            if status is None:
                if _hangs(seed, number):
                    process.kill()
                continue
            del running[number]
            if status != 0 and restarts < 200:
                restarts += 1
                crashes += _crashed(seed, number, status)
                left = _skipped(seed, number, first, share)
                if left:
                    running[number] = _start(number, options.jobs, seed, first, share, until)
    tally = runner.merged(seed, options.jobs)
    tally.finds += crashes
    return tally


def _start(
    number: int, jobs: int, seed: int, first: int, count: int, until: float | None
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "tests.fuzz", "--worker", str(number), "--of", str(jobs),
        "--seed", str(seed), "--first", str(first), "--count", str(count),
    ]  # fmt: skip
    if until is not None:
        command += ["--until", str(until)]
    log = (BUILD / f"log-{seed}-{number}.txt").open("ab")
    return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def _log(seed: int, number: int) -> Path:
    return BUILD / f"current-{seed}-{number}.pickle"


def _hangs(seed: int, number: int) -> bool:
    path = _log(seed, number)
    try:
        return time.time() - path.stat().st_mtime > 3 * runner.SLOWEST
    except FileNotFoundError:
        return False


def _crashed(seed: int, number: int, status: int) -> list[dict[str, object]]:
    """The find of a process that died: the program that it had begun. A program that was still
    growing, or that dies in eager alone, is torch's own crash: such kernels read what a NaN or a
    size that they do not check points to."""
    path = _log(seed, number)
    if not path.exists():
        raise SystemExit(f"a process ended with {status}: {BUILD / f'log-{seed}-{number}.txt'}")
    program, mode = pickle.loads(path.read_bytes())
    if program is None or (mode != "onnx" and _dies_in_eager(path)):
        path.unlink()
        return []
    path.unlink()
    outcome = Outcome("crash", f"the process ended with {status}", "")
    name = BUILD / f"crash_{seed}_{number}_{int(time.time())}.py"
    keys = [mode]
    if mode != "onnx":
        name.write_text(script(program, mode, outcome))
        keys = sorted(step.key for step in program.steps if not step.key.startswith("context"))
    else:
        name.write_text(f"# {program}\n")
    return [
        {
            "kind": "crash", "mode": mode, "like": "crash", "keys": keys,
            "detail": outcome.detail, "where": "", "script": str(name), "times": 1,
        }
    ]  # fmt: skip


def _dies_in_eager(path: Path) -> bool:
    """Whether the program of the file ends a process of its own that only runs it in eager."""
    command = [sys.executable, "-m", "tests.fuzz", "--eager", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode < 0


def _in_eager(path: Path) -> None:
    catalog()
    program, mode = pickle.loads(path.read_bytes())
    with contextlib.suppress(Exception):
        reference(program, None, mode == "gradient")


def _skipped(seed: int, number: int, first: int, count: int) -> bool:
    """Moves a process that died to its next batch; False where there is none."""
    path = BUILD / f"tally-{seed}-{number}.pickle"
    tally, done = pickle.loads(path.read_bytes()) if path.exists() else (runner.Tally(), first)
    done += runner.BATCH
    path.write_bytes(pickle.dumps((tally, done)))
    return bool(done < first + count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
