"""The fuzzer finds wrong results, minimizes them, and accepts correct results."""

from __future__ import annotations

import fnmatch
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ortable_generated.aten import dispatch
from tests.child import python
from tests.fuzz import again, deviations, grafts, judge, onnx_programs, oracle, runner
from tests.fuzz.catalog import catalog
from tests.fuzz.program import Input, Program, Step, run_steps
from tests.fuzz.script import script
from tests.fuzz.shrink import needed, shrunk
from tests.fuzz.strategies import BEFORE_INTEGERS, grow

RELU = Step("torch.ops.aten.relu.default({0})", (0,), (-1,), "aten::relu")
TWICE = Step("{0} * 2", (1,), (-1,), "context: x * 2")
TWICE_VALUE_2 = Step("{0} * 2", (2,), (-1,), "context: x * 2")
_ABORT = "__import__('os').abort() or {0}"
X = Input("float32", (3, 4), 1, layout="transposed")
Y = Input("float32", (2,), 2)


def test_a_program_is_the_same_as_steps_and_as_a_function() -> None:
    program = Program((X,), (RELU, TWICE), (2, 0))
    values = run_steps(program, program.tensors())
    outputs = program.function()(*program.tensors())
    assert torch.equal(outputs[0], values[2]) and torch.equal(outputs[1], values[0])
    assert not program.tensors()[0].is_contiguous()


def test_programs_repeat_for_a_seed() -> None:
    programs = [grow(random.Random(5).randrange, catalog().keys, catalog().keys) for _ in range(2)]
    assert programs[0] == programs[1] is not None


@pytest.mark.slow
def test_a_few_programs_are_exact_or_refused(tmp_path: Path) -> None:
    tally = runner.Worker(runner.Share(0, 1, 20, 0, 8), tmp_path).run()
    assert tally.programs >= 5
    assert not tally.finds, tally.finds


@pytest.fixture
def wrong_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert relu to Neg."""

    def neg(graph, res, self):
        return graph.make_node("Neg", [self], res.outputs)

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::relu", neg)


def test_a_wrong_converter_is_found_and_made_small(wrong_relu: None, tmp_path: Path) -> None:
    add = Step("{0} + {1}.sum()", (3, 1), (-1,), "context: add")
    program = Program((X, Y), (RELU, TWICE_VALUE_2, add), (4, 2, 1))
    outcome = oracle.check(program, "export")
    assert outcome.kind == "mismatch"
    small = shrunk(program, lambda p: oracle.check(p, "export").like == outcome.like)
    assert [step.key for step in small.steps] == ["aten::relu"]
    assert len(small.inputs) == 1 and small.inputs[0].layout == "contiguous"
    worker = runner.Worker(runner.Share(0, 1, 1, 0, 0), tmp_path)
    worker.check_program(program, "export")
    worker.check_program(program, "export")
    (find,) = worker.tally.finds
    assert find["times"] == 2 and find["keys"] == ["aten::relu"]


def test_a_wrong_dtype_and_an_error_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph, res, self):
        raise KeyError("x")

    monkeypatch.setitem(dispatch.CONVERTERS, "aten::relu", fail)
    assert oracle.check(Program((X,), (RELU,), (1,)), "export").kind == "error"


def test_a_deviation_excuses_what_it_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deviation holds for its operator with its kind of input."""
    monkeypatch.setattr(
        deviations,
        "deviations",
        lambda: [deviations.Deviation("aten::relu", "strided", "of a test")],
    )
    program, contiguous = Program((X,), (RELU,), (1,)), replace(X, layout="contiguous")
    assert deviations.deviation(program) == "aten::relu: of a test"
    assert deviations.deviation(replace(program, inputs=(contiguous,))) is None
    abs_step = replace(RELU, text="torch.ops.aten.abs.default({0})", key="aten::abs")
    assert deviations.deviation(replace(program, steps=(abs_step,))) is None


def test_a_deviation_of_gradients_excuses_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    row = deviations.Deviation("aten::relu", "strided", "of a test", gradient=True)
    monkeypatch.setattr(deviations, "deviations", lambda: [row])
    program = Program((X,), (RELU,), (1,))
    assert deviations.deviation(program) is None
    assert deviations.deviation(program, gradient=True) == "aten::relu: of a test"


def test_what_differs_is_looked_up_among_the_deviations(
    wrong_relu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program((X,), (RELU,), (1,))
    assert oracle.check(program, "export").kind == "mismatch"
    monkeypatch.setattr(oracle, "deviation", lambda program, gradient: "of a test")
    assert oracle.check(program, "export").kind == "discarded"


def test_the_deviations_that_are_listed_exist() -> None:
    keys = {key.partition(".")[0] for key in catalog().keys}
    for row in deviations.deviations():
        name = row.operator
        assert fnmatch.filter(keys, name) or name.startswith("context: "), name
        assert row.holds in deviations.HOLDS and row.why


def test_a_run_that_refuses_everything_is_too_little() -> None:
    refusing = runner.Tally(Counter({"export refused": 20, "fx exact": 20, "gradient refused": 3}))
    assert runner.too_little(refusing) == ["export: 0 of 20 programs are exact"]
    assert "too little: export" in runner.report(refusing, 1)


def test_a_script_runs_by_itself(tmp_path: Path) -> None:
    write = Step("{0}[0].fill_(1)", (0,), (-1,), "context: x[0].fill_(1)")
    program = Program((X,), (write, RELU, TWICE_VALUE_2), (3,))
    outcome = oracle.Outcome("mismatch", "", "opset 18, target None, rewrites none")
    path = tmp_path / "found.py"
    path.write_text(script(program, "export", outcome))
    process = python(path)
    assert process.returncode == 0, process.stderr[-2000:]


def test_calls_as_nodes_are_not_replaced() -> None:
    """torch.export replaces ``mT.a``, which stays a node of the graph of calls."""
    step = Step("torch.ops.aten.mT.a({0})", (0,), (-1,), "aten::mT.a")
    program = Program((X,), (step,), (1,))
    outcome = oracle.check(program, "nodes")
    assert outcome.kind == "exact" and outcome.targets == {"aten::mT.a"}
    assert "aten::mT.a" not in oracle.check(program, "export").targets


def test_a_program_that_does_more_than_call_operators_is_no_graph_of_nodes() -> None:
    for step in (TWICE, Step("torch.ops.aten.relu_.default({0})", (0,), (-1,), "aten::relu")):
        program = Program((X,), (replace(step, operands=(0,)),), (1,))
        assert oracle.check(program, "nodes").kind == "discarded"


def test_a_refusal_at_one_place_hides_nothing_at_another(
    wrong_relu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = oracle.ortable.to_onnx

    def refuse_at_floor(graph, target_opset, **options):
        if target_opset == oracle.FLOOR:
            raise oracle.UnsupportedCase("refused at the floor")
        return convert(graph, target_opset=target_opset, **options)

    monkeypatch.setattr(oracle.ortable, "to_onnx", refuse_at_floor)
    assert oracle.check(Program((X,), (RELU,), (1,)), "export").kind == "mismatch"


def test_sizes_that_torch_does_not_let_in_are_not_tried() -> None:
    """The graph has three chunks of a size of 6; a size of 8 has four chunks."""
    step = Step("torch.ops.aten.chunk.default({0}, 4, -1)", (0,), (0, 1, 2), "aten::chunk")
    program = Program((Input("float32", (4, 6), 1),), (step,), (3,), dynamic=True)
    assert oracle.check(program, "export").kind == "exact"


def test_a_wrong_decomposition_is_torchs_own() -> None:
    """Torch's decomposition is wrong, with which it traces a graph that writes in place.

    A row whose first target is -1 has no loss, but the decomposition sums all of them.
    """
    loss = "torch.ops.aten.multilabel_margin_loss_forward.default({0}, {1}, 0)"
    key = "aten::multilabel_margin_loss_forward"
    write = Step("{0}.add_(1)", (0,), (-1,), "context: x.add_(1)")
    targets = Input("int64", (2, 3), 0, values=[[-1, 0, -1], [0, 0, 1]])
    inputs = (Input("float32", (2, 3), 1), targets)
    pure = Program(inputs, (Step(loss, (0, 1), (0,), key),), (2,))
    assert oracle.check(pure, "export").kind == "exact"
    writing = Program(inputs, (write, Step(loss, (0, 1), (0,), key)), (3,))
    is_fixed = torch.__version__ >= (2, 15)
    assert oracle.check(writing, "export").kind == ("exact" if is_fixed else "discarded")


def test_a_crash_of_eager_is_torchs_own() -> None:
    for text, dies in (("{0} * 2", False), (_ABORT, True)):
        step = Step(text, (0,), (-1,), "context: dies")
        assert runner.dies_in_eager(Program((X,), (step,), (1,)), "export") == dies


def test_a_process_that_dies_costs_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that crashed is a find, and the other batches run."""

    def batch(worker: runner.Worker, size: int) -> None:
        if worker.share.first == runner.BATCH:
            worker.send((Program((X,), (RELU,), (1,)), "export"))
            os.abort()
        worker.tally.outcomes["export exact"] += size

    monkeypatch.setattr(runner.Worker, "batch", batch)
    tally = runner.run([runner.Share(number, 2, 1, 0, 60) for number in range(2)])
    assert tally.outcomes == {"export exact": 2 * 35}
    (first, second) = tally.finds
    assert first["kind"] == second["kind"] == "crash" and first["keys"] == ["aten::relu"]


def test_steps_that_nothing_needs_go() -> None:
    program = Program((X, Y), (RELU, TWICE_VALUE_2), (2,))
    small = needed(program)
    assert len(small.inputs) == 1 and len(small.steps) == 1


def test_rounding_errors_change_no_integer_of_a_cast() -> None:
    simple = torch.tensor([-9, -1.5, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 9])
    exact, larger, smaller = (
        eval("x" + BEFORE_INTEGERS, {"x": simple * factor}).int().tolist()
        for factor in (1, 1 + 1e-6, 1 - 1e-6)
    )
    assert exact == larger == smaller == [-8, -1, 0, 0, 0, 0, 0, 1, 1, 2, 9]


def test_cancellation_is_no_find() -> None:
    """The remainder of a difference of nearly equal numbers, and its sign, are noise."""
    big = Step("{0} * 1e6 + 1", (0,), (-1,), "a")
    difference = Step("({0} - {1} * 1e6 - 1).sign()", (1, 0), (-1,), "b")
    program = Program((Input("float32", (4,), 3),), (big, difference), (2,))
    expected = oracle.reference(program)[0]
    assert judge.Judge(program, None, False).accepts(0, -expected, expected)
    assert not judge.Judge(program, None, False).accepts(0, expected + 5, expected)


def test_what_is_plainly_wrong_is_no_noise() -> None:
    program = Program((X,), (RELU,), (1,))
    expected = oracle.reference(program)[0]
    for wrong in (expected + 0.01, expected * 1.001, torch.zeros_like(expected)):
        assert not judge.Judge(program, None, False).accepts(0, wrong, expected)


def test_graphs_of_cases_are_spliced() -> None:
    rules = set()
    for number in range(12):
        program = onnx_programs.GraphProgram(
            ((number * 31, 1, 2, number), (number * 17, 3, 4, 5)), 23, "onnxruntime", True
        )
        outcome, _ = onnx_programs.check(program)
        assert not outcome.is_find, outcome
        rules |= set(outcome.rewrites)
    assert len(rules) >= 4


def test_the_error_of_a_transform_is_relative_to_its_largest_number() -> None:
    values = replace(X, dtype="float64", shape=(4,), values=[-1.5, 8.0, 0.1, 1e30])
    program = Program(
        (values,), (Step("torch.fft.ihfft({0})", (0,), (-1,), "aten::fft_ihfft"),), (1,)
    )
    (expected,) = oracle.reference(program)[:1]
    for error, accepted in ((1e14, True), (1e18, False)):
        assert judge.Judge(program, None, False).accepts(0, expected + error, expected) is accepted


def test_overflow_on_the_way_is_no_find() -> None:
    values = replace(X, shape=(3,), values=[1e30, 2.0, 3.0])
    square = Step("{0} * {0}", (0,), (-1,), "aten::mul.Tensor")
    program = Program((values,), (square,), (1,))
    spread = judge.Judge(program, None, False)
    (expected,) = oracle.reference(program)[:1]
    overflow, wrong = torch.tensor([torch.nan, 4.0, 9.0]), torch.tensor([torch.inf, 5.0, 9.0])
    assert spread.accepts(0, overflow, expected) and not spread.accepts(0, wrong, expected)


def test_a_find_is_judged_again(wrong_relu: None, tmp_path: Path) -> None:
    write = Step("{0}[0].fill_(1)", (0,), (-1,), "context: x[0].fill_(1)")
    program = Program((X,), (write, RELU, TWICE_VALUE_2), (3,))
    outcome = oracle.check(program, "export")
    file = tmp_path / "find.py"
    file.write_text(script(program, "export", outcome))
    assert torch.equal(again.program_of(file.read_text()).tensors()[0], program.tensors()[0])
    (line,), count = again.report([file])
    assert line.startswith("find.py: mismatch") and count == 1


def test_what_is_mended_is_no_find_again(tmp_path: Path) -> None:
    program = Program((X,), (RELU,), (1,))
    file = tmp_path / "find.py"
    file.write_text(script(program, "export", oracle.Outcome("mismatch", "", "opset 18")))
    assert again.report([file]) == ([], 1)


def test_a_script_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """A name of an operator, such as conv1d, is no name of a value."""
    features = replace(X, shape=(1, 2, 5), layout="transposed")
    kernel = replace(X, shape=(3, 2, 3), layout="contiguous", seed=2)
    steps = (
        Step("torch.ops.aten.conv1d.default({0}, {1})", (0, 1), (-1,), "aten::conv1d"),
        Step("torch.ops.aten.topk.default({0}, 2)", (2,), (0, 1), "aten::topk"),
        Step("{0}[..., ::2] + {1}", (3, 3), (-1,), "context: x[..., ::2] + x"),
    )
    program = Program((features, kernel), steps, (4, 5), dynamic=True)
    text = script(program, "export", oracle.Outcome("mismatch", "", "opset 18"))
    parsed = again.program_of(text)
    assert parsed.source() == program.source() and parsed.dynamic
    assert [step.key for step in parsed.steps[:2]] == ["aten::conv1d", "aten::topk"]
    assert [x.layout for x in parsed.inputs] == ["transposed", "contiguous"]


@pytest.mark.slow
def test_a_graft_shows_a_wrong_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    graft = grafts.draw_graft(8)
    assert len(graft.rules) > 1 and "Relu" in [node.op_type for node in graft.model.graph.node]
    assert grafts.judge(8) == ("rewritten equal", "")

    def drop_bound(builder: Any, rules: Any) -> Any:
        record = rewrite_graph(builder, rules)
        clip = next(node for node in builder.nodes if node.op_type == "Clip")
        del clip.inputs[1]
        return record

    rewrite_graph = grafts.rewrite_graph
    monkeypatch.setattr(grafts, "rewrite_graph", drop_bound)
    assert grafts.judge(8)[0] == "rewritten"
