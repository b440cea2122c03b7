"""Random graphs of operators that rules match.

A program is a list of small integers. Each step selects an operator and its inputs among the
existing results, so dropping steps reduces a failing program.
"""

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
# rounding error of one operation; each result carries an estimate of its accumulated error
EPSILON = {
    dtypes.float32: 1.2e-7, dtypes.float64: 2.3e-16, dtypes.float16: 1e-3, dtypes.bfloat16: 8e-3,
}  # fmt: skip
MAX_ELEMENTS = 1000  # maximal number of elements of a result
ROWS = 4  # the value of the symbol n in dynamic graphs


@dataclass
class RandomGraph:
    """A graph under construction.

    `pool` holds the results that later steps may read; `error` holds the relative error that
    reordered operations may cause in each result (0: the result must be exact).
    """

    opset: int
    target: str | None
    dynamic: bool
    builder: GraphBuilder = field(init=False)
    pool: list[str] = field(default_factory=list)
    error: dict[str, float] = field(default_factory=dict)
    finite_only: bool = False  # feed no NaN or infinity, because a cast to integers reads the input
    outputs: list[str] = field(default_factory=list)
    prune: bool = True  # remove unused nodes, which would prevent rewrites of their inputs

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.opset, target=self.target)
        rows: Any = "n" if self.dynamic else ROWS
        # the axes of z are equal in size: only their content distinguishes them
        for name, dtype, shape in (
            ("x", dtypes.float32, (rows, 3)),
            ("y", dtypes.float32, (rows, 3)),
            ("z", dtypes.float32, (3, 1, 3)),
            ("h", dtypes.float16, (rows, 3)),
            ("i", dtypes.int64, (rows, 3)),
            ("c", dtypes.boolean, (rows, 3)),
            ("d", dtypes.boolean, (rows, 3)),
        ):
            self.builder.make_tensor_input(name, dtype, shape)
            self.add(name)
        self.builder.make_tensor_input("taken", dtypes.boolean, ())

    def add(self, name: str, error: float = 0.0) -> str:
        """Make a result available to later steps."""
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
        choice: int,
        allowed_dtypes: Sequence[int] = FLOATS,
        rank: int | None = None,
        min_rank: int = 0,
        exact: bool = False,
        accept: Callable[[str], bool] | None = None,
    ) -> str | None:
        """Return a result with one of these dtypes, preferably a recent one."""
        candidates = [
            name
            for name in reversed(self.pool)
            if self.dtype(name) in allowed_dtypes
            and (rank is None or self.rank(name) == rank)
            and self.rank(name) >= min_rank
            and (not exact or self.error[name] == 0)
            and (accept is None or accept(name))
        ]
        if not candidates:
            return None
        recent = candidates[:2] if choice % 4 else candidates
        return recent[(choice // 4) % len(recent)]

    def node(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """Add a node; inputs are result names, or arrays and numbers that become initializers."""
        names = [x if x is None or isinstance(x, str) else self.const(x) for x in inputs]
        return self.builder.make_node(op, names, **attrs)

    def const(self, value: Any, like: str | None = None) -> str:
        """Add an initializer, int64 or of the dtype of the result `like`."""
        dtype = np.int64 if like is None else dtypes.to_numpy(self.dtype(like))
        array = value if isinstance(value, np.ndarray) and like is None else np.asarray(value)
        return self.builder.make_initializer(
            "", array if like is None and isinstance(value, np.ndarray) else array.astype(dtype)
        )

    def weight(self, shape: Sequence[int], like: str, seed: int = 0) -> str:
        values = np.random.default_rng(seed).uniform(-1, 1, tuple(shape))
        return self.const(values, like)

    def add_exact(self, name: str, source: str, *other_sources: str) -> None:
        """Add a result without rounding, which is as exact as its sources."""
        self.add_if_small(
            name, max(self.error[source_name] for source_name in (source, *other_sources))
        )

    def add_rounded(
        self, name: str, *sources: str, error_scale: float = 1.0, roundings: int = 1
    ) -> None:
        """Add a result of arithmetic, which rounds unless its dtype is an integer."""
        dtype = self.dtype(name)
        error = sum(self.error.get(source, 0.0) for source in sources) * error_scale
        self.add_if_small(name, error + roundings * EPSILON.get(dtype, 0.0))

    def add_if_small(self, name: str, error: float) -> None:
        """Add the result to the pool unless it is too large or of unknown size."""
        size = 1
        for dim in self.builder.values[name].shape or (MAX_ELEMENTS, 2):
            size *= dim if isinstance(dim, int) else ROWS
        if size <= MAX_ELEMENTS:
            self.add(name, error)

    def run_program(self, program: Sequence[Step], operators: Sequence[Operator]) -> None:
        """Run the steps, then declare outputs: the newest results, some others, and a copy."""
        for operator, first, second, third in program:
            with contextlib.suppress(BuilderError):  # some operators reject sizes of 0
                operators[operator % len(operators)](self, first, second, third)
        node_results = [
            name for name in self.pool if self.builder.values[name].producer is not None
        ]
        output_names = [
            *node_results[-2:],
            *(node_results[step[1] % len(node_results)] for step in program[:4] if node_results),
        ]
        for name in dict.fromkeys(output_names):
            self.builder.make_tensor_output(name)
            self.outputs.append(name)
        if self.outputs and program[0][2] % 3 == 0:
            copy = self.builder.make_node("Identity", [self.outputs[0]])
            self.error[copy] = self.error[self.outputs[0]]
            self.builder.make_tensor_output(copy)
            self.outputs.append(copy)
        self.prune = program[0][3] % 4 != 0
        if self.prune:
            self.builder.remove_unused()

    def make_feeds(
        self, rows: int, kind: str, generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """Return random inputs.

        `kind` is `normal`, `small` (multiples of 0.5, including zeros) or `special` (also NaN and
        infinities).
        """
        feeds: dict[str, torch.Tensor] = {}
        for info in self.builder.inputs:
            assert info.shape is not None
            shape = tuple(dim if isinstance(dim, int) else rows for dim in info.shape)
            if info.dtype == dtypes.boolean:
                x = torch.randint(0, 2, shape, generator=generator).bool()
            elif info.dtype == dtypes.int64:
                x = torch.randint(-5, 6, shape, generator=generator)
            elif kind == "normal":
                x = torch.randn(shape, generator=generator)
            else:
                x = torch.randint(-4, 5, shape, generator=generator) / 2
                if kind == "special" and not self.finite_only:
                    special = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0])
                    values = special[torch.randint(0, 4, shape, generator=generator)]
                    x = torch.where(torch.rand(shape, generator=generator) < 0.3, values, x)
            feeds[info.name] = x.to(dtypes.to_torch(info.dtype))
        return feeds
