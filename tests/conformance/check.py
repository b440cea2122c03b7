"""Run one sample call through export, conversion, the checker and ONNX Runtime, against eager.

A dynamic program runs at the sizes that it was traced at, and at smaller and larger sizes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx
import torch

from ortable.errors import FunctionNotFoundError, KernelError, OrtableError, UnsupportedCase
from ortable.testing.entries import make_session, run_session
from tests.conformance.compare import Mismatch, as_real, compare, eager_of
from tests.conformance.drawn import Drawn, drawn_results
from tests.conformance.rules import rule_differences
from tests.conformance.samples import Call, seed
from tests.conformance.sizes import free_dimensions, other_sizes

# From best to worst: the outcome of a sample is that of its worst run.
OUTCOMES = (
    "exact", "uncaptured", "refused", "missing", "error", "rule", "mismatch", "invalid",
    "not_implemented", "timeout", "crash",
)  # fmt: skip
# Defects of the converter; expected.yaml can not list them.
FAULTS = ("error", "rule", "mismatch", "invalid", "not_implemented", "timeout", "crash")


@dataclass
class Record:
    """The outcome of one sample, written as one line of JSON.

    ``runs`` has an entry for each run that was not exact: mode, opset (None where the outcome does
    not depend on the opset), outcome, detail, and the reason class where torch captured nothing.
    ``total`` is the number of samples that torch yields, ``sizes`` the number of other sizes that a
    dynamic model ran at.
    """

    op: str
    dtype: str
    index: int
    outcome: str
    where: str = ""
    detail: str = ""
    call: str = ""
    kind: str = "forward"
    overloads: list[str] = field(default_factory=list)
    seconds: float = 0.0
    modes: list[str] = field(default_factory=list)
    opsets: list[int] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0
    sizes: int = 0
    dynamic: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the record as a dictionary of plain values."""
        return asdict(self)

    def note(
        self, outcome: str, detail: str, mode: str, opset: int | None = None, reason: str = ""
    ) -> None:
        """Add a run that was not exact, and lower the outcome of the sample to that of the run."""
        self.runs.append(
            {"mode": mode, "opset": opset, "outcome": outcome, "class": reason, "detail": detail}
        )
        if outcome == "uncaptured" and mode == "dynamic" and self.modes != ["dynamic"]:
            return  # a sample that is captured only with static shapes is tested with these
        if OUTCOMES.index(outcome) > OUTCOMES.index(self.outcome):
            self.outcome, self.detail = outcome, detail
            self.where = mode if opset is None else f"opset {opset}, {mode}"


def check_call(call: Call, opsets: Sequence[int], modes: Sequence[str]) -> Record:
    """Run ``call`` at every opset, with static shapes and with every dimension dynamic."""
    started = time.perf_counter()
    record = Record(call.op, call.dtype, call.index, "exact", call=call.describe()[:300])
    record.modes, record.opsets = list(modes), list(opsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = eager_of(call)
        except Exception as error:
            expected = []
            record.note("uncaptured", f"eager: {_first_line(error)}", modes[0], reason="eager")
        else:
            if not expected:
                record.note("uncaptured", "there is no result", modes[0], reason="nothing")
        for mode in modes if expected else ():
            _check_mode(call, mode, opsets, expected, record)
            if record.outcome == "uncaptured":
                break
    record.seconds = round(time.perf_counter() - started, 3)
    return record


def _check_mode(
    call: Call, mode: str, opsets: Sequence[int], expected: list[Any], record: Record
) -> None:
    tensors = [tensor.clone() for tensor in call.tensors()]
    shapes = (
        None
        if mode == "static"
        else tuple(tuple(torch.export.Dim.AUTO for _ in tensor.shape) for tensor in tensors)
    )
    try:
        seed(1)
        program = torch.export.export(
            call.module(), tuple(tensors), dynamic_shapes=(shapes,) if shapes else None
        )
    except Exception as error:
        reason = reason_class_of(f"{type(error).__name__}: {error}")
        record.note("uncaptured", f"export: {_first_line(error)}", mode, reason=reason)
        return
    record.overloads = sorted({*record.overloads, *_overloads(program)})
    violations = rule_differences(program.graph) if mode == "static" else []
    if violations:
        record.note("rule", "; ".join(violations), mode)
    draws = drawn_results(program.graph)
    resized: list[Call] = []
    if mode == "dynamic":
        resized = other_sizes(program, call, lambda *results: _is_same(*results, draws=draws))
        record.dynamic = bool(free_dimensions(program, tensors).traced)
        record.sizes = len(resized)
    for opset in opsets:
        outcome, detail = _check_program(call, program, opset, expected, draws, resized)
        if outcome != "exact":
            record.note(outcome, detail, mode, opset)


def reason_class_of(text: str) -> str:
    """Return the class of reasons why torch captures nothing, from the text of its error.

    ``eager``: eager fails; ``torch``: the graphs that torch compiles differ from eager; ``data``:
    sizes or branches depend on the data; ``operator``: no rule for fake tensors; ``dynamo``: Python
    that dynamo does not support; ``export``: anything else.
    """
    for reason_class, patterns in _CLASSES.items():
        if any(pattern in text for pattern in patterns):
            return reason_class
    return "export"


_CLASSES = {
    "eager": ("eager: ",),
    "torch": ("torch's own graphs differ",),
    "data": ("data-dependent", "DataDependent", "DynamicOutputShape", "unbacked symbols"),
    "operator": ("UnsupportedOperator", "NotImplementedError", "fake impl", "UnsupportedFake"),
    "dynamo": ("Unsupported", "TorchRuntimeError", "InternalTorchDynamo", "UserError"),
}


def _is_same(call: Call, expected: list[Any], results: list[Any], draws: Drawn) -> bool:
    tensors = [as_real(result if isinstance(result, torch.Tensor) else torch.tensor(result))
             for result in results]  # fmt: skip
    try:
        compare(call, expected, tensors, draws=draws.outputs)
    except Mismatch:
        return False
    return True


def _check_program(
    call: Call, program: Any, opset: int, expected: list[Any], draws: Drawn, resized: Sequence[Call]
) -> tuple[str, str]:
    """Return the outcome and a detail of an exported program at one opset."""
    import ortable

    try:
        model = ortable.to_onnx(program, target_opset=opset)
    except FunctionNotFoundError as error:
        return "missing", ", ".join(error.operators)
    except (UnsupportedCase, KernelError) as error:
        return "refused", _first_line(error)
    except OrtableError as error:
        return "error", f"{type(error).__name__}: {_reason(error)}"
    except Exception as error:
        return "error", f"{type(error).__name__}: {_first_line(error)}"
    try:
        onnx.checker.check_model(model)
        session = make_session(model.SerializeToString())
    except Exception as error:
        return _format_session_error(error)
    for sample in (call, *resized):
        outcome, detail = _run(
            sample, program, model, session, expected if sample is call else eager_of(sample), draws
        )
        if outcome != "exact":
            prefix = "" if sample is call else f"at other sizes, {sample.describe()[:150]}: "
            return outcome, prefix + detail
    return "exact", ""


def _run(
    call: Call, program: Any, model: Any, session: Any, expected: list[Any], draws: Drawn
) -> tuple[str, str]:
    try:
        tensors = [tensor.clone() for tensor in call.tensors()]
        results = run_session(session, _feeds(model, program, tensors))
    except Exception as error:
        return _format_session_error(error)
    reasons = dict(draws.outputs)
    written = _mutated_names(model)
    for index, name in enumerate(written, len(expected)):
        if name in draws.inputs:
            reasons[index] = "memory"  # only shape and dtype: the draw is not reproducible
    try:
        compare(call, [*expected, *_run_mutated(call, program, written)], results, draws=reasons)
    except Mismatch as error:
        return "mismatch", str(error)
    return "exact", ""


def _format_session_error(error: Exception) -> tuple[str, str]:
    kind = "not_implemented" if "NOT_IMPLEMENTED" in str(error) else "invalid"
    return kind, f"{type(error).__name__}: {_first_line(error)}"


def _feeds(model: Any, program: Any, tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    signature = program.graph_signature
    tensors_by_name = dict(zip(signature.user_inputs, tensors, strict=True))
    feeds = {}
    for value in model.graph.input:
        tensor = tensors_by_name[value.name]
        tensor = tensor.resolve_conj().resolve_neg()
        feeds[value.name] = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return feeds


def _mutated_names(model: Any) -> list[str]:
    names = [value.name for value in model.graph.output if value.name.endswith("_mutated")]
    return [name.removesuffix("_mutated") for name in names]


def _run_mutated(call: Call, program: Any, names: Sequence[str]) -> list[torch.Tensor]:
    """Return the inputs that the call writes into, as eager leaves them."""
    if not names:
        return []
    seed(1)
    tensors = [tensor.clone() for tensor in call.tensors()]
    call.module()(*tensors)
    after = dict(zip(program.graph_signature.user_inputs, tensors, strict=True))
    return [after[name] for name in names]


def _overloads(program: Any) -> set[str]:
    names = set()
    for node in program.graph.nodes:
        if node.op == "call_function":
            method = getattr(node.target, "name", None)
            names.add(method() if callable(method) else str(getattr(node.target, "__name__", "")))
    return names


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    last = f" <- {type(cause).__name__}: {_first_line(cause)}" if cause is not None else ""
    return (lines[0] if lines else "")[:400] + last


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]
