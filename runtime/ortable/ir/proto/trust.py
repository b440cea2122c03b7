"""What is asked of a model of somebody else before anything walks it. In comes a ModelProto or a
part of one, out goes nothing; or bytes or a path, out goes the model. Called by readers of models,
of their text and of their pictures."""

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
MOST_LEVELS = 64
MOST_NODES = 1_000_000  # of a model whose functions are written out in the places of their calls

_MESSAGES = 3  # from a graph to one inside it: a node, an attribute, the graph
_MESSAGE, _STRING = FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING


def parsed_model(content: bytes, what: str | os.PathLike[str]) -> ModelProto:
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
    """Asks of a model, or of a part of one, what readers take for granted: they go from a graph to
    those inside its nodes by recursion, and take names for text.

    Raises BuilderError for graphs inside graphs, or types inside types, of more than `MOST_LEVELS`
    levels, and for text that is not UTF-8, which protobuf hands out as bytes."""
    messages = [part]
    for _ in range(_MESSAGES * MOST_LEVELS):
        messages = [inner for each in messages for inner in _inside(each)]
        if not messages:
            return
    raise BuilderError(
        f"The model has graphs inside graphs in more than {MOST_LEVELS} levels. Who makes such a "
        "model on purpose may inline the branches of its If, Loop and Scan nodes."
    )


def _inside(message: Message) -> Iterator[Message]:
    """The messages in the fields of a message; its texts are looked at on the way."""
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
    """Raises BuilderError for a model that cannot be written without its functions: one calls
    itself, or they make more than `MOST_NODES` nodes."""
    if model.functions and expanded_nodes(model) > MOST_NODES:
        raise BuilderError(
            f"The functions of the model make more than {MOST_NODES:,} nodes in the places of "
            "their calls, or one of them calls itself."
        )


def expanded_nodes(model: ModelProto) -> float:
    """How many nodes a model has with every call of a function replaced by what the function does;
    infinity where one calls itself.

    Functions that call others twice, thirty deep, are a few kilobytes and a billion nodes."""
    bodies = {(each.domain, each.name, each.overload): each.node for each in model.functions}
    known: dict[object, float] = {}
    open_: list[object] = []

    def count(nodes: Iterable[NodeProto]) -> float:
        return sum(
            1.0
            + (called((node.domain, node.op_type, node.overload)) if bodies else 0)
            + sum(count(graph.node) for graph in graphs_inside(node))
            for node in nodes
        )

    def called(key: tuple[str, str, str]) -> float:
        if key not in bodies:
            return 0.0
        if key in open_ or len(open_) >= MOST_LEVELS:
            return math.inf
        if key not in known:
            open_.append(key)
            known[key] = count(bodies[key])
            open_.pop()
        return known[key]

    return count(model.graph.node)


def graph_of_file(path: str | os.PathLike[str]) -> ModelProto:
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
