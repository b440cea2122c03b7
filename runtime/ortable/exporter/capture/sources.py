"""Make the `Program` of the model given to to_onnx; conversion.py calls `make_program`.

Modules go through torch.export, or another strategy of `strategies.py`; exported programs and
graphs of ATen operators are used directly.

Each strategy captures the model again. After a failure only those strategies are tried that may
succeed: a branch on data, a missing converter or a bug of the model can break every strategy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.backends import opt_einsum
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.torch import (
    HigherOrderOperator,
    OpOverload,
    decomposition_table,
    keep_functorch_levels,
    pytree,
)
from ortable.compat.torch import can_decompose as torch_decomposes
from ortable.errors import ExportError, OptionError, OrtableError
from ortable.exporter.capture.program_check import check_layouts, check_not_nested, check_subclasses
from ortable.exporter.frontend.export_request import Program, ProgramOutput, Request, active_patches
from ortable.exporter.frontend.fake_weights import replace_meta_tensors
from ortable.exporter.frontend.module_state import (
    FAKE_TENSOR_LOGGER,
    GUARDS_LOGGER,
    TRACE_LOGGER,
    caller_autocast,
    copy_call,
    copy_module,
    detach_dynamic_spec,
    in_onnx_export,
    replace_inference_tensors,
    restore_state,
    silence_loggers,
    wrap_forward_in_autocast,
)
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dimension_names import name_dimensions
from ortable.interpreter import results
from ortable.interpreter.calls import find_converter
from ortable.interpreter.modules import find_attribute, is_guard
from ortable.interpreter.mutation import first_write
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import ConverterTables
from ortable.ir.initializers import is_fake
from ortable_generated.aten import traits

from . import export_failures
from .enlarged_example import make_enlarged_requests
from .exported_program import add_guards, build_program
from .functionalize import FunctionalizationError
from .loop_capture import check_other_sizes
from .program_check import check_program
from .pt2 import save_program
from .size_branches import merge_branch_variants
from .small_sizes import CapturedModule, check_example, holds_for_example, prove_small_sizes
from .strategies import CaptureAttempts, LostConstantError, Strategy, select_strategies


def make_program(request: Request) -> Program:
    """Make the program of an nn.Module, an ExportedProgram or a GraphModule.

    Raises:
        ExportError: the model has another type, torch cannot export it, or the dynamic shapes do
            not fit.
        InputError: a tensor of the model or of the call is not dense.
    """
    mod = request.model
    if isinstance(mod, ExportedProgram):
        program = build_program(mod, request)
        prove_small_sizes(program, request, None)
        return program
    if isinstance(mod, GraphModule):
        reason = export_reason(mod, request.tables)
        if reason is None:
            return _from_graph(request)
        if request.args or request.kwargs:
            return _from_module(request, [f"exported again by torch.export, because {reason}"])
        if first_write(mod, request.tables) is not None:
            raise ExportError(
                f"this GraphModule cannot be converted as it is, because {reason}. "
                "Give example inputs (args): torch.export then functionalises it."
            )
        return _from_graph(request)
    if isinstance(mod, torch.nn.Module):
        return _from_module(request, [])
    hint = "wrap a function in a module whose forward calls it"
    if isinstance(mod, type):
        hint = f"{mod.__name__} is a class: give an instance of it"
    raise ExportError(
        "to_onnx takes a torch.nn.Module, a torch.export.ExportedProgram or a "
        f"torch.fx.GraphModule, not {type(mod).__name__}; {hint}"
    )


def export_reason(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Return why a GraphModule needs torch.export, such as a call of a module; None otherwise."""
    for node in graph_module.graph.nodes:
        if node.op == "call_method":
            return f"node '{node.name}' calls the method '{node.target}'"
        if node.op == "call_module" and not is_guard(
            find_attribute(graph_module, node.target, None)
        ):
            return f"node '{node.name}' calls the module '{node.target}'"
        if node.op == "call_function":
            target = node.target
            is_operator = isinstance(target, (OpOverload, HigherOrderOperator))
            if (
                not is_operator
                and results.is_tensor_like(results.node_value(node))
                and target.__name__ != "getitem"
            ):
                return f"node '{node.name}' calls {target.__name__}, which is not an ATen operator"
            if results.node_value(node) is results.UNKNOWN and node.users:
                return f"node '{node.name}' has no metadata"
        if node.op == "placeholder" and node.users and results.node_value(node) is results.UNKNOWN:
            return f"input '{node.name}' has no metadata"
    write = first_write(graph_module, tables)
    return None if write is None else f"node '{write[0].name}' writes to its argument, {write[1]}"


def _from_module(request: Request, notes: list[str]) -> Program:
    program = capture_module(request)
    program.notes[:0] = notes
    return program


def _from_graph(request: Request) -> Program:
    graph_module, dynamic_shapes = request.model, request.dynamic_shapes
    args, kwargs = request.args, request.kwargs
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for node in nodes:
        check_not_nested(f"input '{node.name}' of the graph", results.node_value(node))
    output = graph_module.graph.output_node()
    program = Program(graph_module, user_inputs=nodes)
    for leaf in flatten_output(output.args[0]):
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        label = f"output_{len(program.outputs)}"
        program.outputs.append(ProgramOutput("user", is_none=value is None, label=label))
    arguments = (
        shapes.bind_arguments(graph_module, args, kwargs)
        if dynamic_shapes is not None and args
        else None
    )
    requested = (
        shapes.collect_leaf_specs(dynamic_shapes, arguments, {}) if arguments is not None else None
    )
    name_dimensions(program, requested)
    return program


# -- modules


def capture_module(request: Request) -> Program:
    """Make the program of a module with the first strategy that works.

    The options select the strategy; with a fallback the others follow.

    Raises ExportError if torch cannot make the graph (with the line of the model and advice) or a
    dynamic dimension cannot vary (with the input and the dimension), and InputError if a tensor is
    not dense.
    """
    check_layouts(request)
    with (
        detach_dynamic_spec(request.model),
        replace_inference_tensors(request) as ordinary,
        replace_meta_tensors(_copy_repeated_tensors(ordinary)) as fitted,
    ):
        for enlarged in make_enlarged_requests(fitted) if fitted.dynamic_shapes is not None else ():
            program = _capture_enlarged(enlarged, fitted)
            if program is not None:
                return program
        return _try_strategies(fitted)


def _capture_enlarged(request: Request, original: Request) -> Program | None:
    """Capture an enlarged example; None unless the program holds for the original request, too."""
    try:
        with silence_loggers(GUARDS_LOGGER, TRACE_LOGGER, FAKE_TENSOR_LOGGER):
            program = _try_strategies(request)
    except Exception:  # the sizes do not fit each other, or the original example fails as well
        return None
    return program if holds_for_example(program, original) else None


def _try_strategies(request: Request) -> Program:
    request.record.sides = 1
    arguments = shapes.bind_arguments(request.model, request.args, request.kwargs)
    normalized = shapes.normalize_shapes(request.dynamic_shapes, arguments)
    attempts = CaptureAttempts(request, arguments, normalized)
    for strategy in select_strategies(request.options):
        if strategy.approach not in attempts.approaches:
            attempts.left_out.append(strategy.name)
            continue
        try:
            with silence_loggers(GUARDS_LOGGER) if attempts.failures else nullcontext():
                program = _run_strategy(strategy, attempts)
        except Exception as error:  # forward is any Python code, torch.export raises many types
            _note_failure(attempts, strategy, error)
            continue
        request.record.strategy = strategy.name
        capture = CapturedModule(attempts.programs[-1][1], attempts.record)
        program = _merge_other_sides(program, strategy, attempts)
        if request.record.sides == 1:
            check_example(program, request, capture)
            prove_small_sizes(program, request, capture)
        return program
    first_error = attempts.failures[0][1]
    if isinstance(first_error, OrtableError) and not request.options.fallback:
        raise first_error
    raise _make_failure(attempts) from first_error


def _note_failure(attempts: CaptureAttempts, strategy: Strategy, error: Exception) -> None:
    error, runs_in_eager = check_eager(error, attempts.request)
    attempts.followed_advice += (export_failures.EAGER_ADVICE,) * runs_in_eager
    attempts.failures.append((strategy.name, error))
    if strategy.approach != "loops":  # a failed re-rolling does not rule out other approaches
        attempts.approaches &= fallbacks_after(error, attempts.request.options.fallback)


def _merge_other_sides(program: Program, strategy: Strategy, attempts: CaptureAttempts) -> Program:
    """Add the other sides of branches on sizes, if a fallback or tracing is requested."""
    options = attempts.request.options
    if not (options.fallback or options.tracing) or strategy.approach not in ("capture", "tracing"):
        return program

    def capture_sizes(request: Request) -> Program:
        arguments = shapes.bind_arguments(request.model, request.args, request.kwargs)
        unsaved_request = replace(request, options=replace(options, save_ep=None))
        with silence_loggers(GUARDS_LOGGER):
            new_attempts = CaptureAttempts(unsaved_request, arguments, attempts.dynamic_shapes)
            return _run_strategy(strategy, new_attempts)

    return merge_branch_variants(program, attempts.request, capture_sizes)


def _copy_repeated_tensors(request: Request) -> Request:
    """Copy tensors that the call has twice: torch.export would make one input of both."""
    seen: set[int] = set()

    def copy_seen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and id(leaf) in seen:
            return leaf.clone()
        seen.add(id(leaf))
        return leaf

    args, kwargs = pytree.tree_map(copy_seen, (request.args, request.kwargs))
    if len(seen) == len(pytree.tree_leaves((args, kwargs))):
        return request
    return replace(request, args=args, kwargs=kwargs)


def _run_strategy(strategy: Strategy, attempts: CaptureAttempts) -> Program:
    request = attempts.request
    model = request.model
    with (
        request.record.phase("export"),
        restore_state(model, (request.args, request.kwargs)),
        wrap_forward_in_autocast(model),
        in_onnx_export(),
        keep_functorch_levels(),
        # the order of products that opt_einsum chooses is one for the sizes of the example
        nullcontext() if attempts.dynamic_shapes is None else opt_einsum.flags(enabled=False),
    ):
        attempts.paths, attempts.record = [], None
        exported, notes = strategy.run(attempts)
        attempts.programs.append((strategy.name, exported))
    if strategy.table is not None:
        request = replace(
            request, options=replace(request.options, decomposition_table=strategy.table)
        )
    program = build_program(exported, request)
    add_guards(program, attempts.paths, request)
    if request.options.fallback and attempts.request.options.table() is None:
        _check_converters(program, request, strategy.table)
    if strategy.approach == "loops":
        notes = [*notes, *check_other_sizes(program, exported, request)]
    if request.options.validate:
        check_program(exported, request)
        notes = [*notes, "the exported program was compared with the module"]
    else:
        check_subclasses(exported, request)
    if request.options.save_ep is not None:
        save_program(exported, request.options.save_ep)
    tried = [
        f"exported with {strategy.name}, because {name} failed: {_error_summary(error)}"
        for name, error in attempts.failures
    ]
    patched = active_patches()
    if patched:
        tried.insert(0, f"bypass_export_some_errors: {', '.join(patched)}")
    program.notes[:0] = [*tried, *notes]
    return program


def _check_converters(program: Program, request: Request, table: str | None) -> None:
    """Raise MissingConverters for missing converters if a decomposition table may help."""
    ignored = traits.ASSERTION | traits.SIZE | traits.METADATA_ONLY
    missing: dict[str, OpOverload] = {}
    modules = program.graph_module.modules()
    for module in (inner for inner in modules if isinstance(inner, GraphModule)):
        for node in module.graph.nodes:
            target = node.target
            if not isinstance(target, OpOverload) or target._schema.is_mutable:
                continue  # the remaining writes are harmless, see functionalize.py
            if target.name() not in ignored:
                name = target.name()
                if find_converter(request.tables, name, target, request.dispatcher) is None:
                    missing[name] = target
    if missing and table != "all" and can_decompose(list(missing.values())):
        raise MissingConverters(f"no converter for {', '.join(missing)}")


def _make_failure(attempts: CaptureAttempts) -> ExportError:
    mod, failures = attempts.request.model, attempts.failures
    fallback = attempts.request.options.fallback
    followed = attempts.followed_advice
    if len(failures) > 1 and not fallback:
        followed += (export_failures.STRICT_ADVICE,)
    if any(name == "tracing" for name, _ in failures):
        followed += (export_failures.TRACING,)
    # torch.export records no gradients: what stops the strategy that does is the cause
    has_gradients = "autograd" in fallbacks_after(failures[0][1], fallback)
    index = 1 if has_gradients and len(failures) > 1 else 0
    failure = _explain_failure(type(mod).__name__, failures[index][1], attempts, followed)
    text, details = failure.message, failure.details
    if not fallback:
        others = [
            f"\n{name} was tried {'before' if i < index else 'after'} that: {_error_summary(error)}"
            for i, (name, error) in enumerate(failures)
            if i != index
        ]
        return ExportError(text + "".join(others), details=details + "".join(others)).with_advice(
            *failure.remedies
        )
    lines = [f"no strategy could export {type(mod).__name__}:"]
    lines += [f"  {name}: {_error_summary(error)}" for name, error in failures]
    if attempts.left_out:
        lines.append(f"  not tried, because they would fail too: {', '.join(attempts.left_out)}")
    if len(failures) > 1:
        order = "second" if index else "first"
        lines.append(f"The {order} failure, {failures[index][0]}:")
    return ExportError("\n".join([*lines, text]), details="\n".join([*lines, details])).with_advice(
        *failure.remedies
    )


def _explain_failure(
    name: str, error: Exception, attempts: CaptureAttempts, tried: Collection[str] = ()
) -> ExportError:
    if isinstance(error, OrtableError):
        return ExportError(error.message, details=error.details).with_advice(*error.remedies)
    kind = export_failures.classify_failure(error)
    if kind in export_failures.ARGUMENT_FAILURES:
        explanation = shapes.explain_export_error(
            error, attempts.arguments, attempts.dynamic_shapes
        )
        lines = export_failures.find_guard_lines(error)
        if explanation is not None:
            additions = _format_size_lines(lines)
            if any(line.code.startswith("for ") or " for " in line.code for line in lines):
                additions.append(f"Or: {export_failures.LOOPS_ADVICE}.")
            if "Cache" in explanation.message:
                additions.append(f"Or: {export_failures.BYPASS_ADVICE}.")
            return ExportError(
                "\n".join([explanation.message, *additions]),
                details="\n".join([explanation.details, *additions]),
            )
        text = export_failures.describe_failure(error, lines, tried)
        return ExportError(f"torch.export could not trace {name}: {text}")
    text = export_failures.describe_failure(error, tried=tried)
    return ExportError(f"torch.export could not trace {name}: {text}")


def _format_size_lines(lines: list[export_failures.UserLine]) -> list[str]:
    return ["The code that decides on a size:", *(f"  at {line}" for line in lines)] * bool(lines)


def _error_summary(error: Exception) -> str:
    line = None if isinstance(error, OrtableError) else export_failures.find_user_line(error)
    text = export_failures.error_headline(error)
    return text if line is None else f"{text} ({line.file}:{line.line})"


class MissingConverters(ExportError):
    """The program calls operators that have no converter, but a decomposition in torch."""


class FailsInEager(ExportError):
    """The model raises on the example, without torch.export."""


def fallbacks_after(error: Exception, fallback: bool) -> frozenset[str]:
    """Return the `Strategy.approach` values that may succeed after ``error``."""
    if isinstance(error, MissingConverters):
        return frozenset({"decompose"})
    if isinstance(error, FunctionalizationError):
        return frozenset({"capture"})
    if isinstance(error, LostConstantError):  # of a gradient, mostly
        return frozenset(
            {"capture", "autograd", "loops", "tracing"} if fallback else {"capture", "autograd"}
        )
    if isinstance(error, (OptionError, FailsInEager)):
        return frozenset()
    if isinstance(error, OrtableError):  # the conversion failed, or a comparison with the module
        return frozenset({"capture", "loops", "tracing"} if fallback else ())
    return export_failures.classify_failure(error).useful_approaches


def can_decompose(missing: Sequence[OpOverload]) -> bool:
    """Whether torch has a decomposition of every operator in ``missing``."""
    table = decomposition_table
    return all(overload in table or torch_decomposes(overload) for overload in missing)


def check_eager(error: Exception, request: Request) -> tuple[Exception, bool]:
    """Run the model in eager mode; return the error to report, and whether the run succeeded.

    The error to report is FailsInEager if the model raises, otherwise ``error``. A copy of the
    model runs, with the caller's gradient mode and autocast. It does not run if torch's message
    rules out an error of the model, if a tensor has no data, or if the model cannot be copied.
    """
    if (
        isinstance(error, OrtableError)
        or export_failures.EAGER_ADVICE not in export_failures.classify_failure(error).advice
    ):
        return error, False
    module, call = request.model, (request.args, request.kwargs)
    tensors = (call, list(module.parameters()), list(module.buffers()))
    if any(is_fake(value) for value in pytree.tree_leaves(tensors)):
        return error, False
    try:
        module_copy = copy_module(module)
    except Exception:  # attributes may be of any class, and some cannot be copied
        return error, False
    args, kwargs = copy_call(*call)
    try:
        # A function that is an attribute of the copy may still be bound to the original module.
        with restore_state(module, call), torch.random.fork_rng(devices=[]), caller_autocast():
            module_copy(*args, **kwargs)
    except Exception as raised:  # forward is any Python code
        line = export_failures.find_user_line(raised)
        location = "" if line is None else f"\n  at {line}"
        failure = FailsInEager(
            f"{type(module).__name__} raises on the example inputs, without torch.export too: "
            f"{type(raised).__name__}: {raised}{location}"
        )
        failure.__cause__ = raised
        return failure, False
    return error, True
