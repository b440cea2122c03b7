"""Small graphs that an optimizer of ONNX Runtime looks for, run with all optimizers, with none, and
with all but that one."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import yaml
from onnx import numpy_helper, parser

ROOT = Path(__file__).parents[2]
TABLE = yaml.safe_load((ROOT / "specs/runtime/optimizers.yaml").read_text())
# optimizers of two levels, which would do each other's work
TWICE = {
    "TransposeOptimizer": "TransposeOptimizer_CPUExecutionProvider",
    "GeluFusionL1": "GeluFusionL2",
    "LayerNormFusionL1": "LayerNormFusionL2",
}
# Patterns that a newer ONNX Runtime leaves alone, or gets right, and since when.
# Their rows stay in the table as long as an older version is supported.
MENDED = {
    ("LayerNormFusionL1", "double epsilon"): (1, 32),
    ("MatMulAddFusion", "no rows"): (1, 32),
    ("MatMulAddFusion", "over nothing"): (1, 32),
    ("MatMulScaleFusion", "float64 before"): (1, 32),
    ("MatMulScaleFusion", "float64 after"): (1, 32),
    ("NchwcTransformer", "a stretched sum of nothing"): (1, 32),
    ("Pad_Fusion", "maximum"): (1, 32),
    ("Pad_Fusion", "mean, more than a window"): (1, 32),
    ("SimplifiedLayerNormFusion", "double 1e-06"): (1, 32),
    ("SimplifiedLayerNormFusion", "double 1e-12"): (1, 32),
}
INSTALLED = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
INF, NAN = float("inf"), float("nan")
CORNERS = np.array([0.0, -0.0, 1, -1, NAN, INF, -INF, 1e-40, -1e-40, 3e38, -3e38, 2.5], np.float32)


@dataclass(frozen=True)
class Pattern:
    """A graph in ONNX's text form, ``(inputs) => (outputs) { nodes }``, and what it is fed.

    ``outcome``: "equal" (within ``tolerance`` of the largest finite value; 0: to the bit, the sign
    of zeros included); or what goes wrong with the optimizer, and not without: "wrong" numbers or
    shape, "fails" when it runs, "no session". ``besides``: what else must be off to be without it.
    """

    optimizer: str
    name: str
    text: str
    feeds: tuple[dict[str, Any], ...]
    constants: dict[str, Any] = field(default_factory=dict)
    opset: int = 20
    tolerance: float = 0.0
    outcome: str = "equal"
    fires: bool = True
    besides: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.optimizer}: {self.name}"


class Patterns(list[Pattern]):
    """A list that is written row by row."""

    def row(
        self,
        optimizer: str,
        name: str,
        text: str,
        feeds: dict[str, Any] | list[dict[str, Any]],
        constants: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Appends a pattern; one set of feeds may stand without its list."""
        sets = tuple(feeds) if isinstance(feeds, list) else (feeds,)
        self.append(Pattern(optimizer, name, text, sets, constants or {}, **settings))


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def model_of(pattern: Pattern) -> onnx.ModelProto:
    """The pattern as a model."""
    domains = f'"": {pattern.opset}, "com.microsoft": 1'
    model = parser.parse_model(f"<ir_version: 10, opset_import: [{domains}]>\ng {pattern.text}")
    for name, value in pattern.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def session_of(
    model: onnx.ModelProto, level: str = "ENABLE_ALL", off: tuple[str, ...] = (), keep: str = ""
) -> Any:
    """A session with one level of optimization; ``keep``: where its graph is written to."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    if keep:
        options.optimized_model_filepath = keep
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(off) or None,
    )


def check(pattern: Pattern) -> None:
    """Fails when the outcome is another one, or the optimizer did not change the graph."""
    if MENDED.get((pattern.optimizer, pattern.name), (99,)) <= INSTALLED:
        pattern = replace(pattern, outcome="equal", fires=False)
    model = model_of(pattern)
    names = (pattern.optimizer, TWICE.get(pattern.optimizer), *pattern.besides)
    off = tuple(name for name in names if name)
    plain, without = session_of(model, "DISABLE_ALL"), session_of(model, off=off)
    if pattern.fires and pattern.outcome != "no session":
        assert _graph(model) != _graph(model, off), f"{pattern.label}: it changes nothing"
    try:
        optimized = session_of(model)
    except Exception as error:
        assert pattern.outcome == "no session", f"{pattern.label}: {error}"
        return
    found = {_compared(pattern, plain, optimized, feed) for feed in pattern.feeds}
    worst = next((each for each in ("fails", "wrong") if each in found), "equal")
    assert worst == pattern.outcome, f"{pattern.label}: {worst}"
    if worst != "equal":
        others = {_compared(pattern, plain, without, feed) for feed in pattern.feeds}
        assert others == {"equal"}, f"{pattern.label}: {others} without it"


def _graph(model: onnx.ModelProto, off: tuple[str, ...] = ()) -> bytes:
    """The graph that a session makes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        session_of(model, off=off, keep=str(path))
        return onnx.load(path).graph.SerializeToString()


def _compared(pattern: Pattern, plain: Any, optimized: Any, feed: dict[str, Any]) -> str:
    feed = {name: np.asarray(value) for name, value in feed.items()}
    expected = plain.run(None, feed)
    try:
        found = optimized.run(None, feed)
    except Exception:
        return "fails"
    pairs = zip(expected, found, strict=True)
    return "equal" if all(_same(a, b, pattern.tolerance) for a, b in pairs) else "wrong"


def _same(expected: Any, found: Any, tolerance: float) -> bool:
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, found))
    same = (expected == found) & (np.signbit(expected) == np.signbit(found))
    same |= np.isnan(expected) & np.isnan(found)
    if tolerance:
        wide, other = expected.astype(np.float64), found.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        largest = np.abs(wide).max(where=finite, initial=0)
        difference = np.abs(np.where(finite, wide, 0) - np.where(finite, other, 0))
        same |= finite & (difference <= tolerance * largest)
    return bool(np.all(same))


_KINDS = "^(Eliminate|Fuse)|(Fusion|Elimination|Transformer|Optimizer|Remover|Folding|Sharing"
_KINDS += "|Approximation|Quantization|DummyDq|NodeUnit)$"
# base classes, and what runs in builds for training or for other providers only
_NO_OPTIMIZERS = {
    "ConstantFoldingDQ",
    "GraphTransformer",
    "RuleBasedGraphTransformer",
    "SelectorActionTransformer",
}


def installed() -> set[str]:
    """The classes of optimizers that the installed ONNX Runtime was built with, read from the names
    of types in its library."""
    from onnxruntime.capi import onnxruntime_pybind11_state as library

    data = Path(library.__file__).read_bytes()
    names = set()
    for match in re.finditer(rb"N11onnxruntime(\d+)([A-Z]\w+)E\0", data):
        name = match[2].decode()
        if len(name) == int(match[1]) and re.search(_KINDS, name):
            names.add(name)
    return names - _NO_OPTIMIZERS
