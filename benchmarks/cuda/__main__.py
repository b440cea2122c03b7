"""Models on CUDA: ortable next to eager and inductor, inference and training steps.

This needs a GPU, torch for CUDA and onnxruntime-gpu; without them, it prints the missing part and
exits with status 3. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import onnxruntime
import torch

from benchmarks.measure import origin, reason
from benchmarks.report import insert, save

from .available import missing
from .measure import BATCHES, DTYPES, inference, training
from .report import markdown

STATUS_UNAVAILABLE = 3
TRAINED_MODELS = ("mlp", "resnet", "bert", "llama")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cuda", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=tuple(BATCHES), action="append", help="default: all")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--trained", default=",".join(TRAINED_MODELS), help="models to train")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds")
    parser.add_argument(
        "--compilers",
        default="ortable,ortable+trust,inductor",
        help="compared with eager; +trust sets option freeze",
    )
    parser.add_argument("--minutes", type=float, help="start no model after this time")
    parser.add_argument("--json", type=Path, help="file for the records")
    parser.add_argument("--from-json", type=Path, help="make the tables from these records")
    parser.add_argument("--docs", type=Path, help="page to write the tables to")
    return parser.parse_args()


def name_device() -> str:
    """Describe the GPU and the versions of CUDA and cuDNN."""
    name = torch.cuda.get_device_name(0)
    return f"one {name}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all models; the records are saved after each, in case the run is interrupted."""
    run: dict[str, Any] = {**origin(), "machine": name_device(), "inference": [], "training": []}
    run["versions"]["onnxruntime"] = onnxruntime.__version__  # the package is onnxruntime-gpu
    torch._dynamo.config.allow_rnn = True
    torch.backends.cudnn.allow_tf32 = False  # convolutions in float32, like matrix products
    compilers = options.compilers.split(",")
    start = time.monotonic()
    jobs: list[tuple[str, Any, str, str]] = [
        ("training", training, name, "f32") for name in options.trained.split(",") if name
    ]
    jobs += [
        ("inference", inference, name, dtype)
        for dtype in options.dtypes.split(",")
        for name in options.model or BATCHES
    ]
    for kind, measure, name, dtype in jobs:
        if options.minutes and time.monotonic() - start > options.minutes * 60:
            break
        try:
            record = measure(name, dtype, options.rounds, compilers)
        except Exception as error:
            record = {"model": name, "dtype": dtype, "failed": {"all": reason(error)}}
        run[kind].append(record)
        print(kind, json.dumps(record), flush=True)
        if options.json:
            save(options.json, {"runs": [run]})
        torch.cuda.empty_cache()
    return run


def main() -> int:
    options = arguments()
    if options.from_json:
        record = json.loads(options.from_json.read_text())
    else:
        problem = missing()
        if problem is not None:
            print(f"benchmarks.cuda cannot run here: {problem}")
            return STATUS_UNAVAILABLE
        record = {"runs": [run_all(options)]}
    if options.json:
        save(options.json, record)
    print(markdown(record))
    if options.docs:
        insert(options.docs, markdown(record), "benchmarks.cuda")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
