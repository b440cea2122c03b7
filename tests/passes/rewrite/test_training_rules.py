"""Rules for gradients fire in graphs of torch.compile and preserve eager gradients."""

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

pytestmark = pytest.mark.alternates(parts=3)

RTOL, ATOL = 1e-3, 1e-5  # for gradients in float32, as in tests/backend


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset caches and seeds, and run graphs in ONNX Runtime regardless of their FLOPs."""
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
    """An activation between two linear layers, so that the backward contains its gradient."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 7)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.function(self.first(x)))


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    """Gelu as in GPT-2, whose gradient autograd decomposes."""
    inner = 0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def swish_gate(x: torch.Tensor) -> torch.Tensor:
    """The gate of Llama: silu of one half times the other half."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([F.silu(left) * right, right], dim=-1)


def root_mean_square(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rotated(x: torch.Tensor) -> torch.Tensor:
    left, right = x[..., :8], x[..., 8:]
    return x.cos() * torch.cat([-right, left], dim=-1)


def make_batch(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count, 12), torch.randint(7, (count,))


def build_llama() -> nn.Module:
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
    "llama": Trainable(build_llama, masked_word_batches(8, 60)),
    **{
        function.__name__: Trainable(
            lambda function=function: Classifier(Activated(function)), make_batch
        )
        for function in (tanh_gelu, swish_gate, root_mean_square, rotated)
    },
}

# How often each rule fires in all graphs of a model.
EXPECTED_COUNTS = {
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


def run_step(model: nn.Module, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Run forward and backward and return the loss; gradients are in the parameters."""
    model.zero_grad(set_to_none=True)
    loss = model(*arguments)
    loss.backward()
    return loss.detach()


def compare_gradients(name: str, counts: tuple[int, ...], **options: Any) -> list[dict[str, Any]]:
    """Compare loss and gradients with eager for batches; return the records of the graphs."""
    storage: dict[str, Any] = {}
    trainable = MODELS[name]
    eager = trainable.build().train()
    compiled_module = copy.deepcopy(eager)
    compiled = torch.compile(
        compiled_module, backend="ortable", fullgraph=True, options={"storage": storage, **options}
    )
    for count in counts:
        arguments = trainable.batch(count)
        if len(counts) > 1:
            for argument in arguments:
                torch._dynamo.mark_dynamic(argument, 0)
        torch.testing.assert_close(run_step(compiled, arguments), run_step(eager, arguments))
        for key, parameter in eager.named_parameters():
            gradient = compiled_module.get_parameter(key).grad
            torch.testing.assert_close(gradient, parameter.grad, rtol=RTOL, atol=ATOL)
    return storage["instance"]


def count_fired(records: list[dict[str, Any]]) -> Counter[str]:
    return sum((Counter(record["rewrites"]) for record in records), Counter())


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_eager(name: str) -> None:
    counts = count_fired(compare_gradients(name, (3,)))
    expected = EXPECTED_COUNTS.get(name, {})
    assert {rule_name: counts[rule_name] for rule_name in expected} == expected


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("name", DYNAMIC)
def test_gradients_for_any_batch(name: str) -> None:
    with torch._dynamo.config.patch(error_on_recompile=True):
        counts = count_fired(compare_gradients(name, (4, 5, 7)))
    expected = {"gpt2": {"gelu_tanh_gradient": 2}, "rotated": {"sum_of_padded": 1}}.get(name, {})
    assert {rule_name: counts[rule_name] for rule_name in expected} == expected


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_without_rules_nothing_fires(name: str) -> None:
    assert not count_fired(compare_gradients(name, (3,), rewrites="none"))


def test_dropout_keeps_what_its_mask_keeps() -> None:
    """The gradient is 0 where the mask dropped a value, and scaled elsewhere."""
    storage: dict[str, Any] = {}

    def apply_dropout(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.25)

    x = torch.randn(64, 32, requires_grad=True)
    result = torch.compile(apply_dropout, backend="ortable", options={"storage": storage})(x)
    result.backward(torch.full_like(result, 3.0))
    assert x.grad is not None
    is_kept = result != 0
    assert 0 < is_kept.float().mean() < 1
    torch.testing.assert_close(x.grad, torch.where(is_kept, 4.0, 0.0))
    assert count_fired(storage["instance"])["dropout_gradient"] == 1


class CrossEntropy(nn.Module):
    """Cross entropy of logits that are a parameter, which receives their gradient."""

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
    """Targets include ignored rows, the first class and the last class.

    The rule skips class weights, label smoothing and small numbers of classes.
    """
    shape, options, count = CROSS_ENTROPIES[name]
    storage: dict[str, Any] = {}
    eager = CrossEntropy(shape, **options)
    compiled_module = copy.deepcopy(eager)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    target[0], target[1].view(-1)[0] = -100, shape[1] - 1
    target[-1].view(-1)[-1] = 0
    compiled = torch.compile(compiled_module, backend="ortable", options={"storage": storage})
    torch.testing.assert_close(run_step(compiled, (target,)), run_step(eager, (target,)))
    torch.testing.assert_close(compiled_module.logits.grad, eager.logits.grad, rtol=1e-5, atol=1e-7)
    assert count_fired(storage["instance"])["cross_entropy_gradient"] == count
    backward = [record for record in storage["instance"] if record["kind"] == "backward"]
    op_types = [node.op_type for record in backward for node in record["onnx"].graph.node]
    assert ("ScatterElements" in op_types) == bool(count)


def test_gradient_of_a_loss_of_nothing() -> None:
    """If all rows are ignored, the loss is 0 / 0 and the gradient equals eager's."""
    eager = CrossEntropy((3, 200))
    compiled_module = copy.deepcopy(eager)
    target = torch.full((3,), -100)
    run_step(torch.compile(compiled_module, backend="ortable"), (target,))
    run_step(eager, (target,))
    assert eager.logits.grad is not None and compiled_module.logits.grad is not None
    torch.testing.assert_close(compiled_module.logits.grad, eager.logits.grad, equal_nan=True)
