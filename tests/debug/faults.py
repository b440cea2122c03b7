"""Inject faults: replace an entry of the specs or a rule by a copy with one changed expression.

Tests of `ortable.bisect` check that it reports the changed line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import ortable
from ortable.interpreter import tables
from ortable.passes.rewrite import rule_selection
from ortable_generated.aten import dispatch
from tests.packaging.files import ROOT

Call = tuple[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class Mutant:
    """An entry or rule of `file` with `old` replaced by `new`, and a call whose result changes."""

    name: str
    file: str
    old: str
    new: str
    call: Callable[[], Call]
    train: bool = False
    dynamic: bool | None = None
    export: bool = False

    @property
    def path(self) -> Path:
        return ROOT / self.file


class Layers(nn.Module):
    """A linear layer, a given function, and another linear layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.function = function
        self.last = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x)))


def around(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Call]:
    """Return a factory of a call of a model with the function between two linear layers."""
    return lambda: (Layers(function), (torch.randn(5, 6),))


def call_alone(function: Callable[..., torch.Tensor], *shape: int) -> Callable[[], Call]:
    """Return a factory of a call of the function."""
    return lambda: (function, (3 * torch.randn(*shape),))


ENTRIES = (
    Mutant("aten::relu", "specs/aten/activation.yaml", "return relu_of(self)",
           "return Neg(relu_of(self))", around(torch.relu)),
    Mutant("aten::leaky_relu", "specs/aten/activation.yaml", "alpha=float(negative_slope)",
           "alpha=float(negative_slope) + 0.3", around(functional.leaky_relu)),
    Mutant("aten::_softmax", "specs/aten/softmax.yaml", "axis=axis_of(self, dim)",
           "axis=axis_of(self, dim) - 1",
           around(lambda x: x.softmax(-1))),
    Mutant("aten::addmm", "specs/aten/linalg.yaml",
           "return Gemm(a[0], b[0], bias, alpha=float(alpha), beta=float(beta), transA=a[1],",
           "return Gemm(a[0], b[0], bias, alpha=float(alpha), beta=2 * float(beta), transA=a[1],",
           around(torch.tanh)),
    Mutant("aten::native_layer_norm", "specs/aten/norm.yaml",
           "gain = or_filled(weight, normalized_shape, 1, compute_dtype)",
           "gain = or_filled(weight, normalized_shape, 2, compute_dtype)",
           around(lambda x: functional.layer_norm(x, (6,)))),
    Mutant("aten::sub.Tensor", "specs/aten/binary.yaml", "do: return Sub(self, other)",
           "do: return Sub(other, self)", around(lambda x: x - x.exp()), dynamic=True),
    Mutant("aten::hardsigmoid", "specs/aten/activation.yaml", "alpha=1 / 6, beta=0.5",
           "alpha=1 / 6, beta=0.6", around(functional.hardsigmoid)),
    Mutant("aten::sigmoid", "specs/aten/activation.yaml", "lower: return Sigmoid(self)",
           "lower: return Sigmoid(Neg(self))", around(torch.sigmoid), train=True),
    Mutant("aten::tanh_backward", "specs/aten/activation_backward.yaml",
           "slope = Sub(const_like(1, y), Mul(y, y))", "slope = Sub(const_like(1, y), y)",
           around(torch.tanh), train=True),
    Mutant("aten::threshold_backward", "specs/aten/activation_backward.yaml",
           "return Where(stopped, const_like(0, grad_output), grad_output)",
           "return Where(stopped, const_like(1, grad_output), grad_output)",
           around(torch.relu), train=True),
    Mutant("aten::_softmax_backward_data", "specs/aten/softmax.yaml",
           "return cast(Mul(Sub(grad, total), result), input_dtype)",
           "return cast(Mul(Add(grad, total), result), input_dtype)",
           around(lambda x: x.softmax(-1)), train=True),
)  # fmt: skip


def _tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    inner = 0.7978845608028654 * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


def _rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def _layer_norm(x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-6)


def _conv_call() -> Call:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    with torch.no_grad():
        model[1].running_mean.uniform_(-1, 1)
        model[1].running_var.uniform_(0.5, 2)
    return model, (torch.randn(2, 3, 6, 6),)


def _scaled_conv_call() -> Call:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * 3.0

    return Scaled().eval(), (torch.randn(2, 3, 6, 6),)


RULES = (
    Mutant("gelu_erf", "specs/rewrites/activation.yaml", "replace: return Gelu(x)",
           "replace: return Gelu(Neg(x))",
           call_alone(lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))), 4, 5), dynamic=True),
    Mutant("gelu_tanh", "specs/rewrites/activation.yaml",
           'replace: return Gelu(x, approximate="tanh")',
           'replace: return Gelu(Neg(x), approximate="tanh")', call_alone(_tanh_gelu, 4, 5)),
    Mutant("clip_clip", "specs/rewrites/selection.yaml",
           "top: min(number_of(high), number_of(ceiling))", "top: number_of(high)",
           call_alone(lambda x: x.clamp(-1, 2).clamp(-3, 1), 4, 5)),
    Mutant("where_not", "specs/rewrites/selection.yaml",
           "replace: return Where(condition, b, a)", "replace: return Where(condition, a, b)",
           call_alone(lambda x: torch.where(~(x > x.mean()), x, x * 2), 4, 5)),
    Mutant("conv_batch_norm", "specs/rewrites/convolution.yaml",
           "factor = Div(scale, Sqrt(Add(var, const(eps, dtype_of(var)))))",
           "factor = Div(scale, Add(var, const(eps, dtype_of(var))))", _conv_call, export=True),
    Mutant("conv_scale", "specs/rewrites/convolution.yaml",
           "moved = None if b is None else shifted_bias(b, line, None)",
           "moved = b", _scaled_conv_call, export=True),
    Mutant("rms_norm", "specs/rewrites/normalization.yaml", "axis=axis, epsilon=small)",
           "axis=axis, epsilon=small + 1)", call_alone(_rms_norm, 4, 5)),
    Mutant("layer_norm", "specs/rewrites/normalization.yaml",
           "LayerNormalization(x, make_ones(shape_of(x)[axis:], x), axis=axis, epsilon=small)",
           "LayerNormalization(x, make_ones(shape_of(x)[axis:], x), axis=-1, epsilon=1.0)",
           call_alone(_layer_norm, 4, 5)),
    Mutant("dropout_gradient", "specs/rewrites/training.yaml",
           "replace: return Mul(g, Where(mask, scale, const(0, dtype_of(g))))",
           "replace: return Mul(g, Where(mask, const(0, dtype_of(g)), scale))",
           around(functional.dropout), train=True),
    Mutant("concat_concat", "specs/rewrites/concat.yaml",
           "replace: return Concat(*inputs, axis=axis)",
           "replace: return Neg(Concat(*inputs, axis=axis))",
           call_alone(lambda x: torch.cat([torch.cat([x, x * 2]), x]), 4, 5)),
)  # fmt: skip


# -- injection of faults


def _find_item(text: str, head: str) -> tuple[int, int]:
    """Return the start and end offsets of an item of a YAML list."""
    start = re.search(rf"^- {re.escape(head)}(?=[(\s])", text, re.MULTILINE)
    assert start is not None, head
    end = re.compile(r"^(?:- |# )", re.MULTILINE).search(text, start.end())
    return start.start(), len(text) if end is None else end.start()


def _apply_change(fault: Mutant, head: str) -> str:
    text = fault.path.read_text(encoding="utf-8")
    begin, end = _find_item(text, head)
    part = text[begin:end]
    assert part.count(fault.old) == 1, (fault.name, part.count(fault.old))
    return part.replace(fault.old, fault.new)


def find_case_line(fault: Mutant, head: str) -> int:
    """Return the line of the file at which the changed case begins.

    This is the line of the entry if it has only one case. An entry with a `complex` block has a
    further case, which begins at `lower`.
    """
    text = fault.path.read_text(encoding="utf-8")
    begin, end = _find_item(text, head)
    changed = begin + text[begin:end].index(fault.old)
    starts = [begin]
    if head.startswith("op: "):
        lower = text.index("\n  lower:", begin) + 1
        cases = re.compile(r"^    - ", re.MULTILINE).finditer(text, lower, changed)
        starts += [match.start() for match in cases]
        if "\n  complex:" in text[begin:end]:
            block = text.startswith("  lower: |\n", lower)  # its text begins on the next line
            starts.append(text.index("\n", lower) + 1 if block else lower)
    return text.count("\n", 0, max(starts)) + 1


@contextmanager
def restore_tables(name: str) -> Iterator[None]:
    """Restore the rows of an entry in the generated tables at the end of the block."""
    maps = (dispatch.CONVERTERS, dispatch.COMPLEX_CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES)
    saved, loaded = [table.get(name) for table in maps], len(tables.LOADED_SPECS)
    try:
        yield
    finally:
        for table, row in zip(maps, saved, strict=True):
            table.pop(name, None)
            if row is not None:
                table[name] = row
        del tables.LOADED_SPECS[loaded:]


@contextmanager
def changed_entry(fault: Mutant, folder: Path) -> Iterator[None]:
    """Replace the real entry by the changed one within the block."""
    path = folder / "changed.yaml"
    path.write_text(_apply_change(fault, f"op: {fault.name}"), encoding="utf-8")
    with restore_tables(fault.name):
        ortable.load_specs(path, override=True)
        dispatch.SPEC_FILES[fault.name] = fault.file
        tables.LOADED_SPECS.pop()  # treat the entry as one of the package
        yield


@contextmanager
def changed_rule(fault: Mutant, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the real rule by the changed one within the block."""
    text = _apply_change(fault, f"rewrite: {fault.name}")
    rows = iter(rule_selection._compile_rules(text, Path(fault.file).name, ""))
    rules = [
        replace(next(rows), file=fault.file) if rule.name == fault.name else rule
        for rule in rule_selection.package_rules()
    ]
    with monkeypatch.context() as patch:
        patch.setattr(rule_selection, "package_rules", lambda: tuple(rules))
        rule_selection._select_package_rules.cache_clear()
        yield
    rule_selection._select_package_rules.cache_clear()
