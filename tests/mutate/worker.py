"""One process that has loaded the libraries (not ortable), and forks a child for every run of
pytest: a run then costs no seconds of imports. A script, not a module: its folder is an overlay.

In comes a line of JSON for each run, ``{"run": [...], "generate": "specs/aten/unary.yaml",
"seconds": 60, "keep": true}`` (``keep``: write bytecode, for later runs); out comes one,
``{"outcome": ..., "test": ..., "said": ..., "seconds": ...}``. Called by `runner`.

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

SAID = 300
_UNREADABLE = ("NameError", "SyntaxError", "ImportError", "ModuleNotFoundError")


def main() -> None:
    """Serve until the input ends."""
    here = str(Path(__file__).parent)
    sys.path[:] = [each for each in sys.path if each != here]
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no report
    _load()
    print(json.dumps({"outcome": "ready"}), file=reports, flush=True)
    for line in sys.stdin:
        print(json.dumps(_serve(json.loads(line))), file=reports, flush=True)


def _load() -> None:
    """What every test imports; one thread, since threads do not survive a fork."""
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


def _serve(given: dict[str, Any]) -> dict[str, Any]:
    begun = time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        _child(given, writer)
    os.close(writer)
    text, late = _read(reader, begun + given["seconds"])
    if late:
        os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):  # what the tests started and left running
        os.killpg(child, signal.SIGKILL)
    seconds = round(time.monotonic() - begun, 2)
    if late:
        return {"outcome": "late", "test": "", "said": f"over {given['seconds']} s"} | {
            "seconds": seconds
        }
    if not text:
        said = f"the process ended with status {status}"
        return {"outcome": "crashed", "test": "", "said": said, "seconds": seconds}
    return {**json.loads(text), "seconds": seconds}


def _read(reader: int, until: float) -> tuple[str, bool]:
    """What the child wrote until it closed the pipe; whether it took too long."""
    found = b""
    with os.fdopen(reader, "rb", buffering=0) as stream:
        while True:
            left = until - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                return "", True
            part = stream.read(65536)
            if not part:
                return found.decode(), False
            found += part


def _child(given: dict[str, Any], writer: int) -> None:
    """Make the tables again, run the tests, write one report, and end without any clearing up."""
    sys.dont_write_bytecode = not given["keep"]
    quiet = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (quiet, 1), (quiet, 2)):
        os.dup2(old, new)
    try:
        report = _refused(given["generate"]) or _tested(given["run"])
    except BaseException:
        traceback.print_exc()
        report = {"outcome": "broken", "test": "", "said": traceback.format_exc()[-SAID:]}
    sys.stdout.flush()
    os.set_inheritable(writer, False)
    os.write(writer, json.dumps(report).encode())
    os._exit(0)


def _refused(file: str) -> dict[str, Any] | None:
    """Make again what is generated from a table of the overlay; a report if codegen refuses to."""
    if not file:
        return None
    from ortablegen.source.diagnostics import SpecErrors

    try:
        for name, text in _texts(file, Path.cwd()).items():
            path = Path("generated", name)
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
    except SpecErrors as error:
        return {"outcome": "refused", "test": "codegen", "said": str(error)[:SAID]}
    return None


def _texts(file: str, root: Path) -> dict[str, str]:
    """What codegen makes of a table: one file of converters, or all rules, or all rewrites."""
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
    check_rewrites(tuple(each for each in rewrites if each.file == file), diagnostics)
    diagnostics.raise_if_any()
    return emit_rewrites(rewrites)


class _Watcher:
    """A plugin of pytest: the first failure, and how many tests passed."""

    def __init__(self) -> None:
        self.passed = 0
        self.failure: tuple[str, str] | None = None
        self.collected: tuple[str, str] | None = None

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.collected is None:
            self.collected = (report.nodeid, _said(report))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed and self.failure is None:
            self.failure = (report.nodeid, _said(report))


def _said(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash is not None else str(report.longrepr))[:SAID]


def _tested(run: list[str]) -> dict[str, Any]:
    import pytest

    watcher = _Watcher()
    common = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--every-program"]
    status = pytest.main([*common, "--basetemp", "temporary", *run], plugins=[watcher])
    if watcher.collected is not None:
        test, said = watcher.collected
        return {"outcome": "broken", "test": test, "said": said}
    if watcher.failure is not None:
        test, said = watcher.failure
        unreadable = said.startswith(_UNREADABLE)
        return {"outcome": "broken" if unreadable else "failed", "test": test, "said": said}
    if status not in (0, 5):
        return {"outcome": "broken", "test": "", "said": f"pytest ends with {int(status)}"}
    if not watcher.passed:
        return {"outcome": "empty", "test": "", "said": "no test ran"}
    return {"outcome": "passed", "test": "", "said": f"{watcher.passed} tests"}


if __name__ == "__main__":
    main()
