"""Run a command as on a processor without AVX-512, whose kernels differ.

Usage: ``python -m tests.support.without_avx512 make test``, on a machine that has AVX-512.

torch reads an environment variable. ONNX Runtime queries the processor, so build/ gets a patched
copy: where the code reads which registers the system saves (XGETBV, a few bytes after CPUID), the
copy has the value of a system that saves no AVX-512 registers. torch's int8 products
(`aten::_int_mm`, torchao's int8 activations) still differ from such a processor, since oneDNN
detects VNNI and uses kernels that need it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .environment import ROOT

COPY = ROOT / "build" / "without_avx512"
CPUID, XGETBV = b"\x0f\xa2", b"\x0f\x01\xd0"
X87_SSE_AVX = b"\x6a\x07\x58"  # push 7; pop rax: the same length as XGETBV
MAX_DISTANCE = 0x60  # bytes between the two


def make_copy() -> Path:
    """Return a folder with a copy of the installed onnxruntime that detects no AVX-512."""
    import onnxruntime

    source = Path(onnxruntime.__file__).parent
    target = COPY / onnxruntime.__version__
    if not target.exists():
        shutil.copytree(source, target / "onnxruntime")
        patched = sum(map(patch, (target / "onnxruntime" / "capi").glob("*pybind11_state*")))
        if not patched:
            shutil.rmtree(target)
            raise SystemExit("this onnxruntime queries AVX-512 in an unknown way")
    return target


def patch(library: Path) -> int:
    """Replace the XGETBV instructions of a library and return their number."""
    code = bytearray(library.read_bytes())
    queries = [match.start() for match in re.finditer(re.escape(CPUID), code)]
    count = 0
    for match in re.finditer(re.escape(XGETBV), bytes(code)):
        if any(0 < match.start() - position < MAX_DISTANCE for position in queries):
            code[match.start() : match.end()] = X87_SSE_AVX
            count += 1
    library.write_bytes(code)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.without_avx512")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="make test, python -m pytest ...")
    command = parser.parse_args().command or parser.error("no command")
    path = os.pathsep.join([str(make_copy()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    settings = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": path}
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
