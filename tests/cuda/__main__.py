"""``python -m tests.cuda``: the CUDA provider for real, on the GPU of this machine. Arguments are
those of pytest. Without a GPU, or without onnxruntime-gpu, it says so and exits with status 3."""

from __future__ import annotations

import sys

import pytest

from benchmarks.cuda.available import missing

NOT_HERE = 3


def main() -> int:
    """Runs the tests of this folder; their exit status."""
    lacking = missing()
    if lacking is not None:
        print(f"the tests of the CUDA provider cannot run here: {lacking}")
        return NOT_HERE
    return int(pytest.main(["-q", "tests/cuda", *sys.argv[1:]]))


if __name__ == "__main__":
    raise SystemExit(main())
