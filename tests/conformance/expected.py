"""Expected failures: which outcomes other than ``exact`` are known, each group with its reason; a
failure that is not listed fails the run, and so does a listed one that no longer happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.check import FAULTS, OUTCOMES

FILE = Path(__file__).with_name("expected.yaml")
ACCEPTED = ("exact", "uncaptured")


@dataclass(frozen=True)
class Expectation:
    """One group: the outcome, why it is so, and the OpInfos with the dtypes it holds for."""

    outcome: str
    reason: str
    ops: Mapping[str, tuple[str, ...]]
    kind: str = "forward"


def load(path: Path = FILE) -> list[Expectation]:
    """Read the expected failures; ValueError when one has no reason or an unknown outcome."""
    groups = []
    for entry in yaml.safe_load(path.read_text()) or []:
        complete = entry.get("reason") and entry.get("ops")
        if not complete or entry.get("outcome") not in OUTCOMES:
            raise ValueError(f"{path.name}: a group needs outcome, reason and ops: {entry}")
        ops = {str(op): tuple(str(d) for d in dtypes) for op, dtypes in entry["ops"].items()}
        groups.append(
            Expectation(entry["outcome"], entry["reason"], ops, entry.get("kind", "forward"))
        )
    return groups


@dataclass(frozen=True)
class Verdict:
    """What the run says: samples that fail without being expected, expectations that are stale."""

    unexpected: tuple[Mapping[str, Any], ...]
    stale: tuple[str, ...]
    faults: int

    @property
    def passed(self) -> bool:
        """True when every failure was expected, and every expectation still holds."""
        return not self.unexpected and not self.stale


def judge(
    records: Iterable[Mapping[str, Any]], groups: Iterable[Expectation], complete: bool
) -> Verdict:
    """Compare a run with the expectations.

    ``complete``: all samples of each (OpInfo, dtype) that occurs were run, so an expectation that
    none of them meets is stale.
    """
    known = {
        (group.kind, op, dtype, group.outcome)
        for group in groups
        for op, dtypes in group.ops.items()
        for dtype in dtypes
    }
    seen, ran, unexpected, faults = set(), set(), [], 0
    for record in records:
        key = (record["kind"], record["op"], record["dtype"], record["outcome"])
        ran.add(key[:3])
        seen.add(key)
        faults += record["outcome"] in FAULTS
        if record["outcome"] not in ACCEPTED and key not in known:
            unexpected.append(record)
    stale = [
        f"{op} ({kind}, {dtype}) is expected to be {outcome}, and is not"
        for kind, op, dtype, outcome in sorted(known - seen)
        if complete and (kind, op, dtype) in ran
    ]
    return Verdict(tuple(unexpected), tuple(stale), faults)
