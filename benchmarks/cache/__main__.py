"""A cache of 8 bits next to one of float32: a token of a language model after a text.

A model like Llama with random weights, exported twice by export_language_model; both graphs take
the same token over a cache of the same length, in turns. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import ortable
from benchmarks.decode.measure import SIZES, VOCABULARY, build
from benchmarks.measure import band, machine, origin
from benchmarks.report import publish
from ortable.backend.timing import median_ratio, time_interleaved

from .report import markdown


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cache", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--size", default="124M", choices=SIZES, help="of the model")
    parser.add_argument(
        "--texts", default="1:256,1:1024,1:4096,8:256,8:1024", help="texts, and tokens of each"
    )
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--docs", type=Path, help="a page that gets the table")
    return parser.parse_args()


def step_over(
    made: ortable.OnnxLanguageModel, layers: Sequence[Any], batch: int, past: int
) -> tuple[Callable[[], object], int]:
    """A call of one token after ``past`` others, and the bytes of their cache."""
    import onnxruntime

    cache, size = {}, 0
    coded = "int8" in made.folder.name
    for number, (heads, width) in enumerate(layers):
        for kind in ("key", "value"):
            states = torch.randn(batch, heads, past, width)
            array = (states * 30).clamp(-127, 127).to(torch.int8) if coded else states
            size += array.numpy().nbytes
            cache[f"{number}.{kind}"] = onnxruntime.OrtValue.ortvalue_from_numpy(array.numpy())
    token = torch.randint(VOCABULARY, (batch, 1))
    mask = torch.ones(batch, past + 1, dtype=torch.int64)
    return lambda: made.step(token, mask, cache), size


def measured(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    model = build(options.size)
    hidden, _, count, heads, shared = SIZES[options.size]
    layers = [(shared, hidden // heads)] * count
    made = {
        name: ortable.export_language_model(model, folder / name, cache=cache, genai=False)
        for name, cache in (("float32", None), ("int8", "int8"))
    }
    del model
    found = []
    for each in options.texts.split(","):
        batch, past = map(int, each.split(":"))
        steps = {name: step_over(one, layers, batch, past) for name, one in made.items()}
        calls = {name: call for name, (call, _) in steps.items()}
        seconds = time_interleaved({**calls, "again": calls["float32"]}, options.rounds, 0.1)
        found.append({
            "batch": batch,
            "past": past,
            "ms": {name: 1e3 * statistics.median(seconds[name]) for name in calls},
            "ratio": median_ratio(seconds, "int8", "float32"),
            "band": band(seconds, "float32", "again"),
            "bytes": {name: size for name, (_, size) in steps.items()},
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        steps = measured(options, Path(folder))
    run = {**origin(), "machine": machine(torch.get_num_threads()), "steps": steps}
    publish(run, markdown(run), "benchmarks.cache", options.json, options.docs)


if __name__ == "__main__":
    main()
