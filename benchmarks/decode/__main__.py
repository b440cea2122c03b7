"""Generation by language models: a prompt and the tokens after it.

The models are like Llama, with random weights. Compiled models with a static cache are measured
next to eager, and files of each kind of weights next to those of other engines. Every job has its
own process, in which the candidates take turns. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import in_process, machine, origin
from benchmarks.packages import install_packages
from benchmarks.report import publish, save

from .files import FILES, FOLDER, PACKAGES
from .measure import CANDIDATES, measure, measure_files, measure_peak
from .report import markdown
from .sizes import SIZES, Lengths


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--jobs", default="124M:1,124M:8,1B:1", help="sizes and batches, such as 124M:1,1B:8"
    )
    parser.add_argument(
        "--files", default="", help=f"measure files of these kinds instead: {', '.join(FILES)}"
    )
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--answer", type=int, default=128, help="generated tokens")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds")
    parser.add_argument("--candidates", default=",".join(CANDIDATES), help="candidates to measure")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    parser.add_argument("--docs", type=Path, help="page to write the tables to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rounds, options.prompt, options.answer, options.threads) < 1:
        parser.error("numbers must be at least 1")
    if not {job.partition(":")[0] for job in options.jobs.split(",")} <= set(SIZES):
        parser.error(f"sizes are {', '.join(SIZES)}")
    if not set(filter(None, options.files.split(","))) <= set(FILES):
        parser.error(f"kinds of files are {', '.join(FILES)}")
    return options


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each job in a process of its own, and return the records of the run."""
    run: dict[str, Any] = {**origin(), "machine": machine(options.threads)}
    flags = ["--rounds", str(options.rounds), "--candidates", options.candidates]
    flags += ["--prompt", str(options.prompt), "--answer", str(options.answer)]
    flags += ["--threads", str(options.threads)]
    jobs = options.jobs.split(",")
    if options.files:
        install_packages(FOLDER, PACKAGES)
        jobs = [f"{job}:{kind}" for job in jobs for kind in options.files.split(",")]
    records = []
    for job in jobs:
        record = {"job": job, **in_process("benchmarks.decode", job, flags, options.threads)}
        for name in record.get("bytes", ()):
            peak = in_process("benchmarks.decode", f"{job}:{name}", flags, options.threads)
            record.setdefault("peak_mb", {})[name] = peak.get("peak_mb")
        records.append(record)
        print(json.dumps(record), flush=True)
    return {
        **run,
        "models": [record for record in records if isinstance(record["failed"], dict)],
        "failed": [record for record in records if not isinstance(record["failed"], dict)],
    }


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.one:
        size, batch, kind, name = [*options.one.split(":"), "", "", ""][:4]
        lengths = Lengths(int(batch or 1), options.prompt, options.prompt + options.answer)
        if name:
            record = {"peak_mb": measure_peak(kind, size, lengths, name)}
        elif kind:
            record = measure_files(kind, size, lengths, options.rounds)
        else:
            record = measure(size, lengths, options.rounds, options.candidates.split(","))
        save(options.json, record)
        return
    stored = options.from_json
    run = json.loads(stored.read_text()) if stored else run_all(options)
    package = "benchmarks.decode.files" if "kind" in run["models"][0] else "benchmarks.decode"
    publish(run, markdown(run), package, options.json, options.docs)


if __name__ == "__main__":
    main()
