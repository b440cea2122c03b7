"""Minimize a mismatch to a standalone script: few operators, small tensors.

`diagnosis.py` passes FX nodes with their values. The minimizer runs the calls of the script to
check that they still differ. The script reads large tensors from a file beside it.
"""

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
from ortable.debug.explain_records import format_count
from ortable.interpreter.tables import LOADED_SPECS

from .mismatch import find_producer, operator_name

_MAX_INLINE_ELEMENTS = 64  # of a tensor that is written into the script
_REPR_TYPES = (torch.dtype, torch.layout, torch.memory_format)
_SCRIPT = '''\
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


{runners}

expected, got = in_eager(), in_ortable()
try:
    torch.testing.assert_close(got, expected, {tolerance}equal_nan=True)
except AssertionError as error:
    print(error)
    sys.exit(1)
print("equal")
'''
_COMPILE_RUNNERS = """\
def in_eager():
    torch.manual_seed(0)
    with torch.no_grad():
        return call(*arguments())


def in_ortable():
    torch.manual_seed(0)
    function = torch.compile(call, backend="ortable", fullgraph=True{arguments})
    with torch.no_grad():
        return function(*arguments())
"""
_EXPORT_RUNNERS = """\
class Call(torch.nn.Module):
    def forward(self, {names}):
        return call({names})


def in_eager():
    return call(*arguments())


def in_ortable():
    return ortable.export(Call(), arguments(){arguments})(*arguments())
"""


class ReproUnavailable(Exception):
    """Raised if nodes cannot be written as a script."""


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
    """Format the script that runs one subgraph in eager and through ortable.

    Args:
        title: first line of the script's docstring.
        about: second paragraph of the docstring: where the operator was found.
        names: names of the tensors, which are the parameters of the script's function `call`.
        body: source of the body of `call`.
        values: expressions for tensors, by name; the script reads the other tensors from a file.
        foreign: operators of libraries other than torch.
        loaded: files for `ortable.load_specs`.
        tolerance: `(atol, rtol)`.
        options: options of torch.compile.
        dynamic: compile with `dynamic=True`.
        exporting: arguments of `ortable.export`, in place of torch.compile.
    """
    stored = [name for name in names if name not in values]
    text = "\n".join(values.values())
    imports = "from math import inf, nan\n" if "inf" in text or "nan" in text else ""
    imports += "from pathlib import Path\n" if stored else ""
    listed = ", ".join(names)
    if exporting is None:
        runners = _COMPILE_RUNNERS.format(arguments=_compile_arguments(options, dynamic))
    else:
        arguments = "".join(f", {key}={value!r}" for key, value in exporting.items())
        runners = _EXPORT_RUNNERS.format(names=listed, arguments=arguments)
    atol, rtol = tolerance
    return _SCRIPT.format(
        title=title,
        about=about,
        imports=imports,
        values="\n".join(
            [*_setup_lines(foreign, loaded, stored), *_arguments_lines(names, values)]
        ),
        names=listed,
        body=body,
        runners=runners,
        tolerance=f"atol={atol!r}, rtol={rtol!r}, ",
    )


def _compile_arguments(options: Mapping[str, Any], dynamic: bool) -> str:
    prefix = ", dynamic=True" if dynamic else ""
    return prefix + (f", options={pprint.pformat(dict(options), width=60)}" if options else "")


def _setup_lines(foreign: Sequence[str], loaded: Sequence[str], stored: Sequence[str]) -> list[str]:
    """Format the first statements: check foreign operators, load spec files and saved tensors."""
    lines: list[str] = []
    for foreign_name in foreign:
        namespace, _, name = foreign_name.partition("::")
        name = name.partition(".")[0]
        lines += [
            f"# {foreign_name} is not an operator of torch: import the library that registers it",
            f'if not hasattr(torch.ops.{namespace}, "{name}"):',
            f'    print("import the library of {foreign_name} at the top of this file")',
            "    sys.exit(2)",
        ]
    lines += [f"ortable.load_specs({path!r}, override=True)" for path in loaded]
    if stored:
        lines.append('saved = torch.load(Path(__file__).with_suffix(".pt"))')
    return [*lines, ""] if lines else lines


def _arguments_lines(names: Sequence[str], values: Mapping[str, str]) -> list[str]:
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
    """Format the calls of `nodes` in order, and a return of the last result."""
    names = dict(inputs)
    lines = []
    for node in nodes:
        names[node] = _safe_name(node.name)

        def format_argument(value: Any) -> str:
            if isinstance(value, Node):
                return names[value] if value in names else format_literal(values[value])
            if isinstance(value, list | tuple):
                inner = ", ".join(format_argument(item) for item in value)
                return f"[{inner}]"
            return format_literal(value)

        if node.target is operator.getitem:
            lines.append(f"    {names[node]} = {format_argument(node.args[0])}[{node.args[1]!r}]")
            continue
        arguments = [format_argument(operand) for operand in node.args]
        arguments += [
            f"{key}={format_argument(v)}" for key, v in node.kwargs.items() if key != "drawn"
        ]
        lines.append(f"    {names[node]} = {_target_text(node)}({', '.join(arguments)})")
    return "\n".join([*lines, f"    return {names[nodes[-1]]}"])


def _safe_name(text: str) -> str:
    return f"{text}_" if keyword.iskeyword(text) or text in ("torch", "call", "sys") else text


def _target_text(node: Node) -> str:
    target = node.target
    if not isinstance(target, OpOverload):
        raise ReproUnavailable(f"{node.target} is not an operator of torch")
    namespace, _, name = target.name().partition("::")
    name, _, overload = name.partition(".")
    if keyword.iskeyword(overload):
        return f'getattr(torch.ops.{namespace}.{name}, "{overload}")'
    return f"torch.ops.{namespace}.{name}.{overload or 'default'}"


def format_literal(value: Any) -> str:
    """Format a value as Python source."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        value = value.node.hint
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, complex, str, *_REPR_TYPES)):
        return repr(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, list | tuple):
        return f"[{', '.join(format_literal(item) for item in value)}]"
    raise ReproUnavailable(f"a {type(value).__name__} cannot be written into a script")


def writable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the options that can be written as source: strings, numbers, lists and dicts."""
    return {name: value for name, value in options.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


# -- values


def tensor_texts(tensor: torch.Tensor) -> Iterator[str]:
    """Yield expressions that may replace a tensor in the script.

    A small tensor is written in full; a large one becomes random values of its shape and dtype.
    """
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return
    if tensor.numel() <= _MAX_INLINE_ELEMENTS:
        yield _inline_text(tensor)
        return
    shape = ", ".join(map(str, tensor.shape))
    dtype = tensor.dtype
    if dtype is torch.bool:
        yield f"torch.rand({shape}, generator=seeded) > 0.5"
    elif dtype.is_floating_point or dtype.is_complex:
        drawn_dtype = torch.complex64 if dtype.is_complex else torch.float32
        cast = "" if dtype is drawn_dtype else f".to({dtype})"
        dtype_text = ", dtype=torch.complex64" if dtype.is_complex else ""
        yield f"torch.randn({shape}{dtype_text}, generator=seeded){cast}"
    else:
        low, high = int(tensor.min()), int(tensor.max()) + 1
        yield f"torch.randint({low}, {high}, ({shape},), generator=seeded, dtype={dtype})"


def _inline_text(tensor: torch.Tensor) -> str:
    dtype = tensor.dtype
    if not tensor.numel():
        return f"torch.empty({list(tensor.shape)}, dtype={dtype})"
    if dtype.is_floating_point and dtype.itemsize == 1:
        return f"torch.tensor({tensor.float().tolist()}).to({dtype})"
    return f"torch.tensor({tensor.tolist()}, dtype={dtype})"


OPERATOR_AGREES = "the operator alone, on eager's values, agrees with eager"
_TORCH_NAMESPACES = ("aten", "prims", "prim")
_MAX_NODES = 8  # a subgraph of more nodes is not extended
_MAX_TRIALS = 24  # runs on smaller tensors

Differs = Callable[[Callable[..., Any], Sequence[Any], bool], bool]


@dataclass(frozen=True)
class MinimalRepro:
    """A script that shows a mismatch, and the tensors that the script reads.

    `why` is the reason if there is no script.
    """

    script: str = ""
    tensors: Mapping[str, torch.Tensor] | None = None
    operators: int = 0
    why: str = ""


@dataclass(frozen=True)
class _Subgraph:
    """Nodes of a graph as a function of tensors."""

    nodes: Sequence[Node]
    body: str
    inputs: Mapping[str, torch.Tensor]

    def compile_function(self) -> Callable[..., Any]:
        """Compile the function `call` of the script."""
        names: dict[str, Any] = {"torch": torch}
        exec(
            compile(f"def call({', '.join(self.inputs)}):\n{self.body}\n", "<script>", "exec"),
            names,
        )
        return names["call"]  # type: ignore[no-any-return]


def minimize(
    node: Node,
    values: Mapping[Node, Any],
    differs: Differs,
    *,
    about: str,
    options: Mapping[str, Any],
    tolerance: tuple[float, float],
    exporting: Mapping[str, Any] | None = None,
) -> MinimalRepro:
    """Make a script that fails while the result of `node` differs.

    The script calls the operator of the node, after as few operators before it as needed.
    """
    try:
        subgraph, dynamic = _find_smallest_subgraph(node, values, differs)
        subgraph = _shrink_inputs(subgraph, differs, dynamic)
        texts = _select_texts(subgraph, differs, dynamic)
    except ReproUnavailable as error:
        return MinimalRepro(why=str(error))
    used = {operator_name(item) for item in subgraph.nodes}
    operators = len(
        [
            item
            for item in subgraph.nodes
            if find_producer(item) is item and not is_creation_op(item)
        ]
    )
    count = format_count(operators - 1, "operator")
    more_operators = f"; needs {count} before it" if operators > 1 else ""
    script = script_text(
        title=f"{operator_name(node)} in eager and through ortable: status 1 while they differ.",
        about=f"{about}{more_operators}",
        names=list(subgraph.inputs),
        body=subgraph.body,
        values=texts,
        options=writable_options(options),
        dynamic=dynamic,
        foreign=sorted(name for name in used if name.partition("::")[0] not in _TORCH_NAMESPACES),
        loaded=[item.file for item in LOADED_SPECS if item.file and used & set(item.operators)],
        tolerance=tolerance,
        exporting=exporting,
    )
    tensors = {name: value for name, value in subgraph.inputs.items() if name not in texts}
    return MinimalRepro(script, tensors, operators)


def _find_smallest_subgraph(
    node: Node, values: Mapping[Node, Any], differs: Differs
) -> tuple[_Subgraph, bool]:
    """Extend a subgraph backwards from `node` until its result differs.

    The second value is whether it differs only with dynamic sizes.
    """
    target = find_producer(node)
    selected = [*filter(is_creation_op, target.all_input_nodes), target]
    symbolic = any(_is_symbolic(item) for item in (target, *target.all_input_nodes))
    while True:
        subgraph = _make_subgraph(selected, values)
        for dynamic in (False, True) if symbolic else (False,):
            if differs(subgraph.compile_function(), list(subgraph.inputs.values()), dynamic):
                return subgraph, dynamic
        preceding = [
            item
            for selected_node in selected
            for item in selected_node.all_input_nodes
            if item.op == "call_function" and item not in selected and _has_tensor(values.get(item))
        ]
        if not preceding or len(selected) > _MAX_NODES:
            raise ReproUnavailable(OPERATOR_AGREES)
        selected = [*dict.fromkeys(find_producer(item) for item in preceding), *selected]
        selected = _sort_nodes(target, dict.fromkeys(selected))


def is_creation_op(node: Node) -> bool:
    """Whether a node creates a tensor without tensor inputs, such as `zeros`."""
    return node.op == "call_function" and not node.all_input_nodes


def _sort_nodes(node: Node, selected: Mapping[Node, None]) -> list[Node]:
    """Sort nodes into graph order, and add the `getitem` nodes between them."""
    selected_set = set(selected)
    return [
        item
        for item in node.graph.nodes
        if item in selected_set
        or (
            find_producer(item) is not item
            and find_producer(item) in selected_set
            and set(item.users) & selected_set
        )
    ]


def _is_symbolic(node: Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and any(
        not isinstance(size, int) for size in value.shape
    )


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def _make_subgraph(nodes: Sequence[Node], values: Mapping[Node, Any]) -> _Subgraph:
    inside = set(nodes)
    inputs: dict[Node, str] = {}
    for node in nodes:
        for operand in node.all_input_nodes:
            if operand in inside or node.kwargs.get("drawn") is operand:
                continue
            if isinstance(values.get(operand), torch.Tensor):
                inputs.setdefault(operand, operand.name)
            elif _has_tensor(values.get(operand)):
                raise ReproUnavailable(f"'{operand.name}' is several tensors")
    body = calls_text(nodes, values, inputs)
    return _Subgraph(nodes, body, {name: values[node].detach() for node, name in inputs.items()})


# -- smaller values


def _shrink_inputs(subgraph: _Subgraph, differs: Differs, dynamic: bool) -> _Subgraph:
    """Shrink the tensors while the calls still differ; equal sizes stay equal."""
    trials = _MAX_TRIALS
    tried: set[tuple[int, int]] = set()
    while trials:
        sizes = sorted({size for x in subgraph.inputs.values() for size in x.shape}, reverse=True)
        step = next(
            (
                (size, smaller)
                for size in sizes
                for smaller in dict.fromkeys((1, 2, size // 2))
                if 0 < smaller < size and (size, smaller) not in tried
            ),
            None,
        )
        if step is None:
            return subgraph
        trials -= 1
        tried.add(step)
        inputs = {name: _shrink_tensor(value, *step) for name, value in subgraph.inputs.items()}
        if _still_differs(subgraph, inputs, differs, dynamic):
            subgraph = replace(subgraph, inputs=inputs)
    return subgraph


def _shrink_tensor(tensor: torch.Tensor, size: int, smaller: int) -> torch.Tensor:
    slices = tuple(slice(smaller if length == size else length) for length in tensor.shape)
    sliced = tensor[slices]
    return sliced.contiguous() if sliced.shape != tensor.shape else tensor


def _still_differs(
    subgraph: _Subgraph, inputs: Mapping[str, torch.Tensor], differs: Differs, dynamic: bool
) -> bool:
    """Whether the calls run in eager on `inputs`, and differ from ortable."""
    try:
        subgraph.compile_function()(*[value.clone() for value in inputs.values()])
        return differs(subgraph.compile_function(), list(inputs.values()), dynamic)
    except Exception:  # torch raises errors of many types for sizes that do not fit
        return False


def _select_texts(subgraph: _Subgraph, differs: Differs, dynamic: bool) -> dict[str, str]:
    """Replace tensors by expressions with which the calls still differ; return the expressions."""
    texts: dict[str, str] = {}
    for name, value in subgraph.inputs.items():
        for text in tensor_texts(value):
            inputs = _eval_texts({**texts, name: text}, subgraph.inputs)
            if _still_differs(subgraph, inputs, differs, dynamic):
                texts[name] = text
                break
    return texts


def _eval_texts(
    texts: Mapping[str, str], inputs: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Evaluate the expressions of tensors in the order of the script; keep the other tensors."""
    from math import inf, nan

    seeded = torch.Generator().manual_seed(0)
    scope = {"torch": torch, "seeded": seeded, "inf": inf, "nan": nan}
    return {
        name: eval(texts[name], dict(scope)) if name in texts else value
        for name, value in inputs.items()
    }
