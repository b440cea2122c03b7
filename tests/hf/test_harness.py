"""The harness of `make hf`: small configurations, inputs, comparison and exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from ortable.compat.torch import pytree, unregister_pytree
from tests.suites.expected import Expectations, judge
from tests.suites.workers import Record

from . import check, inputs, models, shrink
from .__main__ import cases, counts, exceptions


@pytest.fixture(autouse=True)
def unregister_caches() -> Iterator[None]:
    """Remove registrations of caches in pytree, which transformers' exporters make."""
    for cls in [cls for cls in pytree.SUPPORTED_NODES if cls.__name__.endswith("Cache")]:
        unregister_pytree(cls)
    yield
    for cls in [cls for cls in pytree.SUPPORTED_NODES if cls.__name__.endswith("Cache")]:
        unregister_pytree(cls)


def test_sizes_are_bounded_and_tokens_are_told_apart() -> None:
    config = shrink.small_config(transformers.LlavaConfig)
    assert config.text_config.hidden_size == 64 and config.text_config.num_hidden_layers == 2
    assert config.vision_config.image_size == 32 and config.vision_config.patch_size == 8
    assert config.image_token_id == 5
    sizes = sum(p.numel() for p in transformers.LlamaModel(config.text_config).parameters())
    assert sizes < 1e6


def test_a_list_is_bounded_number_by_number_or_replaced() -> None:
    assert shrink.smaller("hidden_sizes_of_x", (9, 3)) == (9, 3)
    assert shrink.smaller("num_attention_heads", (1, 8, 16)) == [1, 4, 4]
    assert shrink.smaller("depths", (3, 4, 6)) == [1, 1, 1]
    assert shrink.smaller("hidden_size", None) is None


def test_there_is_a_layer_of_each_kind() -> None:
    config = shrink.small_config(transformers.Gemma3TextConfig)
    assert config.layer_types == ["sliding_attention", "full_attention"]


def test_overrides_reach_into_parts() -> None:
    assert shrink.merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}


def test_a_class_has_sizes_of_its_own_and_the_part_it_is_made_from() -> None:
    decoder = shrink.small_config(transformers.BertConfig, "bert", "BertLMHeadModel")
    assert decoder.is_decoder and not shrink.small_config(transformers.BertConfig).is_decoder
    part = models.build("qwen3_5/Qwen3_5ForCausalLM").config
    assert isinstance(part, transformers.Qwen3_5TextConfig) and part.hidden_size == 64


def test_a_backbone_reads_the_maps_of_the_layers_that_it_has() -> None:
    backbone = shrink.small_config(transformers.RfDetrConfig).backbone_config
    assert backbone.num_hidden_layers == 4
    assert backbone.out_features == ["stage1", "stage2", "stage3", "stage4"]


def test_tokens_stand_before_random_ones() -> None:
    fields = inputs.Fields(shrink.small_config(transformers.BertConfig), inputs.Sizes())
    tokens = inputs.value("led[B, S + 2] 5 2", fields, torch.Generator())
    assert tokens.shape == (2, 9) and bool((tokens[:, :2] == 5).all())
    assert bool((tokens[:, 2:] >= inputs.FIRST_ID).all())


@pytest.mark.parametrize(
    ("case", "cache"),
    [("mamba/MambaForCausalLM", "cache_params"), ("xlnet/XLNetLMHeadModel", "mems")],
)
def test_a_step_takes_the_state_that_the_prompt_has_left(case: str, cache: str) -> None:
    model = models.build(case)
    step = check.decode_call(model, check.PROMPT)
    assert set(step) == {"input_ids", cache} and step["input_ids"].shape == (2, 1)
    assert "logits" in check.eager(model, step)


@pytest.mark.parametrize(
    ("spec", "shape", "dtype"),
    [
        ("float[B, hidden_size, S + 1]", (2, 64, 8), torch.float32),
        ("ids[B, D]", (2, 5), torch.int64),
        ("ones[B]", (2,), torch.int64),
        ("bool[S]", (7,), torch.bool),
        ("tensor [[1, 4, 4]] * B", (2, 3), torch.int64),
    ],
)
def test_inputs_are_described_by_sizes(spec: str, shape: tuple[int, ...], dtype: object) -> None:
    fields = inputs.Fields(shrink.small_config(transformers.BertConfig), inputs.Sizes())
    tensor = inputs.value(spec, fields, torch.Generator())
    assert (tuple(tensor.shape), tensor.dtype) == (shape, dtype)
    assert inputs.value("= True", fields, torch.Generator()) is True
    with pytest.raises(ValueError, match="no way to make"):
        inputs.value("something", fields, torch.Generator())


def test_what_differs_is_told() -> None:
    results = {"x": torch.tensor([1.0, 2.0])}
    assert check.differing(results, {"x": torch.tensor([1.0, 2.0001])}) == ""
    assert "1 of 2 differ" in check.differing(results, {"x": torch.tensor([1.0, 2.1])})
    assert "torch.float32 [2]" in check.differing(results, {"x": torch.tensor([1, 2])})
    assert "returns ['x']" in check.differing(results, {"y": torch.tensor([1.0, 2.0])})
    cache = torch.arange(24.0).reshape(1, 1, 6, 4)
    assert check.differing({"keys": cache}, {"keys": cache[:, :, 2:]}) == ""


@pytest.mark.parametrize(
    "case", ["fnet/FNetModel/static", "vit/ViTModel/dynamic", "gpt2/GPT2LMHeadModel/decode"]
)
def test_a_class_is_built_exported_and_compared(case: str) -> None:
    record = check.check_case(case)
    assert (record.outcome, record.detail) == ("exact", "")


def test_a_class_that_cannot_be_built_is_no_fault() -> None:
    record = check.check_case("bert/NoSuchModel/static")
    assert record.outcome == "unrunnable" and "NoSuchModel" in record.detail


def test_the_cases_and_their_exceptions_fit() -> None:
    all_cases = cases()
    assert len(all_cases) > 1300
    assert "llama/LlamaForCausalLM/decode" in all_cases and "vit/ViTModel/dynamic" in all_cases
    assert set(exceptions().listed) <= set(all_cases)


def test_the_list_of_exceptions_only_shrinks() -> None:
    case = "bert/BertModel/static"
    passed = [Record(case, "exact")]
    (line,) = judge(passed, [case], [case], Expectations({case: "fault"}, {}), counts(passed))
    assert "fault expected, exact" in line
    failed = [Record(case, "fault", detail="wrong")]
    (line,) = judge(failed, [case], [case], Expectations({}, {}), counts(failed))
    assert "exact expected, fault: wrong" in line


def test_an_exception_has_a_reason_and_one_class(tmp_path: Path) -> None:
    path = tmp_path / "exceptions.yaml"
    path.write_text("exceptions:\n- {outcome: fault, cases: [bert/BertModel]}\n")
    with pytest.raises(ValueError, match="needs outcome, reason and cases"):
        exceptions(path)
    path.write_text("exceptions:\n- {outcome: fault, reason: x, cases: [bert/Nobody]}\n")
    with pytest.raises(ValueError, match="no such class"):
        exceptions(path)
    path.write_text("exceptions:\n- {outcome: fault, reason: x, cases: [bert/BertModel]}\n")
    assert set(exceptions(path).listed) == {"bert/BertModel/static", "bert/BertModel/dynamic"}


def test_a_model_has_no_constant_weights() -> None:
    model = models.build("bert/BertModel")
    assert all(p.std() > 0 for p in model.parameters() if p.numel() > 1)
