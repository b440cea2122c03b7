"""Models on CUDA: ortable next to eager and inductor, inference and training steps.

Needs a GPU, torch for CUDA and onnxruntime-gpu; elsewhere it says what is missing and exits with
status 3. See benchmarks/README.md.
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

NOT_HERE = 3
TRAINED = ("mlp", "resnet", "bert", "llama")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cuda", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=tuple(BATCHES), action="append", help="default: all")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--trained", default=",".join(TRAINED), help="models that train")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds")
    parser.add_argument(
        "--compilers",
        default="ortable,ortable+trust,inductor",
        help="compared with eager; +trust: with option freeze",
    )
    parser.add_argument("--minutes", type=float, help="start no model after so long")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--from-json", type=Path, help="tables of records that are there")
    parser.add_argument("--docs", type=Path, help="a page that gets the tables")
    return parser.parse_args()


def device() -> str:
    """The GPU and what drives it."""
    name = torch.cuda.get_device_name(0)
    return f"one {name}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The records of a run; written after each model, so that an interrupted run leaves some."""
    run: dict[str, Any] = {**origin(), "machine": device(), "inference": [], "training": []}
    run["versions"]["onnxruntime"] = onnxruntime.__version__  # its package has another name
    torch._dynamo.config.allow_rnn = True
    torch.backends.cudnn.allow_tf32 = False  # convolutions of all are in float32, as products are
    compilers = options.compilers.split(",")
    started = time.monotonic()
    jobs: list[tuple[str, Any, str, str]] = [
        ("training", training, name, "f32") for name in options.trained.split(",") if name
    ]
    jobs += [
        ("inference", inference, name, dtype)
        for dtype in options.dtypes.split(",")
        for name in options.model or BATCHES
    ]
    for kind, measure, name, dtype in jobs:
        if options.minutes and time.monotonic() - started > options.minutes * 60:
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
        lacking = missing()
        if lacking is not None:
            print(f"benchmarks.cuda cannot run here: {lacking}")
            return NOT_HERE
        record = {"runs": [measured(options)]}
    if options.json:
        save(options.json, record)
    print(markdown(record))
    if options.docs:
        insert(options.docs, markdown(record), "benchmarks.cuda")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
