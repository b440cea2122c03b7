"""Measure the errors of reductions against float64, in ONNX Runtime and in eager.

Every reduction is one small function. It is traced once for a shape and run on values around
several means; an error is in units in the last place of the largest result. ``python -m
tests.conformance.reductions`` prints the table, with ``--record`` it writes it to
``docs/conformance.md``. The tests of ``tests/conformance`` and ``tests/sweeps`` check for faults.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from ortable.builder import GraphBuilder
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.testing.entries import run_onnx

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_TABLE_SIZES = (100, 10_000, 1_000_000)
MEANS = (0.0, 1.0, 1e3, 1e5)
MAX_RATIO, MAX_ULPS = 4.0, 1.0
_MAX_ELEMENTS = 10_000_000
_DOCS = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
_MARKERS = ("<!-- reductions -->", "<!-- end of reductions -->")

Function = Callable[..., Any]


@dataclass(frozen=True)
class Reduction:
    """A row of the table; an argument is normal (around the mean), chance (0 to 1) or near one."""

    name: str
    function: Function
    layout: str  # row: [rows, n]; column: [n, 3]; full: [n]; image: [b, 4, h, w]
    values: tuple[str, ...] = ("normal",)
    dtype: torch.dtype = torch.float32
    most: int = _MAX_ELEMENTS  # the largest size
    means: tuple[float, ...] = MEANS


def _batch_norm(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mean, variance = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    results = torch.ops.aten._native_batch_norm_legit_functional(
        x, None, None, mean, variance, True, 0.1, 1e-5
    )
    # an error of a mean near zero is relative to the deviation
    return torch.stack([results[3], results[4]]), results[4]


REDUCTIONS = (
    Reduction("sum of rows", lambda x: x.sum(-1), "row"),
    Reduction("sum of columns", lambda x: x.sum(0), "column"),
    Reduction("sum of all", lambda x: x.sum(), "full"),
    Reduction("sum of float16", lambda x: x.sum(-1), "row", dtype=torch.float16, means=(0.0, 1.0)),
    Reduction("sum of images", lambda x: x.sum((0, 2, 3)), "image"),
    Reduction("nansum", lambda x: x.nansum(), "full"),
    Reduction("nanmean", lambda x: x.nanmean(), "full"),
    Reduction("mean of rows", lambda x: x.mean(-1), "row"),
    Reduction("mean of columns", lambda x: x.mean(0), "column"),
    Reduction("mean of images", lambda x: x.mean((2, 3)), "image"),
    Reduction("var of rows", lambda x: x.var(-1), "row"),
    Reduction("var of columns", lambda x: x.var(0), "column"),
    Reduction("var of all", lambda x: x.var(), "full"),
    Reduction("var of float16", lambda x: x.var(-1), "row", dtype=torch.float16, means=(0.0, 1.0)),
    Reduction("std of all", lambda x: x.std(), "full"),
    Reduction("var_mean", lambda x: torch.var_mean(x, (0, 2, 3)), "image"),
    Reduction("norm 2", lambda x: x.norm(dim=-1), "row"),
    Reduction("norm 1", lambda x: x.norm(1, dim=-1), "row"),
    Reduction("norm 3", lambda x: torch.linalg.vector_norm(x, 3), "full", means=(0.0, 1.0, 1e3)),
    Reduction("dot", torch.dot, "full", ("normal", "normal")),
    Reduction("mv", lambda x: torch.mv(x, x[0]), "row"),
    Reduction("einsum i->", lambda x: torch.einsum("i->", x), "full"),
    Reduction("cumsum", lambda x: x.cumsum(-1), "row", means=(0.0, 1.0, 1e3)),
    Reduction("logsumexp", lambda x: x.logsumexp(-1), "row"),
    Reduction("logsumexp of columns", lambda x: x.logsumexp(0), "column"),
    Reduction("logcumsumexp", lambda x: x.logcumsumexp(-1), "row", most=100_000, means=(0.0, 1.0)),
    Reduction("cumprod", lambda x: x.cumprod(-1), "row", ("near one",), most=100_000, means=(0.0,)),
    Reduction("trace", torch.trace, "square", most=1_000),
    Reduction("batch_norm's running statistics", _batch_norm, "image"),
    Reduction("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), "image"),
    Reduction("instance_norm", lambda x: F.instance_norm(x), "image"),
    Reduction("group_norm", lambda x: F.group_norm(x, 2), "image"),
    Reduction("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:]), "row"),
    Reduction("rms_norm", lambda x: F.rms_norm(x, x.shape[-1:]), "row"),
    Reduction("softmax", lambda x: x.softmax(-1), "row", means=(0.0, 1.0)),
    Reduction("log_softmax", lambda x: x.log_softmax(-1), "row", means=(0.0, 1.0)),
    Reduction(
        "mse_loss", lambda x, y: F.mse_loss(x, y), "full", ("normal", "normal"), means=(0.0, 1.0)
    ),
    Reduction(
        "l1_loss", lambda x, y: F.l1_loss(x, y), "full", ("normal", "normal"), means=(0.0, 1.0)
    ),
    Reduction(
        "smooth_l1_loss",
        lambda x, y: F.smooth_l1_loss(x, y),
        "full",
        ("normal", "normal"),
        means=(0.0,),
    ),
    Reduction(
        "binary_cross_entropy",
        lambda x, y: F.binary_cross_entropy(x, y),
        "full",
        ("chance", "chance"),
        means=(0.0,),
    ),
    Reduction(
        "binary_cross_entropy_with_logits",
        lambda x, y: F.binary_cross_entropy_with_logits(x, y),
        "full",
        ("normal", "chance"),
        means=(0.0,),
    ),
    Reduction(
        "kl_div",
        lambda x, y: F.kl_div(x.log(), y, reduction="sum"),
        "full",
        ("chance", "chance"),
        means=(0.0,),
    ),
    Reduction(
        "nll_loss", lambda x: F.nll_loss(x, torch.zeros(len(x), dtype=torch.int64)), "column"
    ),
)


@dataclass(frozen=True)
class Measured:
    """The errors of one reduction at one size and mean, in units in the last place."""

    reduction: Reduction
    size: int
    mean: float
    ours: float
    eager: float

    @property
    def is_fault(self) -> bool:
        return not self.ours <= MAX_RATIO * self.eager + MAX_ULPS

    def __str__(self) -> str:
        where = f"{self.reduction.name}, {self.size:,} elements around {self.mean:g}"
        return f"{where}: {self.ours:.3g} ulps, eager {self.eager:.3g}"


def shape_of(layout: str, size: int) -> tuple[int, ...]:
    """Return a tensor shape of which about ``size`` elements are reduced to one result."""
    if layout == "full":
        return (size,)
    if layout == "square":
        return (size, size)
    if layout == "column":
        return (size, 3)
    if layout == "row":
        return (max(1, min(16, _MAX_ELEMENTS // (10 * size))), size)
    side = max(2, int((size / 8) ** 0.5))
    return (8 if size <= 1_000_000 else 2, 4, side, side)


def tensors_of(reduction: Reduction, size: int, mean: float) -> list[torch.Tensor]:
    """Return the arguments of one call, the same at every run."""
    generator = torch.Generator().manual_seed(size)
    shape, tensors = shape_of(reduction.layout, size), []
    for kind in reduction.values:
        if kind == "chance":
            tensor = torch.rand(shape, generator=generator) * 0.98 + 0.01
        else:
            tensor = torch.randn(shape, generator=generator)
            tensor = 1 + tensor * 1e-4 if kind == "near one" else tensor + mean
        tensors.append(tensor.to(reduction.dtype))
    return tensors


def convert(function: Function, args: list[torch.Tensor]) -> Any:
    """Return the ONNX model of a function, for ONNX Runtime, without rewrites."""
    module = make_fx(function, tracing_mode="fake")(*args)
    builder = GraphBuilder(18, target="onnxruntime")
    DynamoInterpreter(builder).run(module)
    builder.remove_unused()
    return builder.to_onnx()


def measure(reduction: Reduction, size: int) -> Iterator[Measured]:
    """Yield the errors of one reduction at one size, for each of its means."""
    model = convert(reduction.function, tensors_of(reduction, size, 0.0))
    names = [value.name for value in model.graph.input]
    for mean in reduction.means:
        args = tensors_of(reduction, size, mean)
        ours = run_onnx(model, dict(zip(names, args, strict=True)))
        eager = _results(reduction.function(*args))
        exact = _results(reduction.function(*(x.double() for x in args)))
        pairs = list(zip(ours, eager, exact, strict=True))
        yield Measured(
            reduction, size, mean,
            max(_ulps(result, reference) for result, _, reference in pairs),
            max(_ulps(result, reference) for _, result, reference in pairs),
        )  # fmt: skip


def _results(results: Any) -> list[torch.Tensor]:
    return [results] if isinstance(results, torch.Tensor) else list(results)


def _ulps(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest error in ulps of the largest result, 0 for equal infinities."""
    largest = exact.abs().max().to(ours.dtype)
    if not largest.isfinite():
        return 0.0 if torch.equal(ours.double(), exact.to(ours.dtype).double()) else float("inf")
    unit = (
        2.0 ** (largest.double().clamp(min=1e-37).log2().floor().item())
        * torch.finfo(ours.dtype).eps
    )
    error = (ours.double() - exact).abs().max().item() / unit
    return error if error == error else float("inf")


def row(reduction: Reduction, measurements: list[Measured]) -> str:
    """Return a row of the table: for each size the errors at the worst mean, ours and eager's."""
    cells = []
    for size in _TABLE_SIZES:
        at_size = [m for m in measurements if m.reduction is reduction and m.size == size]
        worst = max(at_size, key=lambda m: m.ours / (MAX_RATIO * m.eager + MAX_ULPS), default=None)
        cells.append("" if worst is None else f"{worst.ours:.2g} ({worst.eager:.2g})")
    return f"| {reduction.name} | " + " | ".join(cells) + " |"


def _recorded_rows() -> dict[str, list[str]]:
    """Return the rows of the table in the docs, by reduction."""
    table = _DOCS.read_text().partition(_MARKERS[0])[2].partition(_MARKERS[1])[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].strip(): [line] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the table to the docs")
    parser.add_argument("names", nargs="*", help="only reductions whose name contains one of these")
    options = parser.parse_args()
    lines = ["| reduction | " + " | ".join(f"{size:,}" for size in _TABLE_SIZES) + " |"]
    lines.append("|---|" + "---|" * len(_TABLE_SIZES))
    recorded = _recorded_rows()
    for reduction in REDUCTIONS:
        if options.names and not any(name in reduction.name for name in options.names):
            lines += recorded.get(reduction.name, [])
            continue
        measurements = [
            m for size in SIZES if size <= reduction.most for m in measure(reduction, size)
        ]
        for measured in measurements:
            if measured.is_fault:
                print(f"fault: {measured}", flush=True)
        lines.append(row(reduction, measurements))
        print(lines[-1], flush=True)
    if options.record:
        text = _DOCS.read_text()
        first, last = (re.escape(mark) for mark in _MARKERS)
        table = "\n".join([_MARKERS[0], *lines, _MARKERS[1]])
        _DOCS.write_text(re.sub(f"{first}.*{last}", lambda _: table, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
