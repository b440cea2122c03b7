"""Names of cache tensors and of sums of dimensions, in optimum's spelling."""

from __future__ import annotations

import copy

import onnxruntime
import pytest
import torch
import transformers

from ortable import to_onnx
from ortable.errors import ExportError
from ortable.exporter.signature.outputs import order_cache_names

from .helpers import assert_same

KEYS = ["past_key_cache_0", "past_key_cache_1"]
VALUES = ["past_value_cache_0", "past_value_cache_1"]
LAYERED = ["past.0.key", "past.0.value", "past.1.key", "past.1.value"]
PAIR = [
    f"past_{part}_attention_cache_{kind}_cache_{layer}"
    for part in ("self", "cross")
    for kind in ("key", "value")
    for layer in (0, 1)
]


@pytest.mark.parametrize(
    ("defaults", "chosen", "expected"),
    [
        (KEYS + VALUES, LAYERED, ["past.0.key", "past.1.key", "past.0.value", "past.1.value"]),
        (["ids", *KEYS, *VALUES], ["x", "k_0", "v_0", "k_1", "v_1"],
         ["x", "k_0", "k_1", "v_0", "v_1"]),
        (KEYS + VALUES, ["past_key_values_0_keys", "past_key_values_1_keys",
                         "past_key_values_0_values", "past_key_values_1_values"], None),
        (KEYS + VALUES, ["a", "b", "c", "d"], None),
        (["keys_0", "values_0"], ["layer0_value", "layer0_key"], ["layer0_key", "layer0_value"]),
        (PAIR, [f"past.{layer}.{part}.{kind}" for layer in (0, 1)
                for part in ("decoder", "encoder") for kind in ("key", "value")],
         [f"past.{layer}.{part}.{kind}" for part in ("decoder", "encoder")
          for kind in ("key", "value") for layer in (0, 1)]),
        (["x", "key_padding_mask"], ["value_1", "y"], None),
        (["k1", "k2"], ["k2", "k1"], None),
        (["key_1", "value_1"], ["value_1", "other"], None),
    ],
    ids=["layers", "short", "torchs order", "meaningless", "static", "pair", "no cache",
         "own names", "own names, others"],
)  # fmt: skip
def test_names_go_to_the_tensors_that_they_mean(defaults, chosen, expected) -> None:
    assert order_cache_names("input_names", defaults, chosen) == (expected or chosen)


@pytest.mark.parametrize(
    "chosen",
    [
        [*LAYERED[:3], "other"],
        ["past.1.key", "past.1.value", "past.2.key", "past.2.value"],
        ["past.0.key", "past.0.key", "past.1.value", "past.1.value"],
    ],
)
def test_names_that_mean_other_tensors_are_refused(chosen) -> None:
    message = rf"'{chosen[1]}' for past_key_cache_1 \(the keys of layer 1\)[\s\S]*Give a dict"
    with pytest.raises(ExportError, match=message):
        order_cache_names("input_names", KEYS + VALUES, chosen)


def test_names_for_a_forward_of_keys_stay_in_its_order() -> None:
    class Keys(torch.nn.Module):
        def forward(self, k1, k2):
            return k1 - 2 * k2

    args = (torch.rand(3), torch.rand(3))
    for names in (["k2", "k1"], ["v1", "k2"], ["key_0", "k_9"]):
        model = to_onnx(Keys(), args, input_names=names)
        assert [value.name for value in model.graph.input] == names
        assert_same(model, Keys(), args)


def test_a_decoder_with_the_names_of_optimum() -> None:
    config = transformers.LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    module = transformers.LlamaForCausalLM(config).eval()
    cache = transformers.DynamicCache(config=config)
    for layer in range(2):
        cache.update(torch.rand(2, 1, 5, 8), torch.rand(2, 1, 5, 8), layer)
    call = {
        "input_ids": torch.randint(1, 30, (2, 3)),
        "attention_mask": torch.ones(2, 8, dtype=torch.int64),
        "past_key_values": cache,
    }
    names = [f"{{}}.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    past_names = [name.format("past_key_values") for name in names]
    model = to_onnx(
        module,
        kwargs=call,
        input_names=["input_ids", "attention_mask", *past_names],
        output_names=["logits", *(name.format("present") for name in names)],
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "past + sequence"},
            "past_key_values": {0: "batch", 2: "past"},
        },
        output_dynamic_shapes={"present.0.key": {2: "past + sequence"}},
    )
    mask = next(value for value in model.graph.input if value.name == "attention_mask")
    assert mask.type.tensor_type.shape.dim[1].dim_param == "past + sequence"

    feeds = {"input_ids": call["input_ids"], "attention_mask": call["attention_mask"]}
    for number, layer in enumerate(cache.layers):
        feeds[f"past_key_values.{number}.key"] = layer.keys
        feeds[f"past_key_values.{number}.value"] = layer.values
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs = [value.name for value in session.get_outputs()]
    values = session.run(None, {name: value.numpy() for name, value in feeds.items()})
    results = {name: torch.as_tensor(value) for name, value in zip(outputs, values, strict=True)}
    with torch.no_grad():
        expected = module(**copy.deepcopy(call))
    torch.testing.assert_close(results["logits"], expected.logits, rtol=1e-4, atol=1e-4)
    for number, layer in enumerate(expected.past_key_values.layers):
        torch.testing.assert_close(
            results[f"present.{number}.key"], layer.keys, rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(results[f"present.{number}.value"], layer.values)


class Masked(torch.nn.Module):
    def forward(self, new, past, mask):
        joined = torch.cat([past, new], dim=1)
        return joined * mask, torch.cat([mask, mask], dim=1)


CALL = (torch.rand(2, 3), torch.rand(2, 5), torch.rand(2, 8))


def shapes(total: str, past: str = "past") -> dict:
    return {"new": {1: "new"}, "past": {1: past}, "mask": {1: total}}


def dims_of(values) -> list:
    return [value.type.tensor_type.shape.dim[1].dim_param for value in values]


def test_a_dimension_is_named_after_the_sum_that_it_is(recwarn) -> None:
    model = to_onnx(Masked(), CALL, dynamic_shapes=shapes("new + past"), validate=True)
    assert dims_of(model.graph.input) == ["new", "past", "new + past"]
    assert dims_of(model.graph.output)[0] == "new + past"
    assert [str(w.message) for w in recwarn if "names of dynamic_shapes" in str(w.message)] == []
    assert_same(model, Masked(), (torch.rand(2, 4), torch.rand(2, 3), torch.rand(2, 7)))


def test_a_sum_that_torch_does_not_need_is_kept_as_a_name() -> None:
    class Separate(torch.nn.Module):
        def forward(self, new, past, mask):
            return new + 1, past + 1, torch.cat([mask, mask], dim=1)

    model = to_onnx(Separate(), CALL, dynamic_shapes=shapes("past+new"), validate=True)
    assert dims_of(model.graph.input) == ["new", "past", "new + past"]
    assert dims_of(model.graph.output) == ["new", "past", "2*new + 2*past"]


@pytest.mark.parametrize(
    ("total", "message"),
    [
        ("past + 2*new", r"named '2\*new \+ past', which is 11 in args, but its size is 8"),
        ("other + new", "no dimension is named 'other'"),
        ("past new", "neither an identifier nor an expression"),
        ("past + new.x", "neither an identifier"),
        ("past + ", "neither an identifier"),
        ("past // (new - 3)", r"'mask'.* named .past//\(new - 3\)., which has no size in args"),
    ],
)
def test_a_sum_that_does_not_hold_is_refused(total, message) -> None:
    with pytest.raises(ExportError, match=message):
        to_onnx(Masked(), CALL, dynamic_shapes=shapes(total))


def test_an_output_is_not_named_after_another_sum() -> None:
    options = {"dynamic_shapes": shapes("new + past")}
    with pytest.raises(ExportError, match=r"is 'new \+ past', it cannot be named 'new \+ 1'"):
        to_onnx(Masked(), CALL, output_dynamic_shapes={"output_0": {1: "new + 1"}}, **options)
