"""One layer of each kind of sequence model, next to eager, torch.onnx and ONNX Runtime's operators.

The layers are state space models, mixtures of experts, and kinds of attention and of positions,
with random weights and static sizes. Each has its own process, in which the candidates take turns.
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
    parser.add_argument("--layers", help=f"layers, separated by ;: {'; '.join(LAYERS)}")
    parser.add_argument("--rounds", type=int, default=11, help="measured rounds")
    parser.add_argument("--candidates", default=",".join(CANDIDATES), help="candidates to measure")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the table from these records")
    parser.add_argument("--docs", type=Path, help="page to write the table to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("numbers must be at least 1")
    if not set(_list_layers(options)) <= set(LAYERS):
        parser.error(f"layers are {'; '.join(LAYERS)}")
    return options


def _list_layers(options: argparse.Namespace) -> list[str]:
    return [name.strip() for name in options.layers.split(";")] if options.layers else list(LAYERS)


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each layer in a process of its own, and return the records of the run."""
    run: dict[str, Any] = {**origin(), "machine": machine(options.threads)}
    flags = ["--rounds", str(options.rounds), "--candidates", options.candidates]
    flags += ["--threads", str(options.threads)]
    records = []
    for name in _list_layers(options):
        record = in_process("benchmarks.variants", name, flags, options.threads)
        records.append({"layer": name, **record})
        print(json.dumps(records[-1]), flush=True)
    return {
        **run,
        "layers": [entry for entry in records if isinstance(entry["failed"], dict)],
        "failed": [entry for entry in records if not isinstance(entry["failed"], dict)],
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
    run = json.loads(stored.read_text()) if stored else run_all(options)
    publish(run, markdown(run), "benchmarks.variants", options.json, options.docs)


if __name__ == "__main__":
    main()
