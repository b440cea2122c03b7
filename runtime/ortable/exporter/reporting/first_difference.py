"""Explain a failed validation: the first FX node whose value ONNX Runtime computes differently, or
the random operators that make two runs differ. Called by conversion.py, and by the debugger.
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

_DEBUG = (
    "What to do: ortable.first_difference(ortable.export(model, args)) says which entry, rule or",
    "  kernel makes it differ, and has a script of that operator alone.",
)
_DRAWS = (
    "What to do: validate=False; model.eval() if it is dropout; or give the random tensor as an "
    "input.",
)


def random_calls(program: Program, tables: ConverterTables) -> list[str]:
    """List the calls of the program that draw random numbers, with their lines."""
    calls = []
    for node in program.graph_module.graph.nodes:
        if _is_random(node, tables):
            line = source_line(node)
            calls.append(f"  {operator_key(node)} at {line or node.name}")
    return list(dict.fromkeys(calls))


def _is_random(node: Node, tables: ConverterTables) -> bool:
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
    """Explain why the outputs differ, and give advice."""
    drawn = random_calls(program, tables)
    if drawn and all(
        comparison.largest is not None for comparison in comparisons if comparison.failed
    ):
        listed = drawn[:3] + [f"  and {len(drawn) - 3} more"] * (len(drawn) > 3)
        headline = "validation cannot compare, because the model draws random numbers"
        return FailureExplanation(headline, False, (*listed,), _DRAWS)
    if not any(comparison.failed and comparison.inputs == "example" for comparison in comparisons):
        return FailureExplanation(lines=("the example call agrees with eager: other sizes do not",))
    try:
        lines = tuple(_find_first_difference(model, program, call, tables, accepted))
    except Exception:  # what is told about an error never takes its place
        lines = ()
    return FailureExplanation(lines=lines, advice=_DEBUG)


def _find_first_difference(
    model: Any, program: Program, call: ExampleCall, tables: ConverterTables, accepted: float | None
) -> Iterator[str]:
    if not isinstance(model, onnx.ModelProto):
        return  # too large to keep every result of it
    results = program_results(model, program, call)
    nodes = {node.name: node for node in program.graph_module.graph.nodes}
    computed = intermediate_results(model, results.feeds, list(results.nodes))
    for name, node_name in results.nodes.items():
        gap, problem = compare_output(computed[name], results.expected[node_name], accepted)
        if problem:
            about = problem if gap is None else f"by {gap:.3g}, {problem}"
            yield f"the first result that differs is that of FX node '{node_name}': {about}"
            yield from map(shorten_line, describe_node(nodes[node_name], tables.spec_files)[:5])
            return
    yield "without ONNX Runtime's optimizers every result is eager's: one of them changes it"


@dataclass(frozen=True)
class ProgramResults:
    """A model beside the graph that it was made of, for one call.

    Attributes:
        nodes: results of the model that are values of FX nodes, by their ONNX names, in the order
            of the FX graph.
        expected: what these nodes compute in torch, by their names; complex numbers as pairs.
        feeds: the call as arrays, by the names of the model's inputs.
    """

    nodes: dict[str, str]
    expected: dict[str, torch.Tensor]
    feeds: dict[str, Any]


def program_results(model: Any, program: Program, call: ExampleCall) -> ProgramResults:
    """Pair the results of a model that can be compared with what torch computes for `call`."""
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
    """Map the outputs of the model to the FX nodes that return them."""
    leaves = flatten_output(program.graph_module.graph.output_node().args[0])
    users = [
        leaf
        for leaf, output in zip(leaves, program.outputs, strict=False)
        if output.kind == "user" and not output.is_none
    ]
    outputs = [value.name for value in proto_of(model).graph.output]
    pairs = zip(outputs, users, strict=False)
    return {name: leaf.name for name, leaf in pairs if isinstance(leaf, Node)}


def graph_arguments(program: Program, call: ExampleCall) -> list[Any]:
    """Return the arguments of the graph of a program: copies of the call's tensors, and weights."""
    leaf_iterator = iter(pytree.tree_leaves(copy_call(*call)))
    leaves = {node.name: next(leaf_iterator) for node in program.user_inputs}
    placeholders = program.graph_module.graph.find_nodes(op="placeholder")
    return [leaves[n.name] if n.name in leaves else program.weights[n.name] for n in placeholders]


class _NodeRecorder(Interpreter):
    """Run the graph of a program in torch and record the tensors that its nodes compute."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.graph_module)
        self.program = program
        self.values: dict[str, torch.Tensor] = {}

    def values_of(self, call: ExampleCall) -> dict[str, torch.Tensor]:
        """What the nodes compute for a call, by name."""
        with torch.no_grad():
            self.run(*graph_arguments(self.program, call))
        return self.values

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op == "call_function":
            self.values[n.name] = real_tensor(value.detach().cpu())
        return value
