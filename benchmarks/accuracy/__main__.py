"""Accuracy of weights of 4 bits on a small trained model, next to other quantizers.

A Llama-like model of bytes is trained for some minutes. Then each quantizer makes a copy of it, and
texts that it has not seen are judged: perplexity, and divergence from the float32 model. See
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import machine, origin, reason
from benchmarks.packages import install_packages, use_packages
from benchmarks.report import publish

from .candidates import (
    CANDIDATES,
    FOLDER,
    PACKAGES,
    Quantized,
    Source,
    export_float32,
    run_graph,
)  # fmt: skip
from .model import cut_texts, read_texts, train_model
from .report import markdown

_CHECKPOINTS = Path(__file__).resolve().parents[2] / "build" / "accuracy"
_BATCH = 32  # texts that are judged at a time


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--layers", type=int, default=4, help="layers of the model")
    parser.add_argument("--steps", type=int, default=800, help="steps of the training")
    parser.add_argument("--texts", type=int, default=256, help="texts to judge")
    parser.add_argument("--calibration", type=int, default=128, help="texts to calibrate with")
    parser.add_argument("--candidates", default=";".join(CANDIDATES), help="names with ; between")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the table from these records")
    parser.add_argument("--docs", type=Path, help="page to write the table to")
    return parser.parse_args()


@torch.no_grad()
def judge(quantized: Quantized, float32: Quantized, ids: torch.Tensor) -> dict[str, float]:
    """Return the perplexity of a byte, and the divergence from float32 in nats."""
    loss = divergence = right = 0.0
    for batch in ids.split(_BATCH):
        logs, base = (
            model.logits(batch)[:, :-1].double().log_softmax(-1) for model in (quantized, float32)
        )
        loss -= logs.gather(-1, batch[:, 1:, None]).sum().item()
        divergence += (base.exp() * (base - logs)).sum().item()
        right += (logs.argmax(-1) == base.argmax(-1)).sum().item()
    count = ids[:, 1:].numel()
    perplexity = float(torch.tensor(loss / count).exp())
    return {"perplexity": perplexity, "kl": divergence / count, "same": right / count}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    install_packages(FOLDER, PACKAGES)
    use_packages(FOLDER)
    contents = read_texts()
    path = _CHECKPOINTS / f"llama-{options.layers}-{options.steps}.pt"
    model = train_model(options.layers, options.steps, contents, path)
    ids = cut_texts(contents.test, options.texts)
    source = Source(
        model, export_float32(model), cut_texts(contents.train, options.calibration, seed=-1)
    )
    float32, records = run_graph(source.graph), []
    for name in options.candidates.split(";"):
        start = time.perf_counter()
        record: dict[str, Any] = {"name": name}
        try:
            quantized = CANDIDATES[name](source)
            record["seconds"] = time.perf_counter() - start
            scores = judge(quantized, float32, ids)
            if not math.isfinite(scores["kl"]) or scores["kl"] > 10:
                raise ValueError("its results are not those of the model")
            record.update(bytes=quantized.bytes, **scores)
        except Exception as error:  # a quantizer that fails has no row
            record["failed"] = reason(error)
        records.append(record)
        print(json.dumps(record), flush=True)
    return {
        **origin(),
        "machine": machine(options.threads),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "models": records,
    }


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    stored = options.from_json
    run = json.loads(stored.read_text()) if stored else measure(options)
    publish(run, markdown(run), "benchmarks.accuracy", options.json, options.docs)


if __name__ == "__main__":
    main()
