"""One case of `onnx_cases` through reader, rules of inference, every rewrite and writer, in each of
the forms of `onnx_forms`. In comes its name, out comes a Record; called by `node_tests`."""

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

# from good to bad: a case has the worst of its outcomes
OUTCOMES = (
    "exact", "unrunnable", "refused", "rule", "changed", "invalid", "fails", "different", "error",
    "timeout", "crash",
)  # fmt: skip


NUMPY = 10.0  # what is folded is computed in numpy: algorithms differ from those of the runtime


class Before:
    """What the model computes as it came, and who ran it."""

    def __init__(self, case: Case, feeds: Feeds, expected: Sequence[Any]) -> None:
        self.case, self.expected = case, expected
        self.runner = "none"
        self.found: list[Any] = list(expected)
        self.why: dict[str, str] = {}
        for name, kind in (("onnxruntime", OrtRunner), ("reference", ReferenceRunner)):
            try:
                self.found = kind(case.model)(feeds)
            except Exception as error:
                self.why[name] = _line(error)
                continue
            self.runner, self.kind = name, kind
            break

    @property
    def deviation(self) -> str:
        """How the runner itself differs from what the case expects, but for random numbers."""
        if draws(self.case.model.graph.node):
            return ""
        try:
            compare(self.expected, self.found, self.case.rtol, self.case.atol)
        except Different as error:
            return str(error)
        return ""

    def same(self, found: Sequence[Any], slack: float) -> None:
        """Raise Different unless this is what the model computed, or what the case expects."""
        try:
            compare(self.found, found, slack=slack)
        except Different:
            if not self.deviation:
                raise
            compare(self.expected, found, self.case.rtol, self.case.atol)


def check_case(name: str) -> Record:
    """The worst outcome of the forms of a case."""
    case = cases()[name]
    record = Record(name, "exact")
    for number, (feeds, expected) in enumerate(case.data):
        before = Before(case, feeds, expected)
        if number == 0:
            record.facts["runner"] = before.runner
            record.facts["why"] = before.why
            record.facts["deviates"] = before.runner if before.deviation else ""
            record.facts["deviation"] = before.deviation[:300]
        if before.runner == "none":
            _worse(record, "unrunnable", "", str(before.why))
        _check_reading(record, case)
        known = []
        for form_name, form in FORMS.items():
            made = form(case.model, feeds)
            if made is not None:
                known.append(_check_form(record, form_name, made, before))
        best = min(known, key=("sizes", "shape", "dtype", "nothing", "refused").index)
        record.facts["inferred"] = best
    return record


def _check_reading(record: Record, case: Case) -> None:
    """What is read and written again is the same."""
    try:
        builder = GraphBuilder(case.model)
        written = builder.to_onnx(optimize=False)
    except OrtableError as error:
        _worse(record, "refused", "reader", _line(error))
        return
    wrong = difference(case.model, written)
    if wrong:
        _worse(record, "changed", "reader and writer", wrong)


def _check_form(record: Record, name: str, form: Form, before: Before) -> str:
    model, feeds = form
    try:
        builder = inferred(model)
    except OrtableError as error:
        _worse(record, "refused", name, _line(error))
        return "refused"
    is_folded = name == "folded"
    expected = (
        [None if each is None else each[None] for each in before.expected]
        if is_folded
        else before.expected
    )
    wrong = wrong_inference(builder, feeds, expected)
    if wrong:
        _worse(record, "rule", name, wrong)
    for target in (None, "onnxruntime"):
        if target is None or 0 < opset(model) <= ORT_MAX_OPSET:
            _check_rewritten(record, f"{name}, target {target}", form, before, target)
    return completeness(builder, expected)


def _check_rewritten(
    record: Record, where: str, form: Form, before: Before, target: str | None
) -> None:
    model, feeds = form
    builder = GraphBuilder(model, target=target)
    passes = pipeline.select_passes(True, "all", folding=True, weight_transposes=True)
    done = pipeline.run_passes(builder, passes)
    for rule in done.rewrites.counts():
        record.facts.setdefault("rules", {}).setdefault(rule, 0)
        record.facts["rules"][rule] += 1
    written = builder.to_onnx(optimize=False)
    wrong = _checked(written)
    if wrong and not _checked(model):
        _worse(record, "invalid", where, wrong)
        return
    if before.runner == "none" or not difference(before.case.model, written):
        return
    try:
        found, elsewhere = _run(before, written, model, feeds)
    except Exception as error:
        _worse(record, "fails", where, f"{before.runner}: {_line(error)}")
        return
    is_folded = where.startswith("folded")
    if is_folded:
        found = [value if value is None else value[0] for value in found]
    if draws(model.graph.node):
        return
    try:
        before.same(found, NUMPY if is_folded or elsewhere else 1.0)
    except Different as error:
        _worse(record, "different", where, str(error))


def _run(
    before: Before, written: onnx.ModelProto, form: onnx.ModelProto, feeds: Feeds
) -> tuple[list[Any], bool]:
    """What our model computes, in the runner of the model as it came, or (True) in the other one
    where that runner does not take this form of it."""
    try:
        return before.kind(written)(feeds), False
    except Exception:
        if before.kind is OrtRunner and not _loads(form, feeds):
            return ReferenceRunner(written)(feeds), True
        raise


def _loads(model: onnx.ModelProto, feeds: Feeds) -> bool:
    try:
        OrtRunner(model)(feeds)
    except Exception:
        return False
    return True


def _checked(model: onnx.ModelProto) -> str:
    """What onnx's checker finds wrong, inference included; empty when nothing."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return _line(error)
    return ""


def _worse(record: Record, outcome: str, where: str, detail: str) -> None:
    if OUTCOMES.index(outcome) > OUTCOMES.index(record.outcome):
        record.outcome, record.where, record.detail = outcome, where, detail[:400]


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
