"""Sample calls of the specs in the runtimes of others: a suite, see tests/suites.

A case is ``aten::add.Tensor/0``: an entry, and the number of a sample call. It is converted for the
standard target at the lowest opset that it has, and runs at all its sizes.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import torch
import yaml

from ortable.debug.arrays import to_numpy, to_torch
from ortable.testing.entries import ConvertedSample, SampleCheck
from ortablegen.schemas.onnx import CEILING, FLOOR
from tests.specs.test_cases import ENTRIES, why_absent
from tests.suites.command import Suite
from tests.suites.expected import Expectations, parse_cases
from tests.suites.workers import Record

from .runtimes import Runtime, RuntimeFailure, RuntimeServer

LISTED = Path(__file__).parent / "samples.yaml"
EXACT = "exact"
VARYING = "varying"  # what lies in memory: sometimes exact


def sample_opset(key: str, number: int) -> int | None:
    """Return the lowest opset at which a sample call converts for the standard target."""
    sample = ENTRIES[key].samples[number]
    opsets = range(FLOOR, CEILING + 1) if sample.raises is None else ()
    return next((opset for opset in opsets if sample.applies_at(opset, None)), None)


def collect_cases() -> list[str]:
    """Return the sample calls that convert with the installed torch."""
    keys = [key for key in sorted(ENTRIES) if why_absent(ENTRIES[key]) is None]
    return [
        f"{key}/{number}"
        for key in keys
        for number in range(len(ENTRIES[key].samples))
        if sample_opset(key, number) is not None
    ]


@functools.cache
def find_server(runtime: Runtime) -> RuntimeServer:
    """Return the runtime's process of this worker."""
    return RuntimeServer(runtime)


def check_case(runtimes: Sequence[Runtime], case: str) -> Record:
    """Compare a sample call with eager in each runtime."""
    torch.set_num_threads(1)
    key, _, number = case.rpartition("/")
    check = SampleCheck(ENTRIES[key].schema, ENTRIES[key].samples[int(number)])
    opset = sample_opset(key, int(number))
    assert opset is not None
    converted = check.convert(opset, None)
    record = Record(case, EXACT)
    if converted.model.graph.output:
        record.facts = {
            runtime.name: compare_in(find_server(runtime), check, converted) for runtime in runtimes
        }
        outcomes = {name: outcome for name, (outcome, _) in record.facts.items()}
        outcomes |= {name: VARYING for name in outcomes if (name, case) in load_varying()}
        record.outcome = summarize(outcomes)
        record.detail = "; ".join(filter(None, (detail for _, detail in record.facts.values())))
    return record


@functools.cache
def load_varying() -> frozenset[tuple[str, str]]:
    """Return the runtimes and cases that samples.yaml lists as varying."""
    content = yaml.safe_load(LISTED.read_text())
    del content["floors"]
    return frozenset(
        (runtime, case)
        for runtime, groups in content.items()
        for group in groups
        if group["outcome"] == VARYING
        for case in parse_cases([group["cases"]])
    )


def compare_in(
    server: RuntimeServer, check: SampleCheck, converted: ConvertedSample
) -> tuple[str, str]:
    """Return ``exact``, ``different`` or ``failing``, and the difference or the error."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        onnx.save(converted.model, folder / "model.onnx")

        def run(feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
            arrays = {name: to_numpy(tensor) for name, tensor in feeds.items()}
            return [to_torch(array) for array in server.run_model(folder, arrays)]

        try:
            check.compare(converted, run)
        except RuntimeFailure as failure:
            return "failing", str(failure)
        except (AssertionError, ValueError) as difference:
            return "different", " ".join(str(difference).split())[:300]
    return EXACT, ""


def summarize(outcomes: Mapping[str, str]) -> str:
    """Return one outcome for those of the runtimes: ``failing in tract``."""
    unequal = [f"{outcome} in {name}" for name, outcome in outcomes.items() if outcome != EXACT]
    return ", ".join(unequal) or EXACT


def load_listed(runtimes: Sequence[Runtime]) -> Expectations:
    """Read samples.yaml: by runtime, groups of an outcome, a reason and cases."""
    content = yaml.safe_load(LISTED.read_text())
    listed: dict[str, dict[str, str]] = {}
    for runtime in runtimes:
        for group in content[runtime.name]:
            for case in parse_cases([group["cases"]]):
                outcomes = listed.setdefault(case, {})
                if runtime.name in outcomes or not group["reason"]:
                    raise ValueError(f"{LISTED.name}: {case} twice, or without a reason")
                outcomes[runtime.name] = group["outcome"]
    floors = {f"exact in {r.name}": content["floors"][r.name] for r in runtimes}
    return Expectations({case: summarize(row) for case, row in listed.items()}, floors)


def make_suite(runtimes: Sequence[Runtime]) -> Suite:
    """Return the suite of all sample calls in some runtimes."""

    def count_exact(records: Sequence[Record]) -> Mapping[str, int]:
        return Counter(
            f"exact in {name}"
            for record in records
            for name, (outcome, _) in record.facts.items()
            if outcome == EXACT
        )

    return Suite(
        "portable-samples",
        collect_cases,
        functools.partial(check_case, runtimes),
        count_exact,
        parts=12,
        limit_s=180.0,
        exceptions=lambda: load_listed(runtimes),
    )
