"""Decoding as one ONNX model: a Loop whose body is the step of the model, from prompts to texts
without a call between the tokens. In comes a Decoder, out goes a LargeModel. Called by
export.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, compose, helper

from ortable.builder import LargeModel
from ortable.errors import ExportError
from ortable.exporter.language_models.decoder import BATCH, SEQUENCE, TOTAL, Decoder, computed_anew
from ortable.exporter.language_models.decoding import Decoding, decoding_of, drawn, scored
from ortable.exporter.language_models.model_folder import weights_outside
from ortable.exporter.to_onnx import export, to_onnx

STEPS = "steps"  # the dimension of random numbers
_STEPS = 5  # its size in the example


class Start(torch.nn.Module):
    """What the loop starts with besides the prompt: no text has ended, and the cache is empty."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.layers = decoder.layers

    def forward(
        self, input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """From tokens (batch, sequence): bools (batch,), keys and values (batch, heads, 0, width)
        of each layer."""
        batch = input_ids.shape[0]
        finished = torch.zeros(batch, dtype=torch.bool)
        keys = [torch.zeros(batch, e.heads, 0, e.key_width, dtype=e.dtype) for e in self.layers]
        values = [torch.zeros(batch, e.heads, 0, e.value_width, dtype=e.dtype) for e in self.layers]
        return finished, keys, values


class Step(torch.nn.Module):
    """One step of the loop. Its results are whether to go on, and the arguments of the next step in
    the order of its own, but for the number of the step and the random numbers."""

    def __init__(self, decoder: Decoder, decoding: Decoding) -> None:
        super().__init__()
        self.model, self.positions, self.decoding = decoder.model, decoder.positions, decoding
        self.cache = decoder.cache
        self.ends: torch.Tensor | None
        device = decoder.model.device
        ends = torch.tensor(decoding.ends, device=device) if decoding.ends else None
        self.register_buffer("ends", ends, persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        finished: torch.Tensor,
        sequences: torch.Tensor,
        past_key_values: Any,
        number: torch.Tensor | None = None,
        random: torch.Tensor | None = None,
    ) -> tuple[Any, ...]:
        """Tokens (batch, sequence) that are not in the cache yet, mask and texts (batch, past +
        sequence), bools (batch,) of the texts that have ended, the cache; and where tokens are
        drawn the number of the step, and numbers of [0, 1) (steps, batch)."""
        positions = {}
        if self.positions:
            known = (attention_mask.cumsum(-1) - 1).clamp(min=0)
            positions["position_ids"] = known[:, -input_ids.shape[1] :]
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            use_cache=True,
            **{self.cache: past_key_values},
            **positions,
        )
        scores = scored(self.decoding, out.logits[:, -1], sequences, attention_mask)
        if random is None or number is None:
            token = scores.argmax(-1)
        else:
            token = drawn(scores, random.index_select(0, number[None])[0])
        token = torch.where(finished, self.decoding.fill, token)
        ended = finished if self.ends is None else finished | (token[:, None] == self.ends).any(-1)
        token = token[:, None]
        mask = torch.cat([attention_mask, torch.ones_like(token)], dim=1)
        texts = torch.cat([sequences, token], dim=1)
        return ~ended.all(), token, mask, ended, texts, getattr(out, self.cache)


def step_example(decoder: Decoder, sample: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of a call of Step, and their dynamic dimensions."""
    call, shapes = decoder.example(), decoder.dynamic_shapes()
    mask = call["attention_mask"]
    arguments = {
        "input_ids": (call["input_ids"], {0: BATCH, 1: SEQUENCE}),
        "attention_mask": (mask, {0: BATCH, 1: TOTAL}),
        "finished": (torch.zeros_like(mask[:, 0], dtype=torch.bool), {0: BATCH}),
        "sequences": (torch.zeros_like(mask), {0: BATCH, 1: TOTAL}),
        "past_key_values": (call[decoder.cache], shapes[decoder.cache]),
    }
    if sample:
        arguments["number"] = (mask.new_zeros(()), None)
        random = torch.zeros(_STEPS, len(mask), device=mask.device)
        arguments["random"] = (random, {0: STEPS, 1: BATCH})
    return (
        {name: value for name, (value, _) in arguments.items()},
        {name: shape for name, (_, shape) in arguments.items()},
    )


# Of a step: the states that are no cache, in the order of Step's arguments and results.
_STATES = ("input_ids", "attention_mask", "finished", "sequences")
# Inputs of a step that are no state: the number of the step is the loop's own, and the random
# numbers are those of the graph around it.
_NUMBER, _RANDOM = "number", "random"
_PREFIX = "start_"


def decoding_of_loop(decoder: Decoder, sample: bool) -> Decoding:
    """How a loop of steps chooses tokens: as generation_config says.

    Raises OptionError for settings that are not followed, and ExportError for a model whose cache
    ``generate`` computes anew in the middle of a text.
    """
    anew = computed_anew(decoder.model.config.to_dict())
    if anew is not None:
        raise ExportError(
            f"generate computes the cache of {type(decoder.model).__name__} anew after {anew} "
            "tokens (LongRoPE), which a loop of steps does not: leave out loop"
        )
    return decoding_of(decoder.model.generation_config.to_dict(), sample)


def search(
    decoder: Decoder, decoding: Decoding, sample: bool, keywords: Mapping[str, Any]
) -> LargeModel:
    """The model ``input_ids, attention_mask, max_new_tokens -> sequences``, which has the input
    ``random`` too where tokens are drawn.

    Without, the tokens of ``sequences`` are those of ``generate(do_sample=False)``: the largest
    score at each step; a text that has ended is filled up, and the loop ends with the last of them.
    """
    call, shapes = step_example(decoder, sample)
    step = Step(decoder, decoding).eval()
    body = export(step, kwargs=call, dynamic_shapes=shapes, **keywords).model
    prompt = torch.zeros_like(call["input_ids"])
    start = to_onnx(
        Start(decoder), (prompt,), dynamic_shapes=({0: BATCH, 1: SEQUENCE},), **keywords
    )
    return _looped(weights_outside(body), start, sample)


def _looped(step: LargeModel, start: ModelProto, sample: bool) -> LargeModel:
    before = compose.add_prefix(start, _PREFIX)
    beginning = [value.name for value in before.graph.output]
    given = before.graph.input[0].name
    finished, caches = beginning[0], beginning[1:]
    states = ["input_ids", "attention_mask", finished, "input_ids", *caches]
    carried = [value for value in step.proto.graph.input if value.name not in (_NUMBER, _RANDOM)]
    assert len(states) == len(carried), "a step takes what the loop carries"

    model = ModelProto()
    model.CopyFrom(step.proto)
    model.graph.Clear()
    graph = model.graph
    graph.name = step.proto.graph.name
    graph.input.extend(_inputs(sample))
    graph.initializer.extend(before.graph.initializer)
    graph.initializer.extend(t for t in step.proto.graph.initializer if t.name in step.tensors)
    graph.node.add(op_type="Identity", input=["input_ids"], output=[given])
    graph.node.extend(before.graph.node)
    results = [f"last_{name}" for name in states]
    results[_STATES.index("sequences")] = "sequences"
    loop = graph.node.add(
        op_type="Loop", name="search", input=["max_new_tokens", "", *states],
        output=[f"{name}_{number}" if name != "sequences" else name
                for number, name in enumerate(results)],
    )  # fmt: skip
    loop.attribute.append(helper.make_attribute("body", _body(step, carried)))
    graph.output.append(
        helper.make_tensor_value_info("sequences", TensorProto.INT64, [BATCH, "total_length"])
    )
    return LargeModel(model, step.tensors, step.nested)


def _inputs(sample: bool) -> list[Any]:
    """Prompts, which tokens of them are no padding, how many tokens each gets at most, and numbers
    of [0, 1) to draw them by, a row for each token."""
    tokens, made = [BATCH, SEQUENCE], helper.make_tensor_value_info
    found = [
        made("input_ids", TensorProto.INT64, tokens),
        made("attention_mask", TensorProto.INT64, tokens),
        made("max_new_tokens", TensorProto.INT64, []),
    ]
    if sample:
        found.append(made(_RANDOM, TensorProto.FLOAT, [STEPS, BATCH]))
    return found


def _body(step: LargeModel, carried: Sequence[ValueInfoProto]) -> GraphProto:
    """The step as the body of a Loop: large weights are those of the graph around it."""
    body = GraphProto()
    body.CopyFrom(step.proto.graph)
    del body.initializer[:], body.input[:]
    body.initializer.extend(t for t in step.proto.graph.initializer if t.name not in step.tensors)
    body.input.append(helper.make_tensor_value_info(_NUMBER, TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("going_on", TensorProto.BOOL, []))
    body.input.extend(carried)
    return body
