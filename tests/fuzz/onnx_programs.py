"""Splice the graphs of the rewrites' samples into random ONNX graphs.

An input of a sample is a result of the graph where dtype and shape agree. `check` compares the
graph before and after all rules, for both targets; `runner` runs it along with the torch programs.
"""

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
from ortablegen.rewrites.model import Rewrite, RewriteSample
from tests.passes.rewrite.harness import all_rewrites

from .catalog import ROOT
from .judge import within
from .oracle import Outcome

# operators that are added after results of samples
EXTRA_OPS = ("Identity", "Neg", "Abs", "Relu", "Transpose", "Unsqueeze", "Reshape", "Cast")


@dataclass(frozen=True)
class RuleSample:
    """A sample of a rewrite."""

    rewrite: Rewrite
    sample: RewriteSample


@dataclass(frozen=True)
class GraphProgram:
    """The numbers of samples, with numbers that determine how each is spliced and surrounded."""

    pieces: tuple[tuple[int, int, int, int], ...]
    opset: int
    target: str | None
    dynamic: bool


@cache
def rule_samples() -> tuple[RuleSample, ...]:
    """Return every sample of every rewrite, including samples where the rule does not fire."""
    return tuple(
        RuleSample(rewrite, sample) for rewrite in all_rewrites() for sample in rewrite.samples
    )


class _Splicer(graphs._GraphMaker):
    """Builds a sample in a graph; results of the graph become its inputs where they fit."""

    def __init__(
        self, builder: GraphBuilder, values: Any, choose: Callable[[int], int], prefix: str,
        pool: list[str], samples: dict[str, Any], symbols: dict[str, int], dynamic: bool,
    ) -> None:  # fmt: skip
        super().__init__(builder, values)
        self.choose, self.prefix, self.pool = choose, prefix, pool
        self.samples, self.shared_sizes, self.dynamic = samples, symbols, dynamic
        self.output_names: list[str] = []

    def make_tensor(self, name: str, text: object) -> str | None:
        operand = graphs.parse_operand(text) if text is not None else None
        if operand is None or operand.constant:
            constant = super().make_tensor(f"{self.prefix}{name}", text)
            return constant
        sample = operand.sample
        sizes = self.built.symbols if self.dynamic else {}
        if any(self.shared_sizes.get(key, size) != size for key, size in sizes.items()):
            sizes = {}
        shape = symbolic_shape(sample, sizes) if sizes else sample.shape
        dtype = dtypes.from_torch(getattr(torch, sample.dtype))
        candidates = [
            v for v in self.pool
            if self.builder.values[v].dtype == dtype and self.builder.values[v].shape == shape
        ]  # fmt: skip
        if candidates and is_free(sample) and self.choose(4):
            return candidates[self.choose(len(candidates))]
        full_name = f"{self.prefix}{name}"
        self.builder.make_tensor_input(full_name, dtype, shape)
        self.shared_sizes.update(sizes)
        self.samples[full_name] = sample
        self.pool.append(full_name)
        if self.choose(4) == 0 and sample.dtype in ("float32", "float64") and shape:
            reversed_axes = tuple(range(len(shape)))[::-1]
            transposed = self.builder.make_node("Transpose", [full_name], perm=list(reversed_axes))
            return str(self.builder.make_node("Transpose", [transposed], perm=list(reversed_axes)))
        return full_name

    def run_assignment(self, statement: Any) -> None:
        """Run an assignment whose results have a prefix in the graph."""
        target = statement.targets[0]
        elements = target.elts if isinstance(target, graphs.ast.Tuple) else [target]
        names = [n.id for n in elements]
        full_names = ["" if name == "_" else f"{self.prefix}{name}" for name in names]
        value = self.evaluate_node(statement.value, full_names)
        results = value if isinstance(value, list) else [value]
        self.results.update(zip(names, results, strict=True))

    def run(self, body: Sequence[Any], extra_outputs: Sequence[str]) -> None:
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
                    outputs = (
                        self.evaluate_node(item, None)
                        if isinstance(item, graphs.ast.Call)
                        else self.evaluate_argument(item)
                    )
                    self.output_names += outputs if isinstance(outputs, list) else [outputs]
        self.output_names += [
            self.results[name] for name in extra_outputs if isinstance(self.results.get(name), str)
        ]


@dataclass
class _Graph:
    builder: GraphBuilder
    samples: dict[str, Any]
    symbols: dict[str, int]
    tolerance: float


def _build_graph(program: GraphProgram) -> _Graph:
    builder = GraphBuilder(program.opset, target=program.target, kernel_table={})
    samples: dict[str, Any] = {}
    symbols: dict[str, int] = {}
    pool: list[str] = []
    outputs: list[str] = []
    tolerance = 0.0
    for number, (sample_number, a, b, c) in enumerate(program.pieces):
        selected = rule_samples()[sample_number % len(rule_samples())]
        state = [a * 65536 + b * 256 + c + 1]

        def choose(count: int, state: list[int] = state) -> int:
            state[0] = state[0] * 1103515245 + 12345 & 0x7FFFFFFF
            return (state[0] >> 8) % count

        code = selected.sample.graph or selected.rewrite.pattern
        maker = _Splicer(
            builder, dict(selected.sample.values), choose, f"p{number}_", pool, samples, symbols,
            program.dynamic,
        )  # fmt: skip
        maker.run(code.body, selected.sample.extra_outputs)
        tolerance = max(tolerance, selected.sample.tolerance or 0.0)
        names = [result for result in maker.output_names if isinstance(result, str)]
        names = [result for result in names if builder.values[result].dtype is not None]
        pool += [result for result in names if builder.values[result].shape is not None]
        outputs += names
        if choose(3) == 0 and names:
            extra = _add_extra_node(builder, names[0], choose)
            if extra is not None:
                pool.append(extra)
                outputs.append(extra)
    for name in dict.fromkeys(outputs):
        producer = builder.values[name].producer
        out = name if producer is not None else builder.make_node("Identity", [name])
        builder.make_tensor_output(out)
    return _Graph(builder, samples, symbols, tolerance)


def _add_extra_node(builder: GraphBuilder, name: str, choose: Callable[[int], int]) -> str | None:
    """Add an operator after a result, as input of rules for shapes and casts."""
    info = builder.values[name]
    op = EXTRA_OPS[choose(len(EXTRA_OPS))]
    floating = info.dtype == dtypes.float32
    if info.shape is None:
        return None
    if op == "Transpose":
        return str(builder.make_node(op, [name], perm=list(range(len(info.shape)))[::-1]))
    if op == "Unsqueeze":
        return str(builder.make_node(op, [name, builder.make_initializer("", _make_vector(0))]))
    if op == "Reshape":
        return str(builder.make_node(op, [name, builder.make_initializer("", _make_vector(-1))]))
    if op == "Cast" and floating:
        widened = builder.make_node(op, [name], to=dtypes.float64)
        return str(builder.make_node(op, [widened], to=dtypes.float32))
    return str(builder.make_node(op, [name])) if floating and op != "Cast" else None


def _make_vector(number: int) -> Any:
    import numpy as np

    return np.array([number], dtype=np.int64)


def check(program: GraphProgram) -> tuple[Outcome, bytes]:
    """Apply all rules to the graph and compare; return the outcome and the original model."""
    try:
        graph = _build_graph(program)
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
        _check_declarations(outputs, copy_declarations(graph.builder.outputs), graph.symbols)
        after = make_checked_model(graph.builder)
        new = ModelRunner(after)
    except Exception as error:
        kind = "mismatch" if isinstance(error, AssertionError) else "error"
        return Outcome(kind, f"{type(error).__name__}: {str(error)[:400]}", where), text
    fired = Counter(record.counts())
    if fired:
        if old.session is None or new.session is None:
            old.session = new.session = None  # run both with the same engine
        detail = _find_difference(graph, old, new, special=not _finite_rules().intersection(fired))
        if detail is not None:
            return Outcome("mismatch", f"{detail}; fired {sorted(fired)}", where), text
    return Outcome("exact", rewrites=fired), text


def _check_declarations(
    before: Sequence[Declaration], after: Sequence[Declaration], sizes: dict[str, int]
) -> None:
    """Check that declarations are equal; 6 * (m n // 2) may be 3 m n at ``sizes``."""
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
    feeds = {}
    for name, sample in graph.samples.items():
        fixed = {key: size for size, key in sample.dims if key}
        resized = concrete_shape(sample, {**fixed, **sizes}) if graph.symbols else sample.shape
        declared = graph.builder.values[name].shape or resized  # patterns may share a size
        shape = tuple(
            dim if isinstance(dim, int) else size
            for dim, size in zip(declared, resized, strict=True)
        )
        tensor = draw_tensor(sample, shape, generator, special and is_free(sample), zeros)
        if noise and tensor.dtype.is_floating_point:
            offsets = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(number + 7))
            tensor = (tensor * (1 + (offsets * 2 - 1) * noise).to(tensor.dtype)).to(tensor.dtype)
        feeds[name] = tensor
    return feeds


@cache
def _finite_rules() -> set[str]:
    """Return the rules that docs/rewrites.md excludes for infinities and NaN."""
    recorded = yaml.safe_load((ROOT / "tests/rewrites/recorded.yaml").read_text())
    return {name for name, row in recorded.items() if row["verdict"] == "SPECIAL"}


def _find_difference(
    graph: _Graph, old: ModelRunner, new: ModelRunner, special: bool
) -> str | None:
    """Describe the first difference, at the sizes of the samples and at larger sizes."""
    sizes = [graph.symbols]
    if graph.symbols:
        sizes.append({name: size + GROWTH for name, size in graph.symbols.items()})
    kinds = ((0, False), (1, True)) if special else ((0, False),)
    for symbols, number, is_special in ((a, n, s) for a in sizes for n, s in kinds):
        feeds = _feeds(graph, symbols, number, is_special)
        try:
            expected = old(feeds)
        except Exception:
            continue  # the original graph refuses these inputs
        try:
            results = new(feeds)
        except Exception as error:
            if new.session is None and "com.microsoft" in str(error):
                return None  # the reference engine lacks ONNX Runtime's operators
            return f"the rewritten graph fails: {str(error)[:200]}"
        for index, (x, y) in enumerate(zip(expected, results, strict=True)):
            if x.dtype != y.dtype or x.shape != y.shape:
                return (
                    f"output {index}: {y.dtype}{tuple(y.shape)}, before {x.dtype}{tuple(x.shape)}"
                )
            if not _is_same(graph, old, symbols, number, is_special, index, x, y):
                numbers = [tensor.reshape(-1)[:8].tolist() for tensor in (y, x)]
                return f"output {index}: {numbers[0]}, before {numbers[1]}"
    return None


def _is_same(
    graph: _Graph, old: ModelRunner, sizes: dict[str, int], number: int, special: bool, index: int,
    expected: torch.Tensor, result: torch.Tensor,
) -> bool:  # fmt: skip
    tolerance = max(graph.tolerance, 1e-5)
    if within([expected], result, tolerance):
        return True
    runs = [expected]
    for step in (1, 2, 3, 5, -4):
        noise = step * 5e-7
        try:
            runs.append(old(_feeds(graph, sizes, number, special, noise))[index])
        except Exception:
            continue
    return within(runs, result, tolerance)


def script(model: bytes, outcome: Outcome, target: str | None) -> str:
    """Return a script that prints the graph before and after the rules, and compares both."""
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
    """Return the newest opset that rules support."""
    return ORT_MAX_OPSET
