"""Compare the errors of compiled calls with eager's, and with expected.yaml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.rotation import rotation_seed

from .op_errors import bad_calls, operators, run_call
from .rows import Outcome, all_rows, run_row

FOLDER = Path(__file__).parent
PARTS = 10  # a bounded run tests one part of the operators
# torch.compile raises these with every backend
_TRACING = ("TorchRuntimeError", "Unsupported", "UserError", "BackendCompilerFailed")


@dataclass(frozen=True)
class Verdict:
    """How the error of a compiled call compares with eager's.

    ``kind`` is `same`, `words` (another message), `tracing`, `other` (another class), `none` (no
    error), or `torch` (torch's own backend raises no error, either).
    """

    name: str
    kind: str
    eager: Outcome
    compiled: Outcome

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.kind}\n    eager:    {self.eager.error}: {self.eager.text}\n"
            f"    compiled: {self.compiled.error or 'no error'}: {self.compiled.text}"
        )


def judge_rows() -> Iterator[Verdict]:
    """Yield a verdict on the sample of every row of the tables."""
    for row in all_rows():
        yield _make_verdict(f"row {row.name}", run_row(row, None), run_row(row, "ortable"))


def judge_calls(bounded: bool) -> Iterator[Verdict]:
    """Yield verdicts on calls of the operator database that eager refuses, or on a part."""
    first = rotation_seed() % PARTS
    for name in sorted(operators())[first::PARTS] if bounded else sorted(operators()):
        for call in bad_calls(name):
            eager = run_call(call, None)
            if eager.error:
                verdict = _make_verdict(call.name, eager, run_call(call, "ortable"))
                if verdict.kind == "none" and not run_call(call, "aot_eager").error:
                    verdict = replace(verdict, kind="torch")
                yield verdict


def _make_verdict(name: str, eager: Outcome, compiled: Outcome) -> Verdict:
    if not compiled.error:
        kind = "none"
    elif compiled.error in _TRACING:
        kind = "tracing"
    elif compiled.error != eager.error:
        kind = "other"
    else:
        kind = "same" if compiled.is_like(eager) else "words"
    return Verdict(name, kind, eager, compiled)


def expected() -> dict[str, dict[str, str]]:
    """Return calls whose error differs from eager's, with the kind and the reason."""
    text = (FOLDER / "expected.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, str]] = yaml.safe_load(text)
    return {row["call"]: row for row in rows}


def unexpected(verdicts: Iterable[Verdict], is_complete: bool) -> list[str]:
    """Return lines on unexplained differences, and on unused rows of expected.yaml."""
    rows, lines, used = expected(), [], set()
    for verdict in verdicts:
        row = rows.get(verdict.name)
        if row is not None and row["kind"] == verdict.kind:
            used.add(verdict.name)
        elif verdict.kind in ("none", "other") or (
            verdict.kind == "words" and verdict.name.startswith("row ")
        ):
            lines.append(str(verdict))
    unused = sorted(set(rows) - used) if is_complete else []
    return lines + [
        f"{name}: expected.yaml explains a difference that does not occur" for name in unused
    ]


def write_results(verdicts: Iterable[Verdict]) -> None:
    """Write the number of calls of each kind."""
    counts: Any = {"rows": Counter(), "operator database": Counter()}
    for verdict in verdicts:
        part = "rows" if verdict.name.startswith("row ") else "operator database"
        counts[part][verdict.kind] += 1
    head = "# Calls that eager refuses, by verdict: python -m tests.data_checks --record\n"
    text = yaml.safe_dump({part: dict(counter) for part, counter in counts.items()})
    (FOLDER / "results.yaml").write_text(head + text, encoding="utf-8")
