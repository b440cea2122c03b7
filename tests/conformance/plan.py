"""Select the tasks of a run from its options, one task for each kind, OpInfo and dtype.

FULL defines the full run. The short run of CI takes one sample of a share of its groups, selected
by a number, the *part*, that is read from the commit, so that every commit runs other samples and a
failure can be repeated (``--bounded --part N``).
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
    """A kind and dtype of the full run; the short run takes one OpInfo out of ``every``."""

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
ALL_DTYPES = tuple(dict.fromkeys(dtype for _, dtype in FULL))


@dataclass(frozen=True)
class Task:
    """Samples of one OpInfo in one dtype, from ``start`` on; ``pick`` selects a single sample."""

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
        """Return the key by which a resumed run skips a finished task."""
        return self.op, self.dtype, self.kind


@dataclass(frozen=True)
class Choice:
    """The part of the full run that the command line selects; None selects all."""

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
    """Yield every (kind, OpInfo, dtype) of the full run."""
    for name, info in op_infos().items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in names):
            continue
        for kind, dtype in FULL:
            if takes_gradients(info, dtype) if kind == "gradient" else takes(info, dtype):
                yield kind, name, dtype


def tasks(choice: Choice) -> list[Task]:
    """Return one task for each selected group, in the order of the OpInfos' names."""
    selected = []
    for kind, name, dtype in groups(choice.names):
        if kind not in choice.kinds or dtype not in (choice.dtypes or ALL_DTYPES):
            continue
        if _hash(name) % choice.slices != choice.slice % choice.slices:
            continue
        run = FULL[kind, dtype]
        task = Task(
            name, dtype, kind, choice.samples or run.samples,
            run.opsets and (choice.opsets or run.opsets), _select_modes(run, choice.modes),
        )  # fmt: skip
        if not choice.bounded:
            selected.append(task)
        elif (short := _shorten(task, run, choice.part)) is not None:
            selected.append(short)
    return selected


def chosen_samples(kind: str, op: str, dtype: str, total: int) -> list[int]:
    """Return the indices of the samples of an OpInfo that the full run takes."""
    count = FULL[kind, dtype].samples
    if kind != "gradient":
        return list(spread(total, count))
    return list(range(total))[:: max(total // count, 1)][:count]


def _select_modes(run: Run, selected: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(mode for mode in run.modes if mode in selected) if selected else run.modes


def _shorten(task: Task, run: Run, part: int) -> Task | None:
    """Return the task with a single sample, None where the part does not contain the task."""
    number = _hash(f"{part} {task.kind} {task.op} {task.dtype}")
    if number % run.every:
        return None
    dynamic = (number >> 8) % 4 == 0
    modes = task.modes if dynamic else task.modes[:1]
    opsets = tuple(opset for opset in task.opsets if opset in ENDS)
    return Task(task.op, task.dtype, task.kind, task.samples, opsets, modes, pick=number >> 12)


def _hash(text: str) -> int:
    """Return a number that is the same on every machine."""
    return zlib.crc32(text.encode())


def commit() -> str:
    """Return the checked-out commit, with a plus if files changed; empty without git."""
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    process: Any = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return str(process.stdout).strip()
