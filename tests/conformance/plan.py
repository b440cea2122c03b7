"""What a run takes: in come the options of the command line, out come the tasks, one for each kind,
OpInfo and dtype. __main__.py calls it; expected.py asks which samples the full run consists of.

The full run is the table below. The short run of CI takes one sample of a share of its groups:
which ones follows from a number, the *part*, that is read from the commit, so that every commit
tries others and a failure can be run again (``--bounded --part N``).
"""

from __future__ import annotations

import fnmatch
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ortablegen.schemas.onnx import CEILING, FLOOR
from tests.conformance.samples import op_infos, spread, takes, takes_gradients

MIDDLE = (FLOOR + CEILING) // 2
KINDS = ("forward", "compiled", "gradient")


@dataclass(frozen=True)
class Run:
    """How the full run takes a kind and dtype. The short run takes one OpInfo out of ``every``, and
    one out of four of these with dynamic sizes, too."""

    samples: int
    opsets: tuple[int, ...]
    modes: tuple[str, ...]
    every: int


BOTH = ("static", "dynamic")
ENDS = (FLOOR, CEILING)
ALL = (FLOOR, MIDDLE, CEILING)
FULL: dict[tuple[str, str], Run] = {
    ("forward", "f32"): Run(10, ALL, BOTH, 1),
    ("forward", "i64"): Run(10, ALL, BOTH, 10),
    ("forward", "bool"): Run(10, ALL, BOTH, 10),
    ("forward", "f16"): Run(4, ENDS, BOTH, 14),
    ("forward", "bf16"): Run(4, ENDS, BOTH, 14),
    ("forward", "f64"): Run(4, ENDS, BOTH, 14),
    ("forward", "c64"): Run(4, ENDS, BOTH, 14),
    ("forward", "c128"): Run(2, ENDS, BOTH, 20),
    ("forward", "i32"): Run(2, ENDS, BOTH, 20),
    ("forward", "i16"): Run(2, ENDS, BOTH, 20),
    ("forward", "i8"): Run(2, ENDS, BOTH, 20),
    ("forward", "u8"): Run(2, ENDS, BOTH, 20),
    ("compiled", "f32"): Run(3, (), BOTH, 32),
    ("compiled", "f16"): Run(1, (), ("static",), 80),
    ("compiled", "f64"): Run(1, (), ("static",), 80),
    ("compiled", "i64"): Run(1, (), ("static",), 80),
    ("compiled", "bool"): Run(1, (), ("static",), 80),
    ("compiled", "c64"): Run(1, (), ("static",), 80),
    ("gradient", "f32"): Run(3, (), ("static",), 24),
    ("gradient", "f16"): Run(1, (), ("static",), 80),
    ("gradient", "f64"): Run(1, (), ("static",), 80),
    ("gradient", "c64"): Run(1, (), ("static",), 80),
}
DTYPES_OF_ALL = tuple(dict.fromkeys(dtype for _, dtype in FULL))


@dataclass(frozen=True)
class Task:
    """The samples of one OpInfo in one dtype, from the ``start``-th on; ``pick`` chooses one of
    them, by its remainder."""

    op: str
    dtype: str
    kind: str
    samples: int
    opsets: tuple[int, ...]
    modes: tuple[str, ...]
    start: int = 0
    pick: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What a resumed run skips when it is done."""
        return self.op, self.dtype, self.kind


@dataclass(frozen=True)
class Choice:
    """What the command line chooses of the full run; None: as in the table."""

    names: Sequence[str] = ("*",)
    kinds: Sequence[str] = KINDS
    dtypes: Sequence[str] | None = None
    samples: int | None = None
    opsets: tuple[int, ...] | None = None
    modes: tuple[str, ...] | None = None
    bounded: bool = False
    part: int = 0
    slices: int = 1
    slice: int = 0


def groups(names: Sequence[str] = ("*",)) -> Iterator[tuple[str, str, str]]:
    """Every (kind, OpInfo, dtype) of the full run."""
    for name, info in op_infos().items():
        if not any(fnmatch.fnmatch(name, each) for each in names):
            continue
        for kind, dtype in FULL:
            if takes_gradients(info, dtype) if kind == "gradient" else takes(info, dtype):
                yield kind, name, dtype


def tasks(choice: Choice) -> list[Task]:
    """One task for each group that is asked for, in the order of the OpInfos' names."""
    found = []
    for kind, name, dtype in groups(choice.names):
        if kind not in choice.kinds or dtype not in (choice.dtypes or DTYPES_OF_ALL):
            continue
        if _hash(name) % choice.slices != choice.slice % choice.slices:
            continue
        run = FULL[kind, dtype]
        task = Task(
            name, dtype, kind, choice.samples or run.samples,
            run.opsets and (choice.opsets or run.opsets), _modes(run, choice.modes),
        )  # fmt: skip
        if not choice.bounded:
            found.append(task)
        elif (short := _shortened(task, run, choice.part)) is not None:
            found.append(short)
    return found


def chosen_samples(kind: str, op: str, dtype: str, total: int) -> list[int]:
    """Which of an OpInfo's samples the full run takes."""
    count = FULL[kind, dtype].samples
    if kind != "gradient":
        return list(spread(total, count))
    return list(range(total))[:: max(total // count, 1)][:count]


def _modes(run: Run, asked: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(mode for mode in run.modes if mode in asked) if asked else run.modes


def _shortened(task: Task, run: Run, part: int) -> Task | None:
    """One sample of the task, where it is this part's turn."""
    drawn = _hash(f"{part} {task.kind} {task.op} {task.dtype}")
    if drawn % run.every:
        return None
    dynamic = (drawn >> 8) % 4 == 0
    modes = task.modes if dynamic else task.modes[:1]
    opsets = tuple(opset for opset in task.opsets if opset in ENDS)
    return Task(task.op, task.dtype, task.kind, task.samples, opsets, modes, pick=drawn >> 12)


def _hash(text: str) -> int:
    """The same number on every machine."""
    return zlib.crc32(text.encode())


def commit() -> str:
    """The commit that is checked out, with a plus where files were changed; empty without git."""
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    found: Any = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return str(found.stdout).strip()
