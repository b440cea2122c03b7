"""Check a case of `onnx_cases` with reader, inference, rewrites and writer, in all forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from ortable.builder import GraphBuilder
from ortable.errors import OrtableError
from ortable.ir.versions import ORT_MAX_OPSET
from ortable.passes import pipeline

from .onnx_cases import Case, cases
from .onnx_forms import (
    FORMS,
    Feeds,
    Form,
    completeness,
    difference,
    draws,
    inferred,
    opset,
    wrong_inference,
)
from .onnx_run import Different, OrtRunner, ReferenceRunner, compare
from .workers import Record

# from best to worst: the outcome of a case is that of its worst form
OUTCOMES = (
    "exact", "unrunnable", "refused", "rule", "changed", "invalid", "fails", "different", "error",
    "timeout", "crash",
)  # fmt: skip


NUMPY_SLACK = 10.0  # folding computes in numpy, whose algorithms differ from those of the runtime


class OriginalRun:
    """The results of the original model, and the runner that computed them."""

    def __init__(self, case: Case, feeds: Feeds, expected: Sequence[Any]) -> None:
        self.case, self.expected = case, expected
        self.runner = "none"
        self.results: list[Any] = list(expected)
        self.errors: dict[str, str] = {}
        for name, kind in (("onnxruntime", OrtRunner), ("reference", ReferenceRunner)):
            try:
                self.results = kind(case.model)(feeds)
            except Exception as error:
                self.errors[name] = _error_line(error)
                continue
            self.runner, self.kind = name, kind
            break

    @property
    def deviation(self) -> str:
        """Return how the runner differs from the case's results, except for random numbers."""
        if draws(self.case.model.graph.node):
            return ""
        try:
            compare(self.expected, self.results, self.case.rtol, self.case.atol)
        except Different as error:
            return str(error)
        return ""

    def check_same(self, results: Sequence[Any], slack: float) -> None:
        """Raise Different unless the results are those of the model or of the case."""
        try:
            compare(self.results, results, slack=slack)
        except Different:
            if not self.deviation:
                raise
            compare(self.expected, results, self.case.rtol, self.case.atol)


def check_case(name: str) -> Record:
    """Return the worst outcome of the forms of a case."""
    case = cases()[name]
    record = Record(name, "exact")
    for number, (feeds, expected) in enumerate(case.data):
        original = OriginalRun(case, feeds, expected)
        if number == 0:
            record.facts["runner"] = original.runner
            record.facts["why"] = original.errors
            record.facts["deviates"] = original.runner if original.deviation else ""
            record.facts["deviation"] = original.deviation[:300]
        if original.runner == "none":
            _record_outcome(record, "unrunnable", "", str(original.errors))
        _check_reading(record, case)
        knowledge = []
        for form_name, make_form in FORMS.items():
            form = make_form(case.model, feeds)
            if form is not None:
                knowledge.append(_check_form(record, form_name, form, original))
        least = min(knowledge, key=("sizes", "shape", "dtype", "nothing", "refused").index)
        record.facts["inferred"] = least
    return record


def _check_reading(record: Record, case: Case) -> None:
    """Check that a model that is read and written is unchanged."""
    try:
        builder = GraphBuilder(case.model)
        written = builder.to_onnx(optimize=False)
    except OrtableError as error:
        _record_outcome(record, "refused", "reader", _error_line(error))
        return
    change = difference(case.model, written)
    if change:
        _record_outcome(record, "changed", "reader and writer", change)


def _check_form(record: Record, name: str, form: Form, original: OriginalRun) -> str:
    model, feeds = form
    try:
        builder = inferred(model)
    except OrtableError as error:
        _record_outcome(record, "refused", name, _error_line(error))
        return "refused"
    is_folded = name == "folded"
    expected = (
        [None if value is None else value[None] for value in original.expected]
        if is_folded
        else original.expected
    )
    errors = wrong_inference(builder, feeds, expected)
    if errors:
        _record_outcome(record, "rule", name, errors)
    for target in (None, "onnxruntime"):
        if target is None or 0 < opset(model) <= ORT_MAX_OPSET:
            _check_rewritten(record, f"{name}, target {target}", form, original, target)
    return completeness(builder, expected)


def _check_rewritten(
    record: Record, where: str, form: Form, original: OriginalRun, target: str | None
) -> None:
    model, feeds = form
    builder = GraphBuilder(model, target=target)
    passes = pipeline.select_passes(True, "all", folding=True, transform_weights=True)
    run = pipeline.run_passes(builder, passes)
    for rule in run.rewrites.counts():
        record.facts.setdefault("rules", {}).setdefault(rule, 0)
        record.facts["rules"][rule] += 1
    written = builder.to_onnx(optimize=False)
    error_text = _checker_error(written)
    if error_text and not _checker_error(model):
        _record_outcome(record, "invalid", where, error_text)
        return
    if original.runner == "none" or not difference(original.case.model, written):
        return
    try:
        results, is_other_runner = _run_rewritten(original, written, model, feeds)
    except Exception as error:
        _record_outcome(record, "fails", where, f"{original.runner}: {_error_line(error)}")
        return
    is_folded = where.startswith("folded")
    if is_folded:
        results = [value if value is None else value[0] for value in results]
    if draws(model.graph.node):
        return
    try:
        original.check_same(results, NUMPY_SLACK if is_folded or is_other_runner else 1.0)
    except Different as error:
        _record_outcome(record, "different", where, str(error))


def _run_rewritten(
    original: OriginalRun, written: onnx.ModelProto, form: onnx.ModelProto, feeds: Feeds
) -> tuple[list[Any], bool]:
    """Run a rewritten model; True if its runner can not run this form of the original model."""
    try:
        return original.kind(written)(feeds), False
    except Exception:
        if original.kind is OrtRunner and not _can_load(form, feeds):
            return ReferenceRunner(written)(feeds), True
        raise


def _can_load(model: onnx.ModelProto, feeds: Feeds) -> bool:
    try:
        OrtRunner(model)(feeds)
    except Exception:
        return False
    return True


def _checker_error(model: onnx.ModelProto) -> str:
    """Return the error of onnx's checker, inference included, or an empty text."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return _error_line(error)
    return ""


def _record_outcome(record: Record, outcome: str, where: str, detail: str) -> None:
    if OUTCOMES.index(outcome) > OUTCOMES.index(record.outcome):
        record.outcome, record.where, record.detail = outcome, where, detail[:400]


def _error_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
