"""One sample call through export, conversion, the checker and ONNX Runtime, against eager: in comes
a Call, out comes a Record with a word for what came of it. workers.py calls it.

A dynamic program runs at the sizes that it was traced at, and at smaller and larger ones."""

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

# From best to worst; a sample is as good as its worst (opset, static or dynamic) run.
OUTCOMES = (
    "exact", "uncaptured", "refused", "missing", "error", "rule", "mismatch", "invalid",
    "not_implemented", "timeout", "crash",
)  # fmt: skip
# What must never happen: a wrong answer, or an error that is not ours.
FAULTS = ("error", "rule", "mismatch", "invalid", "not_implemented", "timeout", "crash")


@dataclass
class Record:
    """What came of a sample: machine-readable, one JSON line each.

    ``runs`` has an entry for each run that was not exact: mode, opset (None where it is no matter
    of the opset), outcome, detail, and torch's reason class where it captured nothing. ``total``
    is the number of samples that torch yields, ``sizes`` how many other sizes a dynamic model ran
    at.
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
        """The record as a dictionary of plain values."""
        return asdict(self)

    def note(
        self, outcome: str, detail: str, mode: str, opset: int | None = None, why: str = ""
    ) -> None:
        """Add a run that was not exact; the sample is as good as its worst run."""
        self.runs.append(
            {"mode": mode, "opset": opset, "outcome": outcome, "class": why, "detail": detail}
        )
        if outcome == "uncaptured" and mode == "dynamic" and self.modes != ["dynamic"]:
            return  # a graph that is only static is tested as such
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
            record.note("uncaptured", f"eager: {_first_line(error)}", modes[0], why="eager")
        else:
            if not expected:
                record.note("uncaptured", "there is no result", modes[0], why="nothing")
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
        why = reason_class_of(f"{type(error).__name__}: {error}")
        record.note("uncaptured", f"export: {_first_line(error)}", mode, why=why)
        return
    record.overloads = sorted({*record.overloads, *_overloads(program)})
    wrong = rule_differences(program.graph) if mode == "static" else []
    if wrong:
        record.note("rule", "; ".join(wrong), mode)
    drawn = drawn_results(program.graph)
    others: list[Call] = []
    if mode == "dynamic":
        others = other_sizes(program, call, lambda *given: _is_same(*given, drawn=drawn))
        record.dynamic = bool(free_dimensions(program, tensors).traced)
        record.sizes = len(others)
    for opset in opsets:
        outcome, detail = _check_program(call, program, opset, expected, drawn, others)
        if outcome != "exact":
            record.note(outcome, detail, mode, opset)


def reason_class_of(text: str) -> str:
    """In a word, why torch captures nothing, by what it says: what expectations hold it to.

    ``eager``: eager fails; ``torch``: torch's own compiled graphs are not eager's; ``data``: sizes
    or branches that only the data know; ``operator``: no rule for fake tensors; ``dynamo``: Python
    that dynamo does not enter; ``export``: anything else.
    """
    for word, signs in _CLASSES.items():
        if any(sign in text for sign in signs):
            return word
    return "export"


_CLASSES = {
    "eager": ("eager: ",),
    "torch": ("torch's own graphs differ",),
    "data": ("data-dependent", "DataDependent", "DynamicOutputShape", "unbacked symbols"),
    "operator": ("UnsupportedOperator", "NotImplementedError", "fake impl", "UnsupportedFake"),
    "dynamo": ("Unsupported", "TorchRuntimeError", "InternalTorchDynamo", "UserError"),
}


def _is_same(call: Call, expected: list[Any], given: list[Any], drawn: Drawn) -> bool:
    found = [as_real(each if isinstance(each, torch.Tensor) else torch.tensor(each))
             for each in given]  # fmt: skip
    try:
        compare(call, expected, found, drawn=drawn.outputs)
    except Mismatch:
        return False
    return True


def _check_program(
    call: Call, program: Any, opset: int, expected: list[Any], drawn: Drawn, others: Sequence[Call]
) -> tuple[str, str]:
    """What came of an exported program at an opset: a word and a detail."""
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
        return _of_session(error)
    for each in (call, *others):
        outcome, detail = _run(
            each, program, model, session, expected if each is call else eager_of(each), drawn
        )
        if outcome != "exact":
            place = "" if each is call else f"at other sizes, {each.describe()[:150]}: "
            return outcome, place + detail
    return "exact", ""


def _run(
    call: Call, program: Any, model: Any, session: Any, expected: list[Any], drawn: Drawn
) -> tuple[str, str]:
    try:
        tensors = [tensor.clone() for tensor in call.tensors()]
        found = run_session(session, _feeds(model, program, tensors))
    except Exception as error:
        return _of_session(error)
    places = dict(drawn.outputs)
    names = _mutated_names(model)
    for place, name in enumerate(names, len(expected)):
        if name in drawn.inputs:
            places[place] = "memory"  # nothing draws it a second time: shape and dtype alone
    try:
        compare(call, [*expected, *_mutated(call, program, names)], found, drawn=places)
    except Mismatch as error:
        return "mismatch", str(error)
    return "exact", ""


def _of_session(error: Exception) -> tuple[str, str]:
    kind = "not_implemented" if "NOT_IMPLEMENTED" in str(error) else "invalid"
    return kind, f"{type(error).__name__}: {_first_line(error)}"


def _feeds(model: Any, program: Any, tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    signature = program.graph_signature
    given = dict(zip(signature.user_inputs, tensors, strict=True))
    feeds = {}
    for value in model.graph.input:
        tensor = given[value.name]
        tensor = tensor.resolve_conj().resolve_neg()
        feeds[value.name] = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return feeds


def _mutated_names(model: Any) -> list[str]:
    names = [value.name for value in model.graph.output if value.name.endswith("_mutated")]
    return [name.removesuffix("_mutated") for name in names]


def _mutated(call: Call, program: Any, names: Sequence[str]) -> list[torch.Tensor]:
    """Inputs that the call writes into, as eager leaves them: the last outputs of the model."""
    if not names:
        return []
    seed(1)
    tensors = [tensor.clone() for tensor in call.tensors()]
    call.module()(*tensors)
    after = dict(zip(program.graph_signature.user_inputs, tensors, strict=True))
    return [after[name] for name in names]


def _overloads(program: Any) -> set[str]:
    found = set()
    for node in program.graph.nodes:
        if node.op == "call_function":
            name = getattr(node.target, "name", None)
            found.add(name() if callable(name) else str(getattr(node.target, "__name__", "")))
    return found


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    last = f" <- {type(cause).__name__}: {_first_line(cause)}" if cause is not None else ""
    return (lines[0] if lines else "")[:400] + last


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]
