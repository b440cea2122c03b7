"""Compare an int8 KV cache with a float32 one: the time of one token of a language model.

export_language_model exports a Llama-like model with random weights twice; both graphs decode the
same token with a cache of the same length, in turns. See benchmarks/README.md.
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
    parser.add_argument("--size", default="124M", choices=SIZES, help="size of the model")
    parser.add_argument(
        "--texts", default="1:256,1:1024,1:4096,8:256,8:1024", help="batch sizes and text lengths"
    )
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--docs", type=Path, help="page to write the table to")
    return parser.parse_args()


def make_step(
    model: ortable.OnnxLanguageModel, layers: Sequence[Any], batch: int, past: int
) -> tuple[Callable[[], object], int]:
    """Return a call that decodes one token after ``past`` others, and the bytes of its cache."""
    import onnxruntime

    cache, byte_count = {}, 0
    is_int8 = "int8" in model.folder.name
    for number, (heads, width) in enumerate(layers):
        for kind in ("key", "value"):
            states = torch.randn(batch, heads, past, width)
            array = (states * 30).clamp(-127, 127).to(torch.int8) if is_int8 else states
            byte_count += array.numpy().nbytes
            cache[f"{number}.{kind}"] = onnxruntime.OrtValue.ortvalue_from_numpy(array.numpy())
    token = torch.randint(VOCABULARY, (batch, 1))
    mask = torch.ones(batch, past + 1, dtype=torch.int64)
    return lambda: model.step(token, mask, cache), byte_count


def measure_steps(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    model = build(options.size)
    hidden, _, count, heads, shared = SIZES[options.size]
    layers = [(shared, hidden // heads)] * count
    models = {
        name: ortable.export_language_model(model, folder / name, cache=cache, genai=False)
        for name, cache in (("float32", None), ("int8", "int8"))
    }
    del model
    records = []
    for text in options.texts.split(","):
        batch, past = map(int, text.split(":"))
        calls_and_sizes = {
            name: make_step(exported, layers, batch, past) for name, exported in models.items()
        }
        calls = {name: call for name, (call, _) in calls_and_sizes.items()}
        seconds = time_interleaved({**calls, "again": calls["float32"]}, options.rounds, 0.1)
        records.append({
            "batch": batch,
            "past": past,
            "ms": {name: 1e3 * statistics.median(seconds[name]) for name in calls},
            "ratio": median_ratio(seconds, "int8", "float32"),
            "band": band(seconds, "float32", "again"),
            "bytes": {name: byte_count for name, (_, byte_count) in calls_and_sizes.items()},
        })  # fmt: skip
        print(records[-1], flush=True)
    return records


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        steps = measure_steps(options, Path(folder))
    run = {**origin(), "machine": machine(torch.get_num_threads()), "steps": steps}
    publish(run, markdown(run), "benchmarks.cache", options.json, options.docs)


if __name__ == "__main__":
    main()
