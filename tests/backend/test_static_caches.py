"""Attention over a static cache becomes one kernel that reads the used part of the cache.

Values, memory and tokens are those of eager for prompts, single tokens, chunks of prompts, masks
with padding, windows and empty rows, and caches with contents. The rules are ort_decode,
ort_decode_grouped for heads that share keys, and ort_decode_flat for transformers' attention by
products; passes/rewrite/helpers/caches.py makes the kernel.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional as F
from transformers import StaticCache

import ortable
from ortable.backend.execute import call
from tests.backend.against_eager import compiled
from tests.exporter.language_models import CACHE, VOCABULARY, build

pytestmark = pytest.mark.alternates(parts=3)

WIDTH, LENGTH, KERNEL = 8, 24, "GroupQueryAttention"
LOWEST = torch.finfo(torch.float32).min


def make_random(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def attend_fused(query, keys, values, new_rows, start, mask):
    """Write new rows at consecutive positions, then compute attention over the cache."""
    positions = torch.arange(new_rows.shape[2]) + start
    keys.index_copy_(2, positions, new_rows)
    values.index_copy_(2, positions, new_rows * 0.5)
    gqa = query.shape[1] != keys.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=gqa)


def attend_by_products(query, keys, values, new_rows, start, mask):
    """Compute attention over the cache by products, with repeated keys and an additive mask."""
    positions = torch.arange(new_rows.shape[2]) + start
    keys.index_copy_(2, positions, new_rows)
    values.index_copy_(2, positions, new_rows * 0.5)
    repeats = query.shape[1] // keys.shape[1]
    k, v = (tensor.repeat_interleave(repeats, dim=1) for tensor in (keys, values))
    scores = query @ k.transpose(2, 3) * 0.3 + torch.where(mask, 0.0, -torch.inf)
    return scores.softmax(-1) @ v


def attend_with_bounded_scores(query, keys, values, new_rows, start, mask):
    """Compute attention over the cache by products, with bounded scores."""
    positions = torch.arange(new_rows.shape[2]) + start
    keys.index_copy_(2, positions, new_rows)
    values.index_copy_(2, positions, new_rows * 0.5)
    repeats = query.shape[1] // keys.shape[1]
    k, v = (tensor.repeat_interleave(repeats, dim=1) for tensor in (keys, values))
    scores = torch.tanh(query @ k.transpose(2, 3) * 0.3 / 2.5) * 2.5
    return (scores + torch.where(mask, 0.0, LOWEST)).softmax(-1) @ v


def make_args(batch: int, heads: int, groups: int, tokens: int, start: int, length: int = LENGTH):
    """Return arguments of a step; positions of the cache after the text have values, too."""
    mask = torch.arange(length) <= torch.arange(tokens)[:, None] + start
    return (
        make_random(batch, heads, tokens, WIDTH, seed=1),
        make_random(batch, groups, length, WIDTH, seed=2),
        make_random(batch, groups, length, WIDTH, seed=3),
        make_random(batch, groups, tokens, WIDTH, seed=4),
        torch.tensor(start),
        mask[None, None],
    )


def count_kernels(function, args, **options) -> int:
    """Compare results and caches of three calls with eager; return the number of kernels."""
    storage: dict = {}
    fn = compiled(function, storage=storage, **options)
    compiled_args, eager_args = [[tensor.clone() for tensor in args] for _ in range(2)]
    with torch.no_grad():
        for _ in range(3):
            result, expected = fn(*compiled_args), function(*eager_args)
            assert result.dtype == expected.dtype and result.shape == expected.shape
            torch.testing.assert_close(result, expected, equal_nan=True)
            assert all(torch.equal(a, b) for a, b in zip(compiled_args, eager_args, strict=True))
            compiled_args[4] += compiled_args[3].shape[2]
            eager_args[4] += compiled_args[3].shape[2]
            if int(compiled_args[4]) + compiled_args[3].shape[2] > compiled_args[1].shape[2]:
                break
    return count_rewrites(storage["instance"][0])


def count_rewrites(record) -> int:
    """Return how many times attention over a cache was rewritten to the kernel."""
    return sum(count for name, count in record.rewrites.items() if name.startswith("ort_decode"))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("function", [attend_fused, attend_by_products])
def test_a_token(function, batch, groups) -> None:
    """The step writes at the first positions or at the last ones."""
    assert count_kernels(function, make_args(batch, 4, groups, 1, 0)) == 1
    assert count_kernels(function, make_args(batch, 4, groups, 1, LENGTH - 2)) == 1


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("groups", [4, 1])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 2), (1, 7), (2, 7)])
@pytest.mark.parametrize("function", [attend_fused, attend_by_products])
def test_several_tokens(function, batch, tokens, groups) -> None:
    """Prompts and chunks of prompts may fill the cache."""
    assert count_kernels(function, make_args(batch, 4, groups, tokens, 0)) == 1
    assert count_kernels(function, make_args(batch, 4, groups, tokens, LENGTH - tokens)) == 1


@pytest.mark.parametrize(("batch", "tokens"), [(2, 1), (1, 3)])
def test_bounded_scores(batch, tokens) -> None:
    """The lowest number masks positions; with all positions masked a query yields the mean."""
    args = make_args(batch, 4, 2, tokens, 5)
    assert count_kernels(attend_with_bounded_scores, args) == 1
    mask = args[-1].repeat(1, 1, 1, 1)
    mask[:, :, 0] = False
    assert count_kernels(attend_with_bounded_scores, (*args[:-1], mask)) == 1


def test_the_lowest_number_beside_scores_without_a_bound() -> None:
    """Scores may reach the lowest number."""

    def attend_with_bias(query, keys, values, new_rows, start, bias):
        return attend_fused(query, keys, values, new_rows, start, bias)

    args = make_args(1, 4, 2, 1, 3)
    bias = torch.where(args[-1], 0.0, LOWEST)
    scaled_args = [args[0] * 1e38, *args[1:3], args[3]]
    assert count_kernels(attend_with_bias, (*scaled_args, args[4], bias)) == 1


def test_more_tokens_than_are_worth_it() -> None:
    assert count_kernels(attend_fused, make_args(1, 4, 2, 13, 0)) == 0


@pytest.mark.parametrize("function", [attend_fused, attend_by_products])
@pytest.mark.parametrize("groups", [4, 2])
def test_masks_of_each_text(function, groups) -> None:
    """Texts have padding on the left, a window, an empty mask, or a mask for each head."""
    args = make_args(4, 4, groups, 1, 9)
    mask = args[-1].repeat(4, 4, 1, 1)
    mask[0, ..., :4] = False
    mask[1, ..., :8] = False
    mask[2] = False
    mask[3, 1, :, 2:5] = False
    assert count_kernels(function, (*args[:-1], mask)) == 1
    assert count_kernels(function, (*args[:-1], mask[:, :1].contiguous())) == 1
    mask[:] = False
    assert count_kernels(function, (*args[:-1], mask)) == 1


def test_a_mask_that_shows_later_places() -> None:
    """The mask decides which positions are read, not the position that is written."""
    args = make_args(2, 4, 2, 1, 2)
    mask = torch.zeros(2, 1, 1, LENGTH, dtype=torch.bool)
    mask[0, ..., 1] = mask[1, ..., -1] = True
    assert count_kernels(attend_fused, (*args[:-1], mask)) == 1


def test_numbers_are_added() -> None:
    def attend_with_bias(query, keys, values, new_rows, start, bias):
        return attend_fused(query, keys, values, new_rows, start, bias)

    args = make_args(2, 4, 2, 1, 6)
    bias = torch.where(args[-1], make_random(2, 4, 1, LENGTH, seed=5), -torch.inf)
    assert count_kernels(attend_with_bias, (*args[:-1], bias)) == 1


@pytest.mark.parametrize(("width", "dtype"), [(12, torch.float32), (8, torch.float64)])
def test_what_the_kernel_does_not_take(width, dtype) -> None:
    args = make_args(1, 4, 2, 1, 3)
    converted_args = [tensor.repeat(1, 1, 1, 2)[..., :width].to(dtype) for tensor in args[:4]]
    assert count_kernels(attend_fused, (*converted_args, *args[4:])) == 0


def test_half_is_left_to_the_operators() -> None:
    args = make_args(1, 4, 2, 1, 3)
    half_args = [tensor.half() for tensor in args[:4]]
    assert count_kernels(attend_fused, (*half_args, *args[4:])) == 0


def test_garbage_behind_the_text_is_not_read() -> None:
    """Eager multiplies these values, here NaN, by 0."""
    args = list(make_args(1, 4, 2, 1, 3))
    clean_args = [tensor.clone() for tensor in args]
    for cache in args[1:3]:
        cache[:, :, 10:] = torch.nan
    with torch.no_grad():
        result = compiled(attend_fused)(*args)
        torch.testing.assert_close(result, attend_fused(*clean_args))


def test_an_export_returns_the_whole_cache() -> None:
    """Sessions that allocate their results copy the whole cache for the next step."""

    class Step(torch.nn.Module):
        def forward(self, query, keys, values, fresh, start, mask):
            return attend_fused(query, keys, values, fresh, start, mask)

    args = make_args(2, 4, 2, 1, 3)
    model = ortable.to_onnx(Step(), tuple(tensor.clone() for tensor in args), target="onnxruntime")
    assert KERNEL in [node.op_type for node in model.graph.node]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    input_names = [value.name for value in session.get_inputs()]
    result_names = [value.name for value in session.get_outputs()]
    eager_args = [tensor.clone() for tensor in args]
    inputs = dict(zip(input_names, (tensor.clone().numpy() for tensor in args), strict=True))
    for _ in range(3):
        results = dict(zip(result_names, session.run(None, inputs), strict=True))
        expected = attend_fused(*eager_args)
        torch.testing.assert_close(torch.from_numpy(results[result_names[0]]), expected)
        for index, name in ((1, "keys"), (2, "values")):
            assert np.array_equal(results[f"{name}_mutated"], eager_args[index].numpy())
            inputs[name] = results[f"{name}_mutated"]
        eager_args[4] += 1
        inputs["start"] = eager_args[4].clone().numpy()


def generate(model, mask, ids, count=6):
    torch.manual_seed(0)
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=count, do_sample=False,
        cache_implementation="static", disable_compile=True,
    )  # fmt: skip


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_tokens_of_generate(name) -> None:
    """In graphs of generate the mask is an input that masks the padding of a prompt."""
    model = build(name)
    model.generation_config.pad_token_id = 0
    ids = torch.randint(3, VOCABULARY, (2, 5), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    expected = generate(model, mask, ids)
    storage: dict = {}
    torch._dynamo.reset()
    model.forward = torch.compile(model.forward, backend="ortable", options={"storage": storage})
    cache_counts = []
    with pytest.MonkeyPatch.context() as patch:
        original = call.in_place_runner

        def record_caches(session, sources):
            cache_counts.append(len(sources))
            return original(session, sources)

        patch.setattr(call, "in_place_runner", record_caches)
        assert torch.equal(generate(model, mask, ids), expected)
    layers = model.config.num_hidden_layers
    assert count_rewrites(storage["instance"][-1]) == layers
    assert cache_counts == [2 * layers]  # keys and values are updated in place


def test_a_model_takes_pieces_of_a_text() -> None:
    """A text that is passed in chunks has the logits and the cache of eager."""
    chunks = (3, 4, 1)
    model = build("llama")
    fn = torch.compile(model.forward, backend="ortable", dynamic=False)
    cache, eager_cache = (StaticCache(config=model.config, max_cache_len=40) for _ in range(2))
    ids = torch.randint(3, VOCABULARY, (1, sum(chunks)), generator=torch.Generator().manual_seed(1))
    start = 0
    with torch.no_grad():
        for tokens in chunks:
            chunk = ids[:, start : start + tokens]
            logits = fn(chunk, use_cache=True, **{CACHE: cache}).logits
            expected = model(chunk, use_cache=True, **{CACHE: eager_cache}).logits
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)
            start += tokens
        expected_logits = model(ids).logits
    torch.testing.assert_close(logits, expected_logits[:, -chunks[-1] :], atol=1e-5, rtol=1e-4)
    for layer, expected_layer in zip(cache.layers, eager_cache.layers, strict=True):
        torch.testing.assert_close(layer.keys, expected_layer.keys, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(layer.values, expected_layer.values, atol=1e-5, rtol=1e-4)
