"""Compare an operator with eager at the limits of integers, in child processes.

A process that dies is a result, which names the call. A case is ``aten::floor_divide/int64``.
"""

from __future__ import annotations

import warnings
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from onnxruntime.capi import onnxruntime_pybind11_state as runtime
from torch.utils import _pytree as pytree

from ortable.errors import FunctionNotFoundError, KernelError, UnsupportedCase
from ortable.testing import entries as harness
from ortablegen.schemas.onnx import CEILING, FLOOR
from tests.derive.compare import difference
from tests.derive.runner import is_backward
from tests.specs.test_cases import ENTRIES, why_absent

from .extreme_calls import DTYPES, Fill, Form, forms
from .isolation import Outcome, run_isolated
from .workers import Record

# Operators that do not accept the limits of integers, with the reason.
EXCLUDED = {
    "aten::special_*_polynomial_*": "eager and the graph run one iteration per degree",
}
PASSING = ("exact", "skipped", "refused")
COMBINATIONS: tuple[tuple[int, str | None], ...] = ((FLOOR, None), (CEILING, "onnxruntime"))


def cases() -> list[str]:
    """Return the entries of specs/aten that the installed torch has, in every integer dtype."""
    present = (key for key in sorted(ENTRIES) if why_absent(ENTRIES[key]) is None)
    keys = [key for key in present if not is_backward(ENTRIES[key]) and not _is_excluded(key)]
    return [f"{key}/{dtype}" for key in keys for dtype in DTYPES]


def _is_excluded(key: str) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in EXCLUDED)


def check_case(case: str) -> Record:
    """Compare every form of a case; a call that eager refuses must only not crash."""
    torch.set_num_threads(1)
    key, _, dtype = case.rpartition("/")
    schema, calls = ENTRIES[key].schema, list(forms(ENTRIES[key], dtype))
    record = Record(case, "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = run_isolated([partial(_eager, schema, f, t) for f in calls for _, t in f.fills])
        trials = [
            _Trial(schema, form, *combination) for form in calls for combination in COMBINATIONS
        ]
        jobs, position = [], 0
        for form in calls:
            expected = eager[position : position + len(form.fills)]
            position += len(expected)
            if any(not outcome.error for outcome in expected):
                jobs += [
                    partial(trial, fill, outcome)
                    for trial in trials
                    if trial.form is form
                    for fill, outcome in zip(form.fills, expected, strict=True)
                ]
        outcomes = run_isolated(jobs)
    for job, outcome in zip(jobs, outcomes, strict=True):
        kind, detail = outcome.value or ("crash", outcome.signal)
        if kind not in PASSING and record.outcome == "exact":
            record.outcome, record.where = kind, f"{job.func} {job.args[0][0]}"
            record.detail = detail
    record.facts = {
        "compared": sum(o.value is not None and o.value[0] == "exact" for o in outcomes)
    }
    return record


def _eager(schema: Any, form: Form, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    result = harness.call_eager(schema, form.values, [tensor.clone() for tensor in tensors])
    return _flatten(result, form)


def _flatten(result: Any, form: Form) -> list[torch.Tensor]:
    leaves = result if isinstance(result, list | tuple) else [result]
    read = [leaf for index, leaf in enumerate(leaves) if index not in form.sample.unused_results]
    tensors = [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(read) if leaf is not None]
    return [
        torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf for leaf in tensors
    ]


class _Trial:
    """A form at an opset: converted in the child at the first call, then run with each fill."""

    def __init__(self, schema: Any, form: Form, opset: int, target: str | None) -> None:
        self.schema, self.form, self.opset, self.target = schema, form, opset, target
        self.session: Any = None
        self.problem: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.form.name}, opset {self.opset}" + (f" for {self.target}" * bool(self.target))

    def __call__(self, fill: Fill, eager: Outcome) -> tuple[str, str]:
        """Return the outcome of a fill, with a detail."""
        if self.session is None and self.problem is None:
            self.problem = self._prepare()
        if self.problem is not None:
            return self.problem
        inputs = self.converted.interpreter.inputs
        feeds = {r.name: t for r, t in zip(inputs, fill[1], strict=True) if r.name is not None}
        try:
            result = harness.run_session(self.session, feeds)
        except Exception as error:
            return ("skipped" if eager.error or eager.signal else "error"), str(error)[:300]
        if eager.error or eager.signal:
            return "skipped", ""
        detail = _find_difference(result, eager.value)
        return ("different", detail) if detail else ("exact", "")

    def _prepare(self) -> tuple[str, str] | None:
        tensors = self.form.fills[0][1]
        try:
            module, node = harness.graph_of_call(
                self.schema, self.form.values, tensors, self.form.sample.unused_results
            )
        except Exception as error:  # a call that torch's fake tensors refuse is never converted
            return "skipped", str(error)[:300]
        try:
            self.converted = harness.convert_graph(module, node, tensors, self.opset, self.target)
            model = self.converted.model
            if not model.graph.output:  # an assertion
                return "skipped", ""
            self.session = harness.make_session(model.SerializeToString())
        except runtime.NotImplemented as error:  # kernels are only guaranteed with a target
            return "refused" if self.target is None else "error", str(error)[:300]
        except (UnsupportedCase, KernelError, FunctionNotFoundError) as error:
            return "refused", str(error)[:300]
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:300]
        return None


def _find_difference(results: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """Describe how results differ; values of floats depend on the order of sums, and may differ."""
    if len(results) != len(expected):
        return f"{len(results)} results, eager has {len(expected)}"
    for result, eager in zip(results, expected, strict=True):
        gap = difference(result, eager)
        if gap is not None and not (eager.is_floating_point() and gap[0] not in ("dtype", "shape")):
            return f"{gap[0]}: {gap[1]}"
    return ""
