"""Graphs of the rewrites' own cases, spliced into random ONNX graphs: what no torch program
yields still meets every rule. A case's inputs are results of the graph where one fits. `check`
compares the graph before and after all rules, for both targets. Used by `runner` beside the torch
programs."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
import torch
import yaml

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.ir.versions import ORT_MAX_OPSET
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.testing import graphs
from ortable.testing import trial as harness
from ortable.testing.runs import (
    Declaration,
    ModelRunner,
    check_same_declarations,
    copy_declarations,
    make_checked_model,
)
from ortable.testing.values import (
    GROWTH,
    concrete_shape,
    draw_tensor,
    is_free,
    symbolic_shape,
)
from ortablegen.rewrites.model import Rewrite, RewriteCase
from tests.passes.rewrite.harness import all_rewrites

from .catalog import ROOT
from .judge import within
from .oracle import Outcome

# each prepared result is read through one of these, or as it is
AROUND = ("Identity", "Neg", "Abs", "Relu", "Transpose", "Unsqueeze", "Reshape", "Cast")


@dataclass(frozen=True)
class CasesOf:
    """One case of a rewrite, where its rule may fire."""

    rewrite: Rewrite
    case: RewriteCase


@dataclass(frozen=True)
class GraphProgram:
    """Numbers of cases, and numbers that say how each is spliced and what surrounds it."""

    pieces: tuple[tuple[int, int, int, int], ...]
    opset: int
    target: str | None
    dynamic: bool


@cache
def cases() -> tuple[CasesOf, ...]:
    """Every case of every rewrite, those that do not fire too."""
    return tuple(CasesOf(each, case) for each in all_rewrites() for case in each.cases)


class _Splicer(graphs._GraphMaker):
    """Builds a case in a graph that has results already: an input of the case is one of them where
    dtype and shape agree, and a new input else."""

    def __init__(
        self, builder: GraphBuilder, values: Any, choose: Callable[[int], int], prefix: str,
        pool: list[str], samples: dict[str, Any], symbols: dict[str, int], dynamic: bool,
    ) -> None:  # fmt: skip
        super().__init__(builder, values)
        self.choose, self.prefix, self.pool = choose, prefix, pool
        self.samples, self.shared, self.dynamic = samples, symbols, dynamic
        self.made_here: list[str] = []

    def make_tensor(self, name: str, text: object) -> str | None:
        found = graphs.parse_operand(text) if text is not None else None
        if found is None or found.constant:
            plain = super().make_tensor(f"{self.prefix}{name}", text)
            return plain
        sample = found.sample
        own = self.built.symbols if self.dynamic else {}
        if any(self.shared.get(key, size) != size for key, size in own.items()):
            own = {}
        shape = symbolic_shape(sample, own) if own else sample.shape
        dtype = dtypes.from_torch(getattr(torch, sample.dtype))
        fitting = [
            each for each in self.pool
            if self.builder.values[each].dtype == dtype and self.builder.values[each].shape == shape
        ]  # fmt: skip
        if fitting and is_free(sample) and self.choose(4):
            return fitting[self.choose(len(fitting))]
        made = f"{self.prefix}{name}"
        self.builder.make_tensor_input(made, dtype, shape)
        self.shared.update(own)
        self.samples[made] = sample
        self.pool.append(made)
        if self.choose(4) == 0 and sample.dtype in ("float32", "float64") and shape:
            turned = tuple(range(len(shape)))[::-1]
            there = self.builder.make_node("Transpose", [made], perm=list(turned))
            return str(self.builder.make_node("Transpose", [there], perm=list(turned)))
        return made

    def run_assignment(self, statement: Any) -> None:
        """As for a case alone, but that results have names of their own."""
        target = statement.targets[0]
        each = target.elts if isinstance(target, graphs.ast.Tuple) else [target]
        names = [n.id for n in each]
        own = ["" if name == "_" else f"{self.prefix}{name}" for name in names]
        found = self.evaluate_node(statement.value, own)
        results = found if isinstance(found, list) else [found]
        self.results.update(zip(names, results, strict=True))

    def run(self, body: Sequence[Any], also: Sequence[str]) -> None:
        attributes = graphs._keyword_names(body)
        for name, value in self.values.items():
            if name not in attributes and graphs._parse_operands(value):
                self.make_capture(name)
        for statement in body:
            if isinstance(statement, graphs.ast.Assign):
                self.run_assignment(statement)
            elif isinstance(statement, graphs.ast.Return):
                value = statement.value
                items = value.elts if isinstance(value, graphs.ast.Tuple) else [value]
                for item in items:
                    found = (
                        self.evaluate_node(item, None)
                        if isinstance(item, graphs.ast.Call)
                        else self.evaluate_argument(item)
                    )
                    self.made_here += found if isinstance(found, list) else [found]
        self.made_here += [
            self.results[name] for name in also if isinstance(self.results.get(name), str)
        ]


@dataclass
class _Graph:
    builder: GraphBuilder
    samples: dict[str, Any]
    symbols: dict[str, int]
    tolerance: float


def _grown(program: GraphProgram) -> _Graph:
    builder = GraphBuilder(program.opset, target=program.target, kernel_table={})
    samples: dict[str, Any] = {}
    symbols: dict[str, int] = {}
    pool: list[str] = []
    outputs: list[str] = []
    tolerance = 0.0
    for number, (which, a, b, c) in enumerate(program.pieces):
        chosen = cases()[which % len(cases())]
        state = [a * 65536 + b * 256 + c + 1]

        def choose(count: int, state: list[int] = state) -> int:
            state[0] = state[0] * 1103515245 + 12345 & 0x7FFFFFFF
            return (state[0] >> 8) % count

        code = chosen.case.graph or chosen.rewrite.pattern
        maker = _Splicer(
            builder, dict(chosen.case.values), choose, f"p{number}_", pool, samples, symbols,
            program.dynamic,
        )  # fmt: skip
        maker.run(code.body, chosen.case.extra_outputs)
        tolerance = max(tolerance, chosen.case.tolerance or 0.0)
        made = [each for each in maker.made_here if isinstance(each, str)]
        made = [each for each in made if builder.values[each].dtype is not None]
        pool += [each for each in made if builder.values[each].shape is not None]
        outputs += made
        if choose(3) == 0 and made:
            extra = _around(builder, made[0], choose)
            if extra is not None:
                pool.append(extra)
                outputs.append(extra)
    for name in dict.fromkeys(outputs):
        producer = builder.values[name].producer
        out = name if producer is not None else builder.make_node("Identity", [name])
        builder.make_tensor_output(out)
    return _Graph(builder, samples, symbols, tolerance)


def _around(builder: GraphBuilder, name: str, choose: Callable[[int], int]) -> str | None:
    """A result of a result: what rules of shapes and casts meet."""
    info = builder.values[name]
    op = AROUND[choose(len(AROUND))]
    floating = info.dtype == dtypes.float32
    if info.shape is None:
        return None
    if op == "Transpose":
        return str(builder.make_node(op, [name], perm=list(range(len(info.shape)))[::-1]))
    if op == "Unsqueeze":
        return str(builder.make_node(op, [name, builder.make_initializer("", _vector(0))]))
    if op == "Reshape":
        return str(builder.make_node(op, [name, builder.make_initializer("", _vector(-1))]))
    if op == "Cast" and floating:
        there = builder.make_node(op, [name], to=dtypes.float64)
        return str(builder.make_node(op, [there], to=dtypes.float32))
    return str(builder.make_node(op, [name])) if floating and op != "Cast" else None


def _vector(number: int) -> Any:
    import numpy as np

    return np.array([number], dtype=np.int64)


def check(program: GraphProgram) -> tuple[Outcome, bytes]:
    """All rules on the graph: values, dtypes, shapes and names stay; and the model as it was."""
    try:
        graph = _grown(program)
        before = make_checked_model(graph.builder)
        old = ModelRunner(before)
        old(_feeds(graph, graph.symbols, 0, False))
    except Exception as error:
        return Outcome("discarded", f"graph: {type(error).__name__}: {str(error)[:150]}"), b""
    text = before.SerializeToString()
    where = f"opset {program.opset}, target {program.target}"
    inputs, outputs = (
        copy_declarations(graph.builder.inputs),
        copy_declarations(graph.builder.outputs),
    )
    rules = harness.all_rules(program.target, program.opset)
    try:
        if program.target == "onnxruntime":
            graph.builder.kernel_table = harness.KERNELS_CPU
        record = rewrite_graph(graph.builder, rules)
        graph.builder.remove_unused()
        check_same_declarations(inputs, copy_declarations(graph.builder.inputs))
        _same_where_it_runs(outputs, copy_declarations(graph.builder.outputs), graph.symbols)
        after = make_checked_model(graph.builder)
        new = ModelRunner(after)
    except Exception as error:
        kind = "mismatch" if isinstance(error, AssertionError) else "error"
        return Outcome(kind, f"{type(error).__name__}: {str(error)[:400]}", where), text
    fired = Counter(record.counts())
    if fired:
        if old.session is None or new.session is None:
            old.session = new.session = None  # one engine for both
        detail = _differs(graph, old, new, special=not _not_of_infinities().intersection(fired))
        if detail is not None:
            return Outcome("mismatch", f"{detail}; fired {sorted(fired)}", where), text
    return Outcome("exact", rewrites=fired), text


def _same_where_it_runs(
    before: Sequence[Declaration], after: Sequence[Declaration], sizes: dict[str, int]
) -> None:
    """As `same_declarations`, but sizes may differ where the graph does not run: 6 * (m n // 2) of
    a Reshape to [-1, 6] is 3 m n."""
    try:
        check_same_declarations(before, after)
    except AssertionError:
        for old, new in zip(before, after, strict=True):
            shapes = [
                [dims.evaluate_dim(size, sizes) for size in x.shape or ()] for x in (old, new)
            ]
            if shapes[0] != shapes[1] or (old.name, old.dtype) != (new.name, new.dtype):
                raise


def _feeds(
    graph: _Graph, sizes: dict[str, int], number: int, special: bool, noise: float = 0.0
) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    zeros = not harness._divides_integers(graph.builder)
    found = {}
    for name, sample in graph.samples.items():
        named = {key: size for size, key in sample.dims if key}
        grown = concrete_shape(sample, {**named, **sizes}) if graph.symbols else sample.shape
        declared = graph.builder.values[name].shape or grown  # one pattern's size is another's name
        shape = tuple(
            own if isinstance(own, int) else size for own, size in zip(declared, grown, strict=True)
        )
        made = draw_tensor(sample, shape, generator, special and is_free(sample), zeros)
        if noise and made.dtype.is_floating_point:
            moved = torch.rand(made.shape, generator=torch.Generator().manual_seed(number + 7))
            made = (made * (1 + (moved * 2 - 1) * noise).to(made.dtype)).to(made.dtype)
        found[name] = made
    return found


@cache
def _not_of_infinities() -> set[str]:
    """The rules of which docs/rewrites.md says that they are not for infinities and NaN."""
    recorded = yaml.safe_load((ROOT / "tests/rewrites/recorded.yaml").read_text())
    return {name for name, each in recorded.items() if each["verdict"] == "SPECIAL"}


def _differs(graph: _Graph, old: ModelRunner, new: ModelRunner, special: bool) -> str | None:
    """What differs first, at the sizes of the cases and at larger ones; ``special``: with
    infinities and NaN, too."""
    sizes = [graph.symbols]
    if graph.symbols:
        sizes.append({name: size + GROWTH for name, size in graph.symbols.items()})
    kinds = ((0, False), (1, True)) if special else ((0, False),)
    for at, number, extreme in ((a, n, s) for a in sizes for n, s in kinds):
        feeds = _feeds(graph, at, number, extreme)
        try:
            wanted = old(feeds)
        except Exception:
            continue  # the graph itself does not take these
        try:
            found = new(feeds)
        except Exception as error:
            if new.session is None and "com.microsoft" in str(error):
                return None  # the one engine for both does not know ONNX Runtime's operators
            return f"it does not run any more: {str(error)[:200]}"
        for place, (x, y) in enumerate(zip(wanted, found, strict=True)):
            if x.dtype != y.dtype or x.shape != y.shape:
                return (
                    f"output {place}: {y.dtype}{tuple(y.shape)}, it was {x.dtype}{tuple(x.shape)}"
                )
            if not _same(graph, old, at, number, extreme, place, x, y):
                numbers = [each.reshape(-1)[:8].tolist() for each in (y, x)]
                return f"output {place}: {numbers[0]}, it was {numbers[1]}"
    return None


def _same(
    graph: _Graph, old: ModelRunner, sizes: dict[str, int], number: int, special: bool, place: int,
    wanted: torch.Tensor, found: torch.Tensor,
) -> bool:  # fmt: skip
    tolerance = max(graph.tolerance, 1e-5)
    if within([wanted], found, tolerance):
        return True
    runs = [wanted]
    for step in (1, 2, 3, 5, -4):
        noise = step * 5e-7
        try:
            runs.append(old(_feeds(graph, sizes, number, special, noise))[place])
        except Exception:
            continue
    return within(runs, found, tolerance)


def script(model: bytes, outcome: Outcome, target: str | None) -> str:
    """The graph as a script that shows it before and after the rules, and compares them."""
    proto = onnx.load_model_from_string(model)
    text = onnx.printer.to_text(proto)
    return f'''"""Found by make fuzz: {outcome.kind} (rewrites; {outcome.where})

{outcome.detail[:600]}

{text}
"""

import base64

import onnx
import torch

from ortable.builder import GraphBuilder
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.rule_selection import select_rules
from ortable.testing.runs import ModelRunner, check_same_values

MODEL = base64.b64decode({base64.b64encode(model).decode()!r})


def compare():
    before = onnx.load_model_from_string(MODEL)
    builder = GraphBuilder(before, target={target!r})
    rules = [rule for rule in select_rules("all") if rule.target in ("", {target!r})]
    rewrite_graph(builder, rules)
    builder.remove_unused()
    after = builder.to_onnx(optimize=False)
    print(onnx.printer.to_text(after))
    generator = torch.Generator().manual_seed(0)
    feeds = {{}}
    for value in before.graph.input:
        shape = [each.dim_value or 3 for each in value.type.tensor_type.shape.dim]
        dtype = torch.from_numpy(__import__("numpy").zeros(
            0, onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))).dtype
        drawn = torch.randn(shape, generator=generator)
        feeds[value.name] = drawn.to(dtype) if dtype.is_floating_point else (drawn > 0).to(dtype)
    check_same_values(ModelRunner(before)(feeds), ModelRunner(after)(feeds), 1e-4)


if __name__ == "__main__":
    compare()
'''


def newest() -> int:
    """The newest opset that rules are for."""
    return ORT_MAX_OPSET
