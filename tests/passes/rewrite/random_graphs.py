"""Random graphs of operators that rules look for. A program is a list of small integers; each step
picks an operator, and what it reads from the results that there are: so a program that fails can
be made smaller by dropping steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import BuilderError

Step = tuple[int, int, int, int]
Operator = Callable[["RandomGraph", int, int, int], None]

FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.int64, dtypes.int32)
# rounding of one operation; an estimate of the error is carried along with each result
EPSILON = {
    dtypes.float32: 1.2e-7, dtypes.float64: 2.3e-16, dtypes.float16: 1e-3, dtypes.bfloat16: 8e-3,
}  # fmt: skip
LARGEST = 1000  # elements of a result; larger ones are not made
ROWS = 4  # the size that is called n where the graph is dynamic


@dataclass
class RandomGraph:
    """A graph that grows: ``pool`` holds the results that later steps may read, ``error`` the
    relative error that another order of operations may cause in each (0: must be exact)."""

    opset: int
    target: str | None
    dynamic: bool
    builder: GraphBuilder = field(init=False)
    pool: list[str] = field(default_factory=list)
    error: dict[str, float] = field(default_factory=dict)
    plain: bool = False  # no NaN and no infinity is fed: a cast to an integer would read it
    outputs: list[str] = field(default_factory=list)
    tidy: bool = True  # no node that nothing reads: it would keep what it reads from vanishing

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.opset, target=self.target)
        rows: Any = "n" if self.dynamic else ROWS
        for name, dtype, shape in (
            ("x", dtypes.float32, (rows, 3)),
            ("y", dtypes.float32, (rows, 3)),
            (
                "z",
                dtypes.float32,
                (3, 1, 3),
            ),  # axes of one size, which only their content tells apart
            ("h", dtypes.float16, (rows, 3)),
            ("i", dtypes.int64, (rows, 3)),
            ("c", dtypes.boolean, (rows, 3)),
            ("d", dtypes.boolean, (rows, 3)),
        ):
            self.builder.make_tensor_input(name, dtype, shape)
            self.add(name)
        self.builder.make_tensor_input("taken", dtypes.boolean, ())

    # -- results

    def add(self, name: str, error: float = 0.0) -> str:
        """Makes a result readable for later steps."""
        self.pool.append(name)
        self.error[name] = error
        return name

    def dtype(self, name: str) -> int:
        return self.builder.get_type(name)

    def shape(self, name: str) -> tuple[Any, ...]:
        return self.builder.get_shape(name)

    def rank(self, name: str) -> int:
        return len(self.shape(name))

    def pick(
        self,
        number: int,
        kinds: Sequence[int] = FLOATS,
        rank: int | None = None,
        least: int = 0,
        exact: bool = False,
        wanted: Callable[[str], bool] | None = None,
    ) -> str | None:
        """A result with one of these dtypes; the newest ones are the likeliest."""
        found = [
            name
            for name in reversed(self.pool)
            if self.dtype(name) in kinds
            and (rank is None or self.rank(name) == rank)
            and self.rank(name) >= least
            and (not exact or self.error[name] == 0)
            and (wanted is None or wanted(name))
        ]
        if not found:
            return None
        few = found[:2] if number % 4 else found
        return few[(number // 4) % len(few)]

    # -- nodes

    def node(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """A node whose inputs are results, or arrays and numbers that become initializers."""
        names = [x if x is None or isinstance(x, str) else self.const(x) for x in inputs]
        return self.builder.make_node(op, names, **attrs)

    def const(self, value: Any, like: str | None = None) -> str:
        """An initializer, of int64 or of the dtype of a result."""
        kind = np.int64 if like is None else dtypes.to_numpy(self.dtype(like))
        array = value if isinstance(value, np.ndarray) and like is None else np.asarray(value)
        return self.builder.make_initializer(
            "", array if like is None and isinstance(value, np.ndarray) else array.astype(kind)
        )

    def weight(self, shape: Sequence[int], like: str, number: int = 0) -> str:
        """A random constant."""
        values = np.random.default_rng(number).uniform(-1, 1, tuple(shape))
        return self.const(values, like)

    def moved(self, name: str, source: str, *more: str) -> None:
        """A result that was only moved or chosen: as exact as its sources."""
        self.keep(name, max(self.error[each] for each in (source, *more)))

    def computed(self, name: str, *sources: str, times: float = 1.0, roundings: int = 1) -> None:
        """A result of arithmetic, exact only among integers."""
        dtype = self.dtype(name)
        error = sum(self.error.get(each, 0.0) for each in sources) * times
        self.keep(name, error + roundings * EPSILON.get(dtype, 0.0))

    def keep(self, name: str, error: float) -> None:
        """The result joins the pool unless it is too large or of unknown size."""
        size = 1
        for dim in self.builder.values[name].shape or (LARGEST, 2):
            size *= dim if isinstance(dim, int) else ROWS
        if size <= LARGEST:
            self.add(name, error)

    # -- the whole

    def grow(self, program: Sequence[Step], operators: Sequence[Operator]) -> None:
        """Runs the steps, then declares outputs: the newest results, some others, a copy."""
        for kind, first, second, third in program:
            with contextlib.suppress(BuilderError):  # sizes of 0 fit nothing
                operators[kind % len(operators)](self, first, second, third)
        made = [name for name in self.pool if self.builder.values[name].producer is not None]
        chosen = [*made[-2:], *(made[step[1] % len(made)] for step in program[:4] if made)]
        for name in dict.fromkeys(chosen):
            self.builder.make_tensor_output(name)
            self.outputs.append(name)
        if self.outputs and program[0][2] % 3 == 0:
            copy = self.builder.make_node("Identity", [self.outputs[0]])
            self.error[copy] = self.error[self.outputs[0]]
            self.builder.make_tensor_output(copy)
            self.outputs.append(copy)
        self.tidy = program[0][3] % 4 != 0
        if self.tidy:
            self.builder.remove_unused()

    def feeds(self, rows: int, kind: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Inputs: ``normal``, ``small`` (multiples of 0.5 with zeros) or ``special`` numbers."""
        found: dict[str, torch.Tensor] = {}
        for info in self.builder.inputs:
            assert info.shape is not None
            shape = tuple(dim if isinstance(dim, int) else rows for dim in info.shape)
            if info.dtype == dtypes.boolean:
                made = torch.randint(0, 2, shape, generator=generator).bool()
            elif info.dtype == dtypes.int64:
                made = torch.randint(-5, 6, shape, generator=generator)
            elif kind == "normal":
                made = torch.randn(shape, generator=generator)
            else:
                made = torch.randint(-4, 5, shape, generator=generator) / 2
                if kind == "special" and not self.plain:
                    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0])
                    chosen = odd[torch.randint(0, 4, shape, generator=generator)]
                    made = torch.where(torch.rand(shape, generator=generator) < 0.3, chosen, made)
            found[info.name] = made.to(dtypes.to_torch(info.dtype))
        return found
