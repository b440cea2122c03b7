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

from ..to_onnx import export, to_onnx
from .decoder import BATCH, SEQUENCE, Decoder, computed_anew
from .decoding import Decoding, decoding_of
from .folder import weights_outside
from .steps import STEPS, Start, Step, step_example

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

    Args:
        decoder: the model.
        decoding: how tokens are chosen.
        sample: draw tokens with their probabilities.
        keywords: of to_onnx.
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
