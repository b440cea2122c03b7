"""Prove that a program, captured at sizes of 2 and more, also holds for the sizes 1 and 0.

torch.export assumes that a dynamic size is neither, and does not record this as a guard.

The module runs with fake tensors at the small size. It must call the same functions on the same
tensors, with results of the same shapes, as in the capture (recorded_calls.py), and the nodes of
the program must have their recorded shapes (graph_at_sizes.py). If the calls differ, or the module
raises, the program and the module run with data, and their results are compared. If the caller gave
an ExportedProgram, there is no module: only the shapes of the program's nodes are compared.
sources.py calls this module; `Program.smallest` stores the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.torch import pytree, remove_pre_hook
from ortable.errors import ExportError
from ortable.exporter.capture.recorded_calls import FakeCopies, record_module
from ortable.exporter.frontend.export_request import Program, Request, SmallestSize, UserLine
from ortable.exporter.frontend.module_state import (
    caller_autocast,
    copy_call,
    copy_module,
)
from ortable.exporter.reporting.example_sizes import (
    example_sizes,
    has_negative_size,
    resize_leaf,
    size_expressions,
    sizes_by_name,
)
from ortable.interpreter.calls import operator_key
from ortable.ir.initializers import is_fake

from .export_failures import error_headline, find_user_line, parse_user_lines
from .exported_program import get_example_call, get_requested_dims
from .graph_at_sizes import DivergentNodeError, FailingNodeError, GraphAtSizes, check_graph
from .program_check import find_differences, results_of
from .recorded_calls import CallRecord, SizeEvaluator, find_divergence

_SMALL_SIZES = (1, 0)
_MAX_CODE = 80  # characters of a code line in a message
_DEFAULT_MINIMUM = 2  # torch's smallest size of a dimension without a requested minimum


def prove_small_sizes(program: Program, request: Request, capture: CapturedModule | None) -> None:
    """Fill ``program.smallest`` for the dimensions without a requested minimum.

    Nothing is proved without an example. ``capture`` is None for an exported program.
    """
    trials = _SizeTrials.make_trials(program, request, capture)
    if trials is None:
        return
    rejected: set[Any] = set()
    divisors = _attention_divisors(program)
    for size in _SMALL_SIZES:
        symbols = [
            symbol
            for symbol, smallest in _least_sizes(program, request, trials.hints).items()
            if smallest <= size < trials.hints[symbol]
            and symbol not in rejected
            and not (size == 0 and symbol in divisors)
        ]
        groups = [
            group
            for group in _group_by_name(symbols, trials.names)
            if trials.meets_guards(dict.fromkeys(group, size))  # guards reject the size otherwise
        ]
        all_sizes = dict.fromkeys((symbol for group in groups for symbol in group), size)
        joint_reason = (
            trials.failure_reason(all_sizes)
            if all_sizes and trials.meets_guards(all_sizes)
            else None
        )
        for group in groups:
            group_reason = joint_reason
            # if all symbols at once fail, try each name alone
            if joint_reason != "" and len(group) < len(all_sizes):
                group_reason = trials.failure_reason(dict.fromkeys(group, size))
            for symbol in group:
                if group_reason == "":
                    program.smallest[str(symbol)] = SmallestSize(size)
                    continue
                rejected.add(symbol)
                if group_reason is not None:
                    program.smallest[str(symbol)] = SmallestSize(
                        size + 1, f"at {size} {group_reason}"
                    )
                elif _is_open(program, symbol):  # neither proved nor disproved
                    program.smallest.pop(str(symbol), None)


def _attention_divisors(program: Program) -> set[Any]:
    """Return symbols by which torch's grouped attention divides: 0 would crash the process."""
    symbols: set[Any] = set()
    for node in program.graph_module.graph.nodes:
        for operand in node.all_input_nodes if node.kwargs.get("enable_gqa") else ():
            value = operand.meta.get("val")
            heads = value.shape[-3] if isinstance(value, torch.Tensor) and value.dim() > 2 else 1
            if isinstance(heads, torch.SymInt):
                symbols |= heads.node.expr.free_symbols
    return symbols


def check_example(program: Program, request: Request, capture: CapturedModule) -> None:
    """Raise ExportError if the program does not hold for an example with a size of 0 or 1."""
    trials = _SizeTrials.make_trials(program, request, capture)
    if trials is None or all(size > 1 for size in trials.hints.values()):
        return
    reason = trials.failure_reason({})
    if not reason:
        return
    sizes = {name: trials.hints[symbol] for symbol, name in trials.names.items()}
    text = ", ".join(f"{name}={size}" for name, size in sizes.items() if size < _DEFAULT_MINIMUM)
    raise ExportError(
        f"the model computes something else for {text}, the example, than for larger sizes: "
        f"there {reason}"
    ).with_advice(
        "What to do: give an example of size 2 or more, and the model accepts such sizes; or leave "
        "the dimension out of dynamic_shapes."
    )


def holds_for_example(program: Program, request: Request) -> bool:
    """Whether ranges, guards and proofs of small sizes allow the example of ``request``."""
    leaves = pytree.tree_leaves((request.args, request.kwargs))
    sizes = [size_expressions(node.meta.get("val")) for node in program.user_inputs]
    if len(leaves) != len(sizes) or program.exported is None:
        return False
    for leaf, expressions in zip(leaves, sizes, strict=True):
        if isinstance(expressions, list) and any(
            isinstance(expected, int) and expected != size
            for expected, size in zip(expressions, leaf.shape, strict=True)
        ):
            return False
    hints = example_sizes(leaves, sizes)
    names = program.symbol_names
    proved = {
        names.get(symbol, symbol): smallest.size for symbol, smallest in program.smallest.items()
    }
    for symbol, size in hints.items():
        size_range = program.exported.range_constraints.get(symbol)
        if size_range is not None and size > size_range.upper:
            return False
        if size < _DEFAULT_MINIMUM and size < proved.get(
            names.get(str(symbol), str(symbol)), _DEFAULT_MINIMUM
        ):
            return False
    by_name = {str(symbol): size for symbol, size in hints.items()}
    return all(guard.holds(by_name) for guard in program.guards)


def _least_sizes(program: Program, request: Request, hints: Mapping[Any, int]) -> dict[Any, int]:
    """Return the smallest requested size of each symbol for which small sizes are possible."""
    assert program.exported is not None
    ranges = program.exported.range_constraints
    least_sizes = {
        symbol: 0 if ranges[symbol].lower == _DEFAULT_MINIMUM else int(ranges[symbol].lower)
        for symbol in hints
        if symbol in ranges and ranges[symbol].lower in (0, 1, _DEFAULT_MINIMUM)
    }
    requested = get_requested_dims(program, program.exported, request) or ()
    for node, leaf in zip(program.user_inputs, requested, strict=False):
        sizes = size_expressions(node.meta.get("val"))
        for axis, dim in leaf.dims().items():
            symbol = sizes[axis] if isinstance(sizes, list) else sizes
            requested_minimum = getattr(dim, "min", None)
            if (
                isinstance(requested_minimum, int)
                and not hasattr(dim, "root")
                and symbol in least_sizes
            ):
                least_sizes[symbol] = max(least_sizes[symbol], requested_minimum)
    return {
        symbol: smallest
        for symbol, smallest in least_sizes.items()
        if program.symbol_names.get(str(symbol), "s").isidentifier()
    }


def _is_open(program: Program, symbol: Any) -> bool:
    """Whether the caller gave a name without a smallest size, or a Dim with minimum 0."""
    assert program.exported is not None
    lower = program.exported.range_constraints[symbol].lower
    return lower == 0 or str(symbol) in program.open_dims


def _group_by_name(symbols: Sequence[Any], names: Mapping[Any, str]) -> list[list[Any]]:
    """Group the symbols by their names."""
    groups: dict[str, list[Any]] = {}
    for symbol in symbols:
        groups.setdefault(names[symbol], []).append(symbol)
    return list(groups.values())


class CapturedModule:
    """A module's captured program, and the calls of its forward if they were recorded."""

    def __init__(self, exported: ExportedProgram, record: CallRecord | None) -> None:
        self.exported, self.record = exported, record


class _SizeTrials:
    """Evaluates the program and the module at sizes other than the example's.

    ``hints`` are the example's sizes by symbol, ``names`` the dimension names by symbol.
    """

    def __init__(
        self, program: Program, request: Request, capture: CapturedModule | None, call: Any
    ) -> None:
        self.program, self.request, self.capture = program, request, capture
        self.leaves, self.structure = pytree.tree_flatten(call)
        self.sizes = [size_expressions(node.meta.get("val")) for node in program.user_inputs]
        self.hints = example_sizes(self.leaves, self.sizes)
        self.names = {
            symbol: program.symbol_names.get(str(symbol), str(symbol)) for symbol in self.hints
        }
        self.copies = FakeCopies()

    @cached_property
    def graph(self) -> GraphAtSizes:
        """The graph of the program, which computes shapes at other sizes."""
        return GraphAtSizes(self.program, self.copies)

    @classmethod
    def make_trials(
        cls, program: Program, request: Request, capture: CapturedModule | None
    ) -> _SizeTrials | None:
        """Make the trials of a program; None if its example is missing or does not fit."""
        if program.exported is None:
            return None
        call = (request.args, request.kwargs)
        if capture is None:
            call = get_example_call(request.model, program)
        leaves = pytree.tree_leaves(call)
        is_symbolic = any(_is_symbolic(leaf) for leaf in leaves)
        if is_symbolic or len(leaves) != len(program.user_inputs):
            return None
        return cls(program, request, capture, call)

    def _sizes_with(self, changed_sizes: Mapping[Any, int]) -> dict[Any, int]:
        return sizes_by_name({**self.hints, **changed_sizes}, self.names, min)

    def meets_guards(self, changed_sizes: Mapping[Any, int]) -> bool:
        """Whether inputs can have the changed sizes, and the guards of the program hold at them."""
        values = self._sizes_with(changed_sizes)
        by_name = {str(symbol): size for symbol, size in values.items()}
        return not has_negative_size(self.sizes, values) and all(
            guard.holds(by_name) for guard in self.program.guards
        )

    def failure_reason(self, changed_sizes: Mapping[Any, int]) -> str | None:
        """Return why the program fails at these sizes: empty if it does not, None if unknown."""
        values = self._sizes_with(changed_sizes)
        if self.capture is None:
            return self._shape_failure(values)
        if self.capture.record is None:
            return self._value_failure(self.capture.exported, values, None)
        try:
            with self.copies.fake_mode:
                fakes = self._resized_leaves(values, self.copies)
            args, kwargs = pytree.tree_unflatten(fakes, self.structure)
            trial_record = record_module(self.request, self.copies, args, kwargs)
        except Exception:  # forward is any Python code, and may not support fake tensors
            return self._value_failure(self.capture.exported, values, None)
        divergence = find_divergence(self.capture.record, trial_record, _at_sizes(values))
        if divergence is None:
            return self._shape_divergence(values)
        return self._value_failure(
            self.capture.exported,
            values,
            _with_location("the module does something else", divergence.line),
        )

    def _shape_divergence(self, values: Mapping[Any, int]) -> str:
        """Return why a shape of the graph is not the recorded one; empty if none is known to be.

        The record of calls hides the shapes inside of a call: ``y[:2] = 1`` returns nothing, and
        ``y[:2]`` has one row at a size of 1.
        """
        try:
            self.graph.check_shapes(self.leaves, self.sizes, values, _at_sizes(values))
        except FailingNodeError as error:
            # the sizes of the graph say what -1 is in a view of no elements, where torch cannot
            is_failure = "is ambiguous" not in error.message and error.is_caused_by_shapes()
            return _at_node(error) if is_failure else ""
        except DivergentNodeError as error:
            return _at_node(error)
        except Exception:  # an operator does not support fake tensors
            return ""
        return ""

    def _shape_failure(self, values: Mapping[Any, int]) -> str | None:
        """Compute the shapes of the graph; return the reason if a shape is not the recorded one."""
        try:
            self.graph.check_shapes(self.leaves, self.sizes, values, _at_sizes(values))
            return ""
        except FailingNodeError as error:  # fake tensors may raise although the kernels do not
            return self._run_failure(values, error)
        except DivergentNodeError as error:
            return _at_node(error)
        except Exception:  # an operator does not support fake tensors
            return self._run_failure(values)

    def _run_failure(
        self, values: Mapping[Any, int], failed: FailingNodeError | None = None
    ) -> str | None:
        """Run the graph with data; return why it fails, empty if it does not.

        None if inputs or weights have no data, or if the program calls backward kernels: they rely
        on autograd's sizes, and may write out of bounds, or divide by the number of elements.
        """
        if any(map(is_fake, (*self.leaves, *self.program.weights.values()))):
            return None
        if any(_backward_nodes(self.program.graph_module)):
            return None
        if failed is not None and failed.is_caused_by_shapes():
            return _at_node(failed)
        try:
            inputs = copy_call(self._resized_leaves(values), {})[0]
            check_graph(self.program, inputs, _at_sizes(values))
        except DivergentNodeError as error:
            return _at_node(error)
        return ""

    def _resized_leaves(
        self, values: Mapping[Any, int], copy: Callable[[Any], Any] = lambda leaf: leaf
    ) -> list[Any]:
        return [
            resize_leaf(copy(leaf), dims, values)
            for leaf, dims in zip(self.leaves, self.sizes, strict=True)
        ]

    def _value_failure(
        self, exported: ExportedProgram, values: Mapping[Any, int], default_reason: str | None
    ) -> str | None:
        """Compare program and module with data; return why they differ, empty if they do not.

        ``default_reason`` is returned without data, and in place of the text for a difference.
        """
        model = self.request.model
        if any(map(is_fake, (*self.leaves, *exported.state_dict.values()))):
            return default_reason
        call = pytree.tree_unflatten(self._resized_leaves(values), self.structure)
        try:
            with caller_autocast():
                module = copy_module(model, dict(model.named_buffers()))
                expected = results_of(module, call, exported)
        except Exception as error:  # forward is any Python code
            return _with_location(
                f"the module raises {error_headline(error)}", find_user_line(error)
            )
        if _has_empty_gradients(exported.graph_module, _at_sizes(values)):
            return default_reason
        try:
            results = results_of(_module_of(exported), call)
        except Exception:  # operators raise many types
            return default_reason or "the program of torch.export fails, and the module does not"
        problem = "the program of torch.export differs from the module"
        if not find_differences(results, expected):
            problem = self._shape_failure(values) or ""
        return problem and (default_reason or problem)


def _module_of(exported: ExportedProgram) -> torch.nn.Module:
    """Return a module with copied buffers and without input checks, which reject small sizes."""
    module = exported.module(check_guards=False)
    remove_pre_hook(module)
    for submodule in module.modules():
        for name, buffer in submodule._buffers.items():
            submodule._buffers[name] = None if buffer is None else buffer.clone()
    return module


def _is_symbolic(leaf: Any) -> bool:
    shape = leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,)
    return any(isinstance(size, torch.SymInt) for size in shape)


def _backward_nodes(graph_module: GraphModule) -> Iterator[Node]:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and "backward" in operator_key(node):
            yield node


def _has_empty_gradients(graph_module: GraphModule, at_sizes: SizeEvaluator) -> bool:
    """Whether a backward kernel gets no elements: torch's divide by their number, and crash."""
    gradients = (n.all_input_nodes[0].meta.get("val") for n in _backward_nodes(graph_module))
    return any(0 in map(at_sizes, v.shape) for v in gradients if isinstance(v, torch.Tensor))


def _at_sizes(values: Mapping[Any, int]) -> SizeEvaluator:
    return SizeEvaluator({str(symbol): size for symbol, size in values.items()})


def _at_node(error: DivergentNodeError) -> str:
    lines = parse_user_lines(error.node.meta.get("stack_trace") or "")
    return _with_location(error.message, lines[-1] if lines else None)


def _with_location(text: str, line: UserLine | None) -> str:
    if line is None:
        return text
    return f"{text} ({Path(line.file).name}:{line.line}: {line.code:.{_MAX_CODE}})"
