"""Test every sample of a user's spec file.

`ortable specs test` uses this module. The entries of a tested file stay loaded in the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortable.interpreter.user_specs import load_specs, read_spec_file
from ortable.ir.versions import TARGETS
from ortablegen.aten.model import AliasEntry, OpEntry, Sample
from ortablegen.rewrites.model import Rewrite, RewriteSample
from ortablegen.schemas.onnx import CEILING, FLOOR

from .entries import SampleCheck, check_inference_rule
from .trial import check_sample, list_targets


@dataclass(frozen=True)
class SampleResult:
    """The result of one sample.

    Attributes:
        entry: the overload or the rule.
        file: the name of the file.
        line: the line of the sample in the file, from 1.
        column: the column of the first character of the sample, from 1.
        runs: the number of conversions that were compared: one for each opset, with and without
            ONNX Runtime as the target.
        failure: the error, with opset and target; empty if the sample passes.
        outcome: the expected outcome: "equal" results, a call that is "refused", or a graph that
            stays "unchanged".
    """

    entry: str
    file: str
    line: int
    column: int
    runs: int
    failure: str = ""
    outcome: str = "equal"


def run_spec_file(
    path: str | Path,
    *,
    lowerings: Mapping[str, Callable[..., Any]] | None = None,
    opsets: Sequence[int] = (FLOOR, CEILING),
    only: str = "",
) -> Iterator[SampleResult]:
    """Yield the result of each sample of a file of operators or of rewrites.

    A call of an operator is compared with eager in value, dtype and shape, at the sizes of the
    sample and at larger sizes of dynamic dimensions, at every opset, with and without
    ``target="onnxruntime"``. The entry's shape and dtype rule is compared, too. A rewrite must fire
    on its sample and preserve the results, also for infinities and NaN, or be refused for the
    reason that ``unchanged:`` gives.

    Args:
        path: the YAML file.
        lowerings: functions by their names in ``python:``.
        opsets: opsets of entries; a rewrite is tested at its lowest and its highest opset.
        only: test only entries or rules whose names contain this text.

    Raises:
        SpecError: the file does not pass ``ortable specs check``.
    """
    if is_file_of_rewrites(path):
        yield from _check_rewrite_samples(Path(path), only)
        return
    functions = dict(lowerings or {})
    specs = read_spec_file(path, frozenset(functions))
    load_specs(path, lowerings=functions, override=True)
    for entry in (*specs.ops, *specs.aliases):
        for sample in entry.samples if only in entry.key else ():
            yield _check_entry_sample(entry, sample, opsets)


def is_file_of_rewrites(path: str | Path) -> bool:
    """Whether a file has entries with ``rewrite:``.

    Raises:
        SpecError: the file cannot be read.
    """
    from ortablegen.source.diagnostics import Diagnostics
    from ortablegen.source.yaml_source import YMap, parse, read_utf8

    text = read_utf8(Path(path), "spec file")
    rows = parse(text, str(path), Diagnostics())  # errors are reported when the file is loaded
    return any(isinstance(row, YMap) and row.key("rewrite") is not None for row in rows)


def _check_entry_sample(
    entry: OpEntry | AliasEntry, sample: Sample, opsets: Sequence[int]
) -> SampleResult:
    check = SampleCheck(entry.schema, sample)
    runs = 0
    for opset in opsets:
        for target in TARGETS:
            if not sample.applies_at(opset, target):
                continue
            try:
                check.run(opset, target)
                runs += 1
            except Exception as error:
                location = f"opset {opset}" + (f", target {target}" if target else "")
                return _make_result(entry.key, sample, runs, f"{location}: {_format_error(error)}")
    if sample.raises is None:
        try:
            check_inference_rule(entry.schema, sample)
        except Exception as error:
            return _make_result(entry.key, sample, runs, f"out: {_format_error(error)}")
    if not runs:
        tried = ", ".join(str(opset) for opset in opsets)
        return _make_result(entry.key, sample, 0, f"the sample is for none of the opsets {tried}")
    return _make_result(entry.key, sample, runs)


def _check_rewrite_samples(path: Path, only: str) -> Iterator[SampleResult]:
    """Test the samples of a file of rewrites with the rules of that file alone."""
    from ortable.passes.rewrite import rule_selection

    rule_selection.load_rules(path)  # raises the errors of the compiler's checks
    for rewrite in _read_rewrites(path):
        for sample in rewrite.samples if only in rewrite.name else ():
            yield _check_rewrite_sample(rewrite, sample, str(path))


def _read_rewrites(path: Path) -> tuple[Rewrite, ...]:
    from ortable_generated.onnx.traits import BY_TRAIT
    from ortablegen.rewrites.read import read_rewrites_text
    from ortablegen.source.diagnostics import Diagnostics
    from ortablegen.source.yaml_source import read_utf8

    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(
        read_utf8(path, "file of rewrites"), path.name, diagnostics, BY_TRAIT
    )
    diagnostics.raise_if_any()
    return rewrites


def _check_rewrite_sample(rewrite: Rewrite, sample: RewriteSample, path: str) -> SampleResult:
    runs = 0
    for opset, target in list_targets(rewrite, sample, rule_set=path):
        try:
            check_sample(rewrite, sample, opset, target, rule_set=path)
            runs += 1
        except Exception as error:
            location = f"opset {opset}" + (f", target {target}" if target else "")
            message = _format_error(error, "the graph before")
            return _make_result(rewrite.name, sample, runs, f"{location}: {message}")
    return _make_result(rewrite.name, sample, runs, "" if runs else "the sample is for no opset")


def _make_result(
    entry: str, sample: Sample | RewriteSample, runs: int, failure: str = ""
) -> SampleResult:
    span = sample.span
    outcome = "equal"
    if isinstance(sample, Sample):
        outcome = "equal" if sample.raises is None else "refused"
    elif sample.unchanged is not None:
        outcome = "unchanged"
    return SampleResult(entry, span.file, span.line, span.column, runs, failure, outcome)


def _format_error(error: Exception, desired: str = "eager") -> str:
    """Format an error, with its class unless it is an AssertionError of a comparison.

    ``desired`` names the expected values, which numpy calls DESIRED.
    """
    text = str(error).strip() or "it failed without a message"
    text = text.replace("ACTUAL", "ONNX Runtime").replace("DESIRED", desired)  # numpy's terms
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
