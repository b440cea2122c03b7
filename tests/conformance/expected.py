"""Which outcomes other than ``exact`` are known. In come the records of a run, out comes a verdict:
what was not expected, and what was expected and is not so any more. __main__.py calls it.

Two files say what is expected. A person keeps ``expected.yaml``: the reasons, each with the
operators that it holds for and words that the refusal must say. The run writes ``recorded-V.yaml``
for a version of torch (``--record-expected``): for each kind, OpInfo and dtype (a *group*) how many
samples torch yields, and which of them fail, in which mode and at which opsets. A sample that fails
without being recorded is unexpected, a recorded one that does not is stale; a refusal needs a
reason, recorded or not, and a fault can not be recorded.

A group that is not recorded is judged by the reasons alone, and by floors: so much of a dtype and
of an OpInfo must be captured.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.conformance.check import FAULTS, OUTCOMES
from tests.conformance.plan import FULL, chosen_samples

FOLDER = Path(__file__).parent
FILE = FOLDER / "expected.yaml"
# Of samples in groups that are not recorded, by kind and dtype, from so many on.
ENOUGH = 20
ENOUGH_OF_ONE = 4  # samples of an OpInfo
CAPTURED_SHARE = 0.85
DYNAMIC_SHARE = 0.5
RESIZED_SHARE = 0.5
Group = tuple[str, str, str]  # kind, OpInfo, dtype
Place = tuple[str, int | None]  # mode, opset (None: whatever the opset)


@dataclass(frozen=True)
class Reason:
    """Why an outcome is known: the OpInfos, and words of which the refusal has one."""

    outcome: str
    reason: str
    ops: frozenset[str]
    says: tuple[str, ...] = ()

    def explains(self, op: str, outcome: str, detail: str) -> bool:
        """Whether it is the reason of a run's outcome."""
        if outcome != self.outcome or op not in self.ops:
            return False
        return not self.says or any(words in detail for words in self.says)


def load(path: Path = FILE) -> list[Reason]:
    """Read the reasons; ValueError when one lacks something or names a fault."""
    found = []
    for entry in yaml.safe_load(path.read_text()) or []:
        outcome, ops = entry.get("outcome"), entry.get("ops")
        if not entry.get("reason") or not ops or outcome not in OUTCOMES or outcome in FAULTS:
            raise ValueError(f"{path.name}: a group needs outcome, reason and ops: {entry}")
        says = entry.get("says", ())
        words = (says,) if isinstance(says, str) else tuple(says)
        found.append(Reason(outcome, entry["reason"], frozenset(map(str, ops)), words))
    return found


# -- what is recorded -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """Samples (None: all) with an outcome, in a mode (None: all) and at some opsets (None: all)."""

    outcome: str
    why: str = ""
    mode: str | None = None
    opsets: tuple[int, ...] | None = None
    samples: tuple[int, ...] | None = None

    def __str__(self) -> str:
        word = f"{self.outcome}:{self.why}" if self.why else self.outcome
        at = "@" + "+".join(map(str, self.opsets)) if self.opsets is not None else ""
        which = "all" if self.samples is None else " ".join(map(str, self.samples))
        return f"{self.mode + ' ' if self.mode else ''}{word}{at} {which}"


@dataclass(frozen=True)
class Recorded:
    """What is recorded of a group: the samples that torch yields, and those that are not exact."""

    total: int
    clauses: tuple[Clause, ...] = ()

    def __str__(self) -> str:
        return ", ".join([str(self.total), *map(str, self.clauses)])

    def at(self, index: int, mode: str, opset: int | None) -> str | None:
        """The outcome recorded of a run (with torch's reason class), None for an exact one."""
        for clause in self.clauses:
            if (
                (clause.samples is None or index in clause.samples)
                and clause.mode in (None, mode)
                and (clause.opsets is None or opset in clause.opsets)
            ):
                return f"{clause.outcome}:{clause.why}" if clause.why else clause.outcome
        return None


def parse(text: str) -> Recorded:
    """Read ``33, refused@26 all, dynamic uncaptured:data 3 5``; ValueError when it is no such."""
    first, *rest = [part.strip() for part in str(text).split(",")]
    clauses = []
    for part in rest:
        words = part.split()
        mode = words.pop(0) if words[0] in ("static", "dynamic") else None
        head, *which = words
        head, _, at = head.partition("@")
        outcome, _, why = head.partition(":")
        if not which or outcome not in OUTCOMES or outcome in FAULTS:
            raise ValueError(f"no outcome that can be recorded: {part!r}")
        samples = None if which == ["all"] else tuple(int(each) for each in which)
        opsets = tuple(int(each) for each in at.split("+")) if at else None
        clauses.append(Clause(outcome, why, mode, opsets, samples))
    return Recorded(int(first), tuple(clauses))


def recorded_file(version: str = "") -> Path:
    """The file for a version of torch (default: the installed one)."""
    major, minor = (version or torch.__version__).split(".")[:2]
    return FOLDER / f"recorded-{major}.{minor}.yaml"


def read_recorded(path: Path | None = None) -> tuple[dict[Group, Recorded], int]:
    """What is recorded, and how many groups of the full run are not; nothing where no file is."""
    path = path or recorded_file()
    if not path.exists():
        return {}, 0
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(), Loader=loader)
    found = {
        (kind, op, dtype): parse(text)
        for op, kinds in content["groups"].items()
        for kind, dtypes in kinds.items()
        for dtype, text in dtypes.items()
    }
    return found, int(content["unrecorded"])


def write_recorded(path: Path, recorded: Mapping[Group, Recorded], unrecorded: int) -> None:
    """Write what is recorded, a line for each kind of an OpInfo."""
    lines = [
        "# What the conformance run found, by OpInfo, kind, dtype: how many samples torch yields",
        "# and which of them are not exact. Written by `python -m tests.conformance",
        "# --record-expected`; the reasons are in expected.yaml. `unrecorded` groups are judged by",
        "# the reasons alone.",
        f"unrecorded: {unrecorded}",
        "groups:" if recorded else "groups: {}",
    ]
    by_op: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    order = {key: place for place, key in enumerate(FULL)}
    for kind, op, dtype in sorted(recorded, key=lambda g: (g[1], order.get((g[0], g[2]), 99))):
        text = str(recorded[kind, op, dtype])
        by_op[op][kind].append(f"{dtype}: " + (text if text.isdigit() else f'"{text}"'))
    for op, kinds in by_op.items():
        lines.append(f'  "{op}":')
        lines += [f"    {kind}: {{{', '.join(texts)}}}" for kind, texts in kinds.items()]
    path.write_text("\n".join(lines) + "\n")


def to_record(group: Group, records: Iterable[Mapping[str, Any]]) -> Recorded | None:
    """What the records of a group say; None when they are not those of a full run, or faulty."""
    records = list(records)
    run = FULL[group[0], group[2]]
    total = max((record["total"] for record in records), default=0)
    chosen = chosen_samples(*group, total) or ([-1] if records else [])
    samples: dict[tuple[str, str, str | None, tuple[int, ...] | None], list[int]] = {}
    for record in records:
        full = record["modes"] == list(run.modes) and record["opsets"] == list(run.opsets)
        if not full or any(each["outcome"] in FAULTS for each in record["runs"]):
            return None
        for key in _clauses_of(record):
            samples.setdefault(key, []).append(record["index"])
    if sorted(record["index"] for record in records) != list(chosen):
        return None
    return Recorded(
        total,
        tuple(
            Clause(*key, None if sorted(places) == list(chosen) else tuple(sorted(places)))
            for key, places in sorted(samples.items(), key=lambda item: str(item[0]))
        ),
    )


def _clauses_of(
    record: Mapping[str, Any],
) -> Iterator[tuple[str, str, str | None, tuple[int, ...] | None]]:
    """(outcome, class, mode, opsets) of what failed, in the shortest form."""
    opsets: dict[tuple[str, str], dict[str, list[int | None]]] = {}
    for run in record["runs"]:
        modes = opsets.setdefault((run["outcome"], run["class"]), {})
        modes.setdefault(run["mode"], []).append(run["opset"])
    for (outcome, why), modes in opsets.items():
        short = {
            mode: None if None in at or at == record["opsets"] else tuple(o for o in at if o)
            for mode, at in modes.items()
        }
        everywhere = set(short) == set(record["modes"]) and len(set(short.values())) == 1
        ended = outcome == "uncaptured" and record["modes"][0] in short
        if everywhere or ended:
            yield outcome, why, None, short[record["modes"][0]]
            continue
        for mode, at in short.items():
            yield outcome, why, mode, at


# -- the verdict ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What the run says: runs of samples that fail without being expected, what is expected and is
    not so, floors that were not reached; and how many samples no record holds to anything."""

    unexpected: tuple[Mapping[str, Any], ...] = ()
    stale: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    faults: int = 0
    unrecorded: int = 0

    @property
    def passed(self) -> bool:
        """True when every failure was expected, and every expectation still holds."""
        return not (self.unexpected or self.stale or self.low)


@dataclass
class _Findings:
    unexpected: list[Mapping[str, Any]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    loose: list[Mapping[str, Any]] = field(default_factory=list)


def judge(
    records: Iterable[Mapping[str, Any]],
    reasons: Iterable[Reason],
    recorded: Mapping[Group, Recorded],
    complete: bool = False,
) -> Verdict:
    """Compare a run with what is expected.

    ``complete``: all samples of each group that occurs were run, so that one fewer is stale.
    """
    records, reasons, found = list(records), list(reasons), _Findings()
    indices: dict[Group, set[int]] = defaultdict(set)
    for record in records:
        group = (record["kind"], record["op"], record["dtype"])
        indices[group].add(record["index"])
        known = recorded.get(group)
        if known is not None and _is_recorded(group, known, record):
            _exactly(record, known, reasons, found)
        elif known is not None and known.total != record["total"]:
            found.stale.append(f"{_words(group)}: {record['total']} samples, not {known.total}")
        else:
            found.loose.append(record)
            found.unexpected += [
                {**record, **run}
                for run in record["runs"]
                if run["outcome"] != "uncaptured" and not _explained(record, run, reasons)
            ]
    for group, seen in indices.items() if complete else ():
        known = recorded.get(group)
        if known is not None and (missing := set(chosen_samples(*group, known.total)) - seen):
            found.stale.append(f"{_words(group)}: samples {sorted(missing)} did not run")
    return Verdict(
        tuple(found.unexpected), tuple(dict.fromkeys(found.stale)),
        tuple(_floors(found.loose, reasons)),
        sum(record["outcome"] in FAULTS for record in records), len(found.loose),
    )  # fmt: skip


def _is_recorded(group: Group, known: Recorded, record: Mapping[str, Any]) -> bool:
    """Whether the record is of a run that the full run takes, too."""
    run = FULL.get((group[0], group[2]))
    chosen = chosen_samples(*group, known.total) or [-1]
    return (
        run is not None
        and record["total"] == known.total
        and record["index"] in chosen
        and set(record["modes"]) <= set(run.modes)
        and set(record["opsets"]) <= set(run.opsets)
    )


def _exactly(
    record: Mapping[str, Any], known: Recorded, reasons: list[Reason], found: _Findings
) -> None:
    runs = {(run["mode"], run["opset"]): run for run in record["runs"]}
    first = runs.get((record["modes"][0], None))
    ended = first is not None and first["outcome"] == "uncaptured"
    wrong: dict[int, Mapping[str, Any]] = {
        id(run): run
        for run in record["runs"]
        if run["outcome"] != "uncaptured" and not _explained(record, run, reasons)
    }
    for mode, opset in _places(record, ended):
        run = runs.get((mode, opset)) or runs.get((mode, None))
        wanted = known.at(record["index"], mode, opset)
        if run is not None and _word(run) != wanted:
            wrong[id(run)] = run
        elif run is None and wanted is not None:
            where = mode if opset is None else f"{mode}, opset {opset}"
            text = f"{_words((record['kind'], record['op'], record['dtype']))}, sample"
            found.stale.append(f"{text} {record['index']} ({where}) is recorded as {wanted}")
    found.unexpected += [{**record, **run} for run in wrong.values()]


def _places(record: Mapping[str, Any], ended: bool) -> Iterator[Place]:
    """Where the sample ran; a sample that torch does not capture ends in its first mode."""
    for mode in record["modes"][: 1 if ended else None]:
        for opset in record["opsets"] or [None]:
            yield mode, opset


def _word(run: Mapping[str, Any]) -> str:
    return f"{run['outcome']}:{run['class']}" if run["class"] else str(run["outcome"])


def _words(group: Group) -> str:
    return f"{group[1]} ({group[0]}, {group[2]})"


def _explained(
    record: Mapping[str, Any], run: Mapping[str, Any], reasons: Iterable[Reason]
) -> bool:
    return any(each.explains(record["op"], run["outcome"], run["detail"]) for each in reasons)


def _floors(records: Sequence[Mapping[str, Any]], reasons: list[Reason]) -> Iterator[str]:
    """What is captured too seldom, of samples that no record holds to anything."""
    exempt = {op for each in reasons if each.outcome == "uncaptured" for op in each.ops}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        captured = record["outcome"] != "uncaptured"
        kind = f"{record['kind']}, {record['dtype']}"
        counts[kind][str(captured)] += 1
        if record["op"] not in exempt:
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
        for good, bad, share, words in (
            ("True", "False", CAPTURED_SHARE, "captured"),
            ("dynamic", "only static", DYNAMIC_SHARE, "captured with dynamic sizes"),
            ("resized", "not resized", RESIZED_SHARE, "run at other sizes"),
        ):
            total = count[good] + count[bad]
            if total >= ENOUGH and count[good] < share * total:
                yield f"{name}: {count[good]} of {total} samples {words}, under {share:.0%}"
        if count["none"] >= ENOUGH_OF_ONE and not count["any"]:
            yield f"{name}: none of {count['none']} samples captured"
    sides = [record["outcome"] != "uncaptured" for record in records if record["op"] not in exempt]
    if sides and not any(sides):
        yield f"none of {len(sides)} samples captured"


def updated(
    recorded: Mapping[Group, Recorded],
    records: Iterable[Mapping[str, Any]],
    finished: Iterable[Group],
) -> tuple[dict[Group, Recorded], list[Group]]:
    """What is recorded after a run, and the finished groups that can not be (a fault, or a choice
    of samples that is not the full run's); those lose what was recorded of them."""
    by_group: dict[Group, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        by_group[record["kind"], record["op"], record["dtype"]].append(record)
    fresh, left = dict(recorded), []
    for group in finished:
        found = to_record(group, by_group[group])
        if found is None:
            fresh.pop(group, None)
            left.append(group)
        else:
            fresh[group] = found
    return fresh, left
