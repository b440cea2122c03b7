"""Faults to inject: entries of the specs and rules with one expression changed, which stand in the
place of the real ones in a block. Read by tests of `ortable.bisect`, which has to name the line
that was changed."""

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
class Changed:
    """An entry or a rule of `file` in which `old` became `new`, and a call that shows it."""

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
    """A linear layer, what is asked for, and another linear layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.function = function
        self.last = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x)))


def around(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Call]:
    """A call of a model with the function between two layers."""
    return lambda: (Layers(function), (torch.randn(5, 6),))


def alone(function: Callable[..., torch.Tensor], *shape: int) -> Callable[[], Call]:
    """A call of the function."""
    return lambda: (function, (3 * torch.randn(*shape),))


ENTRIES = (
    Changed("aten::relu", "specs/aten/activation.yaml", "return relu_of(self)",
            "return Neg(relu_of(self))", around(torch.relu)),
    Changed("aten::leaky_relu", "specs/aten/activation.yaml", "alpha=float(negative_slope)",
            "alpha=float(negative_slope) + 0.3", around(functional.leaky_relu)),
    Changed("aten::_softmax", "specs/aten/softmax.yaml", "axis=axis_of(self, dim)",
            "axis=axis_of(self, dim) - 1",
            around(lambda x: x.softmax(-1))),
    Changed("aten::addmm", "specs/aten/linalg.yaml",
            "return Gemm(a[0], b[0], bias, alpha=float(alpha), beta=float(beta), transA=a[1],",
            "return Gemm(a[0], b[0], bias, alpha=float(alpha), beta=2 * float(beta), transA=a[1],",
            around(torch.tanh)),
    Changed("aten::native_layer_norm", "specs/aten/norm.yaml",
            "gain = or_filled(weight, normalized_shape, 1, compute_dtype)",
            "gain = or_filled(weight, normalized_shape, 2, compute_dtype)",
            around(lambda x: functional.layer_norm(x, (6,)))),
    Changed("aten::sub.Tensor", "specs/aten/binary.yaml", "do: return Sub(self, other)",
            "do: return Sub(other, self)", around(lambda x: x - x.exp()), dynamic=True),
    Changed("aten::hardsigmoid", "specs/aten/activation.yaml", "alpha=1 / 6, beta=0.5",
            "alpha=1 / 6, beta=0.6", around(functional.hardsigmoid)),
    Changed("aten::sigmoid", "specs/aten/activation.yaml", "lower: return Sigmoid(self)",
            "lower: return Sigmoid(Neg(self))", around(torch.sigmoid), train=True),
    Changed("aten::tanh_backward", "specs/aten/activation_backward.yaml",
            "slope = Sub(const_like(1, y), Mul(y, y))", "slope = Sub(const_like(1, y), y)",
            around(torch.tanh), train=True),
    Changed("aten::threshold_backward", "specs/aten/activation_backward.yaml",
            "return Where(stopped, const_like(0, grad_output), grad_output)",
            "return Where(stopped, const_like(1, grad_output), grad_output)",
            around(torch.relu), train=True),
    Changed("aten::_softmax_backward_data", "specs/aten/softmax.yaml",
            "return cast(Mul(Sub(grad, total), result), input_dtype)",
            "return cast(Mul(Add(grad, total), result), input_dtype)",
            around(lambda x: x.softmax(-1)), train=True),
)  # fmt: skip


def _gelu_of_tanh(x: torch.Tensor) -> torch.Tensor:
    inner = 0.7978845608028654 * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def _normalized(x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered / torch.sqrt((centered * centered).mean(-1, keepdim=True) + 1e-6)


def _images() -> Call:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    with torch.no_grad():
        model[1].running_mean.uniform_(-1, 1)
        model[1].running_var.uniform_(0.5, 2)
    return model, (torch.randn(2, 3, 6, 6),)


def _scaled_images() -> Call:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * 3.0

    return Scaled().eval(), (torch.randn(2, 3, 6, 6),)


RULES = (
    Changed("gelu_erf", "specs/rewrites/activation.yaml", "replace: return Gelu(x)",
            "replace: return Gelu(Neg(x))",
            alone(lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))), 4, 5), dynamic=True),
    Changed("gelu_tanh", "specs/rewrites/activation.yaml",
            'replace: return Gelu(x, approximate="tanh")',
            'replace: return Gelu(Neg(x), approximate="tanh")', alone(_gelu_of_tanh, 4, 5)),
    Changed("clip_clip", "specs/rewrites/selection.yaml",
            "top: min(number_of(high), number_of(ceiling))", "top: number_of(high)",
            alone(lambda x: x.clamp(-1, 2).clamp(-3, 1), 4, 5)),
    Changed("where_not", "specs/rewrites/selection.yaml",
            "replace: return Where(condition, b, a)", "replace: return Where(condition, a, b)",
            alone(lambda x: torch.where(~(x > x.mean()), x, x * 2), 4, 5)),
    Changed("conv_batch_norm", "specs/rewrites/convolution.yaml",
            "factor = Div(scale, Sqrt(Add(var, const(eps, dtype_of(var)))))",
            "factor = Div(scale, Add(var, const(eps, dtype_of(var))))", _images, export=True),
    Changed("conv_scale", "specs/rewrites/convolution.yaml",
            "moved = None if b is None else shifted_bias(b, line, None)",
            "moved = b", _scaled_images, export=True),
    Changed("rms_norm", "specs/rewrites/normalization.yaml", "axis=axis, epsilon=small)",
            "axis=axis, epsilon=small + 1)", alone(_rms, 4, 5)),
    Changed("layer_norm", "specs/rewrites/normalization.yaml",
            "LayerNormalization(x, make_ones(shape_of(x)[axis:], x), axis=axis, epsilon=small)",
            "LayerNormalization(x, make_ones(shape_of(x)[axis:], x), axis=-1, epsilon=1.0)",
            alone(_normalized, 4, 5)),
    Changed("dropout_gradient", "specs/rewrites/training.yaml",
            "replace: return Mul(g, Where(mask, scale, const(0, dtype_of(g))))",
            "replace: return Mul(g, Where(mask, const(0, dtype_of(g)), scale))",
            around(functional.dropout), train=True),
    Changed("concat_concat", "specs/rewrites/concat.yaml",
            "replace: return Concat(*inputs, axis=axis)",
            "replace: return Neg(Concat(*inputs, axis=axis))",
            alone(lambda x: torch.cat([torch.cat([x, x * 2]), x]), 4, 5)),
)  # fmt: skip


# -- how


def _part(text: str, head: str) -> tuple[int, int]:
    """Where an item of a YAML list begins and ends."""
    start = re.search(rf"^- {re.escape(head)}(?=[(\s])", text, re.MULTILINE)
    assert start is not None, head
    end = re.compile(r"^(?:- |# )", re.MULTILINE).search(text, start.end())
    return start.start(), len(text) if end is None else end.start()


def _with_change(fault: Changed, head: str) -> str:
    text = fault.path.read_text(encoding="utf-8")
    begin, end = _part(text, head)
    part = text[begin:end]
    assert part.count(fault.old) == 1, (fault.name, part.count(fault.old))
    return part.replace(fault.old, fault.new)


def line_of(fault: Changed, head: str) -> int:
    """The line of the file where the case begins that was changed; of an entry with one case its
    own line, and `lower` is a case where there is another for complex numbers."""
    text = fault.path.read_text(encoding="utf-8")
    begin, end = _part(text, head)
    changed = begin + text[begin:end].index(fault.old)
    places = [begin]
    if head.startswith("op: "):
        lower = text.index("\n  lower:", begin) + 1
        cases = re.compile(r"^    - ", re.MULTILINE).finditer(text, lower, changed)
        places += [found.start() for found in cases]
        if "\n  complex:" in text[begin:end]:
            block = text.startswith("  lower: |\n", lower)  # its text begins a line below
            places.append(text.index("\n", lower) + 1 if block else lower)
    return text.count("\n", 0, max(places)) + 1


@contextmanager
def tables_kept(name: str) -> Iterator[None]:
    """The generated tables have of an entry what they had, when the block ends."""
    found = (dispatch.CONVERTERS, dispatch.COMPLEX_CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES)
    saved, loaded = [table.get(name) for table in found], len(tables.LOADED_SPECS)
    try:
        yield
    finally:
        for table, before in zip(found, saved, strict=True):
            table.pop(name, None)
            if before is not None:
                table[name] = before
        del tables.LOADED_SPECS[loaded:]


@contextmanager
def changed_entry(fault: Changed, folder: Path) -> Iterator[None]:
    """In the block the changed entry stands in the place of the real one."""
    path = folder / "changed.yaml"
    path.write_text(_with_change(fault, f"op: {fault.name}"), encoding="utf-8")
    with tables_kept(fault.name):
        ortable.load_specs(path, override=True)
        dispatch.SPEC_FILES[fault.name] = fault.file
        tables.LOADED_SPECS.pop()  # it is an entry of the package now
        yield


@contextmanager
def changed_rule(fault: Changed, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the block the changed rule stands in the place of the real one."""
    text = _with_change(fault, f"rewrite: {fault.name}")
    rows = iter(rule_selection._compile_rules(text, Path(fault.file).name, ""))
    made = [
        replace(next(rows), file=fault.file) if rule.name == fault.name else rule
        for rule in rule_selection.package_rules()
    ]
    with monkeypatch.context() as patch:
        patch.setattr(rule_selection, "package_rules", lambda: tuple(made))
        rule_selection._select_package_rules.cache_clear()
        yield
    rule_selection._select_package_rules.cache_clear()
