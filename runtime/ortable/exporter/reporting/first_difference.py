"""Explain a failed validation.

The explanation names the first FX node whose value ONNX Runtime computes differently, or the random
operators that make two runs differ. Called by conversion.py and the debugger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch.fx import Interpreter, Node

from ortable.compat.torch import pytree
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.frontend.module_state import copy_call
from ortable.exporter.reporting.example_sizes import ExampleCall
from ortable.exporter.reporting.numeric_diff import intermediate_results
from ortable.exporter.reporting.sessions import array_of, proto_of
from ortable.exporter.reporting.validate import (
    Comparison,
    FailureExplanation,
    compare_output,
    input_names,
)
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.diagnostics.failures import describe_node, shorten_line
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import ConverterTables

_DEBUG_ADVICE = (
    "What to do: ortable.first_difference(ortable.export(model, args)) finds the entry, rule or",
    "  kernel that causes the difference, and has a script of that operator alone.",
)
_RANDOM_ADVICE = (
    "What to do: give validate=False; call model.eval() if dropout is the cause; or pass the "
    "random tensor as an input.",
)


def random_calls(program: Program, tables: ConverterTables) -> list[str]:
    """List the calls of the program that generate random numbers, with their lines."""
    descriptions = []
    for node in program.graph_module.graph.nodes:
        if _is_random(node, tables):
            line = source_line(node)
            descriptions.append(f"  {operator_key(node)} at {line or node.name}")
    return list(dict.fromkeys(descriptions))


def _is_random(node: Node, tables: ConverterTables) -> bool:
    """Whether a call draws random numbers; ``tables.draws`` decides by its arguments."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    function = tables.draws.get(operator_key(node))
    return function is None or function(node, *node.args, **node.kwargs) is not None


def explain_difference(
    comparisons: Sequence[Comparison],
    model: Any,
    program: Program,
    call: ExampleCall,
    tables: ConverterTables,
    accepted: float | None,
) -> FailureExplanation:
    """Explain why outputs differ from eager, with advice.

    ``call`` is the example call; ``accepted`` is the tolerance of `validate_model`.
    """
    random_nodes = random_calls(program, tables)
    if random_nodes and all(
        comparison.largest is not None for comparison in comparisons if comparison.failed
    ):
        listed = random_nodes[:3] + [f"  and {len(random_nodes) - 3} more"] * (
            len(random_nodes) > 3
        )
        headline = "validation cannot compare, because the model draws random numbers"
        return FailureExplanation(headline, False, (*listed,), _RANDOM_ADVICE)
    if not any(comparison.failed and comparison.inputs == "example" for comparison in comparisons):
        return FailureExplanation(lines=("the example call agrees with eager: other sizes do not",))
    try:
        lines = tuple(_find_first_difference(model, program, call, tables, accepted))
    except Exception:  # an error of the explanation must not hide the failed validation
        lines = ()
    return FailureExplanation(lines=lines, advice=_DEBUG_ADVICE)


def _find_first_difference(
    model: Any, program: Program, call: ExampleCall, tables: ConverterTables, accepted: float | None
) -> Iterator[str]:
    if not isinstance(model, onnx.ModelProto):
        return  # a large model has too many results to keep
    results = program_results(model, program, call)
    nodes = {node.name: node for node in program.graph_module.graph.nodes}
    computed = intermediate_results(model, results.feeds, list(results.nodes))
    for name, node_name in results.nodes.items():
        gap, problem = compare_output(computed[name], results.expected[node_name], accepted)
        if problem:
            description = problem if gap is None else f"by {gap:.3g}, {problem}"
            yield f"the first result that differs is that of FX node '{node_name}': {description}"
            yield from map(shorten_line, describe_node(nodes[node_name], tables.spec_files)[:5])
            return
    yield (
        "without ONNX Runtime's optimizers every result equals eager's: an optimizer causes the "
        "difference"
    )


@dataclass(frozen=True)
class ProgramResults:
    """Results of a model, and the values that torch computes for them in a call.

    Attributes:
        nodes: name of a result of the model -> name of the FX node with the same value, in the
            order of the FX graph.
        expected: name of an FX node -> its value in torch, in which complex numbers are pairs.
        feeds: the arguments of the call as arrays, by the names of the model's inputs.
    """

    nodes: dict[str, str]
    expected: dict[str, torch.Tensor]
    feeds: dict[str, Any]


def program_results(model: Any, program: Program, call: ExampleCall) -> ProgramResults:
    """Pair the results of a model with the values of FX nodes that torch computes for `call`."""
    computed = {name for node in proto_of(model).graph.node for name in node.output}
    results = {**program.results, **returned_nodes(model, program)}
    expected = _NodeRecorder(program).values_of(call)
    leaves = zip(
        input_names(proto_of(model).graph.input, program), pytree.tree_leaves(call), strict=True
    )
    feeds = {name: array_of(leaf) for name, leaf in leaves if name is not None}
    order = {node.name: index for index, node in enumerate(program.graph_module.graph.nodes)}
    names = [name for name, node in results.items() if name in computed and node in expected]
    names.sort(key=lambda name: order[results[name]])
    return ProgramResults({name: results[name] for name in names}, expected, feeds)


def returned_nodes(model: Any, program: Program) -> dict[str, str]:
    """Map names of the model's outputs to names of the FX nodes whose values they are."""
    leaves = flatten_output(program.graph_module.graph.output_node().args[0])
    user_leaves = [
        leaf
        for leaf, output in zip(leaves, program.outputs, strict=False)
        if output.kind == "user" and not output.is_none
    ]
    outputs = [value.name for value in proto_of(model).graph.output]
    pairs = zip(outputs, user_leaves, strict=False)
    return {name: leaf.name for name, leaf in pairs if isinstance(leaf, Node)}


def graph_arguments(program: Program, call: ExampleCall) -> list[Any]:
    """Return the arguments of a program's graph, in order: copies of the call's, and weights."""
    leaf_iterator = iter(pytree.tree_leaves(copy_call(*call)))
    leaves = {node.name: next(leaf_iterator) for node in program.user_inputs}
    placeholders = program.graph_module.graph.find_nodes(op="placeholder")
    return [leaves[n.name] if n.name in leaves else program.weights[n.name] for n in placeholders]


class _NodeRecorder(Interpreter):
    """Runs the graph of a program in torch, and records the tensors that its nodes compute."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.graph_module)
        self.program = program
        self.values: dict[str, torch.Tensor] = {}

    def values_of(self, call: ExampleCall) -> dict[str, torch.Tensor]:
        """Run the graph for a call, and return the value of each node by name."""
        with torch.no_grad():
            self.run(*graph_arguments(self.program, call))
        return self.values

    def run_node(self, n: Node) -> Any:
        """Run a node, and record its value if it is a tensor."""
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op == "call_function":
            self.values[n.name] = real_tensor(value.detach().cpu())
        return value
