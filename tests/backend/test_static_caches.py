"""Steps over a static cache: one kernel reads what is in use of it, and values, memory and tokens
are those of eager. In come prompts, single tokens and pieces, masks with padding, windows and rows
that see nothing, and caches that hold something already. The rules are ort_decode,
ort_decode_grouped for heads that share keys, and ort_decode_flat for attention that transformers
writes out; passes/rewrite/helpers/caches.py makes the kernel."""

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

WIDTH, PLACES, KERNEL = 8, 24, "GroupQueryAttention"
LOWEST = torch.finfo(torch.float32).min


def drawn(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def step(query, keys, values, fresh, start, mask):
    """Attention after new rows were written at consecutive places."""
    places = torch.arange(fresh.shape[2]) + start
    keys.index_copy_(2, places, fresh)
    values.index_copy_(2, places, fresh * 0.5)
    shared = query.shape[1] != keys.shape[1]
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=shared)


def repeated(query, keys, values, fresh, start, mask):
    """The same by products, with keys repeated for each of their heads and a mask of numbers."""
    places = torch.arange(fresh.shape[2]) + start
    keys.index_copy_(2, places, fresh)
    values.index_copy_(2, places, fresh * 0.5)
    times = query.shape[1] // keys.shape[1]
    k, v = (each.repeat_interleave(times, dim=1) for each in (keys, values))
    scores = query @ k.transpose(2, 3) * 0.3 + torch.where(mask, 0.0, -torch.inf)
    return scores.softmax(-1) @ v


def bounded(query, keys, values, fresh, start, mask):
    """The same with bounded scores."""
    places = torch.arange(fresh.shape[2]) + start
    keys.index_copy_(2, places, fresh)
    values.index_copy_(2, places, fresh * 0.5)
    times = query.shape[1] // keys.shape[1]
    k, v = (each.repeat_interleave(times, dim=1) for each in (keys, values))
    scores = torch.tanh(query @ k.transpose(2, 3) * 0.3 / 2.5) * 2.5
    return (scores + torch.where(mask, 0.0, LOWEST)).softmax(-1) @ v


def arguments(batch: int, heads: int, groups: int, count: int, start: int, places: int = PLACES):
    """What both take; the cache is full of numbers, behind the text as well."""
    mask = torch.arange(places) <= torch.arange(count)[:, None] + start
    return (
        drawn(batch, heads, count, WIDTH, seed=1),
        drawn(batch, groups, places, WIDTH, seed=2),
        drawn(batch, groups, places, WIDTH, seed=3),
        drawn(batch, groups, count, WIDTH, seed=4),
        torch.tensor(start),
        mask[None, None],
    )


def checked(function, args, **options) -> int:
    """Compares three calls with eager, the cache too; the number of kernels in the graph."""
    storage: dict = {}
    fn = compiled(function, storage=storage, **options)
    ours, theirs = [[each.clone() for each in args] for _ in range(2)]
    with torch.no_grad():
        for _ in range(3):
            found, wanted = fn(*ours), function(*theirs)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            torch.testing.assert_close(found, wanted, equal_nan=True)
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
            ours[4] += ours[3].shape[2]
            theirs[4] += ours[3].shape[2]
            if int(ours[4]) + ours[3].shape[2] > ours[1].shape[2]:
                break
    return fired(storage["instance"][0])


def fired(record) -> int:
    """How often attention over a cache became the kernel."""
    return sum(count for name, count in record.rewrites.items() if name.startswith("ort_decode"))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("function", [step, repeated])
def test_a_token(function, batch, groups) -> None:
    """At the first places and at the last."""
    assert checked(function, arguments(batch, 4, groups, 1, 0)) == 1
    assert checked(function, arguments(batch, 4, groups, 1, PLACES - 2)) == 1


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("groups", [4, 1])
@pytest.mark.parametrize(("batch", "count"), [(1, 2), (1, 7), (2, 7)])
@pytest.mark.parametrize("function", [step, repeated])
def test_several_tokens(function, batch, count, groups) -> None:
    """Prompts and pieces of texts, to the last places."""
    assert checked(function, arguments(batch, 4, groups, count, 0)) == 1
    assert checked(function, arguments(batch, 4, groups, count, PLACES - count)) == 1


@pytest.mark.parametrize(("batch", "count"), [(2, 1), (1, 3)])
def test_bounded_scores(batch, count) -> None:
    """The lowest number hides places; a query that sees none takes the mean of all."""
    args = arguments(batch, 4, 2, count, 5)
    assert checked(bounded, args) == 1
    mask = args[-1].repeat(1, 1, 1, 1)
    mask[:, :, 0] = False
    assert checked(bounded, (*args[:-1], mask)) == 1


def test_the_lowest_number_beside_scores_without_a_bound() -> None:
    """It might be one of them."""

    def added(query, keys, values, fresh, start, bias):
        return step(query, keys, values, fresh, start, bias)

    args = arguments(1, 4, 2, 1, 3)
    bias = torch.where(args[-1], 0.0, LOWEST)
    low = [args[0] * 1e38, *args[1:3], args[3]]
    assert checked(added, (*low, args[4], bias)) == 1


def test_more_tokens_than_are_worth_it() -> None:
    assert checked(step, arguments(1, 4, 2, 13, 0)) == 0


@pytest.mark.parametrize("function", [step, repeated])
@pytest.mark.parametrize("groups", [4, 2])
def test_masks_of_each_text(function, groups) -> None:
    """Padding on the left, a window, a text that sees nothing, a mask for each head."""
    args = arguments(4, 4, groups, 1, 9)
    mask = args[-1].repeat(4, 4, 1, 1)
    mask[0, ..., :4] = False
    mask[1, ..., :8] = False
    mask[2] = False
    mask[3, 1, :, 2:5] = False
    assert checked(function, (*args[:-1], mask)) == 1
    assert checked(function, (*args[:-1], mask[:, :1].contiguous())) == 1
    mask[:] = False
    assert checked(function, (*args[:-1], mask)) == 1


def test_a_mask_that_shows_later_places() -> None:
    """What is read follows the mask, not the place that is written."""
    args = arguments(2, 4, 2, 1, 2)
    mask = torch.zeros(2, 1, 1, PLACES, dtype=torch.bool)
    mask[0, ..., 1] = mask[1, ..., -1] = True
    assert checked(step, (*args[:-1], mask)) == 1


def test_numbers_are_added() -> None:
    def biased(query, keys, values, fresh, start, bias):
        return step(query, keys, values, fresh, start, bias)

    args = arguments(2, 4, 2, 1, 6)
    bias = torch.where(args[-1], drawn(2, 4, 1, PLACES, seed=5), -torch.inf)
    assert checked(biased, (*args[:-1], bias)) == 1


@pytest.mark.parametrize(("width", "dtype"), [(12, torch.float32), (8, torch.float64)])
def test_what_the_kernel_does_not_take(width, dtype) -> None:
    args = arguments(1, 4, 2, 1, 3)
    wide = [each.repeat(1, 1, 1, 2)[..., :width].to(dtype) for each in args[:4]]
    assert checked(step, (*wide, *args[4:])) == 0


def test_half_is_left_to_the_operators() -> None:
    args = arguments(1, 4, 2, 1, 3)
    half = [each.half() for each in args[:4]]
    assert checked(step, (*half, *args[4:])) == 0


def test_garbage_behind_the_text_is_not_read() -> None:
    """Where eager multiplies 0 by NaN, which nobody wants to rely on."""
    args = list(arguments(1, 4, 2, 1, 3))
    clean = [each.clone() for each in args]
    for each in args[1:3]:
        each[:, :, 10:] = torch.nan
    with torch.no_grad():
        found = compiled(step)(*args)
        torch.testing.assert_close(found, step(*clean))


def test_an_export_returns_the_whole_cache() -> None:
    """A session that gives results memory of their own copies what the caches hold, behind the
    text as well; the next step goes on from there."""

    class Step(torch.nn.Module):
        def forward(self, query, keys, values, fresh, start, mask):
            return step(query, keys, values, fresh, start, mask)

    args = arguments(2, 4, 2, 1, 3)
    model = ortable.to_onnx(Step(), tuple(each.clone() for each in args), target="onnxruntime")
    assert KERNEL in [node.op_type for node in model.graph.node]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    results = [each.name for each in session.get_outputs()]
    theirs = [each.clone() for each in args]
    ours = dict(zip(names, (each.clone().numpy() for each in args), strict=True))
    for _ in range(3):
        found = dict(zip(results, session.run(None, ours), strict=True))
        wanted = step(*theirs)
        torch.testing.assert_close(torch.from_numpy(found[results[0]]), wanted)
        for place, name in ((1, "keys"), (2, "values")):
            assert np.array_equal(found[f"{name}_mutated"], theirs[place].numpy())
            ours[name] = found[f"{name}_mutated"]
        theirs[4] += 1
        ours["start"] = theirs[4].clone().numpy()


def generated(model, mask, ids, count=6):
    torch.manual_seed(0)
    return model.generate(
        ids, attention_mask=mask, max_new_tokens=count, do_sample=False,
        cache_implementation="static", disable_compile=True,
    )  # fmt: skip


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_tokens_of_generate(name) -> None:
    """Graphs of generate: its mask is an input of the step, and hides what fills a prompt."""
    model = build(name)
    model.generation_config.pad_token_id = 0
    ids = torch.randint(3, VOCABULARY, (2, 5), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    expected = generated(model, mask, ids)
    storage: dict = {}
    torch._dynamo.reset()
    model.forward = torch.compile(model.forward, backend="ortable", options={"storage": storage})
    places = []
    with pytest.MonkeyPatch.context() as patch:
        original = call.in_place_runner

        def noted(session, sources):
            places.append(len(sources))
            return original(session, sources)

        patch.setattr(call, "in_place_runner", noted)
        assert torch.equal(generated(model, mask, ids), expected)
    layers = model.config.num_hidden_layers
    assert fired(storage["instance"][-1]) == layers
    assert places == [2 * layers]  # keys and values of the steps stay where they are


def test_a_model_takes_pieces_of_a_text() -> None:
    """One text in pieces, over a cache that was written before."""
    pieces = (3, 4, 1)
    model = build("llama")
    fn = torch.compile(model.forward, backend="ortable", dynamic=False)
    ours, theirs = (StaticCache(config=model.config, max_cache_len=40) for _ in range(2))
    ids = torch.randint(3, VOCABULARY, (1, sum(pieces)), generator=torch.Generator().manual_seed(1))
    at = 0
    with torch.no_grad():
        for count in pieces:
            part = ids[:, at : at + count]
            found = fn(part, use_cache=True, **{CACHE: ours}).logits
            wanted = model(part, use_cache=True, **{CACHE: theirs}).logits
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
            at += count
        whole = model(ids).logits
    torch.testing.assert_close(found, whole[:, -pieces[-1] :], atol=1e-5, rtol=1e-4)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        torch.testing.assert_close(mine.keys, other.keys, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(mine.values, other.values, atol=1e-5, rtol=1e-4)
