"""A model with gigabytes of random weights: exported with its weights in files beside it, loaded in
ONNX Runtime, run, compared with eager. Prints the memory that the export takes beyond the weights.

Each step is a process of its own. Memory is the peak of the resident set (``VmHWM`` of Linux, reset
before the export) less what was resident before; the page cache is not in it. See
benchmarks/README.md.
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
    """One step in a process of its own; its result is the last line that it prints."""
    command = [sys.executable, "-m", "benchmarks.large_model", *arguments]
    command += ["--step", step, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    for line in lines:
        print(line)
    return json.loads(last)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_model", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--megabytes", type=int, default=3000, help="size of the weights")
    parser.add_argument("--width", type=int, default=4096, help="of the square layers")
    parser.add_argument("--shard-bytes", type=int, help="several data files of this size")
    parser.add_argument("--folder", type=Path, help="where to write (a temporary folder)")
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")
    parser.add_argument("--step", choices=tuple(STEPS), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.step:
        print(json.dumps(STEPS[options.step](options.folder, options)))
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        found = {}
        for step in STEPS:
            found.update(in_process(step, folder, sys.argv[1:]))
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{found['weights'] / 1e9:.2f} GB of weights, {found['files']:.0f} files: "
        f"to_onnx {found['convert_s']:.2f} s, save {found['save_s']:.2f} s\n"
        f"memory of the export beyond the weights, at its peak: {found['extra'] / 1e6:.0f} MB, "
        f"{100 * found['extra'] / found['weights']:.1f}% of the weights\n"
        f"ONNX Runtime: loaded in {found['load_s']:.2f} s, largest difference from eager "
        f"{found['difference']:.1e} of the largest value"
    )


if __name__ == "__main__":
    main()
