"""Generation by compiled language models next to eager: a prompt and the tokens after it.

The models are like Llama, with random weights and a static cache. Every size and batch has its own
process, in which the candidates take turns. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import in_process, machine, origin
from benchmarks.report import publish, save

from .measure import CANDIDATES, measure
from .report import markdown
from .sizes import SIZES, Lengths


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decode", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--jobs", default="124M:1,124M:8,1B:1", help="sizes and batches, such as 124M:1,1B:8"
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
    return options


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each job in a process of its own, and return the records of the run."""
    run: dict[str, Any] = {**origin(), "machine": machine(options.threads)}
    flags = ["--rounds", str(options.rounds), "--candidates", options.candidates]
    flags += ["--prompt", str(options.prompt), "--answer", str(options.answer)]
    records = []
    for job in options.jobs.split(","):
        args = [*flags, "--threads", str(options.threads)]
        records.append({"job": job, **in_process("benchmarks.decode", job, args, options.threads)})
        print(json.dumps(records[-1]), flush=True)
    return {
        **run,
        "models": [record for record in records if isinstance(record["failed"], dict)],
        "failed": [record for record in records if not isinstance(record["failed"], dict)],
    }


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.one:
        size, _, batch = options.one.partition(":")
        lengths = Lengths(int(batch or 1), options.prompt, options.prompt + options.answer)
        record = measure(size, lengths, options.rounds, options.candidates.split(","))
        save(options.json, record)
        return
    stored = options.from_json
    run = json.loads(stored.read_text()) if stored else run_all(options)
    publish(run, markdown(run), "benchmarks.decode", options.json, options.docs)


if __name__ == "__main__":
    main()
