"""Export a model with gigabytes of weights, run it, and print the memory of the export.

The weights are external data files; the result of ONNX Runtime is compared with eager. Each step
has its own process. Memory is the growth of the peak of the resident set (``VmHWM`` of Linux, reset
before the export), without the page cache. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .measure import STEPS


def in_process(step: str, folder: Path, arguments: list[str]) -> dict[str, float]:
    """Run one step in a process of its own; its result is the last line that it prints."""
    command = [sys.executable, "-m", "benchmarks.large_model", *arguments]
    command += ["--step", step, "--folder", str(folder)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    *log_lines, result = process.stdout.splitlines()
    for line in log_lines:
        print(line)
    return json.loads(result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_model", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--megabytes", type=int, default=3000, help="size of the weights")
    parser.add_argument("--width", type=int, default=4096, help="width of the square layers")
    parser.add_argument("--shard-bytes", type=int, help="split the data into files of this size")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print only the figures, as JSON")
    parser.add_argument("--step", choices=tuple(STEPS), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.step:
        print(json.dumps(STEPS[options.step](options.folder, options)))
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        results = {}
        for step in STEPS:
            results.update(in_process(step, folder, sys.argv[1:]))
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(results))
        return
    print(
        f"{results['weights'] / 1e9:.2f} GB of weights, {results['files']:.0f} files: "
        f"to_onnx {results['convert_s']:.2f} s, save {results['save_s']:.2f} s\n"
        f"memory of the export beyond the weights, at its peak: {results['extra'] / 1e6:.0f} MB, "
        f"{100 * results['extra'] / results['weights']:.1f}% of the weights\n"
        f"ONNX Runtime: loaded in {results['load_s']:.2f} s, largest difference from eager "
        f"{results['difference']:.1e} of the largest value"
    )


if __name__ == "__main__":
    main()
