"""A process that imports the libraries (not ortable) and forks a child for every run of pytest.

A run then needs no time for imports. `runner` starts this script in an overlay, and writes a line
of JSON for each run: ``{"run": [...], "generate": "specs/aten/unary.yaml", "seconds": 60, "keep":
true}`` (``keep``: write bytecode). The reply is ``{"outcome": ..., "test": ..., "message": ...,
"seconds": ...}``.

Outcomes: passed, failed, crashed (a signal), late (longer than ``seconds``), refused (codegen
refuses the table), broken (the tests could not be collected, or a name is missing), empty (no
test ran).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

MAX_MESSAGE = 300
_BROKEN_ERRORS = ("NameError", "SyntaxError", "ImportError", "ModuleNotFoundError")


def main() -> None:
    """Serve runs until the input ends."""
    own_folder = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != own_folder]
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the output of libraries out of the reports
    _load()
    print(json.dumps({"outcome": "ready"}), file=reports, flush=True)
    for line in sys.stdin:
        print(json.dumps(_serve(json.loads(line))), file=reports, flush=True)


def _load() -> None:
    """Import the libraries of the tests with one thread, since threads do not survive a fork."""
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import onnx.reference  # noqa: F401
    import onnxruntime  # noqa: F401
    import pytest  # noqa: F401
    import sympy  # noqa: F401
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd
    import torch.export

    torch.set_num_threads(1)
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("ortable", "tests")]
    assert not loaded, f"loaded before the fork: {loaded}"


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        _child(request, writer)
    os.close(writer)
    text, late = _read_report(reader, started + request["seconds"])
    if late:
        os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):  # processes that the tests left running
        os.killpg(child, signal.SIGKILL)
    seconds = round(time.monotonic() - started, 2)
    if late:
        return {"outcome": "late", "test": "", "message": f"over {request['seconds']} s"} | {
            "seconds": seconds
        }
    if not text:
        message = f"the process ended with status {status}"
        return {"outcome": "crashed", "test": "", "message": message, "seconds": seconds}
    return {**json.loads(text), "seconds": seconds}


def _read_report(reader: int, deadline: float) -> tuple[str, bool]:
    """Return the output of the child until the pipe closes, and whether the time ran out."""
    content = b""
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([stream], [], [], remaining)[0]:
                return "", True
            chunk = stream.read(65536)
            if not chunk:
                return content.decode(), False
            content += chunk


def _child(request: dict[str, Any], writer: int) -> None:
    """Generate the tables, run the tests, write one report, and exit without cleanup."""
    sys.dont_write_bytecode = not request["keep"]
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    empty_input = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((empty_input, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    try:
        report = _generate_tables(request["generate"]) or _run_tests(request["run"])
    except BaseException:
        traceback.print_exc()
        report = {"outcome": "broken", "test": "", "message": traceback.format_exc()[-MAX_MESSAGE:]}
    sys.stdout.flush()
    os.set_inheritable(writer, False)
    os.write(writer, json.dumps(report).encode())
    os._exit(0)


def _generate_tables(file: str) -> dict[str, Any] | None:
    """Generate the files of a table; return a report if codegen refuses the table."""
    if not file:
        return None
    from ortablegen.source.diagnostics import SpecErrors

    try:
        for name, text in _generate_texts(file, Path.cwd()).items():
            path = Path("generated", name)
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
    except SpecErrors as error:
        return {"outcome": "refused", "test": "codegen", "message": str(error)[:MAX_MESSAGE]}
    return None


def _generate_texts(file: str, root: Path) -> dict[str, str]:
    """Return the generated text: one file of converters, or all rules, or all rewrites."""
    from ortablegen.aten.check import check_op
    from ortablegen.aten.emit import family_text
    from ortablegen.aten.model import Targets
    from ortablegen.aten.read import read_folder
    from ortablegen.onnx.emit import emit_onnx_rules
    from ortablegen.onnx.read import load_onnx_rules
    from ortablegen.onnx.traits import TRAITS
    from ortablegen.rewrites.check import check_rewrites
    from ortablegen.rewrites.emit import emit_rewrites
    from ortablegen.rewrites.read import read_rewrites
    from ortablegen.source.diagnostics import Diagnostics

    diagnostics = Diagnostics()
    if file.startswith("specs/aten/"):
        specs = read_folder(root / "specs" / "aten", root, diagnostics)
        for entry in specs.ops:
            if entry.file == file:
                check_op(entry, diagnostics, Targets(specs.ops))
        diagnostics.raise_if_any()
        return {f"ortable_generated/aten/{Path(file).stem}.py": family_text(specs, file)}
    rules = load_onnx_rules(root / "specs" / "onnx", diagnostics)
    if file.startswith("specs/onnx/"):
        diagnostics.raise_if_any()
        return emit_onnx_rules(rules)
    traits = {name: rules.operators_with(name) for name in TRAITS}
    rewrites = read_rewrites(root / "specs" / "rewrites", root, diagnostics, traits)
    check_rewrites(tuple(rewrite for rewrite in rewrites if rewrite.file == file), diagnostics)
    diagnostics.raise_if_any()
    return emit_rewrites(rewrites)


class _Watcher:
    """A pytest plugin that stores the first failure and counts the passed tests."""

    def __init__(self) -> None:
        self.passed = 0
        self.failure: tuple[str, str] | None = None
        self.collection_error: tuple[str, str] | None = None

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.collection_error is None:
            self.collection_error = (report.nodeid, _get_message(report))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed and self.failure is None:
            self.failure = (report.nodeid, _get_message(report))


def _get_message(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else str(report.longrepr))[:MAX_MESSAGE]


def _run_tests(run: list[str]) -> dict[str, Any]:
    import pytest

    watcher = _Watcher()
    common = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--every-program"]
    status = pytest.main([*common, "--basetemp", "temporary", *run], plugins=[watcher])
    if watcher.collection_error is not None:
        test, message = watcher.collection_error
        return {"outcome": "broken", "test": test, "message": message}
    if watcher.failure is not None:
        test, message = watcher.failure
        is_broken = message.startswith(_BROKEN_ERRORS)
        return {"outcome": "broken" if is_broken else "failed", "test": test, "message": message}
    if status not in (0, 5):
        return {"outcome": "broken", "test": "", "message": f"pytest ends with {int(status)}"}
    if not watcher.passed:
        return {"outcome": "empty", "test": "", "message": "no test ran"}
    return {"outcome": "passed", "test": "", "message": f"{watcher.passed} tests"}


if __name__ == "__main__":
    main()
