"""Compare the records of a run with the outcomes other than ``exact`` that are known.

Two files contain these. ``expected.yaml`` is edited by hand: the reasons, each with the operators
that it holds for and texts of which the refusal contains one. A run writes ``recorded-V.yaml`` for
a version of torch (``--record-expected``): for each kind, OpInfo and dtype (a *group*) the number
of samples that torch yields, and those that fail, with modes and opsets. A sample that fails
without a record is unexpected, a recorded failure that passes is stale; a refusal needs a reason,
recorded or not, and a fault can not be recorded.

A group that is not recorded is judged by the reasons alone, and by floors: minimal shares of
captured samples of a dtype and of an OpInfo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import yaml

from tests.conformance.check import FAULTS, OUTCOMES
from tests.conformance.plan import FULL, chosen_samples

FOLDER = Path(__file__).parent
FILE = FOLDER / "expected.yaml"
# The floors hold for kinds and dtypes with at least this many samples that are not recorded.
MIN_SAMPLES = 20
MIN_SAMPLES_OF_OP = 4  # samples of an OpInfo
MIN_CAPTURED_SHARE = 0.85
MIN_DYNAMIC_SHARE = 0.5
MIN_RESIZED_SHARE = 0.5
Group = tuple[str, str, str]  # kind, OpInfo, dtype
Place = tuple[str, int | None]  # mode, opset (None: every opset)


@dataclass(frozen=True)
class Reason:
    """The reason of a known outcome: the OpInfos, and texts of which the refusal contains one."""

    outcome: str
    reason: str
    ops: frozenset[str]
    says: tuple[str, ...] = ()

    def explains(self, op: str, outcome: str, detail: str) -> bool:
        """Return whether this is the reason of a run's outcome."""
        if outcome != self.outcome or op not in self.ops:
            return False
        return not self.says or any(words in detail for words in self.says)


def load(path: Path = FILE) -> list[Reason]:
    """Read the reasons; raise ValueError where a field is missing or the outcome is a fault."""
    reasons = []
    for entry in yaml.safe_load(path.read_text()) or []:
        outcome, ops = entry.get("outcome"), entry.get("ops")
        if not entry.get("reason") or not ops or outcome not in OUTCOMES or outcome in FAULTS:
            raise ValueError(f"{path.name}: a group needs outcome, reason and ops: {entry}")
        says = entry.get("says", ())
        texts = (says,) if isinstance(says, str) else tuple(says)
        reasons.append(Reason(outcome, entry["reason"], frozenset(map(str, ops)), texts))
    return reasons


# -- records --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """Samples (None: all) with an outcome, in a mode (None: all) and at some opsets (None: all)."""

    outcome: str
    reason: str = ""
    mode: str | None = None
    opsets: tuple[int, ...] | None = None
    samples: tuple[int, ...] | None = None

    def __str__(self) -> str:
        name = f"{self.outcome}:{self.reason}" if self.reason else self.outcome
        opsets = "@" + "+".join(map(str, self.opsets)) if self.opsets is not None else ""
        samples = "all" if self.samples is None else " ".join(map(str, self.samples))
        return f"{self.mode + ' ' if self.mode else ''}{name}{opsets} {samples}"


@dataclass(frozen=True)
class Recorded:
    """The record of a group: the number of samples that torch yields, and the failures."""

    total: int
    clauses: tuple[Clause, ...] = ()

    def __str__(self) -> str:
        return ", ".join([str(self.total), *map(str, self.clauses)])

    def at(self, index: int, mode: str, opset: int | None) -> str | None:
        """Return the recorded outcome of a run (with its reason class), None for an exact run."""
        for clause in self.clauses:
            if (
                (clause.samples is None or index in clause.samples)
                and clause.mode in (None, mode)
                and (clause.opsets is None or opset in clause.opsets)
            ):
                return f"{clause.outcome}:{clause.reason}" if clause.reason else clause.outcome
        return None


def parse(text: str) -> Recorded:
    """Parse ``33, refused@26 all, dynamic uncaptured:data 3 5``; raise ValueError at an error."""
    first, *rest = [part.strip() for part in str(text).split(",")]
    clauses = []
    for part in rest:
        words = part.split()
        mode = words.pop(0) if words[0] in ("static", "dynamic") else None
        head, *indices = words
        head, _, opset_text = head.partition("@")
        outcome, _, reason_class = head.partition(":")
        if not indices or outcome not in OUTCOMES or outcome in FAULTS:
            raise ValueError(f"no outcome that can be recorded: {part!r}")
        samples = None if indices == ["all"] else tuple(int(number) for number in indices)
        opsets = tuple(int(number) for number in opset_text.split("+")) if opset_text else None
        clauses.append(Clause(outcome, reason_class, mode, opsets, samples))
    return Recorded(int(first), tuple(clauses))


def recorded_file(version: str = "") -> Path:
    """Return the file for a version of torch (default: the installed version)."""
    major, minor = (version or torch.__version__).split(".")[:2]
    return FOLDER / f"recorded-{major}.{minor}.yaml"


def read_recorded(path: Path | None = None) -> tuple[dict[Group, Recorded], int]:
    """Return the records and the number of groups without; nothing if the file is missing."""
    path = path or recorded_file()
    if not path.exists():
        return {}, 0
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(), Loader=loader)
    recorded = {
        (kind, op, dtype): parse(text)
        for op, kinds in content["groups"].items()
        for kind, dtypes in kinds.items()
        for dtype, text in dtypes.items()
    }
    return recorded, int(content["unrecorded"])


def write_recorded(path: Path, recorded: Mapping[Group, Recorded], unrecorded: int) -> None:
    """Write the records, one line for each kind of an OpInfo."""
    lines = [
        "# What the conformance run found, by OpInfo, kind, dtype: how many samples torch yields",
        "# and which of them are not exact. Written by `python -m tests.conformance",
        "# --record-expected`; the reasons are in expected.yaml. `unrecorded` groups are judged by",
        "# the reasons alone.",
        f"unrecorded: {unrecorded}",
        "groups:" if recorded else "groups: {}",
    ]
    by_op: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    order = {key: index for index, key in enumerate(FULL)}
    for kind, op, dtype in sorted(recorded, key=lambda g: (g[1], order.get((g[0], g[2]), 99))):
        text = str(recorded[kind, op, dtype])
        by_op[op][kind].append(f"{dtype}: " + (text if text.isdigit() else f'"{text}"'))
    for op, kinds in by_op.items():
        lines.append(f'  "{op}":')
        lines += [f"    {kind}: {{{', '.join(texts)}}}" for kind, texts in kinds.items()]
    path.write_text("\n".join(lines) + "\n")


def to_record(group: Group, records: Iterable[Mapping[str, Any]]) -> Recorded | None:
    """Return the record of a group; None for a fault, or for records that are not of a full run."""
    records = list(records)
    run = FULL[group[0], group[2]]
    total = max((record["total"] for record in records), default=0)
    selected = chosen_samples(*group, total) or ([-1] if records else [])
    samples: dict[tuple[str, str, str | None, tuple[int, ...] | None], list[int]] = {}
    for record in records:
        is_full = record["modes"] == list(run.modes) and record["opsets"] == list(run.opsets)
        if not is_full or any(r["outcome"] in FAULTS for r in record["runs"]):
            return None
        for key in _clauses_of(record):
            samples.setdefault(key, []).append(record["index"])
    if sorted(record["index"] for record in records) != list(selected):
        return None
    return Recorded(
        total,
        tuple(
            Clause(*key, None if sorted(indices) == list(selected) else tuple(sorted(indices)))
            for key, indices in sorted(samples.items(), key=lambda item: str(item[0]))
        ),
    )


def _clauses_of(
    record: Mapping[str, Any],
) -> Iterator[tuple[str, str, str | None, tuple[int, ...] | None]]:
    """Yield (outcome, class, mode, opsets) of the failures, in the shortest form."""
    opsets: dict[tuple[str, str], dict[str, list[int | None]]] = {}
    for run in record["runs"]:
        modes = opsets.setdefault((run["outcome"], run["class"]), {})
        modes.setdefault(run["mode"], []).append(run["opset"])
    for (outcome, reason), modes in opsets.items():
        by_mode = {
            mode: None
            if None in listed or listed == record["opsets"]
            else tuple(o for o in listed if o)
            for mode, listed in modes.items()
        }
        everywhere = set(by_mode) == set(record["modes"]) and len(set(by_mode.values())) == 1
        is_uncaptured = outcome == "uncaptured" and record["modes"][0] in by_mode
        if everywhere or is_uncaptured:
            yield outcome, reason, None, by_mode[record["modes"][0]]
            continue
        for mode, listed in by_mode.items():
            yield outcome, reason, mode, listed


# -- judging a run --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The result of judging a run: failures, stale records, floors not reached, and counts."""

    unexpected: tuple[Mapping[str, Any], ...] = ()
    stale: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    faults: int = 0
    unrecorded: int = 0

    @property
    def passed(self) -> bool:
        """Return whether every failure was expected, and every expectation still holds."""
        return not (self.unexpected or self.stale or self.low)


@dataclass
class _Findings:
    unexpected: list[Mapping[str, Any]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    unrecorded: list[Mapping[str, Any]] = field(default_factory=list)


def judge(
    records: Iterable[Mapping[str, Any]],
    reasons: Iterable[Reason],
    recorded: Mapping[Group, Recorded],
    complete: bool = False,
    known: Mapping[Group, Recorded] = MappingProxyType({}),
) -> Verdict:
    """Compare a run with the expectations.

    ``complete``: all samples of each group were run, so that a missing sample is stale. A sample
    that the records ``known``, of any torch, do not capture counts for no floor of an operator.
    """
    records, reasons, findings = list(records), list(reasons), _Findings()
    indices: dict[Group, set[int]] = defaultdict(set)
    for record in records:
        group = (record["kind"], record["op"], record["dtype"])
        indices[group].add(record["index"])
        entry = recorded.get(group)
        if entry is not None and _is_in_full_run(group, entry, record):
            _compare_with_record(record, entry, reasons, findings)
        elif entry is not None and entry.total != record["total"]:
            findings.stale.append(
                f"{_name_of(group)}: {record['total']} samples, not {entry.total}"
            )
        else:
            findings.unrecorded.append(record)
            findings.unexpected += [
                {**record, **run}
                for run in record["runs"]
                if run["outcome"] != "uncaptured" and not _is_explained(record, run, reasons)
            ]
    for group, sampled in indices.items() if complete else ():
        entry = recorded.get(group)
        if entry is not None and (missing := set(chosen_samples(*group, entry.total)) - sampled):
            findings.stale.append(f"{_name_of(group)}: samples {sorted(missing)} did not run")
    return Verdict(
        tuple(findings.unexpected), tuple(dict.fromkeys(findings.stale)),
        tuple(_floors(findings.unrecorded, reasons, known)),
        sum(record["outcome"] in FAULTS for record in records), len(findings.unrecorded),
    )  # fmt: skip


def _is_in_full_run(group: Group, entry: Recorded, record: Mapping[str, Any]) -> bool:
    """Return whether the record is of a run that the full run includes."""
    run = FULL.get((group[0], group[2]))
    selected = chosen_samples(*group, entry.total) or [-1]
    return (
        run is not None
        and record["total"] == entry.total
        and record["index"] in selected
        and set(record["modes"]) <= set(run.modes)
        and set(record["opsets"]) <= set(run.opsets)
    )


def _compare_with_record(
    record: Mapping[str, Any], entry: Recorded, reasons: list[Reason], findings: _Findings
) -> None:
    runs = {(run["mode"], run["opset"]): run for run in record["runs"]}
    first = runs.get((record["modes"][0], None))
    is_uncaptured = first is not None and first["outcome"] == "uncaptured"
    wrong: dict[int, Mapping[str, Any]] = {
        id(run): run
        for run in record["runs"]
        if run["outcome"] != "uncaptured" and not _is_explained(record, run, reasons)
    }
    for mode, opset in _run_places(record, is_uncaptured):
        run = runs.get((mode, opset)) or runs.get((mode, None))
        expected = entry.at(record["index"], mode, opset)
        if run is not None and _outcome_name(run) != expected:
            wrong[id(run)] = run
        elif run is None and expected is not None:
            where = mode if opset is None else f"{mode}, opset {opset}"
            text = f"{_name_of((record['kind'], record['op'], record['dtype']))}, sample"
            findings.stale.append(f"{text} {record['index']} ({where}) is recorded as {expected}")
    findings.unexpected += [{**record, **run} for run in wrong.values()]


def _run_places(record: Mapping[str, Any], is_uncaptured: bool) -> Iterator[Place]:
    """Yield the modes and opsets of a sample; an uncaptured sample ends in its first mode."""
    for mode in record["modes"][: 1 if is_uncaptured else None]:
        for opset in record["opsets"] or [None]:
            yield mode, opset


def _outcome_name(run: Mapping[str, Any]) -> str:
    return f"{run['outcome']}:{run['class']}" if run["class"] else str(run["outcome"])


def _name_of(group: Group) -> str:
    return f"{group[1]} ({group[0]}, {group[2]})"


def _is_explained(
    record: Mapping[str, Any], run: Mapping[str, Any], reasons: Iterable[Reason]
) -> bool:
    return any(reason.explains(record["op"], run["outcome"], run["detail"]) for reason in reasons)


def _is_known_uncaptured(record: Mapping[str, Any], known: Mapping[Group, Recorded]) -> bool:
    """Return whether a record of some torch, with the same samples, does not capture the sample."""
    entry = known.get((record["kind"], record["op"], record["dtype"]), Recorded(-1))
    outcome = entry.at(record["index"], record["modes"][0], None) or ""
    return entry.total == record["total"] and outcome.startswith("uncaptured")


def _floors(
    records: Sequence[Mapping[str, Any]], reasons: list[Reason], known: Mapping[Group, Recorded]
) -> Iterator[str]:
    """Describe the shares that are too low among samples without a record."""
    exempt = {op for reason in reasons if reason.outcome == "uncaptured" for op in reason.ops}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        captured = record["outcome"] != "uncaptured"
        kind = f"{record['kind']}, {record['dtype']}"
        counts[kind][str(captured)] += 1
        if record["op"] not in exempt and not _is_known_uncaptured(record, known):
            counts[f"{record['op']}, {record['kind']}"]["any" if captured else "none"] += 1
        if captured and "dynamic" in record["modes"]:
            failed = any(
                run["outcome"] == "uncaptured" and run["mode"] == "dynamic"
                for run in record["runs"]
            )
            counts[kind]["only static" if failed else "dynamic"] += 1
            if record["dynamic"] and record["outcome"] == "exact":
                counts[kind]["resized" if record["sizes"] else "not resized"] += 1
    for name, count in counts.items():
        for good_key, bad_key, minimum, label in (
            ("True", "False", MIN_CAPTURED_SHARE, "captured"),
            ("dynamic", "only static", MIN_DYNAMIC_SHARE, "captured with dynamic sizes"),
            ("resized", "not resized", MIN_RESIZED_SHARE, "run at other sizes"),
        ):
            total = count[good_key] + count[bad_key]
            if total >= MIN_SAMPLES and count[good_key] < minimum * total:
                yield f"{name}: {count[good_key]} of {total} samples {label}, under {minimum:.0%}"
        if count["none"] >= MIN_SAMPLES_OF_OP and not count["any"]:
            yield f"{name}: none of {count['none']} samples captured"
    captures = [row["outcome"] != "uncaptured" for row in records if row["op"] not in exempt]
    if captures and not any(captures):
        yield f"none of {len(captures)} samples captured"


def updated(
    recorded: Mapping[Group, Recorded],
    records: Iterable[Mapping[str, Any]],
    finished: Iterable[Group],
) -> tuple[dict[Group, Recorded], list[Group]]:
    """Return the records after a run, without those of finished groups that can not be recorded."""
    by_group: dict[Group, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        by_group[record["kind"], record["op"], record["dtype"]].append(record)
    new_recorded, failed = dict(recorded), []
    for group in finished:
        entry = to_record(group, by_group[group])
        if entry is None:
            new_recorded.pop(group, None)
            failed.append(group)
        else:
            new_recorded[group] = entry
    return new_recorded, failed
