"""docs/support.json, the records of runs, and docs/support.md, the page generated from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ortable.compat.versions import TESTED

from .environment import ROOT
from .suites import Outcome, suites

RECORDS = ROOT / "docs" / "support.json"
PAGE = ROOT / "docs" / "support.md"

_INTRODUCTION = """\
# Supported versions

<!-- Generated from docs/support.json by `make support`. Do not edit. -->

You need Python 3.11 or newer, and one of these versions of each library:

{tested}
An older one is refused with a `VersionError` at the first export or compilation. A newer one is
not: public interfaces stay, and an interface that a release has dropped is named by the error of
whatever needs it. Ortable says once in a process, with an `UntestedVersionWarning`, that nobody has
tried; this silences it:

```python
import warnings

import ortable

warnings.filterwarnings("ignore", category=ortable.errors.UntestedVersionWarning)
```

The next table says what was run: `pip install` put the wheel into an environment of its own, and
the tests of the repository ran against the installed package.

"""
_END = """
- **pinned** has the versions of `constraints.txt`, which `make` installs. Everything runs there at
  each change: all tests, a third of the opsets, the sweeps, the bounded conformance run. Its row
  counts the part that the other rows have, too.
- **newest** is whatever `pip install` takes, with no pins. It runs at each change as well, with
  a fifth of the core tests, which the change chooses.
- The other rows are run by hand before a release, with
  `make support ARGS="--set 'torch 2.14' --record"`; one of a Python also says where that is:
  `--set 'Python 3.14' --interpreter python3.14`.

"Blocks of the documents" are the Python blocks of the README and of these pages, each page in
order. "Core tests" are those of the backend, the exporter, the interpreter, the builder, the shell
and the debugging tools. The short conformance run takes an eighth of PyTorch's own operator
samples; [Conformance](conformance.md) is about the whole. `make support` makes the newest
environment, keeps it below `~/.cache/ortable`, and runs its row.

## What was never run

- **Windows and macOS.** All of the above ran on Linux, on x86-64. Tests simulate what differs
  there: no `fork` and no `fcntl`, processes that are spawned, folders with spaces and letters
  beyond ASCII, files opened with the encoding of the locale, names of weights that differ in case
  only. Nobody tried to replace a file that a session has open, which Windows refuses.
- **Python without the GIL** (3.14t): there was no such interpreter.
- **Providers other than the CPU's** ran as far as [GPUs](devices.md) says.
- **torch 2.12 and onnx 1.20** are refused. With the check left out, torch 2.12.1 passed the tests
  that were tried, except those of `ShapesSpec`, which it lacks. onnx 1.20 does not know opset 26.

If you have such a machine, one script says whether the main parts work, and prints the versions:

```sh
python examples/smoke.py
```
"""


@dataclass(frozen=True)
class Row:
    """One environment: its name, its versions, the commit and date of the run, and the outcomes."""

    name: str
    versions: dict[str, str]
    commit: str
    date: str
    outcomes: tuple[Outcome, ...]


def load(path: Path = RECORDS) -> list[Row]:
    """Return the recorded rows, oldest versions first."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [
        Row(**{**row, "outcomes": tuple(Outcome(**o) for o in row["outcomes"])}) for row in rows
    ]


def record(row: Row, path: Path = RECORDS) -> None:
    """Replace the row of the same name, or add a row."""
    rows = [item for item in load(path) if item.name != row.name] + [row]
    rows.sort(key=lambda item: [_number(item.versions[name]) for name in ("torch", "onnxruntime")])
    path.write_text(json.dumps([asdict(item) for item in rows], indent=1) + "\n", encoding="utf-8")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.passed + outcome.failed + outcome.skipped == 1:
        return "passed" if outcome.passed else "failed"
    parts = [f"{outcome.passed:,} passed"]
    parts += [
        f"{n:,} {label}"
        for n, label in ((outcome.failed, "failed"), (outcome.skipped, "skipped"))
        if n
    ]
    return ", ".join(parts)


def text(rows: Sequence[Row]) -> str:
    """Return the text of the page."""
    columns = suites(jobs=1)
    heads = ["", "Python", "torch", "onnx", "onnxruntime", *(s.title for s in columns), "commit"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        by_name = {outcome.suite: outcome for outcome in row.outcomes}
        versions = [row.versions[name] for name in ("python", "torch", "onnx", "onnxruntime")]
        cells = [_cell(by_name.get(suite.name)) for suite in columns]
        lines.append([row.name, *versions, *cells, f"{row.commit} ({row.date})"])
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return _INTRODUCTION.format(tested=_tested()) + table + _END


def _tested() -> str:
    """Return a table of the tested versions."""
    rows = [["library", "tested versions"], ["---", "---"]]
    rows += [[library, ", ".join(versions)] for library, versions in TESTED.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
