"""``python -m tests.conformance``: PyTorch's operator tests (OpInfo) through ortable.

Every sample call is exported, converted, checked, run by ONNX Runtime and compared with eager, at
several opsets, with static shapes and with every dimension dynamic; gradients go through the
torch.compile backend. Exit status 1 when an outcome is not in expected.yaml, or one there is stale.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from tqdm import tqdm

from ortablegen.schemas.onnx import CEILING, FLOOR
from tests.conformance import expected, report, workers
from tests.conformance.samples import DTYPES, op_infos, takes

MIDDLE = (FLOOR + CEILING) // 2
MEASURED = Path("specs/runtime/conformance.yaml")
DEFAULT_DTYPES = "f32,f16,f64,i64,bool,c64"


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", default=["*"], help="OpInfos, with wildcards (default: all)")
    add("--dtypes", default=DEFAULT_DTYPES, help=f"of {','.join(DTYPES)}")
    add("--samples", type=int, default=10, help="most samples of an OpInfo and dtype")
    add("--opsets", default=f"{FLOOR},{MIDDLE},{CEILING}")
    add("--modes", default="static,dynamic")
    add("--kinds", default="forward,gradient")
    add("--gradient-samples", type=int, default=3)
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("--limit", type=float, default=60.0, help="seconds a sample may take")
    add("--results", type=Path, default=Path("build/conformance.jsonl"))
    add("--resume", action="store_true", help="go on from the results of an interrupted run")
    add("--bounded", action="store_true", help="the short run of CI: few samples, three dtypes")
    add("--parts", type=int, default=1, help="take one of so many equal parts of the OpInfos")
    add("--record", action="store_true", help=f"write the numbers to {MEASURED}")
    return parser


def tasks(options: argparse.Namespace) -> list[workers.Task]:
    """One task for each kind, OpInfo and dtype asked for."""
    chosen = [
        name
        for name in op_infos()
        if any(fnmatch.fnmatch(name, each) for each in options.names)
        and not _spread(name, options.parts)
    ]
    if not chosen:
        raise SystemExit(f"no OpInfo matches {' '.join(options.names)}")
    opsets = tuple(int(opset) for opset in options.opsets.split(","))
    modes = tuple(options.modes.split(","))
    found = []
    for name in chosen:
        info = op_infos()[name]
        for dtype in options.dtypes.split(","):
            # the short run takes float32 of every OpInfo, the other dtypes of every second one
            skipped = options.bounded and dtype != "f32" and _spread(name + dtype, 2)
            if "forward" in options.kinds and takes(info, dtype) and not skipped:
                found.append(workers.Task(name, dtype, "forward", options.samples, opsets, modes))
        differentiable = info.supports_autograd and takes(info, "f32")
        # the short run takes every third OpInfo: compiling costs a second a sample
        left_out = options.bounded and _spread(name, 3)
        asked = "gradient" in options.kinds and "f32" in options.dtypes
        if asked and differentiable and not left_out:
            found.append(
                workers.Task(name, "f32", "gradient", options.gradient_samples, opsets, modes)
            )
    return found


def _spread(name: str, parts: int) -> bool:
    """Whether a name is outside the first of ``parts`` equal parts; the same on every machine."""
    return zlib.crc32(name.encode()) % parts != 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run, report, and say whether all is as expected."""
    options = arguments().parse_args(argv)
    if options.bounded:
        options.dtypes, options.samples, options.gradient_samples = "f32,i64,bool", 2, 1
        options.opsets, options.modes = f"{FLOOR},{CEILING}", "static"
    torch.set_num_threads(1)
    console = Console()
    earlier, done = report.read(options.results) if options.resume else ([], set())
    wanted = tasks(options)
    asked = {task.key for task in wanted}
    records = [r for r in earlier if (r["op"], r["dtype"], r["kind"]) in asked]
    left = [task for task in wanted if task.key not in done]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    tqdm.monitor_interval = 0  # no thread of the progress bar may exist where processes are forked
    with (
        options.results.open("a" if options.resume else "w") as stream,
        tqdm(
            total=len(wanted),
            initial=len(wanted) - len(left),
            unit="op",
            smoothing=0,
            mininterval=0.2 if sys.stderr.isatty() else 30,  # a log is no terminal
        ) as bar,
    ):
        for task, record in workers.run(left, options.jobs, options.limit):
            if record is None:
                report.write(stream, {"done": list(task.key)})
                bar.update()
                continue
            records.append(record)
            report.write(stream, record)
    verdict = expected.judge(records, expected.load(), complete=options.samples >= 10)
    console.print(report.summary(records))
    if options.record:
        report.write_measured(MEASURED, records)
    report.print_verdict(console, verdict)
    console.print(
        f"{len(records)} samples, {len(verdict.unexpected)} unexpected outcomes, "
        f"{len(verdict.stale)} stale expectations; results in {options.results}"
    )
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
