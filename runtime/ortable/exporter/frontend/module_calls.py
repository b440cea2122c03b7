"""Read the submodule calls around each node of a torch graph from ``nn_module_stack``.

`call_runs` groups consecutive nodes of one call, so that one node can replace the group. Called by
`functions` and functionalize.py.
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
    """A call of a submodule: torch's key (unique to the call), the path and the class name."""

    key: str
    path: str
    class_name: str


Stack = tuple[ModuleCall, ...]


def class_name(cls: Any) -> str:
    """Return the full name of a class; a string is returned unchanged."""
    return cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"


def function_name(qualified_name: str) -> str:
    """Return the name of the local function for a class.

    This is ``Linear`` for ``torch.nn.modules.linear.Linear``; a local class keeps its ``<locals>.``
    prefix. The name of an ONNX operator gets the suffix ``_module``: ONNX Runtime mistakes a
    function called ``Sub`` for the operator, whatever its domain, and crashes.
    """
    parts = qualified_name.split(".")
    if len(parts) > 1 and parts[-2] == "<locals>":
        return ".".join(parts[-2:])
    return f"{parts[-1]}_module" if is_operator(parts[-1]) else parts[-1]


def checked_classes(requested: Any) -> bool | frozenset[str]:
    """Return ``export_modules_as_functions`` as a bool or class names, or raise OptionError."""
    if isinstance(requested, bool):
        return requested
    is_collection = isinstance(requested, Collection) and not isinstance(requested, (str, bytes))
    if is_collection and all(isinstance(item, (str, type)) for item in requested):
        return frozenset(map(class_name, requested))
    raise OptionError(
        "export_modules_as_functions is True, False, or a set of classes or class names, for "
        f"example {{torch.nn.Linear}}, not {requested!r}"
    )


class CallReader:
    """Reads the calls that contain nodes, but only calls that become functions.

    ``classes`` is the result of ``checked_classes``; ``autocast`` tells whether autocast regions
    become functions.
    """

    def __init__(self, classes: bool | frozenset[str], autocast: bool) -> None:
        self._classes = classes
        self._autocast = autocast
        self._calls: dict[tuple[str, str], ModuleCall | None] = {}
        self.called: set[str] = set()  # names of all classes that the graph calls
        self._has_metadata = False  # whether the graph has nn_module_stack metadata

    def read_stacks(self, nodes: Sequence[Node]) -> list[Stack]:
        """Return the calls that contain each node, outermost first.

        A node without metadata gets the calls that contain both the last node with metadata before
        it and the first one after it. A getitem gets only calls that also contain its list.
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
        self._has_metadata = True
        calls = []
        for key, (path, module_class) in recorded.items():
            try:
                call = self._calls[key, path]
            except KeyError:
                call = self._calls[key, path] = self._make_call(
                    str(key), str(path), class_name(module_class)
                )
            if call is not None:
                calls.append(call)
        return tuple(calls)

    def _make_call(self, key: str, path: str, full_name: str) -> ModuleCall | None:
        path = path.removeprefix("L['self']").removeprefix(".")
        if full_name == AUTOCAST:
            return ModuleCall(key, path, full_name) if self._autocast else None
        if path in ("", "_export_root"):
            return None
        self.called.add(full_name)
        if self._classes is True:
            return ModuleCall(key, path, full_name)
        if self._classes is False:
            return None
        selected = full_name in self._classes or full_name.rpartition(".")[2] in self._classes
        return ModuleCall(key, path, full_name) if selected else None

    def check_classes(self) -> None:
        """Raise ExportError if the graph has no metadata or never calls a requested class."""
        if self._classes is False:
            return
        if not self._has_metadata:
            raise ExportError(
                "export_modules_as_functions needs the submodules of a graph (nn_module_stack in "
                "the metadata of its nodes): the given graph has no such metadata"
            )
        if self._classes is not True:
            called = {
                name
                for full_name in self.called
                for name in (full_name, full_name.rpartition(".")[2])
            }
            missing = sorted(self._classes - called)
            if missing:
                raise ExportError(
                    f"export_modules_as_functions: the model calls no module of {missing}; it "
                    f"calls {sorted(self.called)}"
                )


def _fill_unknown_stacks(stacks: Sequence[Stack | None]) -> list[Stack]:
    """Replace each unknown stack by the calls common to the known stacks before and after it."""
    filled: list[Stack] = []
    following: list[Stack] = []
    next_stack: Stack = ()
    for stack in reversed(stacks):
        next_stack = next_stack if stack is None else stack
        following.append(next_stack)
    previous: Stack = ()
    for stack, next_stack in zip(stacks, reversed(following), strict=True):
        previous = common_calls(previous, next_stack) if stack is None else stack
        filled.append(previous)
    return filled


def common_calls(first_stack: Stack, second_stack: Stack) -> Stack:
    """Return the calls at the start of both stacks: those that contain both nodes."""
    count = 0
    for first, second in zip(first_stack, second_stack, strict=False):
        if first is not second and first != second:
            break
        count += 1
    return first_stack[:count]


def calls_inside(stacks: Sequence[Stack], outer: Stack) -> list[Stack]:
    """Return the calls of each stack that are inside ``outer``.

    If a stack does not start with ``outer``, as in a graph that was traced elsewhere, return the
    calls inside the common ones.
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
    """Yield (call, start, end) for runs of nodes with the same outermost call.

    A node outside of calls is a run by itself, with None as the call.
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
    """Apply ``change`` to leaves of nested lists, tuples (as lists), dicts and complex pairs."""
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
    """Selection of the parts that become local functions, and their settings.

    ``reader`` selects modules and autocast regions. ``subgraphs`` tells whether regions of
    ``nested_compile_region`` become functions. ``weights`` is ``ExportOptions.function_weights``;
    weights of ``largest_constant`` bytes or more are always inputs (None: no limit). ``passes``
    optimize the bodies.
    """

    reader: CallReader
    subgraphs: bool = False
    weights: str = "auto"
    largest_constant: int | None = None
    passes: PassOptions = field(default_factory=PassOptions)

    def takes_weights(self, full_name: str) -> bool:
        """Whether the function of a class has its weights as inputs."""
        return self.weights == "inputs" or (
            self.weights == "auto" and full_name.startswith("torch.")
        )


def function_choices(
    modules: Any,
    options: Any,
    passes: PassOptions,
    inline: bool,
    largest_constant: int | None,
) -> FunctionChoices | None:
    """Return the choices of a conversion, or None if nothing becomes a function.

    The result is None with ``inline``, since functions would be inlined again. Raises OptionError
    if ``modules`` is neither a bool nor a collection of classes.
    """
    classes = checked_classes(modules)
    all_modules = classes is True
    autocast = all_modules or "autocast" in options.functions
    subgraphs = all_modules or "subgraphs" in options.functions
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
    """Return ``ExportOptions.functions`` as a tuple; raise OptionError for unknown names."""
    names = (functions,) if isinstance(functions, str) else functions
    if not isinstance(names, Collection) or not all(name in FUNCTION_KINDS for name in names):
        raise OptionError(
            f"ExportOptions.functions holds names among {FUNCTION_KINDS}, not {functions!r}"
        )
    return tuple(names)
