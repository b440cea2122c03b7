"""Parse and validate untrusted models before other code traverses them."""

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

# Readers traverse subgraphs by recursion, with several calls per level. Models from files have at
# most 33 levels, because protobuf limits the nesting of messages.
MAX_LEVELS = 64
MAX_NODES = 1_000_000  # nodes of a model after its functions are inlined

_MESSAGES_PER_LEVEL = 3  # nested messages for each level of subgraphs: node, attribute, graph
_MESSAGE, _STRING = FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING


def parse_model(content: bytes, name: str | os.PathLike[str]) -> ModelProto:
    """Parse the bytes of a model; raise InputError, which contains ``name``, for invalid bytes."""
    try:
        model = ModelProto.FromString(content)
    except DecodeError as error:
        raise InputError(f"'{Path(name)}' is not an ONNX model: {error}") from None
    if not model.HasField("graph"):
        raise InputError(f"'{Path(name)}' is not an ONNX model: it has no graph")
    return model


def check_readable(part: Message) -> None:
    """Check that a model, or a part of it, has limited nesting and only UTF-8 text.

    Raises:
        BuilderError: graphs or types are nested more than `MAX_LEVELS` deep, or a text, which
            protobuf then returns as bytes, is not UTF-8.
    """
    messages = [part]
    for _ in range(_MESSAGES_PER_LEVEL * MAX_LEVELS):
        messages = [inner for message in messages for inner in _inner_messages(message)]
        if not messages:
            return
    raise BuilderError(
        f"The model has subgraphs nested more than {MAX_LEVELS} levels deep. If this is "
        "intended, inline the branches of its If, Loop and Scan nodes."
    )


def _inner_messages(message: Message) -> Iterator[Message]:
    """Yield the messages in the fields of a message, after checking its texts."""
    if isinstance(message, TensorProto):  # ListFields would read the data
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
        message_type = type(message).__name__
        raise BuilderError(f"A text in a {message_type} of the model is not UTF-8: {text[:60]!r}.")


def check_functions(model: ModelProto) -> None:
    """Check that the functions of a model can be inlined.

    Raises:
        BuilderError: a function calls itself, calls are nested more than `MAX_LEVELS` deep, or
            inlining makes more than `MAX_NODES` nodes.
    """
    if model.functions and count_expanded_nodes(model) > MAX_NODES:
        raise BuilderError(
            f"The functions of the model expand to more than {MAX_NODES:,} nodes, or one of them "
            "calls itself."
        )


def count_expanded_nodes(model: ModelProto) -> float:
    """Count the nodes of a model after inlining, and its calls of functions.

    Returns infinity if a function is recursive or calls are nested more than `MAX_LEVELS` deep. A
    model of a few kilobytes can expand to a billion nodes: thirty functions that each call the next
    one twice.
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


def load_model(path: str | os.PathLike[str]) -> ModelProto:
    """Load a model from a file without its external weights.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: the path is a folder, or the file is not an ONNX model.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise InputError(f"'{name}' is a folder; give the path of a model file")
    try:
        model = load(name, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # the parser, chosen by the file suffix, may raise any error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"'{name}' is not an ONNX model: {reason}") from None
    if not model.HasField("graph"):
        raise InputError(f"'{name}' is not an ONNX model: it has no graph")
    return model
