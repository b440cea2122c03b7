"""Tests of `ortable.observe`: inferred dimensions, export, compilation, proofs and refusals."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter import calling_convention
from ortable.exporter.capture import sources
from ortable.exporter.observation import subprocess_runner
from ortable.exporter.observation.proof import ProofReport, ProofTrial
from ortable.exporter.observation.subprocess_runner import ModelLoadError, SubprocessRunner
from ortable.lowerings import recurrent

pytestmark = pytest.mark.alternates(parts=3)

Call = dict[str, Any]


def observe_calls(module: torch.nn.Module, *calls: Any, **options: Any) -> ortable.Observation:
    """Return an observation of calls, each a tuple or a dict of arguments."""
    with ortable.observe(module, **options) as observation, torch.no_grad():
        for call in calls:
            if isinstance(call, dict):
                module(**call)
            else:
                module(*call)
    return observation


def sizes_by_name(observation: ortable.Observation) -> dict[str, tuple[int, ...]]:
    return {dimension.name: dimension.sizes for dimension in observation.dimensions}


class Mix(torch.nn.Module):
    """A module whose arguments x and y have equal row counts, with y of any length."""

    def forward(self, x, y, scale: float = 2.0, flag: bool = False, *, mask=None):
        total = x.sum(1) * scale + y.mean(-1)
        return total if mask is None else total * mask


class Lookup(torch.nn.Module):
    """A module that concatenates a cache with embeddings: float32[batch, past + sequence]."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(9, 1)

    def forward(self, input_ids, past, attention_mask):
        new = self.table(input_ids).squeeze(-1)
        return torch.cat([past.sum((1, 3)), new], 1) * attention_mask


def make_lookup_call(batch: int, sequence: int, past: int) -> Call:
    return {
        "input_ids": torch.randint(0, 9, (batch, sequence)),
        "past": torch.rand(batch, 2, past, 4),
        "attention_mask": torch.ones(batch, past + sequence, dtype=torch.int64),
    }


class Repeat(torch.nn.Module):
    """A module that appends ``count`` rows of zeros; the integer varies between calls."""

    def forward(self, x, count: int):
        return torch.cat([x, x.new_zeros(count, x.shape[1])])


class Unrolled(torch.nn.Module):
    def forward(self, x):
        total = x[:, 0]
        for index in range(x.shape[1]):
            total = total + x[:, index]
        return total


class Even(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] % 2 == 0 else x * 3


class SizeOneBranch(torch.nn.Module):
    """A module with a branch for one row, which torch.export misses with a larger example."""

    def forward(self, x):
        return x + 1 if x.shape[0] == 1 else x - 1


class WritesArgument(torch.nn.Module):
    """A module that writes to its argument and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x.mul_(2)
        return x + self.calls


class VariableArguments(torch.nn.Module):
    def forward(self, *rows, **named):
        return sum(row.sum() for row in rows) + named["extra"].sum(0)


# -- inferred dimensions


def test_equal_sizes_are_one_dimension_and_others_have_names() -> None:
    observation = observe_calls(
        Mix(), (torch.rand(2, 3), torch.rand(2, 7)), (torch.rand(5, 3), torch.rand(5, 4))
    )
    assert sizes_by_name(observation) == {"batch": (2, 5), "sequence": (7, 4)}
    assert observation.dimensions[0].places == (("x", 0), ("y", 0))
    assert str(observation) == (
        "Mix, 2 calls\n"
        "  arguments   x         float32[batch, 3]\n"
        "              y         float32[batch, sequence]\n"
        "  dimensions  batch     2, 5\n"
        "              sequence  7, 4"
    )


def test_a_sum_of_two_dimensions_is_named_as_one() -> None:
    observation = observe_calls(Lookup(), make_lookup_call(2, 3, 4), make_lookup_call(1, 5, 7))
    assert sizes_by_name(observation) == {
        "batch": (2, 1),
        "sequence": (3, 5),
        "past": (4, 7),
        "past + sequence": (7, 12),
    }
    program = observation.export()
    call = make_lookup_call(3, 1, 0)
    assert torch.equal(program(**call), observation.model(**call))
    call["attention_mask"] = torch.ones(3, 2, dtype=torch.int64)
    with pytest.raises(
        InputError, match=r"attention_mask.* takes sequence \+ past there, which is 1"
    ):
        program(**call)


def test_a_sum_that_fits_in_two_ways_is_independent() -> None:
    sizes = [(1, 4, 2, 3, 5), (2, 7, 3, 6, 9)]
    observation = observe_calls(Rows(), *([torch.rand(1, size) for size in call] for call in sizes))
    fitting = [dim.fitting for dim in observation.dimensions if dim.sizes == (5, 9)]
    assert fitting and len(fitting[0]) == 2, observation.dimensions
    assert "treated as independent" in str(observation)


class Rows(torch.nn.Module):
    def forward(self, *rows):
        return torch.cat([row.sum(1) for row in rows])


def test_multiples_and_offsets_need_three_sizes() -> None:
    def make_call(size: int) -> list[torch.Tensor]:
        return [torch.rand(1, size), torch.rand(1, 2 * size), torch.rand(1, size + 1)]

    two_calls = observe_calls(Rows(), make_call(3), make_call(5))
    assert all(dim.name.isidentifier() for dim in two_calls.dimensions)
    three_calls = observe_calls(Rows(), make_call(3), make_call(5), make_call(9))
    assert list(sizes_by_name(three_calls)) == ["sequence", "2*sequence", "sequence + 1"]


def test_pictures_have_heights_and_widths() -> None:
    observation = observe_calls(
        torch.nn.Conv2d(3, 2, 3), (torch.rand(1, 3, 8, 9),), (torch.rand(2, 3, 16, 6),)
    )
    assert sizes_by_name(observation) == {"batch": (1, 2), "height": (8, 16), "width": (9, 6)}


def test_arguments_of_any_form_are_compared_by_name() -> None:
    module = VariableArguments()
    first = (torch.rand(2), torch.rand(3))
    with ortable.observe(module) as observation:
        module(*first, extra=torch.rand(2, 4))
        module(torch.rand(5), torch.rand(3), extra=torch.rand(5, 4))
    assert [dim.places for dim in observation.dimensions] == [(("rows[0]", 0), ("extra", 0))]
    program = observation.export()
    call = (torch.rand(7), torch.rand(3))
    extra = torch.rand(7, 4)
    assert torch.allclose(program(*call, extra=extra), module(*call, extra=extra))


def test_a_call_by_place_and_one_by_name_with_a_default_spelled_out() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    observation = observe_calls(
        Mix(), (x, y), {"y": torch.rand(4, 7), "x": torch.rand(4, 3), "mask": None}
    )
    assert sizes_by_name(observation) == {"batch": (2, 4)}
    assert "mask   None, constant, the same in every call" in str(observation)
    assert "flag" not in str(observation)


def test_the_hook_goes_and_arguments_are_kept_as_they_came() -> None:
    module, x = WritesArgument(), torch.ones(3)
    with pytest.raises(RuntimeError, match="of the block"), ortable.observe(module) as observation:
        module(x)
        module(torch.ones(5))
        raise RuntimeError("of the block")
    module(torch.ones(7))
    assert observation.calls == 2
    assert torch.equal(observation.example[0][0], torch.ones(3)) and torch.equal(
        x, 2 * torch.ones(3)
    )
    with observation:
        module(torch.ones(9))
    assert sizes_by_name(observation) == {"batch": (3, 5, 9)}


def test_tensors_of_the_first_calls_of_each_structure_are_kept() -> None:
    calls = [(torch.rand(size, 3), torch.rand(size, 4)) for size in (2, 3, 4, 5)]
    observation = observe_calls(Mix(), *calls, calls[0], keep=2)
    assert sizes_by_name(observation) == {"batch": (2, 3, 4, 5, 2)}
    program = observation.export()
    assert observation.proof is not None
    observed_sizes = [trial.sizes for trial in observation.proof.trials if trial.observed]
    assert observed_sizes == ["call 1", "call 2"]
    assert program(*calls[3]).shape == (5,)


def test_the_example_has_no_size_of_one_where_that_may_vary() -> None:
    module = Mix()
    observation = observe_calls(
        module, (torch.rand(1, 3), torch.rand(1, 7)), (torch.rand(5, 3), torch.rand(5, 1))
    )
    (x, y), _ = observation.example
    assert (tuple(x.shape), tuple(y.shape)) in (((1, 3), (1, 7)), ((5, 3), (5, 7)))
    assert min(*x.shape, *y.shape) > 1
    program = observation.export()
    assert program(torch.rand(1, 3), torch.rand(1, 1)).shape == (1,)


def test_dynamic_shapes_are_those_of_torch_export() -> None:
    module = Lookup()
    observation = observe_calls(module, make_lookup_call(2, 3, 4), make_lookup_call(5, 6, 7))
    assert repr(observation.dynamic_shapes["input_ids"]) == "{0: 'batch', 1: 'sequence'}"
    args, kwargs = observation.example
    exported = torch.export.export(module, args, kwargs, dynamic_shapes=observation.dynamic_shapes)
    call = make_lookup_call(5, 2, 6)
    assert torch.equal(exported.module()(**call), module(**call))


# -- exports and their proofs


def test_an_export_is_proven_at_sizes_nobody_ran() -> None:
    observation = observe_calls(
        Mix(), (torch.rand(2, 3), torch.rand(2, 7)), (torch.rand(5, 3), torch.rand(5, 4))
    )
    observation.export()
    proof = observation.proof
    assert proof is not None and proof and not proof.failures
    outcomes = {trial.sizes: trial.outcome for trial in proof.trials}
    for size in ("batch=0", "batch=1", "batch=7", "batch=5 (largest seen)", "sequence=1"):
        assert outcomes[size] == "right"
    assert outcomes["batch=1, sequence=1"] == outcomes["batch=2, sequence=3"] == "right"
    assert str(proof).startswith("sizes") and "right at every size" in repr(proof)


def test_the_maximum_is_that_of_the_program_or_the_callers() -> None:
    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(20.0))

        def forward(self, x):
            return x + self.table[: x.shape[1]]

    observation = observe_calls(Positions(), (torch.rand(2, 3),), (torch.rand(2, 7),))
    with pytest.warns(UserWarning, match="sequence <= 20"):
        program = observation.export()
    assert observation.proof is not None
    (largest,) = (trial for trial in observation.proof.trials if "maximum" in trial.sizes)
    assert (largest.sizes, largest.outcome) == ("sequence=20 (maximum)", "right")
    (largest,) = (
        trial
        for trial in observation.prove(program, maximum={"sequence": 21}).trials
        if "maximum" in trial.sizes
    )
    assert (largest.sizes, largest.outcome) == ("sequence=21 (maximum)", "undefined")
    assert "RuntimeError" in largest.reason
    with pytest.raises(OptionError, match=r"'length', but the dimensions are \['sequence'\]"):
        observation.prove(program, maximum={"length": 3})


def test_an_integer_that_varies_is_an_input() -> None:
    module = Repeat()
    observation = observe_calls(module, (torch.rand(2, 3), 4), (torch.rand(2, 3), 2))
    assert sizes_by_name(observation) == {"count": (4, 2)}
    program = observation.export()
    assert program.input_names == ["x", "count"]
    x = torch.rand(2, 3)
    assert torch.equal(program(x, 9), module(x, 9))


def test_what_is_written_is_compared_and_put_back() -> None:
    module = WritesArgument()
    observation = observe_calls(module, (torch.ones(3),), (torch.ones(5),))
    observation.export()
    assert module.calls == 2  # export and proof restore the counter
    assert observation.proof is not None and observation.proof.ok


def test_a_condition_on_a_size_refuses_with_its_line() -> None:
    observation = observe_calls(Even(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    with pytest.warns(UserWarning, match="batch % 2 == 0"):
        observation.export()
    assert observation.proof is not None and observation.proof.ok
    reasons = {trial.sizes: trial.reason for trial in observation.proof.of("refused")}
    assert list(reasons) == ["batch=1", "batch=3", "batch=5", "batch=7"]
    assert "batch % 2 == 0 (test_observe.py:" in reasons["batch=3"]


def test_an_observed_call_that_the_graph_refuses_is_an_error() -> None:
    observation = observe_calls(Even(), (torch.rand(4, 2),), (torch.rand(7, 2),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ExportError, match="refuses an observed call") as raised:
            observation.export()
        assert "test_observe.py:" in str(raised.value) and "batch=7" in str(raised.value)
        program = observation.export(prove=False)
    assert program(torch.ones(2, 2)).sum() == 8


def test_a_dimension_that_the_model_fixes_is_named_with_its_line() -> None:
    observation = observe_calls(Unrolled(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(ExportError) as raised:
        observation.export()
    text = str(raised.value)
    assert "dimension 1 (sequence)" in text and "for index in range(x.shape[1]):" in text


def test_a_graph_that_would_be_wrong_at_one_row_refuses_it_with_its_line() -> None:
    observation = observe_calls(SizeOneBranch(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    observation.export()
    assert observation.proof is not None and observation.proof.ok
    (refusal,) = observation.proof.of("refused")[-1:]
    assert refusal.sizes == "batch=1" and "at 1 the module does something else" in refusal.reason


def test_a_graph_that_is_wrong_at_one_row_is_an_error(monkeypatch) -> None:
    """The export's own proof of small sizes is disabled, so the observation finds the error."""
    monkeypatch.setattr(sources, "prove_small_sizes", lambda *_: None)
    observation = observe_calls(SizeOneBranch(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    with pytest.raises(ExportError, match="differs from eager") as raised:
        observation.export()
    assert "batch=1" in str(raised.value) and "differs" in str(raised.value)
    report = observation.prove(observation.export(prove=False))
    assert [trial.sizes for trial in report.failures] == ["batch=1"] and not report


def test_what_ends_the_process_on_empty_tensors_ends_another_one(monkeypatch) -> None:
    """Without the padding of empty batches, ONNX Runtime's LSTM aborts the process."""
    monkeypatch.setattr(calling_convention, "CRASHES_ON_EMPTY", frozenset())
    monkeypatch.setattr(recurrent, "_pad_empty_batch", lambda graph, batch, tensors: tensors)
    module = torch.nn.LSTM(4, 3, batch_first=True).eval()
    observation = observe_calls(module, (torch.rand(2, 5, 4),), (torch.rand(3, 5, 4),))
    with pytest.warns(UserWarning, match="batch=0: .*ends the process"):
        program = observation.export()
    assert observation.proof is not None
    (failure,) = observation.proof.of("fails")
    assert failure.empty and failure.sizes == "batch=0"
    observation.proof.check(empty=False)
    with pytest.raises(ExportError, match="batch=0"):
        observation.proof.check()
    with pytest.raises(InputError, match="takes 1 or more"):
        program(torch.rand(0, 5, 4))


def test_an_empty_call_that_no_file_holds_is_not_tried() -> None:
    calls = [(torch.rand(rows, 3, dtype=torch.bfloat16),) for rows in (2, 5)]
    observation = observe_calls(torch.nn.Linear(3, 2).to(torch.bfloat16), *calls)
    observation.export()
    assert observation.proof is not None and not observation.proof.failures
    (skipped,) = observation.proof.of("not tried")
    assert (skipped.sizes, skipped.reason) == ("batch=0", "numpy's files have no dtype for 'input'")


def test_a_process_apart_says_what_ort_says(tmp_path) -> None:
    program = ortable.export(torch.nn.Linear(3, 2), (torch.rand(2, 3),), dynamic_shapes=({0: "n"},))
    runner = SubprocessRunner(program.save)
    try:
        (name,) = program.input_names
        empty = torch.rand(0, 3).numpy()
        (result,) = runner.run({name: empty})
        assert result.shape == (0, 2) and result.dtype == torch.float32
        with pytest.raises(RuntimeError, match=r"(?i)invalid|got"):
            runner.run({name: torch.rand(2, 4).numpy()})
        (result,) = runner.run({name: empty})
        assert result.shape == (0, 2)
    finally:
        runner.close()


def test_a_process_apart_that_does_not_answer_is_killed(monkeypatch) -> None:
    program = ortable.export(torch.nn.Linear(3, 2), (torch.rand(2, 3),))
    runner = SubprocessRunner(program.save)
    try:
        feeds = {program.input_names[0]: torch.rand(2, 3).numpy()}
        runner.run(feeds)
        monkeypatch.setattr(subprocess_runner, "_TIMEOUT_SECONDS", 0.2)
        os.kill(runner._process.pid, signal.SIGSTOP)
        with pytest.raises(RuntimeError, match=r"takes longer than 0\.2 seconds"):
            runner.run(feeds)
        monkeypatch.undo()
        assert runner.run(feeds)[0].shape == (2, 2)
    finally:
        runner.close()


def test_a_model_that_does_not_load_apart_says_nothing_of_a_call() -> None:
    def save_invalid_model(path: str) -> None:
        Path(path).write_bytes(b"no model")

    runner = SubprocessRunner(save_invalid_model)
    try:
        with pytest.raises(ModelLoadError):
            runner.run({})
    finally:
        runner.close()


def test_offsets_of_bags_stay_in_order() -> None:
    module = torch.nn.EmbeddingBag(9, 3, mode="sum")

    def make_call(batch: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        offsets = torch.linspace(0, count - 1, batch).to(torch.int64)
        return torch.randint(0, 9, (count,)), offsets

    observation = observe_calls(module, make_call(3, 8), make_call(4, 11))
    observation.export()
    assert observation.proof is not None and not observation.proof.failures
    outcomes = {trial.sizes: trial.outcome for trial in observation.proof.trials}
    batch_name = next(dim.name for dim in observation.dimensions if dim.sizes == (3, 4))
    assert outcomes[f"{batch_name}=5"] == outcomes[f"{batch_name}=7"] == "right"


def test_rows_of_a_report() -> None:
    trials = (
        ProofTrial("call 1", "right", largest=0.0, observed=True),
        ProofTrial("n=1", "undefined", "ValueError: " + "x" * 300),
        ProofTrial("n=2", "fails", "it raises"),
    )
    report = ProofReport(trials)
    assert report.failures == [trials[2]] and not report.ok
    assert "eager raises" in str(report) and "x" * 200 not in str(report)
    with pytest.raises(ExportError, match="n=2"):
        report.check()
    assert ProofReport(trials[:2]).check().ok


# -- language models


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=24,
        vocab_size=31,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    return LlamaForCausalLM(config).eval()


def make_decoding_call(batch: int, sequence: int, past: int) -> Call:
    layers = [(torch.randn(batch, 1, past, 8), torch.randn(batch, 1, past, 8))]
    return {
        "input_ids": torch.randint(3, 31, (batch, sequence)),
        "attention_mask": torch.ones(batch, past + sequence, dtype=torch.int64),
        "past_key_values": DynamicCache(layers),
    }


def test_a_decoder_with_a_cache_is_one_graph(llama) -> None:
    """The mask length is past + sequence, so its conditions hold without a warning."""
    observation = observe_calls(llama, make_decoding_call(2, 3, 4), make_decoding_call(1, 5, 7))
    assert list(sizes_by_name(observation)) == ["batch", "sequence", "past + sequence", "past"]
    program = observation.export()
    # the name depends on which part of transformers registered the cache with pytree
    assert program.input_names[-1] in ("past_key_values_value_cache_0", "past_key_values_1")
    assert observation.proof is not None and observation.proof.ok
    outcomes = {trial.sizes: trial.outcome for trial in observation.proof.trials}
    assert outcomes["past=0"] == outcomes["past=1"] == outcomes["sequence=1"] == "right"


def test_generate_is_two_graphs(llama) -> None:
    with ortable.observe(llama) as observation, torch.no_grad():
        for batch, length in ((2, 5), (3, 4)):
            prompt = torch.randint(3, 31, (batch, length))
            llama.generate(prompt, max_new_tokens=3, pad_token_id=0)
    with pytest.raises(
        ExportError,
        match=r"cache[^']*' is absent in call 1|past_key_values[^']*' is absent in call 1",
    ):
        observation.export()
    assert "seen.apart()" in repr(observation)
    prompts, tokens = observation.apart()
    assert (prompts.calls, tokens.calls) == (2, 4)
    assert sizes_by_name(prompts) == {"batch": (2, 3), "sequence": (5, 4)}
    assert sizes_by_name(tokens) == {"batch": (2, 2, 3, 3), "past": (5, 6, 4, 5)}
    program = tokens.export()
    assert "past + 1" in repr(program)
    assert tokens.proof is not None and not tokens.proof.failures


# -- torch.compile


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_for_all_sizes_at_once() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    observation = observe_calls(module, (torch.rand(1, 3),), (torch.rand(5, 3),))
    with torch.no_grad():
        compiled = observation.compile()
        assert observation.proof is not None and observation.proof.ok
        assert [trial.sizes for trial in observation.proof.of("refused")] == ["batch=0"]
        assert "compiled again" in observation.proof.of("refused")[0].reason
        with torch.compiler.set_stance("fail_on_recompile"):
            for size in (1, 5, 2, 8):
                x = torch.rand(size, 3)
                assert torch.allclose(compiled(x), module(x), atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_cache_is_compiled_with_dynamic_lengths(llama) -> None:
    observation = observe_calls(llama, make_decoding_call(2, 3, 4), make_decoding_call(3, 5, 7))
    with torch.no_grad():
        compiled = observation.compile(prove=False)
        with torch.compiler.set_stance("fail_on_recompile"):
            call = make_decoding_call(4, 2, 9)
            eager_call = {
                **call,
                "past_key_values": DynamicCache(clone_layers(call["past_key_values"])),
            }
            logits, expected_logits = compiled(**call).logits, llama(**eager_call).logits
    torch.testing.assert_close(logits, expected_logits, atol=1e-5, rtol=1e-4)


def clone_layers(cache: DynamicCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]


@pytest.mark.usefixtures("fresh_dynamo")
def test_models_of_one_class_do_not_share_a_limit_of_recompilations() -> None:
    """Above the limit dynamo falls back to eager and only logs it."""
    for _ in range(3):
        observation = observe_calls(
            torch.nn.Linear(3, 2).eval(), (torch.rand(2, 3),), (torch.rand(5, 3),)
        )
        storage: dict[str, Any] = {}
        with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=2):
            observation.compile(options={"storage": storage})
        assert len(storage["instance"]) == 1


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_dimension_that_compiling_fixes_is_named() -> None:
    observation = observe_calls(Unrolled(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(ExportError, match="dimension 1"), torch.no_grad():
        observation.compile()


class RaisesWhenCompiled(torch.nn.Module):
    """A module that raises its own error during compilation, independent of any dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            raise ValueError("no compiler, please")
        return x + 1


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_error_of_the_model_itself_is_raised_as_it_is() -> None:
    observation = observe_calls(RaisesWhenCompiled(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(Exception, match="no compiler, please") as raised, torch.no_grad():
        observation.compile(fullgraph=True)
    assert not isinstance(raised.value, ExportError)


# -- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 3.0}, "'scale' is 2.0 in call 1 and 3.0 in call 2: a float is a constant"),
        ({"flag": True}, "'flag' is False in call 1 and True in call 2: it is a constant"),
        ({"mask": torch.ones(5)}, "'mask' is None in call 1 and float32\\[5\\] in call 2"),
        ({"x": torch.ones(5, 3).double()}, "'x' is float32.* and float64.*: a graph has one dtype"),
        ({"y": torch.ones(5, 2, 4)}, "'y' is .*: a graph has one rank"),
    ],
)
def test_calls_of_two_graphs_name_the_argument(change: Call, message: str) -> None:
    first = {"x": torch.rand(2, 3), "y": torch.rand(2, 4)}
    second = {"x": torch.rand(5, 3), "y": torch.rand(5, 4), **change}
    module = torch.nn.Module()
    module.forward = lambda x, y, scale=2.0, flag=False, mask=None: x  # type: ignore[method-assign]
    observation = observe_calls(module, first, second)
    with pytest.raises(ExportError, match=message):
        observation.export()
    assert [observation.calls for observation in observation.apart()] == [1, 1]


def test_too_few_calls_and_calls_of_one_size() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    with pytest.raises(ExportError, match="saw 0 calls of Mix"):
        observe_calls(Mix()).export()
    observation = observe_calls(Mix(), (x, y))
    assert repr(observation) == "Observation of Mix: 1 calls"
    with pytest.raises(ExportError, match="saw 1 call of Mix"):
        observation.export()
    observation = observe_calls(Mix(), (x, y), (x, y))
    assert "every size is the same" in str(observation)
    with pytest.raises(ExportError, match="have the same sizes"):
        observation.export()


def test_options_that_observe_finds_out_or_does_not_take() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    observation = observe_calls(Mix(), (x, y), (torch.rand(4, 3), torch.rand(4, 7)))
    with pytest.raises(OptionError, match="observe determines 'dynamic_shapes'"):
        observation.export(dynamic_shapes={})
    with pytest.raises(OptionError, match="'backend'"):
        observation.compile(backend="eager")
    with pytest.raises(OptionError, match="at least 2"):
        ortable.observe(Mix(), keep=1)
    with pytest.raises(InputError, match=r"a torch.nn.Module, not function"):
        ortable.observe(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"before torch.compile"):
        ortable.observe(torch.compile(Mix(), backend="eager"))
