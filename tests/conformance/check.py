"""One sample call through export, conversion, the checker and ONNX Runtime, against eager; and
what came of it, as a word."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from ortable.debug.harness.entries import run_onnx
from ortable.errors import FunctionNotFoundError, KernelError, OrtableError, UnsupportedCase
from tests.conformance.rules import rule_differences
from tests.conformance.samples import Call, seed

# From best to worst; a sample is as good as its worst (opset, static or dynamic) run.
OUTCOMES = (
    "exact", "uncaptured", "refused", "missing", "error", "rule", "mismatch", "invalid",
    "not_implemented", "timeout", "crash",
)  # fmt: skip
# What must never happen: a wrong answer, or an error that is not ours.
FAULTS = ("error", "rule", "mismatch", "invalid", "not_implemented", "timeout", "crash")

# relative and absolute, by dtype of the result
TOLERANCES = {
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 2e-5),
    torch.float64: (1e-7, 1e-7),
}
_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass
class Record:
    """What came of a sample: machine-readable, one JSON line each."""

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

    def as_json(self) -> dict[str, Any]:
        """The record as a dictionary of plain values."""
        return asdict(self)


class Mismatch(AssertionError):
    """A result that differs from eager's in value, dtype, shape or number."""


def check_call(call: Call, opsets: Sequence[int], modes: Sequence[str]) -> Record:
    """Run ``call`` at every opset, with static shapes and with every dimension dynamic."""
    started = time.perf_counter()
    record = Record(call.op, call.dtype, call.index, "exact", call=call.describe()[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _eager(call)
        except Exception as error:
            record.outcome, record.detail = "uncaptured", f"eager: {_first_line(error)}"
            return record
        if not expected:
            record.outcome, record.detail = "uncaptured", "there is no result"
            return record
        for mode in modes:
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
        # What torch cannot capture is not ours; a graph that is only static is tested as such.
        if mode == "static":
            record.outcome, record.detail = "uncaptured", f"export: {_first_line(error)}"
        return
    record.overloads = sorted({*record.overloads, *_overloads(program)})
    wrong = rule_differences(program.graph) if mode == "static" else []
    if wrong:
        record.outcome, record.detail, record.where = "rule", "; ".join(wrong), "rules"
    for opset in opsets:
        outcome, detail = _check_program(call, program, opset, expected)
        if OUTCOMES.index(outcome) > OUTCOMES.index(record.outcome):
            record.outcome, record.detail = outcome, detail
            record.where = f"opset {opset}, {mode}"


def _check_program(call: Call, program: Any, opset: int, expected: list[Any]) -> tuple[str, str]:
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
        tensors = [tensor.clone() for tensor in call.tensors()]
        feeds = _feeds(model, program, tensors)
        found = run_onnx(model, feeds)
    except Exception as error:
        kind = "not_implemented" if "NOT_IMPLEMENTED" in str(error) else "invalid"
        return kind, f"{type(error).__name__}: {_first_line(error)}"
    try:
        wanted = [*expected, *_mutated(call, program, model)]
        compare(call, wanted, found, drawn=_draws(program.graph))
    except Mismatch as error:
        return "mismatch", str(error)
    return "exact", ""


def _feeds(model: Any, program: Any, tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    signature = program.graph_signature
    given = dict(zip(signature.user_inputs, tensors, strict=True))
    feeds = {}
    for value in model.graph.input:
        tensor = given[value.name]
        tensor = tensor.resolve_conj().resolve_neg()
        feeds[value.name] = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return feeds


def _mutated(call: Call, program: Any, model: Any) -> list[torch.Tensor]:
    """Inputs that the call writes into, as eager leaves them: the last outputs of the model."""
    names = [value.name for value in model.graph.output if value.name.endswith("_mutated")]
    if not names:
        return []
    seed(1)
    tensors = [tensor.clone() for tensor in call.tensors()]
    call.module()(*tensors)
    after = dict(zip(program.graph_signature.user_inputs, tensors, strict=True))
    return [after[name.removesuffix("_mutated")] for name in names]


def _eager(call: Call) -> list[Any]:
    seed(1)
    result = call.module()(*[tensor.clone() for tensor in call.tensors()])
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


# What they return is memory as it was found.
_UNINITIALISED = (
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
)  # fmt: skip


def _draws(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws random numbers or hands out uninitialised memory: not every graph that
    holds such an operator does, dropout in eval mode and empty results do not."""
    return any(_node_draws(node) for node in graph.nodes)


def _node_draws(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    packet = target._schema.name.removeprefix("aten::")
    size = _count(node.meta.get("val"))
    if packet in _UNINITIALISED:
        return size != 0
    if packet in ("resize", "resize_"):
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        return size is None or size > (_count(source.meta.get("val")) or 0)
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    names = [argument.name for argument in target._schema.arguments]
    defaults = {each.name: each.default_value for each in target._schema.arguments}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    chances = [given[name] for name in ("p", "dropout_p", "dropout") if name in given]
    modes = [given[name] for name in ("train", "training") if name in given]
    return size != 0 and 0 not in chances and False not in modes


def _count(value: Any) -> int | None:
    """The number of elements of a tensor of static shape, else None."""
    number = value.numel() if isinstance(value, torch.Tensor) else None
    return number if isinstance(number, int) else None


def compare(
    call: Call, expected: list[Any], found: list[torch.Tensor], *, drawn: bool = False
) -> None:
    """Raise Mismatch unless ``found`` equals eager in number, dtype, shape and value.

    A result that eager does not repeat (uninitialised memory, random numbers), or that is
    ``drawn``, is compared in dtype and shape. A difference over the tolerance is none when
    float64 shows that it is eager that is less exact.
    """
    if len(expected) != len(found):
        raise Mismatch(f"{len(found)} outputs, eager has {len(expected)}")
    again: list[Any] | None = None
    for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        wanted = wanted if isinstance(wanted, torch.Tensor) else torch.tensor(wanted)
        if wanted.is_complex():
            wanted = torch.view_as_real(wanted.resolve_conj())
        if wanted.dtype != got.dtype and isinstance(expected[place], torch.Tensor):
            raise Mismatch(f"output {place}: dtype {got.dtype}, eager has {wanted.dtype}")
        if wanted.shape != got.shape and isinstance(expected[place], torch.Tensor):
            raise Mismatch(
                f"output {place}: shape {tuple(got.shape)}, eager has {tuple(wanted.shape)}"
            )
        if not isinstance(expected[place], torch.Tensor):
            got = got.reshape(wanted.shape).to(wanted.dtype)
        if _close(got, wanted) or drawn:
            continue
        again = again or _eager_once_more(call)
        if (place < len(again) and not _repeats(wanted, again[place])) or _points_to_the_same(
            call, wanted, got
        ):
            continue
        if not _as_exact_as_eager(call, place, wanted, got):
            raise Mismatch(f"output {place}: {_difference(got, wanted)}")


def _close(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    if wanted.dtype not in TOLERANCES:
        return torch.equal(got, wanted)
    relative, absolute = TOLERANCES[wanted.dtype]
    return torch.allclose(
        got.double(), wanted.double(), rtol=relative, atol=absolute, equal_nan=True
    )


def _eager_once_more(call: Call) -> list[Any]:
    seed(2)
    result = call.module()(*[tensor.clone() for tensor in call.tensors()])
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


def _repeats(first: torch.Tensor, second: Any) -> bool:
    if not isinstance(second, torch.Tensor):
        return True
    if second.is_complex():
        second = torch.view_as_real(second.resolve_conj())
    return _close(second, first)


# Their indices are any of those that equal values have, says torch's documentation.
_ANY_OF_EQUAL = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")


def _points_to_the_same(call: Call, wanted: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether two results of indices pick equal values, where torch leaves the choice open."""
    if call.op not in _ANY_OF_EQUAL or wanted.dtype != torch.int64 or call.kwargs.get("stable"):
        return False
    source = call.args[0]
    others = [arg for arg in call.args[1:] if isinstance(arg, int) and not isinstance(arg, bool)]
    skipped = 1 if call.op in ("topk", "kthvalue") and "k" not in call.kwargs else 0
    dim = call.kwargs.get("dim", others[skipped] if len(others) > skipped else -1)
    if source.dim() == 0 or got.numel() == 0:
        return bool((got == wanted).all())
    if not bool(((got >= 0) & (got < source.shape[dim])).all()):
        return False
    if got.dim() < source.dim():
        wanted, got = wanted.unsqueeze(dim), got.unsqueeze(dim)
    picked = [source.gather(dim, index) for index in (got, wanted)]
    return _close(picked[0], picked[1])


def _as_exact_as_eager(call: Call, place: int, wanted: torch.Tensor, got: torch.Tensor) -> bool:
    if not wanted.is_floating_point() or wanted.dtype == torch.float64:
        return False
    try:
        true = _in_float64(call)[place]
    except (RuntimeError, IndexError, TypeError, NotImplementedError):
        return False
    if true.is_complex():
        true = torch.view_as_real(true.resolve_conj())
    if true.shape != wanted.shape or not true.is_floating_point():
        return False
    finite = torch.isfinite(true) & torch.isfinite(wanted.double())
    if not torch.equal(finite, finite & torch.isfinite(got.double())):
        return False
    overflowed = torch.isfinite(true) & ~finite  # in eager's narrow dtype only
    if not _close(got[overflowed], true[overflowed].to(got.dtype)):
        return False
    rest = ~finite & ~overflowed
    if not _close(got[rest], wanted[rest]):
        return False
    if not finite.any():
        return True
    eager_error = (wanted.double() - true).abs()[finite].max()
    our_error = (got.double() - true).abs()[finite].max()
    return bool(our_error <= 2 * eager_error)


def _in_float64(call: Call) -> list[Any]:
    wider = {torch.complex64: torch.complex128}

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            return tensor.double()
        return tensor.to(wider.get(tensor.dtype, tensor.dtype))

    seed(1)
    result = call.module()(*[widen(tensor.clone()) for tensor in call.tensors()])
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


def _difference(got: torch.Tensor, wanted: torch.Tensor) -> str:
    if wanted.numel() == 0:
        return "empty results differ"
    left, right = got.reshape(-1), wanted.reshape(-1)
    differs = (left != right) & ~((left != left) & (right != right))
    if wanted.is_floating_point():
        gap = (left.double() - right.double()).abs().nan_to_num(nan=float("inf"))
        worst = int(gap.masked_fill(~differs, -1).argmax())
    else:
        worst = int(differs.int().argmax())
    return (
        f"{left[worst].item()} where eager has {right[worst].item()} "
        f"({int(differs.sum())} of {differs.numel()} differ)"
    )


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
