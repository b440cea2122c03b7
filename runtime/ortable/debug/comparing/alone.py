"""The operator of a difference alone: with as few operators before it, and as small tensors, as
still show it. In come FX nodes and the values that they had, out comes a script that was run and
that fails, with the tensors that it reads from a file beside it; called by `diagnosis`."""

from __future__ import annotations

import keyword
import math
import operator
import pprint
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from ortable.compat.torch import OpOverload, pytree
from ortable.interpreter.tables import LOADED

from .found import operator_of, producer

_INLINE = 64  # elements that are written into the script
_PLAIN = (torch.dtype, torch.layout, torch.memory_format)
_HEAD = '''\
"""{title}

{about}
"""

import sys
{imports}
import torch

import ortable

{values}

def call({names}):
{body}


{ways}

expected, got = in_eager(), in_ortable()
try:
    torch.testing.assert_close(got, expected, {tolerance}equal_nan=True)
except AssertionError as error:
    print(error)
    sys.exit(1)
print("equal")
'''
_COMPILED = """\
def in_eager():
    torch.manual_seed(0)
    with torch.no_grad():
        return call(*arguments())


def in_ortable():
    torch.manual_seed(0)
    function = torch.compile(call, backend="ortable", fullgraph=True{more})
    with torch.no_grad():
        return function(*arguments())
"""
_EXPORTED = """\
class Call(torch.nn.Module):
    def forward(self, {names}):
        return call({names})


def in_eager():
    return call(*arguments())


def in_ortable():
    return ortable.export(Call(), arguments(){more})(*arguments())
"""


class NoScript(Exception):
    """These nodes cannot be written as a program."""


def script_text(
    *,
    title: str,
    about: str,
    names: Sequence[str],
    body: str,
    values: Mapping[str, str],
    foreign: Sequence[str],
    loaded: Sequence[str],
    tolerance: tuple[float, float],
    options: Mapping[str, Any],
    dynamic: bool,
    exporting: Mapping[str, Any] | None,
) -> str:
    """The whole program: calls (`body`) of tensors by name, whose `values` are texts, or read from
    a file where these have none. `foreign` are operators that torch does not have, `loaded` files
    for `ortable.load_specs`, `options` those of torch.compile, `exporting` the arguments of
    `ortable.export`, in place of torch.compile."""
    stored = [name for name in names if name not in values]
    text = "\n".join(values.values())
    imports = "from math import inf, nan\n" if "inf" in text or "nan" in text else ""
    imports += "from pathlib import Path\n" if stored else ""
    listed = ", ".join(names)
    if exporting is None:
        ways = _COMPILED.format(more=_more(options, dynamic))
    else:
        given = "".join(f", {key}={value!r}" for key, value in exporting.items())
        ways = _EXPORTED.format(names=listed, more=given)
    atol, rtol = tolerance
    return _HEAD.format(
        title=title,
        about=about,
        imports=imports,
        values="\n".join([*_before(foreign, loaded, stored), *_arguments(names, values)]),
        names=listed,
        body=body,
        ways=ways,
        tolerance=f"atol={atol!r}, rtol={rtol!r}, ",
    )


def _more(options: Mapping[str, Any], dynamic: bool) -> str:
    more = ", dynamic=True" if dynamic else ""
    return more + (f", options={pprint.pformat(dict(options), width=60)}" if options else "")


def _before(foreign: Sequence[str], loaded: Sequence[str], stored: Sequence[str]) -> list[str]:
    """What runs before the values are made."""
    lines: list[str] = []
    for operator_name in foreign:
        namespace, _, name = operator_name.partition("::")
        name = name.partition(".")[0]
        lines += [
            f"# {operator_name} is not of torch: import here what registers it",
            f'if not hasattr(torch.ops.{namespace}, "{name}"):',
            f'    print("import what registers {operator_name}, at the top of this file")',
            "    sys.exit(2)",
        ]
    lines += [f"ortable.load_specs({path!r}, override=True)" for path in loaded]
    if stored:
        lines.append('saved = torch.load(Path(__file__).with_suffix(".pt"))')
    return [*lines, ""] if lines else lines


def _arguments(names: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The function that makes the values."""
    lines = ["", "def arguments():"]
    if any("generator=" in text for text in values.values()):
        lines.append("    seeded = torch.Generator().manual_seed(0)")
    lines.append("    return (")
    for name in names:
        lines.append(f"        {values.get(name, f'saved[{name!r}].clone()')},  # {name}")
    return [*lines, "    )", ""]


# -- calls


def calls_text(
    nodes: Sequence[Node], values: Mapping[Node, Any], inputs: Mapping[Node, str]
) -> str:
    """The calls of some nodes in order, and what the last one returns."""
    names = dict(inputs)
    lines = []
    for node in nodes:
        names[node] = _name(node.name)

        def argument(value: Any) -> str:
            if isinstance(value, Node):
                return names[value] if value in names else literal(values[value])
            if isinstance(value, list | tuple):
                inner = ", ".join(argument(each) for each in value)
                return f"[{inner}]"
            return literal(value)

        if node.target is operator.getitem:
            lines.append(f"    {names[node]} = {argument(node.args[0])}[{node.args[1]!r}]")
            continue
        given = [argument(each) for each in node.args]
        given += [f"{key}={argument(v)}" for key, v in node.kwargs.items() if key != "drawn"]
        lines.append(f"    {names[node]} = {_target(node)}({', '.join(given)})")
    return "\n".join([*lines, f"    return {names[nodes[-1]]}"])


def _name(text: str) -> str:
    return f"{text}_" if keyword.iskeyword(text) or text in ("torch", "call", "sys") else text


def _target(node: Node) -> str:
    target = node.target
    if not isinstance(target, OpOverload):
        raise NoScript(f"{node.target} is no operator of torch")
    namespace, _, name = target.name().partition("::")
    name, _, overload = name.partition(".")
    if keyword.iskeyword(overload):
        return f'getattr(torch.ops.{namespace}.{name}, "{overload}")'
    return f"torch.ops.{namespace}.{name}.{overload or 'default'}"


def literal(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        value = value.node.hint
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, complex, str, *_PLAIN)):
        return repr(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(each) for each in value)}]"
    raise NoScript(f"a {type(value).__name__} cannot be written into a script")


def writable(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that can be written: texts, numbers, and lists of these."""
    return {name: value for name, value in options.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


# -- values


def tensor_texts(tensor: torch.Tensor) -> Iterator[str]:
    """Expressions that may stand for a tensor, the one to try first: its values where these are
    few, else random ones of its dtype."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return
    if tensor.numel() <= _INLINE:
        yield _inline(tensor)
        return
    shape = ", ".join(map(str, tensor.shape))
    dtype = tensor.dtype
    if dtype is torch.bool:
        yield f"torch.rand({shape}, generator=seeded) > 0.5"
    elif dtype.is_floating_point or dtype.is_complex:
        made = torch.complex64 if dtype.is_complex else torch.float32
        cast = "" if dtype is made else f".to({dtype})"
        kind = ", dtype=torch.complex64" if dtype.is_complex else ""
        yield f"torch.randn({shape}{kind}, generator=seeded){cast}"
    else:
        low, high = int(tensor.min()), int(tensor.max()) + 1
        yield f"torch.randint({low}, {high}, ({shape},), generator=seeded, dtype={dtype})"


def _inline(tensor: torch.Tensor) -> str:
    dtype = tensor.dtype
    if not tensor.numel():
        return f"torch.empty({list(tensor.shape)}, dtype={dtype})"
    if dtype.is_floating_point and dtype.itemsize == 1:
        return f"torch.tensor({tensor.float().tolist()}).to({dtype})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"


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
