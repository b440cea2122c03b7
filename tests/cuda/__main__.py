"""Run the tests of the CUDA provider on the GPU of this machine, with arguments for pytest.

Without a GPU or onnxruntime-gpu the exit status is 3.
"""

from __future__ import annotations

import sys

import pytest

from benchmarks.cuda.available import missing

UNAVAILABLE = 3


def main() -> int:
    """Run the tests of this folder and return their exit status."""
    reason = missing()
    if reason is not None:
        print(f"the tests of the CUDA provider cannot run here: {reason}")
        return UNAVAILABLE
    return int(pytest.main(["-q", "tests/cuda", *sys.argv[1:]]))


if __name__ == "__main__":
    raise SystemExit(main())
