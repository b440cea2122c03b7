"""One layer of each kind of sequence model, next to eager, torch.onnx and ONNX Runtime's operators.

State spaces, mixtures of experts, forms of attention and of positions, with random weights and
fixed sizes; every layer is measured by a process of its own, in which the candidates take turns.
See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import in_process, machine, origin
from benchmarks.report import publish, save

from .layers import LAYERS
from .measure import CANDIDATES, measure
from .report import markdown


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.variants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--layers", help=f"some of: {'; '.join(LAYERS)} (with ; between)")
    parser.add_argument("--rounds", type=int, default=11, help="measured rounds")
    parser.add_argument("--candidates", default=",".join(CANDIDATES), help="who is measured")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--from-json", type=Path, help="the table of records that are there")
    parser.add_argument("--docs", type=Path, help="a page that gets the table")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("numbers are at least 1")
    if not set(_named(options)) <= set(LAYERS):
        parser.error(f"layers are {'; '.join(LAYERS)}")
    return options


def _named(options: argparse.Namespace) -> list[str]:
    return [each.strip() for each in options.layers.split(";")] if options.layers else list(LAYERS)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The records of a run; every layer has a process of its own."""
    run: dict[str, Any] = {**origin(), "machine": machine(options.threads)}
    given = ["--rounds", str(options.rounds), "--candidates", options.candidates]
    given += ["--threads", str(options.threads)]
    found = []
    for name in _named(options):
        record = in_process("benchmarks.variants", name, given, options.threads)
        found.append({"layer": name, **record})
        print(json.dumps(found[-1]), flush=True)
    return {
        **run,
        "layers": [each for each in found if isinstance(each["failed"], dict)],
        "failed": [each for each in found if not isinstance(each["failed"], dict)],
    }


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.one:
        with torch.no_grad():
            candidates = options.candidates.split(",")
            record = measure(options.one, options.rounds, candidates, options.threads)
        save(options.json, record)
        return
    stored = options.from_json
    run = json.loads(stored.read_text()) if stored else measured(options)
    publish(run, markdown(run), "benchmarks.variants", options.json, options.docs)


if __name__ == "__main__":
    main()
