"""Parse and check the samples of rewrites."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ortable import dtypes
from ortablegen.language import kinds
from ortablegen.language.entries import find_new_name
from ortablegen.language.parse import Code, names_in, python_tree
from ortablegen.language.samples import (
    SampleProblem,
    TensorSample,
    literal_value,
    tensor_sample,
    unknown_operators,
)
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.onnx import CEILING, FLOOR
from ortablegen.source.diagnostics import Diagnostics, did_you_mean

from .model import Rewrite, RewriteSample
from .names import Names, attribute_of, find_names_read
from .pattern import Pattern
from .read import SAMPLE_KEYS

_CONSTANT = "const "
# kind of a result -> an example of its value in a sample
_RESULT_FORMS = {kinds.RESULT: '"f32[2,3]"', kinds.RESULTS: '["f32[2,3]"]'}


@dataclass(frozen=True)
class TensorValue:
    """A tensor of a sample: an initializer if ``constant``, otherwise a graph input."""

    sample: TensorSample
    constant: bool


def read_value(value: object) -> Any:
    """Parse a value of a sample to a TensorValue, an attribute's value, None, or a list of these.

    Raises:
        SampleProblem: the text is none of these, or its numbers do not fit.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return [read_value(item) for item in value]
    text = str(value).strip()
    constant = text.startswith(_CONSTANT)
    sample = tensor_sample(text.removeprefix(_CONSTANT).strip())
    if sample is not None:
        return TensorValue(sample, constant)
    if constant:
        raise SampleProblem(
            f"'{text}' is not a constant; write const f32[2] = [1, 2], or const i64[] = 1"
        )
    if text.startswith("{"):
        return _parse_attributes(text)
    if text in DTYPES:
        return getattr(dtypes, text)
    return literal_value(text)


def _parse_attributes(text: str) -> dict[str, Any]:
    """Parse ``{'group': 2}`` or ``{group: 2}``."""
    try:
        tree = python_tree(text, "eval").body
    except SyntaxError:
        tree = None
    keys = tree.keys if isinstance(tree, ast.Dict) else [None]
    if not isinstance(tree, ast.Dict) or not all(
        isinstance(key, ast.Name) or (isinstance(key, ast.Constant) and isinstance(key.value, str))
        for key in keys
    ):
        raise SampleProblem(f"cannot read the attributes '{text}'; write {{group: 2}}")
    names = [str(k.id if isinstance(k, ast.Name) else k.value) for k in keys]  # type: ignore[union-attr]
    return dict(zip(names, (read_value(ast.unparse(v)) for v in tree.values), strict=True))


def check_samples(
    rewrite: Rewrite, patterns: tuple[Pattern, ...], names: Names, diagnostics: Diagnostics
) -> None:
    """Report errors in the samples of a rewrite."""
    if not any(sample.unchanged is None for sample in rewrite.samples):
        diagnostics.error(
            rewrite.span,
            f"'{rewrite.name}' has no sample that is rewritten",
            fix="add a sample without unchanged:",
        )
    if not any(sample.unchanged is not None for sample in rewrite.samples):
        diagnostics.error(
            rewrite.span,
            f"'{rewrite.name}' has no sample that it does not rewrite",
            fix='add a similar graph, with unchanged: "<part of the reason>"',
        )
    intermediates = {name for pattern in patterns for name in pattern.output_names()}
    allowed = _settable_names(patterns)
    required = _required_names(patterns, names)
    for sample in rewrite.samples:
        _SampleChecker(sample, names, diagnostics).check(allowed, required, intermediates)


def _settable_names(patterns: tuple[Pattern, ...]) -> list[str]:
    settable: dict[str, None] = {}
    for pattern in patterns:
        for name in (*pattern.captures_by_name(), *pattern.attribute_names()):
            settable.setdefault(name)
        for node in pattern.nodes:
            if node.attrs_name not in (None, "_"):
                settable.setdefault(node.attrs_name)
    return list(settable)


def _required_names(patterns: tuple[Pattern, ...], names: Names) -> list[str]:
    """Return the captures for which a sample must give values."""
    required = [
        name
        for name in patterns[0].captures_by_name()
        if not names.kinds[name].optional and names.kinds[name].base in _RESULT_FORMS
    ]
    for name, (node, attribute) in patterns[0].attribute_names().items():
        schema = attribute_of(node, attribute)
        if schema is not None and schema.required and not names.kinds[name].optional:
            required.append(name)
    return required


class _SampleChecker:
    def __init__(self, sample: RewriteSample, names: Names, diagnostics: Diagnostics) -> None:
        self.sample = sample
        self.names = names
        self.diagnostics = diagnostics

    def error(self, message: str, notes: Iterable[str] = (), fix: str | None = None) -> None:
        self.diagnostics.error(self.sample.span, message, notes, fix)

    def check(self, allowed: list[str], required: list[str], intermediates: set[str]) -> None:
        sample = self.sample
        if sample.graph is not None:
            allowed, required, intermediates = self.graph_names(sample.graph)
        for name, value in sample.values:
            if name not in allowed and name != "_":
                self.report_unknown(
                    name, allowed, "capture" if sample.graph is None else "input of the graph"
                )
            try:
                self.check_value(name, read_value(value))
            except SampleProblem as problem:
                fix = 'write "f32[2,3]", "const f32[2] = [1, 2]", or a literal for an attribute'
                self.error(str(problem), fix=fix)
        for name in required:
            if name not in dict(sample.values):
                form = _RESULT_FORMS.get(self.names.kinds[name].base, "<its value>")
                self.error(f"the sample gives no value for '{name}'", fix=f"{name}: {form}")
        for name in sample.extra_outputs:
            if name not in intermediates:
                self.report_unknown(name, sorted(intermediates), "intermediate result")
        if sample.unchanged is not None and sample.expect is not None:
            self.error("a sample has only one of expect: and unchanged:")
        for word, hint in unknown_operators(sample.expect or ""):
            self.error(f"expect: ONNX has no operator '{word}'{hint}")
        if sample.opset is not None and not FLOOR <= sample.opset <= CEILING:
            self.error(f"opset {sample.opset} is outside {FLOOR} to {CEILING}")

    def check_value(self, name: str, value: Any) -> None:
        """Raise `SampleProblem` if the value of a result is not a tensor."""
        kind = self.names.kinds.get(name)
        if self.sample.graph is not None or kind is None or value is None:
            return
        items = value if kind.base == kinds.RESULTS and isinstance(value, list) else [value]
        if kind.base in (kinds.RESULT, kinds.RESULTS):
            for item in items:
                if not isinstance(item, TensorValue):
                    raise SampleProblem(f"'{name}' is a result, but its value is not a tensor")

    def graph_names(self, code: Code) -> tuple[list[str], list[str], set[str]]:
        """Return the names that the sample's graph reads, requires (none) and assigns."""
        intermediates = {
            name.id for name in names_in(*code.body) if isinstance(name.ctx, ast.Store)
        }
        names = sorted(find_names_read(code.body) - intermediates)
        return names, [], intermediates

    def report_unknown(self, name: str, candidates: list[str], description: str) -> None:
        listed = ", ".join(candidates) or "none"
        hint = find_new_name(name, SAMPLE_KEYS) or did_you_mean(name, candidates)
        self.error(f"'{name}' is not a known {description}{hint}", [f"known are {listed}"])
