"""observe: what calls say of dimensions, the export and the compilation that follow, the proof, and
what is said where there is no graph for all of the calls."""

from __future__ import annotations

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
from ortable.exporter.observation.proof import ProofReport, ProofTrial
from ortable.exporter.observation.subprocess_runner import SubprocessNotStarted, SubprocessRunner
from ortable.lowerings import recurrent

Call = dict[str, Any]


def observed(module: torch.nn.Module, *calls: Any, **options: Any) -> ortable.Observation:
    """An observation of calls, each a tuple of arguments or a dict of them."""
    with ortable.observe(module, **options) as seen, torch.no_grad():
        for call in calls:
            if isinstance(call, dict):
                module(**call)
            else:
                module(*call)
    return seen


def names(seen: ortable.Observation) -> dict[str, tuple[int, ...]]:
    return {each.name: each.sizes for each in seen.dimensions}


class Mix(torch.nn.Module):
    """Rows of x and of y are equal; y has any length."""

    def forward(self, x, y, scale: float = 2.0, flag: bool = False, *, mask=None):
        found = x.sum(1) * scale + y.mean(-1)
        return found if mask is None else found * mask


class Lookup(torch.nn.Module):
    """Adds to a table's rows what a cache has: float32[batch, past + sequence]."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(9, 1)

    def forward(self, input_ids, past, attention_mask):
        new = self.table(input_ids).squeeze(-1)
        return torch.cat([past.sum((1, 3)), new], 1) * attention_mask


def lookup(batch: int, sequence: int, past: int) -> Call:
    return {
        "input_ids": torch.randint(0, 9, (batch, sequence)),
        "past": torch.rand(batch, 2, past, 4),
        "attention_mask": torch.ones(batch, past + sequence, dtype=torch.int64),
    }


class Repeat(torch.nn.Module):
    """``count`` rows of zeros beside a row: an integer that may vary."""

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


class Alone(torch.nn.Module):
    """One row is another thing: what torch.export does not see when it is given several."""

    def forward(self, x):
        return x + 1 if x.shape[0] == 1 else x - 1


class Written(torch.nn.Module):
    """Writes into its argument and into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x.mul_(2)
        return x + self.calls


class Pair(torch.nn.Module):
    def forward(self, *rows, **named):
        return sum(each.sum() for each in rows) + named["extra"].sum(0)


# -- what the calls say


def test_equal_sizes_are_one_dimension_and_others_have_names() -> None:
    seen = observed(
        Mix(), (torch.rand(2, 3), torch.rand(2, 7)), (torch.rand(5, 3), torch.rand(5, 4))
    )
    assert names(seen) == {"batch": (2, 5), "sequence": (7, 4)}
    assert seen.dimensions[0].places == (("x", 0), ("y", 0))
    assert str(seen) == (
        "Mix, 2 calls\n"
        "  arguments   x         float32[batch, 3]\n"
        "              y         float32[batch, sequence]\n"
        "  dimensions  batch     2, 5\n"
        "              sequence  7, 4"
    )


def test_a_sum_of_two_dimensions_is_named_as_one() -> None:
    seen = observed(Lookup(), lookup(2, 3, 4), lookup(1, 5, 7))
    assert names(seen) == {
        "batch": (2, 1),
        "sequence": (3, 5),
        "past": (4, 7),
        "past + sequence": (7, 12),
    }
    program = seen.export()
    call = lookup(3, 1, 0)
    assert torch.equal(program(**call), seen.model(**call))
    call["attention_mask"] = torch.ones(3, 2, dtype=torch.int64)
    with pytest.raises(
        InputError, match=r"attention_mask.* takes sequence \+ past there, which is 1"
    ):
        program(**call)


def test_a_sum_that_fits_in_two_ways_is_independent() -> None:
    sizes = [(1, 4, 2, 3, 5), (2, 7, 3, 6, 9)]
    seen = observed(Rows(), *([torch.rand(1, size) for size in each] for each in sizes))
    fitting = [each.fitting for each in seen.dimensions if each.sizes == (5, 9)]
    assert fitting and len(fitting[0]) == 2, seen.dimensions
    assert "treated as independent" in str(seen)


class Rows(torch.nn.Module):
    def forward(self, *rows):
        return torch.cat([row.sum(1) for row in rows])


def test_multiples_and_offsets_need_three_sizes() -> None:
    def call(size: int) -> list[torch.Tensor]:
        return [torch.rand(1, size), torch.rand(1, 2 * size), torch.rand(1, size + 1)]

    two = observed(Rows(), call(3), call(5))
    assert all(each.name.isidentifier() for each in two.dimensions)
    three = observed(Rows(), call(3), call(5), call(9))
    assert list(names(three)) == ["sequence", "2*sequence", "sequence + 1"]


def test_pictures_have_heights_and_widths() -> None:
    seen = observed(torch.nn.Conv2d(3, 2, 3), (torch.rand(1, 3, 8, 9),), (torch.rand(2, 3, 16, 6),))
    assert names(seen) == {"batch": (1, 2), "height": (8, 16), "width": (9, 6)}


def test_arguments_of_any_form_are_compared_by_name() -> None:
    module = Pair()
    first = (torch.rand(2), torch.rand(3))
    with ortable.observe(module) as seen:
        module(*first, extra=torch.rand(2, 4))
        module(torch.rand(5), torch.rand(3), extra=torch.rand(5, 4))
    assert [each.places for each in seen.dimensions] == [(("rows[0]", 0), ("extra", 0))]
    program = seen.export()
    call = (torch.rand(7), torch.rand(3))
    extra = torch.rand(7, 4)
    assert torch.allclose(program(*call, extra=extra), module(*call, extra=extra))


def test_a_call_by_place_and_one_by_name_with_a_default_spelled_out() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    seen = observed(Mix(), (x, y), {"y": torch.rand(4, 7), "x": torch.rand(4, 3), "mask": None})
    assert names(seen) == {"batch": (2, 4)}
    assert "mask   None, constant, the same in every call" in str(seen)
    assert "flag" not in str(seen)


def test_the_hook_goes_and_arguments_are_kept_as_they_came() -> None:
    module, x = Written(), torch.ones(3)
    with pytest.raises(RuntimeError, match="of the block"), ortable.observe(module) as seen:
        module(x)
        module(torch.ones(5))
        raise RuntimeError("of the block")
    module(torch.ones(7))
    assert seen.calls == 2
    assert torch.equal(seen.example[0][0], torch.ones(3)) and torch.equal(x, 2 * torch.ones(3))
    with seen:
        module(torch.ones(9))
    assert names(seen) == {"batch": (3, 5, 9)}


def test_tensors_of_the_first_calls_of_each_structure_are_kept() -> None:
    calls = [(torch.rand(size, 3), torch.rand(size, 4)) for size in (2, 3, 4, 5)]
    seen = observed(Mix(), *calls, calls[0], keep=2)
    assert names(seen) == {"batch": (2, 3, 4, 5, 2)}
    program = seen.export()
    assert seen.proof is not None
    observed_ones = [trial.sizes for trial in seen.proof.trials if trial.observed]
    assert observed_ones == ["call 1", "call 2"]
    assert program(*calls[3]).shape == (5,)


def test_the_example_has_no_size_of_one_where_that_may_vary() -> None:
    module = Mix()
    seen = observed(
        module, (torch.rand(1, 3), torch.rand(1, 7)), (torch.rand(5, 3), torch.rand(5, 1))
    )
    (x, y), _ = seen.example
    assert (tuple(x.shape), tuple(y.shape)) in (((1, 3), (1, 7)), ((5, 3), (5, 7)))
    assert min(*x.shape, *y.shape) > 1
    program = seen.export()
    assert program(torch.rand(1, 3), torch.rand(1, 1)).shape == (1,)


def test_dynamic_shapes_are_those_of_torch_export() -> None:
    module = Lookup()
    seen = observed(module, lookup(2, 3, 4), lookup(5, 6, 7))
    assert repr(seen.dynamic_shapes["input_ids"]) == "{0: 'batch', 1: 'sequence'}"
    args, kwargs = seen.example
    exported = torch.export.export(module, args, kwargs, dynamic_shapes=seen.dynamic_shapes)
    call = lookup(5, 2, 6)
    assert torch.equal(exported.module()(**call), module(**call))


# -- exports and their proofs


def test_an_export_is_proven_at_sizes_nobody_ran() -> None:
    seen = observed(
        Mix(), (torch.rand(2, 3), torch.rand(2, 7)), (torch.rand(5, 3), torch.rand(5, 4))
    )
    seen.export()
    proof = seen.proof
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
            self.register_buffer("places", torch.arange(20.0))

        def forward(self, x):
            return x + self.places[: x.shape[1]]

    seen = observed(Positions(), (torch.rand(2, 3),), (torch.rand(2, 7),))
    with pytest.warns(UserWarning, match="sequence <= 20"):
        program = seen.export()
    assert seen.proof is not None
    (largest,) = (trial for trial in seen.proof.trials if "maximum" in trial.sizes)
    assert (largest.sizes, largest.outcome) == ("sequence=20 (maximum)", "right")
    (largest,) = (
        trial
        for trial in seen.prove(program, maximum={"sequence": 21}).trials
        if "maximum" in trial.sizes
    )
    assert (largest.sizes, largest.outcome) == ("sequence=21 (maximum)", "undefined")
    assert "RuntimeError" in largest.reason
    with pytest.raises(OptionError, match=r"'length', but the dimensions are \['sequence'\]"):
        seen.prove(program, maximum={"length": 3})


def test_an_integer_that_varies_is_an_input() -> None:
    module = Repeat()
    seen = observed(module, (torch.rand(2, 3), 4), (torch.rand(2, 3), 2))
    assert names(seen) == {"count": (4, 2)}
    program = seen.export()
    assert program.input_names == ["x", "count"]
    x = torch.rand(2, 3)
    assert torch.equal(program(x, 9), module(x, 9))


def test_what_is_written_is_compared_and_put_back() -> None:
    module = Written()
    seen = observed(module, (torch.ones(3),), (torch.ones(5),))
    seen.export()
    assert module.calls == 2  # neither the export nor the proof counts
    assert seen.proof is not None and seen.proof.ok


def test_a_condition_on_a_size_refuses_with_its_line() -> None:
    seen = observed(Even(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    with pytest.warns(UserWarning, match="batch % 2 == 0"):
        seen.export()
    assert seen.proof is not None and seen.proof.ok
    refused = {trial.sizes: trial.reason for trial in seen.proof.of("refused")}
    assert list(refused) == ["batch=1", "batch=3", "batch=5", "batch=7"]
    assert "batch % 2 == 0 (test_observe.py:" in refused["batch=3"]


def test_an_observed_call_that_the_graph_refuses_is_an_error() -> None:
    seen = observed(Even(), (torch.rand(4, 2),), (torch.rand(7, 2),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ExportError, match="refuses an observed call") as raised:
            seen.export()
        assert "test_observe.py:" in str(raised.value) and "batch=7" in str(raised.value)
        program = seen.export(prove=False)
    assert program(torch.ones(2, 2)).sum() == 8


def test_a_dimension_that_the_model_fixes_is_named_with_its_line() -> None:
    seen = observed(Unrolled(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(ExportError) as raised:
        seen.export()
    text = str(raised.value)
    assert "dimension 1 (sequence)" in text and "for index in range(x.shape[1]):" in text


def test_a_graph_that_would_be_wrong_at_one_row_refuses_it_with_its_line() -> None:
    seen = observed(Alone(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    seen.export()
    assert seen.proof is not None and seen.proof.ok
    (refused,) = seen.proof.of("refused")[-1:]
    assert refused.sizes == "batch=1" and "at 1 the module does something else" in refused.reason


def test_a_graph_that_is_wrong_at_one_row_is_an_error(monkeypatch) -> None:
    """An export proves small sizes by itself; here it does not."""
    monkeypatch.setattr(sources, "prove_small_sizes", lambda *_: None)
    seen = observed(Alone(), (torch.rand(4, 2),), (torch.rand(6, 2),))
    with pytest.raises(ExportError, match="differs from eager") as raised:
        seen.export()
    assert "batch=1" in str(raised.value) and "differs" in str(raised.value)
    report = seen.prove(seen.export(prove=False))
    assert [trial.sizes for trial in report.failures] == ["batch=1"] and not report


def test_what_ends_the_process_on_empty_tensors_ends_another_one(monkeypatch) -> None:
    """ONNX Runtime's LSTM aborts on a batch of 0, which is padded and refused; here it is not."""
    monkeypatch.setattr(calling_convention, "CRASHES_ON_EMPTY", frozenset())
    monkeypatch.setattr(recurrent, "_pad_empty_batch", lambda graph, batch, tensors: tensors)
    module = torch.nn.LSTM(4, 3, batch_first=True).eval()
    seen = observed(module, (torch.rand(2, 5, 4),), (torch.rand(3, 5, 4),))
    with pytest.warns(UserWarning, match="batch=0: .*ends the process"):
        program = seen.export()
    assert seen.proof is not None
    (failed,) = seen.proof.of("fails")
    assert failed.empty and failed.sizes == "batch=0"
    seen.proof.check(empty=False)
    with pytest.raises(ExportError, match="batch=0"):
        seen.proof.check()
    with pytest.raises(InputError, match="takes 1 or more"):
        program(torch.rand(0, 5, 4))


def test_an_empty_call_that_no_file_holds_is_not_tried() -> None:
    calls = [(torch.rand(rows, 3, dtype=torch.bfloat16),) for rows in (2, 5)]
    seen = observed(torch.nn.Linear(3, 2).to(torch.bfloat16), *calls)
    seen.export()
    assert seen.proof is not None and not seen.proof.failures
    (left,) = seen.proof.of("not tried")
    assert (left.sizes, left.reason) == ("batch=0", "numpy's files have no dtype for 'input'")


def test_a_process_apart_says_what_ort_says(tmp_path) -> None:
    program = ortable.export(torch.nn.Linear(3, 2), (torch.rand(2, 3),), dynamic_shapes=({0: "n"},))
    apart = SubprocessRunner(program.save)
    try:
        (name,) = program.input_names
        empty = torch.rand(0, 3).numpy()
        (result,) = apart.run({name: empty})
        assert result.shape == (0, 2) and result.dtype == torch.float32
        with pytest.raises(RuntimeError, match=r"(?i)invalid|got"):
            apart.run({name: torch.rand(2, 4).numpy()})
        (result,) = apart.run({name: empty})
        assert result.shape == (0, 2)
    finally:
        apart.close()


def test_a_model_that_does_not_load_apart_says_nothing_of_a_call() -> None:
    def save(path: str) -> None:
        Path(path).write_bytes(b"no model")

    apart = SubprocessRunner(save)
    try:
        with pytest.raises(SubprocessNotStarted):
            apart.run({})
    finally:
        apart.close()


def test_offsets_of_bags_stay_in_order() -> None:
    module = torch.nn.EmbeddingBag(9, 3, mode="sum")

    def call(batch: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        starts = torch.linspace(0, count - 1, batch).to(torch.int64)
        return torch.randint(0, 9, (count,)), starts

    seen = observed(module, call(3, 8), call(4, 11))
    seen.export()
    assert seen.proof is not None and not seen.proof.failures
    sizes = {trial.sizes: trial.outcome for trial in seen.proof.trials}
    rows = next(each.name for each in seen.dimensions if each.sizes == (3, 4))
    assert sizes[f"{rows}=5"] == sizes[f"{rows}=7"] == "right"


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


def decoding(batch: int, sequence: int, past: int) -> Call:
    layers = [(torch.randn(batch, 1, past, 8), torch.randn(batch, 1, past, 8))]
    return {
        "input_ids": torch.randint(3, 31, (batch, sequence)),
        "attention_mask": torch.ones(batch, past + sequence, dtype=torch.int64),
        "past_key_values": DynamicCache(layers),
    }


def test_a_decoder_with_a_cache_is_one_graph(llama) -> None:
    """No warning: conditions on the mask hold, since it is as long as past and sequence."""
    seen = observed(llama, decoding(2, 3, 4), decoding(1, 5, 7))
    assert list(names(seen)) == ["batch", "sequence", "past + sequence", "past"]
    program = seen.export()
    # as transformers registers its cache with pytree, or its exporters do
    assert program.input_names[-1] in ("past_key_values_value_cache_0", "past_key_values_1")
    assert seen.proof is not None and seen.proof.ok
    outcomes = {trial.sizes: trial.outcome for trial in seen.proof.trials}
    assert outcomes["past=0"] == outcomes["past=1"] == outcomes["sequence=1"] == "right"


def test_generate_is_two_graphs(llama) -> None:
    """The prompt, and every further token."""
    with ortable.observe(llama) as seen, torch.no_grad():
        for batch, length in ((2, 5), (3, 4)):
            prompt = torch.randint(3, 31, (batch, length))
            llama.generate(prompt, max_new_tokens=3, pad_token_id=0)
    with pytest.raises(
        ExportError,
        match=r"cache[^']*' is absent in call 1|past_key_values[^']*' is absent in call 1",
    ):
        seen.export()
    assert "seen.apart()" in repr(seen)
    prompts, tokens = seen.apart()
    assert (prompts.calls, tokens.calls) == (2, 4)
    assert names(prompts) == {"batch": (2, 3), "sequence": (5, 4)}
    assert names(tokens) == {"batch": (2, 2, 3, 3), "past": (5, 6, 4, 5)}
    program = tokens.export()
    assert "past + 1" in repr(program)
    assert tokens.proof is not None and not tokens.proof.failures


# -- torch.compile


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_for_all_sizes_at_once() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    seen = observed(module, (torch.rand(1, 3),), (torch.rand(5, 3),))
    with torch.no_grad():
        compiled = seen.compile()
        assert seen.proof is not None and seen.proof.ok
        assert [trial.sizes for trial in seen.proof.of("refused")] == ["batch=0"]
        assert "compiled again" in seen.proof.of("refused")[0].reason
        with torch.compiler.set_stance("fail_on_recompile"):
            for size in (1, 5, 2, 8):
                x = torch.rand(size, 3)
                assert torch.allclose(compiled(x), module(x), atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_a_cache_is_compiled_with_dynamic_lengths(llama) -> None:
    seen = observed(llama, decoding(2, 3, 4), decoding(3, 5, 7))
    with torch.no_grad():
        compiled = seen.compile(prove=False)
        with torch.compiler.set_stance("fail_on_recompile"):
            call = decoding(4, 2, 9)
            other = {**call, "past_key_values": DynamicCache(layers_of(call["past_key_values"]))}
            found, expected = compiled(**call).logits, llama(**other).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def layers_of(cache: DynamicCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]


@pytest.mark.usefixtures("fresh_dynamo")
def test_models_of_one_class_do_not_share_a_limit_of_recompilations() -> None:
    """Above it dynamo runs what it is given in eager, and says so in a log only."""
    for _ in range(3):
        seen = observed(torch.nn.Linear(3, 2).eval(), (torch.rand(2, 3),), (torch.rand(5, 3),))
        storage: dict[str, Any] = {}
        with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=2):
            seen.compile(options={"storage": storage})
        assert len(storage["instance"]) == 1


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_dimension_that_compiling_fixes_is_named() -> None:
    seen = observed(Unrolled(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(ExportError, match="dimension 1"), torch.no_grad():
        seen.compile()


class Short(torch.nn.Module):
    """Raises an error of its own when it is compiled, of which no dimension is the reason."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            raise ValueError("no compiler, please")
        return x + 1


@pytest.mark.usefixtures("fresh_dynamo")
def test_an_error_of_the_model_itself_is_raised_as_it_is() -> None:
    seen = observed(Short(), (torch.rand(2, 3),), (torch.rand(2, 5),))
    with pytest.raises(Exception, match="no compiler, please") as raised, torch.no_grad():
        seen.compile(fullgraph=True)
    assert not isinstance(raised.value, ExportError)


# -- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": 3.0}, "'scale' is 2.0 in call 1 and 3.0 in call 2: a float is a constant"),
        ({"flag": True}, "'flag' is False in call 1 and True in call 2: it is a constant"),
        ({"mask": torch.ones(5)}, "'mask' is None in call 1 and float32\\[5\\] in call 2"),
        ({"x": torch.ones(5, 3).double()}, "'x' is float32.* and float64.*: a graph has one dtype"),
        ({"y": torch.ones(5, 2, 4)}, "'y' is .*: a graph has one rank"),
    ],
)
def test_calls_of_two_graphs_name_the_argument(change: Call, said: str) -> None:
    first = {"x": torch.rand(2, 3), "y": torch.rand(2, 4)}
    second = {"x": torch.rand(5, 3), "y": torch.rand(5, 4), **change}
    module = torch.nn.Module()
    module.forward = lambda x, y, scale=2.0, flag=False, mask=None: x  # type: ignore[method-assign]
    seen = observed(module, first, second)
    with pytest.raises(ExportError, match=said):
        seen.export()
    assert [each.calls for each in seen.apart()] == [1, 1]


def test_too_few_calls_and_calls_of_one_size() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    with pytest.raises(ExportError, match="saw 0 calls of Mix"):
        observed(Mix()).export()
    seen = observed(Mix(), (x, y))
    assert repr(seen) == "Observation of Mix: 1 calls"
    with pytest.raises(ExportError, match="saw 1 call of Mix"):
        seen.export()
    seen = observed(Mix(), (x, y), (x, y))
    assert "every size is the same" in str(seen)
    with pytest.raises(ExportError, match="have the same sizes"):
        seen.export()


def test_options_that_observe_finds_out_or_does_not_take() -> None:
    x, y = torch.rand(2, 3), torch.rand(2, 7)
    seen = observed(Mix(), (x, y), (torch.rand(4, 3), torch.rand(4, 7)))
    with pytest.raises(OptionError, match="observe determines 'dynamic_shapes'"):
        seen.export(dynamic_shapes={})
    with pytest.raises(OptionError, match="'backend'"):
        seen.compile(backend="eager")
    with pytest.raises(OptionError, match="at least 2"):
        ortable.observe(Mix(), keep=1)
    with pytest.raises(InputError, match=r"a torch.nn.Module, not function"):
        ortable.observe(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"before torch.compile"):
        ortable.observe(torch.compile(Mix(), backend="eager"))
