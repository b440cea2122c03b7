"""Validate untrusted models before anything walks them.

Readers of models, of their text and of their pictures call it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, NodeProto, TensorProto, load

from ortable.errors import BuilderError, InputError

from .walk import graphs_inside

# Readers go from a graph to those inside its nodes by recursion, several calls a level. Files hold
# 33 levels: protobuf itself reads no deeper.
MAX_LEVELS = 64
MAX_NODES = 1_000_000  # of a model whose functions are written out in the places of their calls

_MESSAGES = 3  # from a graph to one inside it: a node, an attribute, the graph
_MESSAGE, _STRING = FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING


def parse_model(content: bytes, what: str | os.PathLike[str]) -> ModelProto:
    """The model of some bytes.

    Raises InputError, which names ``what``, when they are none."""
    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise InputError(f"'{Path(what)}' is no ONNX model: {error}") from None
    if not model.HasField("graph"):
        raise InputError(f"'{Path(what)}' is no ONNX model: it has no graph")
    return model


def check_readable(part: Message) -> None:
    """Check what readers of a model, or of a part of one, assume: limited nesting and text names.

    Raises:
        BuilderError: graphs or types are nested more than `MAX_LEVELS` deep, or text is not UTF-8,
            which protobuf returns as bytes.
    """
    messages = [part]
    for _ in range(_MESSAGES * MAX_LEVELS):
        messages = [inner for message in messages for inner in _inner_messages(message)]
        if not messages:
            return
    raise BuilderError(
        f"The model has graphs inside graphs in more than {MAX_LEVELS} levels. If "
        "this is intended, inline the branches of its If, Loop and Scan nodes."
    )


def _inner_messages(message: Message) -> Iterator[Message]:
    """Yield the messages in the fields of a message, checking its texts."""
    if isinstance(message, TensorProto):  # whose data is not touched
        _check_text(message.name, message)
        yield from message.external_data
        return
    for field, value in message.ListFields():
        if field.type == _MESSAGE:
            if isinstance(value, Message):
                yield value
            else:
                yield from value
        elif field.type == _STRING:
            for text in (value,) if isinstance(value, str | bytes) else value:
                _check_text(text, message)


def _check_text(text: str | bytes, message: Message) -> None:
    if not isinstance(text, str):
        kind = type(message).__name__
        raise BuilderError(f"A text in a {kind} of the model is not UTF-8: {text[:60]!r}.")


def check_functions(model: ModelProto) -> None:
    """Check that the functions of a model can be inlined.

    Raises:
        BuilderError: one calls itself, or they expand to more than `MAX_NODES` nodes.
    """
    if model.functions and count_expanded_nodes(model) > MAX_NODES:
        raise BuilderError(
            f"The functions of the model make more than {MAX_NODES:,} nodes in the places of "
            "their calls, or one of them calls itself."
        )


def count_expanded_nodes(model: ModelProto) -> float:
    """Count the nodes of a model with every function call expanded; infinity for recursion.

    Functions that call others twice, thirty deep, are a few kilobytes and a billion nodes.
    """
    bodies = {
        (function.domain, function.name, function.overload): function.node
        for function in model.functions
    }
    counts: dict[object, float] = {}
    active: list[object] = []

    def count_nodes(nodes: Iterable[NodeProto]) -> float:
        return sum(
            1.0
            + (count_call((node.domain, node.op_type, node.overload)) if bodies else 0)
            + sum(count_nodes(graph.node) for graph in graphs_inside(node))
            for node in nodes
        )

    def count_call(key: tuple[str, str, str]) -> float:
        if key not in bodies:
            return 0.0
        if key in active or len(active) >= MAX_LEVELS:
            return math.inf
        if key not in counts:
            active.append(key)
            counts[key] = count_nodes(bodies[key])
            active.pop()
        return counts[key]

    return count_nodes(model.graph.node)


def load_graph(path: str | os.PathLike[str]) -> ModelProto:
    """The model of a file, whose external weights are not read.

    Raises FileNotFoundError, and InputError for a folder and for a file that is no ONNX model.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise InputError(f"'{name}' is a folder; give the file of a model")
    try:
        model = load(name, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # each of onnx's formats, told by the name, has errors of its own
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"'{name}' is no ONNX model: {first}") from None
    if not model.HasField("graph"):
        raise InputError(f"'{name}' is no ONNX model: it has no graph")
    return model
