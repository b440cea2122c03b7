"""Rules about gradients, in the graphs that torch.compile gives: they fire there, gradients stay
those of eager, and the odd inputs of the operators that they replace come out as before."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models.training import (
    SMALL_TRAINABLES,
    Classifier,
    Loss,
    Trainable,
    masked_word_batches,
)

RTOL, ATOL = 1e-3, 1e-5  # of gradients in float32, as tests/backend has it


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No graph of an earlier test, and the same random numbers; ONNX Runtime runs graphs however
    short their products are."""
    from ortable.backend.cache.memory import clear_caches
    from ortable.backend.partition import absorb_small

    for name in ("LONG_FLOPS", "_LONG_FLOPS_OF_MANY"):
        monkeypatch.setattr(absorb_small, name, -1)
    torch._dynamo.reset()
    clear_caches()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Activated(nn.Module):
    """A layer, a function, a layer: the smallest module whose backward holds the function's."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 7)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.function(self.first(x)))


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    """Gelu as GPT-2 writes it, which autograd takes apart."""
    inner = 0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def swish_gate(x: torch.Tensor) -> torch.Tensor:
    """The gate of Llama: silu times another half."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([F.silu(left) * right, right], dim=-1)


def root_mean_square(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotated(x: torch.Tensor) -> torch.Tensor:
    left, right = x[..., :8], x[..., 8:]
    return x.cos() * torch.cat([-right, left], dim=-1)


def vectors(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count, 12), torch.randint(7, (count,))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        use_cache=False,
    )
    return Loss(LlamaForCausalLM(config))


MODELS = {
    **{name: SMALL_TRAINABLES[name] for name in ("mlp", "bert", "gpt2", "vit", "convnext")},
    "llama": Trainable(llama, masked_word_batches(8, 60)),
    **{
        function.__name__: Trainable(
            lambda function=function: Classifier(Activated(function)), vectors
        )
        for function in (tanh_gelu, swish_gate, root_mean_square, rotated)
    },
}

# What has to fire, and how often at least, in all graphs of a model.
FIRES = {
    "bert": {"factor_of_product": 2},
    "gpt2": {"gelu_tanh_gradient": 2},
    "vit": {"sum_of_padded": 4, "factor_of_product": 2},
    "convnext": {"factor_of_product": 3},
    "llama": {
        "factor_of_smaller": 5,
        "expand_of_quotient": 5,
        "sum_of_padded": 4,
        "silu_gradient": 2,
        "reduce_squeeze": 4,
    },
    "tanh_gelu": {"gelu_tanh_gradient": 1},
    "swish_gate": {"silu_gradient": 1},
    "root_mean_square": {"expand_of_quotient": 1, "factor_of_smaller": 1},
    "rotated": {"sum_of_padded": 1},
}
DYNAMIC = ("mlp", "gpt2", "tanh_gelu", "swish_gate", "root_mean_square", "rotated")


def step(model: nn.Module, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The loss of a forward; gradients are in the parameters."""
    model.zero_grad(set_to_none=True)
    loss = model(*arguments)
    loss.backward()
    return loss.detach()


def compare(name: str, counts: tuple[int, ...], **options: Any) -> list[dict[str, Any]]:
    """Loss and gradients of eager and of the compiled model for batches; the records of the
    graphs."""
    storage: dict[str, Any] = {}
    trainable = MODELS[name]
    eager = trainable.build().train()
    ours = copy.deepcopy(eager)
    compiled = torch.compile(
        ours, backend="ortable", fullgraph=True, options={"storage": storage, **options}
    )
    for count in counts:
        arguments = trainable.batch(count)
        if len(counts) > 1:
            for each in arguments:
                torch._dynamo.mark_dynamic(each, 0)
        torch.testing.assert_close(step(compiled, arguments), step(eager, arguments))
        for key, parameter in eager.named_parameters():
            got = ours.get_parameter(key).grad
            torch.testing.assert_close(got, parameter.grad, rtol=RTOL, atol=ATOL)
    return storage["instance"]


def fired(records: list[dict[str, Any]]) -> Counter[str]:
    return sum((Counter(record["rewrites"]) for record in records), Counter())


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_eager(name: str) -> None:
    counts = fired(compare(name, (3,)))
    wanted = FIRES.get(name, {})
    assert {rule: counts[rule] for rule in wanted} == wanted


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", DYNAMIC)
def test_gradients_for_any_batch(name: str) -> None:
    """One graph for every size of the batch."""
    with torch._dynamo.config.patch(error_on_recompile=True):
        counts = fired(compare(name, (4, 5, 7)))
    wanted = {"gpt2": {"gelu_tanh_gradient": 2}, "rotated": {"sum_of_padded": 1}}.get(name, {})
    assert {rule: counts[rule] for rule in wanted} == wanted


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_without_rules_nothing_fires(name: str) -> None:
    assert not fired(compare(name, (3,), rewrites="none"))


def test_dropout_keeps_what_its_mask_keeps() -> None:
    """Where the mask has dropped a value its gradient is 0, elsewhere it is scaled."""
    storage: dict[str, Any] = {}

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.25)

    x = torch.randn(64, 32, requires_grad=True)
    made = torch.compile(dropped, backend="ortable", options={"storage": storage})(x)
    made.backward(torch.full_like(made, 3.0))
    assert x.grad is not None
    kept = made != 0
    assert 0 < kept.float().mean() < 1
    torch.testing.assert_close(x.grad, torch.where(kept, 4.0, 0.0))
    assert fired(storage["instance"])["dropout_gradient"] == 1


class CrossEntropy(nn.Module):
    """Cross entropy of logits that are a parameter, so that its gradient is theirs."""

    def __init__(self, shape: tuple[int, ...], **options: Any) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(shape))
        self.options = options

    def forward(self, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.logits, target, **self.options).sum()


CROSS_ENTROPIES = {
    "mean": ((5, 200), {}, 1),
    "sum": ((5, 200), {"reduction": "sum"}, 1),
    "each": ((5, 200), {"reduction": "none"}, 1),
    "smooth": ((5, 200), {"label_smoothing": 0.1}, 0),
    "weighted": ((5, 200), {"weight": torch.linspace(0.5, 2, 200)}, 0),
    "pictures": ((2, 200, 3, 4), {}, 1),
    "many": ((3, 5000), {}, 1),
    "few": ((5, 20), {}, 0),
}


@pytest.mark.parametrize("name", CROSS_ENTROPIES)
def test_gradient_of_cross_entropy(name: str) -> None:
    """With rows that are ignored, the first class and the last one. What each class weighs is no
    number of a row, and few classes are compared as fast: the rule leaves both alone."""
    shape, options, count = CROSS_ENTROPIES[name]
    storage: dict[str, Any] = {}
    eager = CrossEntropy(shape, **options)
    ours = copy.deepcopy(eager)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    target[0], target[1].view(-1)[0] = -100, shape[1] - 1
    target[-1].view(-1)[-1] = 0
    compiled = torch.compile(ours, backend="ortable", options={"storage": storage})
    torch.testing.assert_close(step(compiled, (target,)), step(eager, (target,)))
    torch.testing.assert_close(ours.logits.grad, eager.logits.grad, rtol=1e-5, atol=1e-7)
    assert fired(storage["instance"])["cross_entropy_gradient"] == count
    backward = [each for each in storage["instance"] if each["kind"] == "backward"]
    kinds = [node.op_type for each in backward for node in each["onnx"].graph.node]
    assert ("ScatterElements" in kinds) == bool(count)


def test_gradient_of_a_loss_of_nothing() -> None:
    """All rows are ignored: the loss is 0 / 0, its gradient nothing, as eager has it."""
    eager = CrossEntropy((3, 200))
    ours = copy.deepcopy(eager)
    target = torch.full((3,), -100)
    step(torch.compile(ours, backend="ortable"), (target,))
    step(eager, (target,))
    assert eager.logits.grad is not None and ours.logits.grad is not None
    torch.testing.assert_close(ours.logits.grad, eager.logits.grad, equal_nan=True)
