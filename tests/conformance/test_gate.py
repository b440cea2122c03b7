"""The gate fails for refusals, failed exports, wrong numbers and stale records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase
from tests.conformance import __main__ as gate
from tests.conformance import check, expected, plan, report, samples, workers
from tests.conformance.expected import Clause, Reason, Recorded, parse
from tests.conformance.plan import FULL, Choice

BITS = "the bits of floats read as another dtype"


# -- runs of the gate -----------------------------------------------------------------------------


def _info(name: str, function: Any, sample_count: int) -> SimpleNamespace:
    inputs = [SimpleNamespace(input=torch.rand(3, 4 + i) * 0.8 + 0.1, args=(), kwargs={},
                              output_process_fn_grad=lambda value: value)
              for i in range(sample_count)]  # fmt: skip
    dtypes = lambda _: {torch.float32}  # noqa: E731
    return SimpleNamespace(
        name=name, op=function, sample_inputs=lambda *_, **__: iter(inputs),
        supported_dtypes=dtypes, supported_backward_dtypes=dtypes, supports_autograd=False,
        inplace_variant=None,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide two OpInfos, one exact, one refused at the oldest opset, with nothing recorded."""
    infos = {"even": _info("even", lambda x: x + 1, 2),
             "bits": _info("bits", lambda x: x.view(torch.int32), 2)}  # fmt: skip
    monkeypatch.setitem(FULL, ("forward", "f32"), plan.Run(2, plan.ENDS, ("static",), 1))
    for module in (plan, samples, workers):
        monkeypatch.setattr(module, "op_infos", lambda: infos)
    monkeypatch.setattr(expected, "recorded_file", lambda: tmp_path / "recorded.yaml")
    reasons = [Reason("refused", "no BitCast", frozenset({"bits"}), (BITS,))]
    monkeypatch.setattr(expected, "load", lambda: reasons)
    return tmp_path


def _run(folder: Path, *options: str) -> int:
    results = ("--results", str(folder / "results.jsonl"))
    return gate.main(["--kinds", "forward", "--jobs", "1", *results, *options])


def _refuse(*_: Any, **__: Any) -> Any:
    raise UnsupportedCase(BITS)


def _fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("nothing can be captured")


@pytest.mark.alternates("is_recorded")
@pytest.mark.parametrize("is_recorded", [True, False])
def test_the_gate_is_red_when_something_is_broken(
    folder: Path, is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(folder, *(["--record-expected"] if is_recorded else [])) == 0
    assert _run(folder) == 0
    run = check.run_session
    with monkeypatch.context() as patch:
        patch.setattr(ortable, "to_onnx", _refuse)
        assert _run(folder) == 1
        # the message is that of the expected refusal at other opsets
        assert _run(folder, "bits") == (1 if is_recorded else 0)
    with monkeypatch.context() as patch:
        patch.setattr(torch.export, "export", _fail)
        assert _run(folder) == 1
    with monkeypatch.context() as patch:
        patch.setattr(check, "run_session", lambda *args: [result + 1 for result in run(*args)])
        assert _run(folder, "even") == 1


def test_a_recorded_run_names_modes_opsets_and_samples(folder: Path) -> None:
    _run(folder, "--record-expected")
    recorded, unrecorded = expected.read_recorded(folder / "recorded.yaml")
    assert {group: str(entry) for group, entry in recorded.items()} == {
        ("forward", "even", "f32"): "2",
        ("forward", "bits", "f32"): "2, refused@18 all",
    }
    assert unrecorded == 2, "the compiled groups"
    assert "unrecorded: 2" in (folder / "recorded.yaml").read_text()


def test_a_run_that_goes_on_gives_what_one_run_gives(folder: Path) -> None:
    assert _run(folder, "--minutes", "0") == gate.UNFINISHED
    assert _run(folder, "--resume", "--record-expected") == 0
    recorded, _ = expected.read_recorded(folder / "recorded.yaml")
    assert len(recorded) == 2
    assert len(report.commits(folder / "results.jsonl")) == 2


def test_a_run_of_other_opsets_is_not_recorded(folder: Path) -> None:
    _run(folder, "--record-expected", "--opsets", "20")
    assert expected.read_recorded(folder / "recorded.yaml") == ({}, 4)


# -- changed outcomes -----------------------------------------------------------------------------


def _record(index: int, *runs: tuple[str, str, int | None], **fields: Any) -> dict[str, Any]:
    """Return a sample of three, at three opsets in both modes; runs: outcome, mode, opset."""
    record = check.Record("f", "f32", index, "exact", call="f(...)", total=3)
    record.modes, record.opsets = ["static", "dynamic"], list(plan.ALL)
    for outcome, mode, opset in runs:
        name, _, reason_class = outcome.partition(":")
        record.note(name, "a reason", mode, opset, reason_class)
    return {**record.as_json(), **fields}


REASONS = [Reason("refused", "a reason", frozenset({"f"}))]
NEWEST = ("refused", "static", 26), ("refused", "dynamic", 26)
GROUP = ("forward", "f", "f32")


def _judge(text: str, *records: dict[str, Any], complete: bool = True) -> expected.Verdict:
    return expected.judge(records, REASONS, {GROUP: parse(text)}, complete)


def test_one_refused_sample_more_is_unexpected_and_one_fewer_is_stale() -> None:
    rows = [_record(0, *NEWEST), _record(1), _record(2, *NEWEST)]
    assert _judge("3, refused@26 0 2", *rows).passed
    more = _judge("3, refused@26 0", *rows)
    assert [run["index"] for run in more.unexpected] == [2, 2]
    assert not more.stale
    fewer = _judge("3, refused@26 all", *rows)
    assert len(fewer.stale) == 2
    assert "sample 1 (static, opset 26) is recorded as refused" in fewer.stale[0]
    assert not fewer.unexpected


@pytest.mark.parametrize(
    "run",
    [
        ("refused", "static", 22),
        ("refused", "dynamic", 22),
        ("missing", "static", 26),
        ("uncaptured:data", "dynamic", None),
        ("uncaptured:export", "static", None),
        ("mismatch", "static", 18),
    ],
)
def test_another_opset_mode_or_outcome_is_unexpected(run: tuple[str, str, int | None]) -> None:
    rows = [_record(0, *NEWEST), _record(1), _record(2, run)]
    assert not _judge("3, refused@26 0", *rows).passed
    assert _judge("3, refused@26 0", *rows[:2], _record(2)).passed


def test_torchs_reason_class_is_part_of_what_is_recorded() -> None:
    row = _record(0, ("uncaptured:data", "static", None))
    assert _judge("3, uncaptured:data 0", row, complete=False).passed
    assert not _judge("3, uncaptured:operator 0", row, complete=False).passed
    assert not _judge("3", row, complete=False).passed


def test_a_short_run_is_held_to_the_samples_that_it_took() -> None:
    row = _record(0, ("refused", "static", 26), modes=["static"], opsets=[18, 26])
    assert _judge("3, refused@26 all", row, complete=False).passed
    assert not _judge("3", row, complete=False).passed
    assert not _judge("3, refused all", row, complete=False).passed


def test_samples_that_torch_no_longer_yields_are_stale() -> None:
    rows = [_record(0), _record(1)]
    assert "samples [2] did not run" in _judge("3", *rows).stale[0]
    assert "3 samples, not 4" in _judge("4", *rows).stale[0]


def test_a_refusal_for_another_reason_is_unexpected() -> None:
    reasons = [Reason("refused", "a reason", frozenset({"f"}), ("random numbers",))]
    verdict = expected.judge([_record(0, *NEWEST)], reasons, {GROUP: parse("3, refused@26 all")})
    assert len(verdict.unexpected) == 2
    verdict = expected.judge([_record(0, *NEWEST)], reasons, {})
    assert len(verdict.unexpected) == 2, "recorded or not"


def test_what_is_not_recorded_has_floors() -> None:
    uncaptured = [_record(i, ("uncaptured:data", "static", None)) for i in range(30)]
    verdict = expected.judge(uncaptured, REASONS, {})
    assert "none of 30 samples captured" in " ".join(verdict.low)
    few = [_record(index, ("uncaptured:data", "static", None)) for index in (0, 0, 2, 2)]
    for text, is_low in (("3, uncaptured:data 0", False), ("3, uncaptured:data 1", True)):
        verdict = expected.judge(few, REASONS, {}, known={GROUP: parse(text)})
        assert ("f, forward: none of 4 samples captured" in verdict.low) == is_low, text
    rows = [{**row, "op": f"f{i}"} for i, row in enumerate(uncaptured)]
    verdict = expected.judge(rows, REASONS, {})
    assert "0 of 30 samples captured, under 85%" in verdict.low[0]
    static = [_record(i, ("uncaptured:data", "dynamic", None), dynamic=True) for i in range(30)]
    assert "dynamic sizes" in expected.judge(static, REASONS, {}).low[0]
    fixed = [_record(i, dynamic=True) for i in range(30)]
    assert "at other sizes" in expected.judge(fixed, REASONS, {}).low[0]
    assert expected.judge([{**row, "sizes": 2} for row in fixed], REASONS, {}).passed


# -- the format of records ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "33",
        "3, refused all",
        "33, dynamic uncaptured:data 3 5, missing@22+26 0 4",
        "0, uncaptured:samples all",
    ],
)
def test_what_is_recorded_is_read_as_it_is_written(text: str, tmp_path: Path) -> None:
    assert str(parse(text)) == text
    file = tmp_path / "recorded.yaml"
    expected.write_recorded(file, {GROUP: parse(text)}, 7)
    assert expected.read_recorded(file) == ({GROUP: parse(text)}, 7)


@pytest.mark.parametrize("text", ["3, mismatch 0", "3, refused", "3, crash all", "three"])
def test_a_fault_can_not_be_recorded(text: str) -> None:
    with pytest.raises(ValueError, match=r"recorded|invalid literal"):
        parse(text)
    assert expected.to_record(GROUP, [_record(0, ("mismatch", "static", 18))]) is None


def test_a_group_is_recorded_in_its_shortest_form() -> None:
    dynamic = ("refused", "dynamic", 18), ("refused", "dynamic", 22), ("refused", "dynamic", 26)
    rows = [_record(0, *NEWEST), _record(1, *dynamic), _record(2, *NEWEST)]
    assert expected.to_record(GROUP, rows) == Recorded(
        3, (Clause("refused", mode="dynamic", samples=(1,)),
            Clause("refused", opsets=(26,), samples=(0, 2))),
    )  # fmt: skip
    assert _judge(str(expected.to_record(GROUP, rows)), *rows).passed
    assert expected.to_record(GROUP, rows[:2]) is None, "not all samples"
    assert expected.to_record(GROUP, [{**row, "opsets": [18]} for row in rows]) is None


# -- the short run --------------------------------------------------------------------------------


def test_the_short_run_follows_the_commit_and_takes_of_all_that_there_is() -> None:
    first, repeated, other = (plan.tasks(Choice(bounded=True, part=part)) for part in (1, 1, 2))
    assert first == repeated
    assert first != other
    assert {(task.kind, task.dtype) for task in first} == set(FULL)
    assert 1050 <= len(first) <= 1250
    floats = {task.op for task in first if (task.kind, task.dtype) == ("forward", "f32")}
    all_ops = {op for kind, op, dtype in plan.groups() if (kind, dtype) == ("forward", "f32")}
    assert floats == all_ops, "every OpInfo runs in float32"
    assert sum("dynamic" in task.modes for task in first) > 200
    selected = {(t.kind, t.op, t.dtype) for part in range(90)
             for t in plan.tasks(Choice(bounded=True, part=part, names=["a*"]))}  # fmt: skip
    groups = set(plan.groups(["a*"]))
    assert len(selected) > 0.85 * len(groups), "ninety commits run most groups"


def test_a_part_is_whose_turn_it_is_or_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "rotation_seed", lambda: 0xABCDEF)
    options = gate.arguments().parse_args(["--bounded", "--part", "5", "--parts", "2/4"])
    choice = gate.choice_of(options)
    assert (choice.part, choice.slice, choice.slices) == (5, 2, 4)
    options = gate.arguments().parse_args(["--bounded", "--parts", "4"])
    assert gate.choice_of(options).part == 0xABCDEF


def test_parts_are_all_of_it_once() -> None:
    tasks = plan.tasks(Choice(names=["a*"]))
    parts = [plan.tasks(Choice(names=["a*"], slices=3, slice=index)) for index in range(3)]
    assert sorted(map(str, tasks)) == sorted(str(task) for part in parts for task in part)


# -- the expectation files ------------------------------------------------------------------------


def test_the_reasons_are_well_formed() -> None:
    reasons = expected.load()
    flash = "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"
    newer = {"linalg.matrix_sqrth", flash}  # from torch 2.15 on
    older = {"cholesky", "qr"}  # before torch 2.15
    op_names = set(samples.op_infos()) | newer | older
    assert {op for reason in reasons for op in reason.ops} <= op_names


def test_what_is_recorded_grows_and_has_reasons() -> None:
    file = expected.recorded_file()
    if not file.exists():
        return  # without a file for this torch, reasons and floors apply
    recorded, unrecorded = expected.read_recorded(file)
    groups = set(plan.groups())
    assert set(recorded) <= groups, "a record is of an OpInfo of this torch"
    assert len(groups - set(recorded)) <= unrecorded, "a recorded group was removed"
    reasons = expected.load()
    for (_, op, _), entry in recorded.items():
        for outcome in {clause.outcome for clause in entry.clauses} - {"uncaptured"}:
            assert any(r.outcome == outcome and op in r.ops for r in reasons), (op, entry)


def test_published_numbers_say_what_they_were_measured_with(tmp_path: Path) -> None:
    file = tmp_path / "numbers.yaml"
    headings = [{**report.heading("0123456789abcdef+"), "date": "2026-01-02"}]
    rows = [{**_record(0), "overloads": ["aten::add.Tensor"]}]
    report.write_measured(file, rows, headings)
    text = file.read_text()
    for part in ('commit: "0123456789ab+"', 'date: "2026-01-02"', 'command: "make conf', "torch:"):
        assert part in text
    assert '"aten::add.Tensor": {forward: 1/1}' in text
