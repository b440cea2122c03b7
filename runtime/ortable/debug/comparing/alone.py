"""The operator of a difference alone: with as few operators before it, and as small tensors, as
still show it. In comes what `graphs` found, out comes a script that was run and that fails; called
by `difference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from ortable.compat.torch import pytree
from ortable.interpreter.tables import LOADED

from .found import operator_of, producer
from .script import (
    NoScript,
    calls_text,
    script_text,
    tensor_texts,
    writable,
)

AGREES = "alone, on eager's values, the operator agrees with eager"
_TORCHS = ("aten", "prims", "prim")
_MOST_NODES = 8  # before the node that differs
_TRIES = 24  # of smaller sizes

Differs = Callable[[Callable[..., Any], Sequence[Any], bool], bool]


@dataclass(frozen=True)
class Alone:
    """A script that shows a difference, the tensors that it reads, and the inputs of the operator
    in short; no script where `why` says that there is none."""

    script: str = ""
    tensors: Mapping[str, torch.Tensor] | None = None
    operators: int = 0
    why: str = ""


@dataclass(frozen=True)
class _Part:
    """Some nodes of a graph as a function of tensors."""

    nodes: Sequence[Node]
    body: str
    inputs: Mapping[str, torch.Tensor]

    def function(self) -> Callable[..., Any]:
        """The function, made of the text of the script."""
        names: dict[str, Any] = {"torch": torch}
        exec(
            compile(f"def call({', '.join(self.inputs)}):\n{self.body}\n", "<script>", "exec"),
            names,
        )
        return names["call"]  # type: ignore[no-any-return]


def shown_alone(
    node: Node,
    values: Mapping[Node, Any],
    differs: Differs,
    *,
    about: str,
    options: Mapping[str, Any],
    tolerance: tuple[float, float],
    exporting: Mapping[str, Any] | None = None,
) -> Alone:
    """A script of the operator of `node` that fails as long as the result differs."""
    try:
        part, dynamic = _smallest_part(node, values, differs)
        part = _shrunk(part, differs, dynamic)
        texts = _texts(part, differs, dynamic)
    except NoScript as error:
        return Alone(why=str(error))
    used = {operator_of(each) for each in part.nodes}
    operators = len([each for each in part.nodes if producer(each) is each and not is_made(each)])
    others = f"; {operators - 1} before it are needed, too" if operators > 1 else ""
    script = script_text(
        title=f"{operator_of(node)} in eager and through ortable: status 1 while they differ.",
        about=f"{about}{others}",
        names=list(part.inputs),
        body=part.body,
        values=texts,
        options=writable(options),
        dynamic=dynamic,
        foreign=sorted(name for name in used if name.partition("::")[0] not in _TORCHS),
        loaded=[each.file for each in LOADED if each.file and used & set(each.operators)],
        tolerance=tolerance,
        exporting=exporting,
    )
    tensors = {name: value for name, value in part.inputs.items() if name not in texts}
    return Alone(script, tensors, operators)


def _smallest_part(node: Node, values: Mapping[Node, Any], differs: Differs) -> tuple[_Part, bool]:
    """The operator of `node`, with as few of those before it as show the difference, and whether
    that takes free sizes.
    """
    first = producer(node)
    chosen = [*filter(is_made, first.all_input_nodes), first]
    symbolic = any(_is_symbolic(each) for each in (first, *first.all_input_nodes))
    while True:
        part = _part_of(chosen, values)
        for dynamic in (False, True) if symbolic else (False,):
            if differs(part.function(), list(part.inputs.values()), dynamic):
                return part, dynamic
        before = [
            each
            for inner in chosen
            for each in inner.all_input_nodes
            if each.op == "call_function" and each not in chosen and _has_tensor(values.get(each))
        ]
        if not before or len(chosen) > _MOST_NODES:
            raise NoScript(AGREES)
        chosen = [*dict.fromkeys(producer(each) for each in before), *chosen]
        chosen = _in_order(first, dict.fromkeys(chosen))


def is_made(node: Node) -> bool:
    """Whether a node makes a tensor of nothing: a constant, to its converter."""
    return node.op == "call_function" and not node.all_input_nodes


def _in_order(node: Node, chosen: Mapping[Node, None]) -> list[Node]:
    """Nodes in the order of their graph, and the results that are taken of them in between."""
    wanted = set(chosen)
    return [
        each
        for each in node.graph.nodes
        if each in wanted
        or (producer(each) is not each and producer(each) in wanted and set(each.users) & wanted)
    ]


def _is_symbolic(node: Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and any(
        not isinstance(size, int) for size in value.shape
    )


def _has_tensor(value: Any) -> bool:
    return any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(value))


def _part_of(nodes: Sequence[Node], values: Mapping[Node, Any]) -> _Part:
    inside = set(nodes)
    inputs: dict[Node, str] = {}
    for node in nodes:
        for each in node.all_input_nodes:
            if each in inside or node.kwargs.get("drawn") is each:
                continue
            if isinstance(values.get(each), torch.Tensor):
                inputs.setdefault(each, each.name)
            elif _has_tensor(values.get(each)):
                raise NoScript(f"'{each.name}' is several tensors")
    body = calls_text(nodes, values, inputs)
    return _Part(nodes, body, {name: values[node].detach() for node, name in inputs.items()})


# -- smaller values


def _shrunk(part: _Part, differs: Differs, dynamic: bool) -> _Part:
    """The same calls on smaller tensors, where they still differ; sizes that are equal stay so."""
    tries = _TRIES
    tried: set[tuple[int, int]] = set()
    while tries:
        sizes = sorted({size for x in part.inputs.values() for size in x.shape}, reverse=True)
        step = next(
            (
                (size, small)
                for size in sizes
                for small in dict.fromkeys((1, 2, size // 2))
                if 0 < small < size and (size, small) not in tried
            ),
            None,
        )
        if step is None:
            return part
        tries -= 1
        tried.add(step)
        inputs = {name: _cut(value, *step) for name, value in part.inputs.items()}
        if _still(part, inputs, differs, dynamic):
            part = replace(part, inputs=inputs)
    return part


def _cut(tensor: torch.Tensor, size: int, small: int) -> torch.Tensor:
    places = tuple(slice(small if each == size else each) for each in tensor.shape)
    cut = tensor[places]
    return cut.contiguous() if cut.shape != tensor.shape else tensor


def _still(
    part: _Part, inputs: Mapping[str, torch.Tensor], differs: Differs, dynamic: bool
) -> bool:
    """Whether the calls run in eager on other tensors, and still differ."""
    try:
        part.function()(*[each.clone() for each in inputs.values()])
        return differs(part.function(), list(inputs.values()), dynamic)
    except Exception:  # whatever torch raises for sizes that do not fit
        return False


def _texts(part: _Part, differs: Differs, dynamic: bool) -> dict[str, str]:
    """What stands in the script for tensors, where it shows the difference, too."""
    texts: dict[str, str] = {}
    for name, value in part.inputs.items():
        for text in tensor_texts(value):
            inputs = _made({**texts, name: text}, part.inputs)
            if _still(part, inputs, differs, dynamic):
                texts[name] = text
                break
    return texts


def _made(texts: Mapping[str, str], inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors as the script will have them, in its order."""
    from math import inf, nan

    seeded = torch.Generator().manual_seed(0)
    scope = {"torch": torch, "seeded": seeded, "inf": inf, "nan": nan}
    return {
        name: eval(texts[name], dict(scope)) if name in texts else value
        for name, value in inputs.items()
    }
