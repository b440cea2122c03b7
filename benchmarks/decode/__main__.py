"""Tokens of a language model: a prompt and the tokens behind it, compiled, next to eager.

A model like Llama with random weights and a static cache; every size and batch is measured by a
process of its own, in which the candidates take turns. See benchmarks/README.md.
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
        "--jobs", default="124M:1,124M:8,1B:1", help="sizes and batches, as 124M:1,1B:8"
    )
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--answer", type=int, default=128, help="tokens behind it")
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds")
    parser.add_argument("--candidates", default=",".join(CANDIDATES), help="who is measured")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--from-json", type=Path, help="tables of records that are there")
    parser.add_argument("--docs", type=Path, help="a page that gets the tables")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rounds, options.prompt, options.answer, options.threads) < 1:
        parser.error("numbers are at least 1")
    if not {job.partition(":")[0] for job in options.jobs.split(",")} <= set(SIZES):
        parser.error(f"sizes are {', '.join(SIZES)}")
    return options


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The records of a run; every job has a process of its own."""
    run: dict[str, Any] = {**origin(), "machine": machine(options.threads)}
    passed = ["--rounds", str(options.rounds), "--candidates", options.candidates]
    passed += ["--prompt", str(options.prompt), "--answer", str(options.answer)]
    found = []
    for job in options.jobs.split(","):
        given = [*passed, "--threads", str(options.threads)]
        found.append({"job": job, **in_process("benchmarks.decode", job, given, options.threads)})
        print(json.dumps(found[-1]), flush=True)
    return {
        **run,
        "models": [each for each in found if isinstance(each["failed"], dict)],
        "failed": [each for each in found if not isinstance(each["failed"], dict)],
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
    run = json.loads(stored.read_text()) if stored else measured(options)
    publish(run, markdown(run), "benchmarks.decode", options.json, options.docs)


if __name__ == "__main__":
    main()
