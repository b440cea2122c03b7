"""Names of arguments for people: the parameter, the buffer or the argument of the user's function
that dynamo took them from. In come the graph of dynamo and those that AOTAutograd made of it, out
come marks on arguments; called by `aot.entry`, read where inputs are declared. A graph without
marks (of an `aot_autograd` of the user's own) has the names `input0`, `input1`...

Equal graphs share one conversion, which has the names of the first."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import GraphModule, Node

from .untracked_writes import source_of

_MARK = "ortable_argument"
_PARTS = ("._modules[", "._parameters[", "._buffers[")
# how dynamo writes where a value is, and what people call it
_SPELLINGS = (
    ("._modules['", "."), ("._parameters['", "."), ("._buffers['", "."), ("['", "."), ("']", ""),
    ('["', "."), ('"]', ""), ("[", "."), ("]", ""),
)  # fmt: skip
_ROOTS = ("L.self.", "L.", "G.")


def argument_names(graph_module: GraphModule) -> tuple[str, ...]:
    """Names of the arguments of a graph of dynamo: `layers.0.weight`, `x`, `batch.mask`. Those of
    one module are as in its state_dict; those of several start with the variable that holds it."""
    nodes = graph_module.graph.find_nodes(op="placeholder")
    sources = [source_of(node) for node in nodes]
    modules = {module for source in sources if (module := _module_of(source))}
    around = modules.pop() if len(modules) == 1 else None
    return tuple(
        _readable(source if _module_of(source) != around else source[len(around or "") :])
        or node.name
        for node, source in zip(nodes, sources, strict=True)
    )


def _module_of(source: str) -> str:
    """The outermost module that holds a parameter, as dynamo writes it; empty for what no module
    holds."""
    places = [place for part in _PARTS if (place := source.find(part)) > 0]
    return source[: min(places)] if places else ""


def mark_argument_names(graph_module: GraphModule, names: Sequence[str]) -> None:
    """Gives the arguments of a graph of AOTAutograd the names of dynamo's; gradients and saved
    values keep those that they have in the graph."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        node.meta[_MARK] = _described(node.meta.get("desc"), names) or node.name


def mark_inner_name(node: Node, arguments: Sequence[Node]) -> None:
    """Gives an argument of a partition the name of the value that it is, where the arguments of
    the whole graph have names."""
    if arguments and _MARK in arguments[0].meta:
        node.meta.setdefault(_MARK, node.name)


def argument_name(node: Node) -> str | None:
    """The name of an argument; None where nobody gave it one."""
    return node.meta.get(_MARK)


def _described(description: object, names: Sequence[str]) -> str | None:
    """The name that a description of AOTAutograd stands for."""
    target = getattr(description, "target", None)  # of a parameter or buffer
    if isinstance(target, str):
        return target
    index = getattr(description, "idx", None)
    base = getattr(description, "base", None)
    if base is not None:  # a part of a tensor subclass
        whole = _described(base, names)
        part = getattr(description, "attr", index)
        return None if whole is None else f"{whole}.{part}"
    if (
        isinstance(index, int)
        and index < len(names)
        and type(description).__name__.startswith("Plain")
    ):
        return names[index]
    return None


def _readable(source: str) -> str:
    """`L['self']._modules['fc']._parameters['weight']` as `fc.weight`; empty for a value that
    dynamo computes."""
    if "(" in source:
        return ""
    for written, read in _SPELLINGS:
        source = source.replace(written, read)
    for root in _ROOTS:
        source = source.removeprefix(root)
    return source.strip(".")
