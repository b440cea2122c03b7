"""Read which call of which submodule each node of a torch graph belongs to, from
``nn_module_stack``.

A call is a run of neighbouring nodes: such a run can always be one node. Called by `functions`
and functionalize.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch.fx import Node

from ortable.errors import ExportError, OptionError
from ortable.ir.schemas import is_operator
from ortable.passes.pipeline import PassOptions

AUTOCAST = "torch.autocast"
SUBGRAPH = "torch.compiler.nested_compile_region"


class ModuleCall(NamedTuple):
    """One call of a submodule: torch's key (another one for each call), path and class name."""

    key: str
    path: str
    kind: str


Stack = tuple[ModuleCall, ...]


def class_name(kind: Any) -> str:
    """Full name of a class, or the name itself."""
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def function_name(kind: str) -> str:
    """``Linear`` for ``torch.nn.modules.linear.Linear``; a local class keeps the ``<locals>.`` in
    front, and a class called like an ONNX operator has ``_module`` behind it: ONNX Runtime takes
    a function called ``Sub`` for the operator, whatever its domain, and crashes."""
    parts = kind.split(".")
    if len(parts) > 1 and parts[-2] == "<locals>":
        return ".".join(parts[-2:])
    return f"{parts[-1]}_module" if is_operator(parts[-1]) else parts[-1]


def checked_classes(requested: Any) -> bool | frozenset[str]:
    """``export_modules_as_functions``: False, True, or names of the chosen classes.

    Raises OptionError for anything but a bool and a collection of classes and names.
    """
    if isinstance(requested, bool):
        return requested
    listed = isinstance(requested, Collection) and not isinstance(requested, (str, bytes))
    if listed and all(isinstance(kind, (str, type)) for kind in requested):
        return frozenset(map(class_name, requested))
    raise OptionError(
        "export_modules_as_functions is True, False, or a set of classes or class names, for "
        f"example {{torch.nn.Linear}}, not {requested!r}"
    )


class CallReader:
    """Reads the calls of nodes, and drops those that do not become functions.

    ``classes`` as from ``checked_classes``; ``autocast``: whether its regions are functions too.
    """

    def __init__(self, classes: bool | frozenset[str], autocast: bool) -> None:
        self._classes = classes
        self._autocast = autocast
        self._calls: dict[tuple[str, str], ModuleCall | None] = {}
        self.called: set[str] = set()  # every class that the graph calls
        self._recorded = False  # whether torch recorded calls at all

    def read_stacks(self, nodes: Sequence[Node]) -> list[Stack]:
        """Return the calls around each node, outermost first.

        A node without metadata gets the calls that both of its neighbours are in; a getitem those
        of the list.
        """
        recorded: list[Stack | None] = []
        stack_by_node: dict[Node, Stack] = {}
        for node in nodes:
            stack = self._read_stack(node)
            if node.target is operator.getitem and node.args[0] in stack_by_node:
                list_stack = stack_by_node[node.args[0]]  # type: ignore[index]
                stack = list_stack if stack is None else common_calls(stack, list_stack)
            if stack is not None:
                stack_by_node[node] = stack
            recorded.append(stack)
        return _fill_unknown_stacks(recorded)

    def _read_stack(self, node: Node) -> Stack | None:
        recorded = node.meta.get("nn_module_stack")
        if not recorded:
            return None
        self._recorded = True
        calls = []
        for key, (path, kind) in recorded.items():
            try:
                call = self._calls[key, path]
            except KeyError:
                call = self._calls[key, path] = self._make_call(
                    str(key), str(path), class_name(kind)
                )
            if call is not None:
                calls.append(call)
        return tuple(calls)

    def _make_call(self, key: str, path: str, kind: str) -> ModuleCall | None:
        path = path.removeprefix("L['self']").removeprefix(".")
        if kind == AUTOCAST:
            return ModuleCall(key, path, kind) if self._autocast else None
        if path in ("", "_export_root"):
            return None
        self.called.add(kind)
        if self._classes is True:
            return ModuleCall(key, path, kind)
        if self._classes is False:
            return None
        selected = kind in self._classes or kind.rpartition(".")[2] in self._classes
        return ModuleCall(key, path, kind) if selected else None

    def check_classes(self) -> None:
        """Raise ExportError for a graph without metadata, and for requested classes it never
        calls.
        """
        if self._classes is False:
            return
        if not self._recorded:
            raise ExportError(
                "export_modules_as_functions needs a graph that knows its submodules "
                "(nn_module_stack in the metadata of its nodes): the graph given has lost them"
            )
        if self._classes is not True:
            called = {name for kind in self.called for name in (kind, kind.rpartition(".")[2])}
            missing = sorted(self._classes - called)
            if missing:
                raise ExportError(
                    f"export_modules_as_functions: the model calls no module of {missing}; it "
                    f"calls {sorted(self.called)}"
                )


def _fill_unknown_stacks(stacks: Sequence[Stack | None]) -> list[Stack]:
    """Fill in unknown stacks from the known ones around them."""
    filled: list[Stack] = []
    following: list[Stack] = []
    after: Stack = ()
    for stack in reversed(stacks):
        after = after if stack is None else stack
        following.append(after)
    before: Stack = ()
    for stack, after in zip(stacks, reversed(following), strict=True):
        before = common_calls(before, after) if stack is None else stack
        filled.append(before)
    return filled


def common_calls(a: Stack, b: Stack) -> Stack:
    """Return the calls that two nodes share."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x is not y and x != y:
            break
        count += 1
    return a[:count]


def calls_below(stacks: Sequence[Stack], outer: Stack) -> list[Stack]:
    """Return the calls inside ``outer``; inside the common ones for a graph that was traced
    elsewhere.
    """
    if any(stack[: len(outer)] != outer for stack in stacks):
        shared = stacks[0]
        for stack in stacks:
            shared = common_calls(shared, stack)
        outer = shared
    return [stack[len(outer) :] for stack in stacks]


def call_runs(
    nodes: Sequence[Node], stacks: Sequence[Stack]
) -> Iterator[tuple[ModuleCall | None, int, int]]:
    """Yield (call, first, end) for neighbours of one outermost call.

    A node outside calls is its own run.
    """
    start = 0
    while start < len(nodes):
        call = stacks[start][0] if stacks[start] else None
        end = start + 1
        if call is not None:
            while end < len(nodes) and stacks[end] and stacks[end][0] == call:
                end += 1
        yield call, start, end
        start = end


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to everything in the lists, tuples, dicts and complex pairs of ``value``."""
    from ortable.prelude.complex_value import ComplexValue

    if isinstance(value, (list, tuple)):
        return [map_leaves(item, change) for item in value]
    if isinstance(value, dict):
        return {key: map_leaves(item, change) for key, item in value.items()}
    if isinstance(value, ComplexValue):
        return ComplexValue(change(value.real), change(value.imag), value.dtype)
    return change(value)


FUNCTION_KINDS = ("autocast", "subgraphs", "custom_ops")


@dataclass
class FunctionChoices:
    """What becomes a function, and how.

    ``subgraphs``: whether regions of ``nested_compile_region`` do. ``weights``: "auto", "inputs" or
    "constants"; those of ``largest_constant`` bytes or more are always inputs (None: no limit).
    ``passes``: the passes that optimize the bodies.
    """

    reader: CallReader
    subgraphs: bool = False
    weights: str = "auto"
    largest_constant: int | None = None
    passes: PassOptions = field(default_factory=PassOptions)

    def takes_weights(self, kind: str) -> bool:
        """Return whether the function of a class has its weights as inputs."""
        return self.weights == "inputs" or (self.weights == "auto" and kind.startswith("torch."))


def function_choices(
    modules: Any,
    options: Any,
    passes: PassOptions,
    inline: bool,
    largest_constant: int | None,
) -> FunctionChoices | None:
    """Return the choices of one conversion, None when nothing becomes a function.

    With ``inline`` no function is made that would be inlined again.

    Raises OptionError when ``modules`` is neither a bool nor a collection of classes.
    """
    classes = checked_classes(modules)
    everything = classes is True
    autocast = everything or "autocast" in options.functions
    subgraphs = everything or "subgraphs" in options.functions
    if inline or not (classes or autocast or subgraphs):
        return None
    return FunctionChoices(
        CallReader(classes, autocast),
        subgraphs,
        options.function_weights,
        largest_constant,
        passes,
    )


def checked_functions(functions: Any) -> tuple[str, ...]:
    """``ExportOptions.functions`` as a tuple.

    Raises OptionError for names that are not in ``KINDS``.
    """
    names = (functions,) if isinstance(functions, str) else functions
    if not isinstance(names, Collection) or not all(name in FUNCTION_KINDS for name in names):
        raise OptionError(
            f"ExportOptions.functions holds names among {FUNCTION_KINDS}, not {functions!r}"
        )
    return tuple(names)
