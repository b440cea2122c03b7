"""Run graphs that an optimizer rewrites: with all optimizers, with none, and without that one."""

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
# optimizers that run at two levels and must be disabled together
TWICE = {
    "TransposeOptimizer": "TransposeOptimizer_CPUExecutionProvider",
    "GeluFusionL1": "GeluFusionL2",
    "LayerNormFusionL1": "LayerNormFusionL2",
}
# Patterns that a newer ONNX Runtime ignores or handles correctly, with the version of the change.
# Their rows stay in optimizers.yaml as long as an older version is supported.
FIXED_PATTERNS = {
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
    """A graph in ONNX's text form, ``(inputs) => (outputs) { nodes }``, with its inputs.

    ``outcome``: "equal" (differences of at most ``tolerance`` times the largest finite value; a
    tolerance of 0 compares signs of zeros, too), or the failure that the optimizer causes: "wrong"
    numbers or shape, "fails" at run time, "no session". ``besides``: other optimizers to disable
    for the same pattern.
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
    """A list of patterns to which modules append row by row."""

    def row(
        self,
        optimizer: str,
        name: str,
        text: str,
        feeds: dict[str, Any] | list[dict[str, Any]],
        constants: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Append a pattern; ``feeds`` is one set of inputs or a list of sets."""
        sets = tuple(feeds) if isinstance(feeds, list) else (feeds,)
        self.append(Pattern(optimizer, name, text, sets, constants or {}, **settings))


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Return normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def model_of(pattern: Pattern) -> onnx.ModelProto:
    """Return a pattern as a model."""
    domains = f'"": {pattern.opset}, "com.microsoft": 1'
    model = parser.parse_model(f"<ir_version: 10, opset_import: [{domains}]>\ng {pattern.text}")
    for name, value in pattern.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def session_of(
    model: onnx.ModelProto, level: str = "ENABLE_ALL", off: tuple[str, ...] = (), keep: str = ""
) -> Any:
    """Make a session at one optimization level; ``keep`` is a path for its optimized graph."""
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
    """Check that a pattern has its outcome, and that the optimizer changes its graph."""
    if FIXED_PATTERNS.get((pattern.optimizer, pattern.name), (99,)) <= INSTALLED:
        pattern = replace(pattern, outcome="equal", fires=False)
    model = model_of(pattern)
    names = (pattern.optimizer, TWICE.get(pattern.optimizer), *pattern.besides)
    disabled = tuple(name for name in names if name)
    plain, without_optimizer = session_of(model, "DISABLE_ALL"), session_of(model, off=disabled)
    if pattern.fires and pattern.outcome != "no session":
        assert _optimize(model) != _optimize(model, disabled), f"{pattern.label}: no change"
    try:
        optimized = session_of(model)
    except Exception as error:
        assert pattern.outcome == "no session", f"{pattern.label}: {error}"
        return
    outcomes = {_compare(pattern, plain, optimized, feed) for feed in pattern.feeds}
    worst = next((kind for kind in ("fails", "wrong") if kind in outcomes), "equal")
    assert worst == pattern.outcome, f"{pattern.label}: {worst}"
    if worst != "equal":
        unoptimized = {_compare(pattern, plain, without_optimizer, feed) for feed in pattern.feeds}
        assert unoptimized == {"equal"}, f"{pattern.label}: {unoptimized} without the optimizer"


def _optimize(model: onnx.ModelProto, off: tuple[str, ...] = ()) -> bytes:
    """Return the optimized graph of a session."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        session_of(model, off=off, keep=str(path))
        return onnx.load(path).graph.SerializeToString()


def _compare(pattern: Pattern, plain: Any, optimized: Any, feed: dict[str, Any]) -> str:
    feed = {name: np.asarray(value) for name, value in feed.items()}
    expected = plain.run(None, feed)
    try:
        results = optimized.run(None, feed)
    except Exception:
        return "fails"
    pairs = zip(expected, results, strict=True)
    return "equal" if all(_is_equal(a, b, pattern.tolerance) for a, b in pairs) else "wrong"


def _is_equal(expected: Any, actual: Any, tolerance: float) -> bool:
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, actual))
    same = (expected == actual) & (np.signbit(expected) == np.signbit(actual))
    same |= np.isnan(expected) & np.isnan(actual)
    if tolerance:
        expected64, actual64 = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(expected64) & np.isfinite(actual64)
        largest = np.abs(expected64).max(where=finite, initial=0)
        difference = np.abs(np.where(finite, expected64, 0) - np.where(finite, actual64, 0))
        same |= finite & (difference <= tolerance * largest)
    return bool(np.all(same))


_NAMES = "^(Eliminate|Fuse)|(Fusion|Elimination|Transformer|Optimizer|Remover|Folding|Sharing"
_NAMES += "|Approximation|Quantization|DummyDq|NodeUnit)$"
# base classes, and an optimizer of other execution providers
_NO_OPTIMIZERS = {
    "ConstantFoldingDQ",
    "GraphTransformer",
    "RuleBasedGraphTransformer",
    "SelectorActionTransformer",
}


def installed() -> set[str]:
    """Return the optimizer classes of ONNX Runtime, read from the type names in its library."""
    from onnxruntime.capi import onnxruntime_pybind11_state as library

    data = Path(library.__file__).read_bytes()
    names = set()
    for match in re.finditer(rb"N11onnxruntime(\d+)([A-Z]\w+)E\0", data):
        name = match[2].decode()
        if len(name) == int(match[1]) and re.search(_NAMES, name):
            names.add(name)
    return names - _NO_OPTIMIZERS
