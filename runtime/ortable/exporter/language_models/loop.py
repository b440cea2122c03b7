"""Export decoding as an ONNX model with a Loop, whose body is the step of the language model.

Called by export.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, compose, helper

from ortable.builder import LargeModel
from ortable.errors import ExportError
from ortable.exporter.language_models.decoder import (
    BATCH,
    LOGITS_TO_KEEP,
    SEQUENCE,
    TOTAL,
    Decoder,
    cache_recompute_length,
)
from ortable.exporter.language_models.decoding import (
    Decoding,
    compute_scores,
    make_decoding,
    sample_tokens,
)
from ortable.exporter.language_models.model_folder import externalize_weights
from ortable.exporter.to_onnx import export, to_onnx

STEPS = "steps"  # the name of the first dimension of the random numbers
_EXAMPLE_STEPS = 5  # the size of the dimension `STEPS` in the example


class DecodeStart(torch.nn.Module):
    """Initial state of the loop: no text has ended, and the cache is empty."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.layers = decoder.layers

    def forward(
        self, input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """Return the finished flags, keys and values for tokens (batch, sequence).

        The flags are bool (batch,); keys and values of each layer are (batch, heads, 0, width).
        """
        batch = input_ids.shape[0]
        finished = torch.zeros(batch, dtype=torch.bool)
        keys = [
            torch.zeros(batch, layer.heads, 0, layer.key_width, dtype=layer.dtype)
            for layer in self.layers
        ]
        values = [
            torch.zeros(batch, layer.heads, 0, layer.value_width, dtype=layer.dtype)
            for layer in self.layers
        ]
        return finished, keys, values


class DecodeStep(torch.nn.Module):
    """One step of the loop.

    ``forward`` returns whether to continue, and then its arguments for the next step in their
    order, without ``number`` and ``random``.
    """

    def __init__(self, decoder: Decoder, decoding: Decoding) -> None:
        super().__init__()
        self.model, self.takes_position_ids, self.decoding = (
            decoder.model,
            decoder.takes_position_ids,
            decoding,
        )
        self.cache = decoder.cache
        self.options = {LOGITS_TO_KEEP: 1} if decoder.last_logits else {}
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
        """Choose the next tokens and update the state of the loop.

        Args:
            input_ids: int64 (batch, sequence), tokens that are not in the cache yet.
            attention_mask: int64 (batch, past + sequence).
            finished: bool (batch,), true for texts that have ended.
            sequences: int64 (batch, past + sequence), the texts so far.
            past_key_values: the cache.
            number: the index of the step, only for sampling.
            random: float32 (steps, batch) in [0, 1), only for sampling.
        """
        positions = {}
        if self.takes_position_ids:
            all_positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
            positions["position_ids"] = all_positions[:, -input_ids.shape[1] :]
        output = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            use_cache=True,
            **{self.cache: past_key_values},
            **positions,
            **self.options,
        )
        scores = compute_scores(self.decoding, output.logits[:, -1], sequences, attention_mask)
        if random is None or number is None:
            token = scores.argmax(-1)
        else:
            token = sample_tokens(scores, random.index_select(0, number[None])[0])
        token = torch.where(finished, self.decoding.pad_token, token)
        ended = finished if self.ends is None else finished | (token[:, None] == self.ends).any(-1)
        token = token[:, None]
        mask = torch.cat([attention_mask, torch.ones_like(token)], dim=1)
        texts = torch.cat([sequences, token], dim=1)
        return ~ended.all(), token, mask, ended, texts, getattr(output, self.cache)


def step_example(decoder: Decoder, sample: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of an example call of DecodeStep, and their dynamic dimensions."""
    call, shapes = decoder.example_call(), decoder.dynamic_shapes()
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
        random = torch.zeros(_EXAMPLE_STEPS, len(mask), device=mask.device)
        arguments["random"] = (random, {0: STEPS, 1: BATCH})
    return (
        {name: value for name, (value, _) in arguments.items()},
        {name: shape for name, (_, shape) in arguments.items()},
    )


# State of the loop except the cache, in the order of DecodeStep's arguments and results.
_STATES = ("input_ids", "attention_mask", "finished", "sequences")
# Inputs of a step that are not state: the Loop operator provides the step number, and the outer
# graph provides the random numbers.
_NUMBER, _RANDOM = "number", "random"
_START_PREFIX = "start_"


def decoding_of_loop(decoder: Decoder, sample: bool) -> Decoding:
    """Parse generation_config for the loop.

    Raises OptionError for settings that are not supported, and ExportError for a model whose cache
    ``generate`` recomputes in the middle of a text.
    """
    recompute_length = cache_recompute_length(decoder.model.config.to_dict())
    if recompute_length is not None:
        raise ExportError(
            f"generate recomputes the cache of {decoder.name} after "
            f"{recompute_length} tokens (LongRoPE), which the loop does not support: leave out loop"
        )
    return make_decoding(decoder.model.generation_config.to_dict(), sample)


def export_search_loop(
    decoder: Decoder, decoding: Decoding, sample: bool, keywords: Mapping[str, Any]
) -> LargeModel:
    """Export ``input_ids, attention_mask, max_new_tokens -> sequences``, with ``random`` to sample.

    Without sampling, ``sequences`` has the tokens of ``generate(do_sample=False)``: those with the
    largest score at each step. A text that has ended is padded, and the loop ends when all texts
    have ended.
    """
    call, shapes = step_example(decoder, sample)
    step = DecodeStep(decoder, decoding).eval()
    body = export(step, kwargs=call, dynamic_shapes=shapes, **keywords).model
    prompt = torch.zeros_like(call["input_ids"])
    start = to_onnx(
        DecodeStart(decoder), (prompt,), dynamic_shapes=({0: BATCH, 1: SEQUENCE},), **keywords
    )
    return _build_loop(externalize_weights(body), start, sample)


def _build_loop(step: LargeModel, start: ModelProto, sample: bool) -> LargeModel:
    start_model = compose.add_prefix(start, _START_PREFIX)
    start_outputs = [value.name for value in start_model.graph.output]
    start_input = start_model.graph.input[0].name
    finished, caches = start_outputs[0], start_outputs[1:]
    states = ["input_ids", "attention_mask", finished, "input_ids", *caches]
    carried_inputs = [
        value for value in step.proto.graph.input if value.name not in (_NUMBER, _RANDOM)
    ]
    assert len(states) == len(carried_inputs), "the inputs of a step match the state of the loop"

    model = ModelProto()
    model.CopyFrom(step.proto)
    model.graph.Clear()
    graph = model.graph
    graph.name = step.proto.graph.name
    graph.input.extend(_loop_inputs(sample))
    graph.initializer.extend(start_model.graph.initializer)
    graph.initializer.extend(
        tensor for tensor in step.proto.graph.initializer if tensor.name in step.tensors
    )
    graph.node.add(op_type="Identity", input=["input_ids"], output=[start_input])
    graph.node.extend(start_model.graph.node)
    results = [f"last_{name}" for name in states]
    results[_STATES.index("sequences")] = "sequences"
    loop = graph.node.add(
        op_type="Loop", name="search", input=["max_new_tokens", "", *states],
        output=[f"{name}_{number}" if name != "sequences" else name
                for number, name in enumerate(results)],
    )  # fmt: skip
    loop.attribute.append(helper.make_attribute("body", _loop_body(step, carried_inputs)))
    graph.output.append(
        helper.make_tensor_value_info("sequences", TensorProto.INT64, [BATCH, "total_length"])
    )
    return LargeModel(model, step.tensors, step.nested)


def _loop_inputs(sample: bool) -> list[Any]:
    tokens, make_info = [BATCH, SEQUENCE], helper.make_tensor_value_info
    inputs = [
        make_info("input_ids", TensorProto.INT64, tokens),
        make_info("attention_mask", TensorProto.INT64, tokens),
        make_info("max_new_tokens", TensorProto.INT64, []),
    ]
    if sample:
        inputs.append(make_info(_RANDOM, TensorProto.FLOAT, [STEPS, BATCH]))
    return inputs


def _loop_body(step: LargeModel, carried_inputs: Sequence[ValueInfoProto]) -> GraphProto:
    """Return the step as the body of a Loop; large weights stay in the outer graph."""
    body = GraphProto()
    body.CopyFrom(step.proto.graph)
    del body.initializer[:], body.input[:]
    body.initializer.extend(t for t in step.proto.graph.initializer if t.name not in step.tensors)
    body.input.append(helper.make_tensor_value_info(_NUMBER, TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("going_on", TensorProto.BOOL, []))
    body.input.extend(carried_inputs)
    return body
