"""Run the forms of a sample: one conversion and one session a form, with every fill and size.

Eager is the reference; a call that eager refuses is no sample.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnxruntime
import torch

from ortable import dims
from ortable.errors import UnsupportedCase
from ortable.testing import entries as harness
from ortablegen.aten.model import AliasEntry, OpEntry, OutRule, Sample
from ortablegen.aten.samples import parse_sample
from ortablegen.schemas.onnx import CEILING, FLOOR
from tests.specs.test_cases import ENTRIES

from .compare import Difference, difference
from .fills import OF_GREAT_SIZE, fills
from .forms import Form, forms, growths, laid_out, leaves

Entry = OpEntry | AliasEntry
COMBINATIONS: tuple[tuple[int, str | None], ...] = ((FLOOR, None), (CEILING, "onnxruntime"))

# The fusion stores float64 factors as float32. The backend disables it, and exported factors have
# another axis (specs/rewrites/optimizers.yaml), but models here are not rewritten.
DISABLED_OPTIMIZERS = ("MatMulScaleFusion",)

# Outcomes that are no failure. "uncaptured": torch cannot trace a call that eager runs.
PASSING = ("exact", "refused", "uncaptured")

logging.getLogger("torch").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Outcome:
    """An outcome: ``kind`` is in PASSING, a kind of difference (`compare`), or a failed step."""

    entry: str
    sample: int
    name: str
    kind: str
    detail: str = ""
    opset: int = 0
    target: str | None = None

    @property
    def fails(self) -> bool:
        """Return whether the outcome is a failure."""
        return self.kind not in PASSING

    def line(self) -> str:
        """Return the outcome as a line of a report."""
        where = f"opset {self.opset}" + (f" for {self.target}" if self.target else "")
        return f"{self.entry} #{self.sample} {self.name} ({where}): {self.kind}: {self.detail}"


@dataclass(frozen=True)
class Job:
    """One form of one sample of an entry."""

    entry: Entry
    number: int
    form: Form

    @property
    def sample(self) -> Sample:
        """Return the original sample."""
        return self.entry.samples[self.number]


@dataclass(frozen=True)
class _Call:
    """Tensors for the form's graph, and eager's results."""

    name: str
    tensors: list[torch.Tensor]
    expected: Any
    grow: harness.Growth = 0


Say = Callable[[str], None]


def jobs_of(entry: Entry) -> Iterator[Job]:
    """Yield every form of every sample of an entry."""
    for number, sample in enumerate(entry.samples):
        values = parse_sample(sample, entry.schema)
        for form in forms(values, tied=is_backward(entry), broadcasts=broadcasts(entry)):
            yield Job(entry, number, form)


def is_backward(entry: Entry) -> bool:
    """Return whether autograd makes the call; such kernels do not check the gradients' sizes."""
    return "backward" in entry.schema.key


def broadcasts(entry: Entry) -> bool:
    """Return whether tensors broadcast; other calls may be undefined for other shapes."""
    rules = entry.out if isinstance(entry, OpEntry) else _out_rules(entry.of)
    return any(
        rule.shape.code is not None and "broadcast" in rule.shape.code.text for rule in rules
    )


def _out_rules(key: str) -> tuple[OutRule, ...]:
    entry = ENTRIES.get(key)
    return entry.out if isinstance(entry, OpEntry) else ()


def run_job(
    job: Job,
    send: Say = lambda _: None,
) -> list[Outcome]:
    """Return the outcomes of a form, none if eager refuses it; ``send`` gets each step's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        send("eager")
        calls = list(_calls(job))
        if not calls or calls[0].name != "drawn":
            return []
        send("trace")
        tensors = calls[0].tensors
        schema, values = job.entry.schema, job.form.values
        try:
            module, node = harness.graph_of_call(schema, values, tensors, job.sample.unused_results)
            fits_guards = _make_guards(module) if job.form.dynamic else lambda _: True
        except Exception as error:
            return [_outcome(job, "drawn", ("uncaptured", _error_text(error)))]
        calls = [call for call in calls if fits_guards(call.tensors)]
        outcomes: dict[str, Outcome] = {}
        for opset, target in COMBINATIONS:
            if job.sample.target not in (None, target or "none"):
                continue  # the sample is a refusal of random numbers for the other target
            for outcome in _run_calls(job, module, node, calls, opset, target, send):
                if outcome.name not in outcomes or not outcomes[outcome.name].fails:
                    outcomes[outcome.name] = outcome
        return list(outcomes.values())


def _calls(job: Job) -> Iterator[_Call]:
    """Yield the calls that eager accepts: random tensors, fills, other sizes."""
    schema, values, form = job.entry.schema, job.form.values, job.form
    try:
        random = [laid_out(tensor, form.layout) for tensor in harness.make_tensors(values)]
    except Exception:
        return
    named_fills = [("drawn", random)]
    if not job.sample.random and (form.name == "as written" or form.dtypes is not None):
        named_fills = list(fills(leaves(values), random))
    for name, tensors in named_fills:
        tensors = in_order(values, tensors)
        call = _make_call(schema, values, name, tensors, 0)
        if call is None and name == "drawn":
            return
        if call is not None:
            yield call
    for name, grow in growths(form) if form.name == "dynamic" else ():
        try:
            tensors = harness.make_tensors(values, grow)
        except Exception:
            continue
        call = _make_call(schema, values, name, tensors, grow)
        if call is not None:
            yield call


def in_order(values: dict[str, Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors that the call accepts: sorted sequences ascend, or follow a sorter."""
    names = [name for name, value in values.items() for _ in leaves(value)]
    index_of = dict(zip(names, range(len(names)), strict=True))
    result = list(tensors)
    for name in ("boundaries", "sorted_sequence"):
        index = index_of.get(name)
        if index is None or not tensors[index].dim() or tensors[index].is_complex():
            continue
        values_in_order, order = tensors[index].sort(dim=-1, stable=True)
        if "sorter" not in index_of:
            result[index] = values_in_order
        elif tensors[index_of["sorter"]].shape == order.shape:
            result[index_of["sorter"]] = order.to(tensors[index_of["sorter"]].dtype)
    return result


def _make_call(
    schema: Any, values: Any, name: str, tensors: list[torch.Tensor], grow: harness.Growth
) -> _Call | None:
    torch.manual_seed(0)
    try:
        expected = harness.call_eager(schema, values, [tensor.clone() for tensor in tensors], grow)
    except Exception:
        return None
    return _Call(name, tensors, expected, grow)


def _make_guards(module: torch.fx.GraphModule) -> Callable[[list[torch.Tensor]], bool]:
    """Return a predicate for tensors that fulfil the guards of the traced graph."""
    inputs = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    env = inputs[0].fake_mode.shape_env
    code = env.produce_guards_expression(inputs, ignore_static=False)
    return lambda tensors: not code or env.evaluate_guards_expression(code, tensors)


def _run_calls(
    job: Job,
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    calls: list[_Call],
    opset: int,
    target: str | None,
    send: Say,
) -> Iterator[Outcome]:
    """Yield the outcomes of all calls at one opset for one target."""
    send("convert")
    try:
        converted = harness.convert_graph(module, node, calls[0].tensors, opset, target)
    except Exception as error:
        kind = "refused" if isinstance(error, UnsupportedCase) else "convert"
        yield _outcome(job, "drawn", (kind, _error_text(error)), opset, target)
        return
    try:
        harness.check_model(converted)
    except Exception as error:
        yield _outcome(job, "drawn", ("model", _error_text(error)), opset, target)
        return
    send("session")
    try:
        model = converted.model.SerializeToString()
        has_outputs = bool(converted.model.graph.output)
        session = harness.make_session(model, DISABLED_OPTIMIZERS) if has_outputs else None
    except Exception as error:
        yield _outcome(job, "drawn", ("session", _error_text(error)), opset, target)
        return
    for call in calls:
        send(f"run {call.name}")
        try:
            gap = _compare(job, converted, session, call)
        except Exception as error:
            gap = ("run", _error_text(error))
        yield _outcome(job, call.name, gap, opset, target)


def _outcome(
    job: Job,
    call: str,
    gap: Difference | None,
    opset: int = 0,
    target: str | None = None,
) -> Outcome:
    kind, detail = gap if gap is not None else ("exact", "")
    name = f"{job.form.name}/{call}"
    key = job.entry.key + job.entry.schema.suffix
    return Outcome(key, job.number, name, kind, detail, opset, target)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().replace("\n", " | ")[:300]


def _compare(
    job: Job,
    converted: harness.ConvertedSample,
    session: onnxruntime.InferenceSession | None,
    call: _Call,
) -> Difference | None:
    inputs = list(converted.interpreter.inputs)
    feeds = {r.name: t for r, t in zip(inputs, call.tensors, strict=True) if r.name is not None}
    results = harness.run_session(session, feeds) if session is not None else []
    names = [value.name for value in converted.model.graph.output]
    by_name = dict(zip(names, results, strict=True))
    eager_results = call.expected if isinstance(call.expected, list | tuple) else [call.expected]
    expected = [
        result
        for index, result in enumerate(eager_results)
        if result is not None and index not in job.sample.unused_results
    ]
    if _points_to_the_same(job, list(by_name.values()), call):
        return None
    records = converted.interpreter.outputs
    if len(records) != len(expected):
        return "shape", f"{len(records)} results, eager has {len(expected)}"
    for record, eager in zip(records, expected, strict=True):
        gap = _compare_result(job, record, by_name, eager, call)
        if gap is not None:
            return gap
    return None


def _points_to_the_same(job: Job, results: list[torch.Tensor], call: _Call) -> bool:
    """Return whether index results differ from eager's, but select equal values without duplicates.

    Torch does not define the order of equal elements.
    """
    if not isinstance(call.expected, list | tuple) or len(results) != 2 or len(call.expected) != 2:
        return False
    (values, ours), (eager, indices) = results, call.expected
    x = call.tensors[0]
    if indices.dtype != torch.int64 or ours.dtype != torch.int64 or ours.shape != indices.shape:
        return False
    if values.dtype != eager.dtype or eager.dtype != x.dtype or values.shape != eager.shape:
        return False
    defaults = {a.name: a.default for a in job.entry.schema.arguments}
    arguments = {**defaults, **job.form.values}
    axis, keepdim = arguments.get("dim"), arguments.get("keepdim", True)
    if not isinstance(axis, int) or not x.dim() or not x.numel():
        return False
    ours = ours if keepdim else ours.unsqueeze(axis)
    eager = eager if keepdim else eager.unsqueeze(axis)
    values = values if keepdim else values.unsqueeze(axis)
    if not ours.numel() or ours.min() < 0 or ours.max() >= x.shape[axis]:
        return False
    order = ours.sort(dim=axis).values
    count = order.shape[axis]
    if bool((order.narrow(axis, 0, count - 1) == order.narrow(axis, 1, count - 1)).any()):
        return False
    return all(
        torch.equal(x.gather(axis, ours).nan_to_num(0.5), tensor.nan_to_num(0.5))
        and torch.equal(x.gather(axis, ours).isnan(), tensor.isnan())
        for tensor in (values, eager)
    )


def _compare_result(
    job: Job, record: Any, by_name: dict[str, torch.Tensor], eager: Any, call: _Call
) -> Difference | None:
    if not isinstance(eager, torch.Tensor):
        if record.name is not None:
            values = by_name[record.name].reshape(-1).tolist()
        elif call.grow == 0 and not isinstance(record.value, dims.SymDim):
            values = [record.value]
        else:
            return None
        is_same = values == [eager] or (values[0] != values[0] and eager != eager)
        return None if is_same else ("value", f"{values}, eager has {eager}")
    if eager.is_complex():
        eager = torch.view_as_real(eager.resolve_conj().resolve_neg())
    eager = eager.detach().resolve_neg().clone()
    result = by_name[record.name]
    if job.sample.random:
        result, eager = torch.zeros_like(result), torch.zeros_like(eager)
    return difference(result, eager, _tolerance_scale(job), norm=call.name in OF_GREAT_SIZE)


def _tolerance_scale(job: Job) -> float:
    """Return the factor of the sample's tolerance, at least 1: tighter ones are for its dtype."""
    sample = job.sample
    if sample.tolerance is None:
        return 1.0
    present = [
        getattr(torch, leaf.dtype) for leaf in leaves(parse_sample(sample, job.entry.schema))
    ]
    tolerances = [harness.TOLERANCES[t] for t in present if t in harness.TOLERANCES]
    scale = sample.tolerance / max(tolerances, default=harness.TOLERANCES[torch.float32])
    return scale if scale > 1 else 1.0
