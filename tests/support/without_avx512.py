"""``python -m tests.support.without_avx512 make test``: runs a command as on a processor without
AVX-512, where the kernels of torch and ONNX Runtime are others. For machines that have it.

torch takes an environment variable. ONNX Runtime asks the processor: a copy of it in build/ asks
for less. Where it reads which registers the system saves (XGETBV, a few bytes after CPUID), the
copy has the answer of a system that saves none of AVX-512's. What torch's int8 products compute is
not what such a processor computes (`aten::_int_mm`, torchao's int8 activations): torch still sees
VNNI there, and takes kernels of oneDNN that need it."""

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
X87_SSE_AVX = b"\x6a\x07\x58"  # push 7; pop rax: as long as XGETBV
REACH = 0x60  # bytes between the two


def copied() -> Path:
    """A folder with a copy of the installed onnxruntime that sees no AVX-512."""
    import onnxruntime

    source = Path(onnxruntime.__file__).parent
    target = COPY / onnxruntime.__version__
    if not target.exists():
        shutil.copytree(source, target / "onnxruntime")
        patched = sum(map(patch, (target / "onnxruntime" / "capi").glob("*pybind11_state*")))
        if not patched:
            shutil.rmtree(target)
            raise SystemExit("this onnxruntime does not ask for AVX-512 the way that is known")
    return target


def patch(library: Path) -> int:
    """Answers for the processor; how often."""
    code = bytearray(library.read_bytes())
    asks = [found.start() for found in re.finditer(re.escape(CPUID), code)]
    count = 0
    for found in re.finditer(re.escape(XGETBV), bytes(code)):
        if any(0 < found.start() - each < REACH for each in asks):
            code[found.start() : found.end()] = X87_SSE_AVX
            count += 1
    library.write_bytes(code)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.without_avx512")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="make test, python -m pytest ...")
    command = parser.parse_args().command or parser.error("no command")
    path = os.pathsep.join([str(copied()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    settings = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": path}
    return subprocess.run(command, env={**os.environ, **settings}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
