"""Runs the forms of a sample: one conversion and one session a form, then every fill of its
tensors, and further sizes where dimensions are dynamic.

In: an entry and one of its samples. Out: outcomes, one for each derived sample that exists: eager
(torch) is the judge, and what it refuses is no sample.
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

# It keeps factors of float64 as float32. The backend runs without it, and an export's factors have
# an axis more (specs/rewrites/optimizers.yaml); models here are as converters leave them.
ROUNDING = ("MatMulScaleFusion",)

# Outcomes that are no failure. "uncaptured": torch itself cannot trace what eager runs.
FINE = ("exact", "refused", "uncaptured")

logging.getLogger("torch").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Outcome:
    """What became of one derived sample: ``kind`` is "exact", "refused", "uncaptured", a kind of
    difference (`compare`), or where it broke: "convert", "model", "session"."""

    entry: str
    sample: int
    name: str
    kind: str
    detail: str = ""
    opset: int = 0
    target: str | None = None

    @property
    def fails(self) -> bool:
        """Whether someone has to look at it."""
        return self.kind not in FINE

    def line(self) -> str:
        """For people."""
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
        """The sample as it was written."""
        return self.entry.samples[self.number]


@dataclass(frozen=True)
class _Call:
    """Tensors for the form's graph, and what eager makes of them."""

    name: str
    tensors: list[torch.Tensor]
    wanted: Any
    grow: harness.Growth = 0


Say = Callable[[str], None]


def jobs_of(entry: Entry) -> Iterator[Job]:
    """Every form of every sample of an entry."""
    for number, sample in enumerate(entry.samples):
        values = parse_sample(sample, entry.schema)
        for form in forms(values, tied=is_backward(entry), broadcasts=broadcasts(entry)):
            yield Job(entry, number, form)


def is_backward(entry: Entry) -> bool:
    """Whether autograd makes the call: kernels trust it that gradients have the forward's sizes."""
    return "backward" in entry.schema.key


def broadcasts(entry: Entry) -> bool:
    """Whether the tensors of the call may have different shapes by torch's rule of broadcasting;
    elsewhere eager may accept shapes that mean nothing."""
    written = entry.out if isinstance(entry, OpEntry) else _out_of(entry.of)
    return any(
        rule.shape.code is not None and "broadcast" in rule.shape.code.text for rule in written
    )


def _out_of(key: str) -> tuple[OutRule, ...]:
    found = ENTRIES.get(key)
    return found.out if isinstance(found, OpEntry) else ()


def run_job(
    job: Job,
    say: Say = lambda _: None,
) -> list[Outcome]:
    """The outcomes of a form; empty when eager refuses it. ``say`` hears what is done next."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        say("eager")
        calls = list(_calls(job))
        if not calls or calls[0].name != "drawn":
            return []
        say("trace")
        tensors = calls[0].tensors
        schema, values = job.entry.schema, job.form.values
        try:
            module, node = harness.graph_of_call(schema, values, tensors, job.sample.unused_results)
            guarded = _guards(module) if job.form.dynamic else lambda _: True
        except Exception as error:
            return [_outcome(job, "drawn", ("uncaptured", _text(error)))]
        calls = [call for call in calls if guarded(call.tensors)]
        found: dict[str, Outcome] = {}
        for opset, target in COMBINATIONS:
            if job.sample.target not in (None, target or "none"):
                continue  # what it shows is of the other target: that random numbers are refused
            for outcome in _at(job, module, node, calls, opset, target, say):
                if outcome.name not in found or not found[outcome.name].fails:
                    found[outcome.name] = outcome
        return list(found.values())


def _calls(job: Job) -> Iterator[_Call]:
    """What eager accepts: the drawn tensors, fills, further sizes."""
    schema, values, form = job.entry.schema, job.form.values, job.form
    try:
        drawn = [laid_out(each, form.layout) for each in harness.make_tensors(values)]
    except Exception:
        return
    named = [("drawn", drawn)]
    if not job.sample.random and (form.name == "as written" or form.dtypes is not None):
        named = list(fills(leaves(values), drawn))
    for name, tensors in named:
        tensors = in_order(values, tensors)
        call = _call(schema, values, name, tensors, 0)
        if call is None and name == "drawn":
            return
        if call is not None:
            yield call
    for name, grow in growths(form) if form.name == "dynamic" else ():
        try:
            tensors = harness.make_tensors(values, grow)
        except Exception:
            continue
        call = _call(schema, values, name, tensors, grow)
        if call is not None:
            yield call


def in_order(values: dict[str, Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors as the call needs them: sorted sequences ascend, or in the order of a sorter."""
    names = [name for name, value in values.items() for _ in leaves(value)]
    found = dict(zip(names, range(len(names)), strict=True))
    ready = list(tensors)
    for name in ("boundaries", "sorted_sequence"):
        place = found.get(name)
        if place is None or not tensors[place].dim() or tensors[place].is_complex():
            continue
        values_in_order, order = tensors[place].sort(dim=-1, stable=True)
        if "sorter" not in found:
            ready[place] = values_in_order
        elif tensors[found["sorter"]].shape == order.shape:
            ready[found["sorter"]] = order.to(tensors[found["sorter"]].dtype)
    return ready


def _call(
    schema: Any, values: Any, name: str, tensors: list[torch.Tensor], grow: harness.Growth
) -> _Call | None:
    torch.manual_seed(0)
    try:
        wanted = harness.call_eager(schema, values, [each.clone() for each in tensors], grow)
    except Exception:
        return None
    return _Call(name, tensors, wanted, grow)


def _guards(module: torch.fx.GraphModule) -> Callable[[list[torch.Tensor]], bool]:
    """Whether other tensors fit the conditions under which torch traced the graph."""
    inputs = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    env = inputs[0].fake_mode.shape_env
    code = env.produce_guards_expression(inputs, ignore_static=False)
    return lambda tensors: not code or env.evaluate_guards_expression(code, tensors)


def _at(
    job: Job,
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    calls: list[_Call],
    opset: int,
    target: str | None,
    say: Say,
) -> Iterator[Outcome]:
    """The outcomes of all calls at one opset for one target."""
    say("convert")
    try:
        converted = harness.convert_graph(module, node, calls[0].tensors, opset, target)
    except Exception as error:
        kind = "refused" if isinstance(error, UnsupportedCase) else "convert"
        yield _outcome(job, "drawn", (kind, _text(error)), opset, target)
        return
    try:
        harness.check_model(converted)
    except Exception as error:
        yield _outcome(job, "drawn", ("model", _text(error)), opset, target)
        return
    say("session")
    try:
        model = converted.model.SerializeToString()
        outputs = bool(converted.model.graph.output)
        session = harness.make_session(model, ROUNDING) if outputs else None
    except Exception as error:
        yield _outcome(job, "drawn", ("session", _text(error)), opset, target)
        return
    for call in calls:
        say(f"run {call.name}")
        try:
            found = _compare(job, converted, session, call)
        except Exception as error:
            found = ("run", _text(error))
        yield _outcome(job, call.name, found, opset, target)


def _outcome(
    job: Job,
    call: str,
    found: Difference | None,
    opset: int = 0,
    target: str | None = None,
) -> Outcome:
    kind, detail = found if found is not None else ("exact", "")
    name = f"{job.form.name}/{call}"
    key = job.entry.key + job.entry.schema.suffix
    return Outcome(key, job.number, name, kind, detail, opset, target)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().replace("\n", " | ")[:300]


def _compare(
    job: Job,
    converted: harness.ConvertedSample,
    session: onnxruntime.InferenceSession | None,
    call: _Call,
) -> Difference | None:
    inputs = list(converted.interpreter.inputs)
    feeds = {r.name: t for r, t in zip(inputs, call.tensors, strict=True) if r.name is not None}
    got = harness.run_session(session, feeds) if session is not None else []
    names = [value.name for value in converted.model.graph.output]
    by_name = dict(zip(names, got, strict=True))
    results = call.wanted if isinstance(call.wanted, list | tuple) else [call.wanted]
    wanted = [
        each
        for place, each in enumerate(results)
        if each is not None and place not in job.sample.unused_results
    ]
    if _points_to_the_same(job, list(by_name.values()), call):
        return None
    records = converted.interpreter.outputs
    if len(records) != len(wanted):
        return "shape", f"{len(records)} results, eager has {len(wanted)}"
    for record, want in zip(records, wanted, strict=True):
        found = _of_result(job, record, by_name, want, call)
        if found is not None:
            return found
    return None


def _points_to_the_same(job: Job, got: list[torch.Tensor], call: _Call) -> bool:
    """Whether values and their indices along a dimension differ from eager's in the indices alone,
    none of which occurs twice, and those point to the same values: torch promises no order of
    equal elements."""
    if not isinstance(call.wanted, list | tuple) or len(got) != 2 or len(call.wanted) != 2:
        return False
    (values, found), (known, indices) = got, call.wanted
    x = call.tensors[0]
    if indices.dtype != torch.int64 or found.dtype != torch.int64 or found.shape != indices.shape:
        return False
    if values.dtype != known.dtype or known.dtype != x.dtype or values.shape != known.shape:
        return False
    usual = {each.name: each.default for each in job.entry.schema.arguments}
    arguments = {**usual, **job.form.values}
    axis, keepdim = arguments.get("dim"), arguments.get("keepdim", True)
    if not isinstance(axis, int) or not x.dim() or not x.numel():
        return False
    found = found if keepdim else found.unsqueeze(axis)
    known = known if keepdim else known.unsqueeze(axis)
    values = values if keepdim else values.unsqueeze(axis)
    if not found.numel() or found.min() < 0 or found.max() >= x.shape[axis]:
        return False
    ordered = found.sort(dim=axis).values
    count = ordered.shape[axis]
    if bool((ordered.narrow(axis, 0, count - 1) == ordered.narrow(axis, 1, count - 1)).any()):
        return False
    return all(
        torch.equal(x.gather(axis, found).nan_to_num(0.5), each.nan_to_num(0.5))
        and torch.equal(x.gather(axis, found).isnan(), each.isnan())
        for each in (values, known)
    )


def _of_result(
    job: Job, record: Any, by_name: dict[str, torch.Tensor], want: Any, call: _Call
) -> Difference | None:
    if not isinstance(want, torch.Tensor):
        if record.name is not None:
            values = by_name[record.name].reshape(-1).tolist()
        elif call.grow == 0 and not isinstance(record.value, dims.SymDim):
            values = [record.value]
        else:
            return None
        same = values == [want] or (values[0] != values[0] and want != want)
        return None if same else ("value", f"{values}, eager has {want}")
    if want.is_complex():
        want = torch.view_as_real(want.resolve_conj().resolve_neg())
    want = want.detach().resolve_neg().clone()
    got = by_name[record.name]
    if job.sample.random:
        got, want = torch.zeros_like(got), torch.zeros_like(want)
    return difference(got, want, _scale(job), norm=call.name in OF_GREAT_SIZE)


def _scale(job: Job) -> float:
    """How many times the usual tolerance the sample was given; a tighter one is for its own dtype
    alone."""
    sample = job.sample
    if sample.tolerance is None:
        return 1.0
    written = [
        getattr(torch, leaf.dtype) for leaf in leaves(parse_sample(sample, job.entry.schema))
    ]
    usual = [harness.TOLERANCES[each] for each in written if each in harness.TOLERANCES]
    scale = sample.tolerance / max(usual, default=harness.TOLERANCES[torch.float32])
    return scale if scale > 1 else 1.0
