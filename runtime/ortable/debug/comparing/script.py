"""The program of a difference: one operator (or the few that it takes), called in eager and through
ortable on the values that it had. In come FX nodes and values, out come the text of a script and
the tensors that it reads from a file beside it; called by `alone`."""

from __future__ import annotations

import keyword
import math
import operator
import pprint
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from ortable.compat.torch import OpOverload

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


def save_script(text: str, tensors: Mapping[str, torch.Tensor], path: Path) -> Path:
    """Writes a script, and its tensors into the file that the script reads."""
    path.write_text(text, encoding="utf-8")
    if tensors:
        torch.save(dict(tensors), path.with_suffix(".pt"))
    return path
