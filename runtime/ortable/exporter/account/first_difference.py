"""Where a model that failed its validation leaves eager: the first result of an FX node that ONNX
Runtime computes otherwise, and the random draws that make two runs differ anyway. In come the
model, its program and the example call, out go lines for the error. Called by to_onnx.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import torch
from torch.fx import Interpreter, Node

from ortable.compat.torch import pytree
from ortable.exporter.request.copies import copied_call
from ortable.exporter.request.program import Program
from ortable.interpreter.calls import operator_key
from ortable.interpreter.complex_numbers import real_tensor
from ortable.interpreter.diagnostics.failures import describe_node, shortened
from ortable.interpreter.diagnostics.origin import source_line
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import ConverterTables

from .resize import ExampleCall
from .sessions import array_of
from .validate import Comparison, Explanation, difference, input_names

_DEBUG = (
    "What to do: torch.compile(model, backend=ortable.onnx_debug_backend, "
    'options={"compare": True})(*args)',
    "  runs node by node and stops at the first that differs.",
)
_DRAWS = (
    "What to do: validate=False; model.eval() if it is dropout; or give the random tensor as an "
    "input.",
)


def draws(program: Program, tables: ConverterTables) -> list[str]:
    """The calls of the program that draw random numbers, with their lines."""
    found = []
    for node in program.graph_module.graph.nodes:
        if _draws(node, tables):
            line = source_line(node)
            found.append(f"  {operator_key(node)} at {line or node.name}")
    return list(dict.fromkeys(found))


def _draws(node: Node, tables: ConverterTables) -> bool:
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    function = tables.draws.get(operator_key(node))
    return function is None or function(node, *node.args, **node.kwargs) is not None


def explained(
    found: Sequence[Comparison],
    model: Any,
    program: Program,
    call: ExampleCall,
    tables: ConverterTables,
    accepted: float | None,
) -> Explanation:
    """Why the outputs differ, and what to do."""
    drawn = draws(program, tables)
    if drawn and all(each.largest is not None for each in found if each.failed):
        listed = drawn[:3] + [f"  and {len(drawn) - 3} more"] * (len(drawn) > 3)
        headline = "validation cannot compare, because the model draws random numbers"
        return Explanation(headline, False, (*listed,), _DRAWS)
    if not any(each.failed and each.inputs == "example" for each in found):
        return Explanation(lines=("the example call agrees with eager: other sizes do not",))
    try:
        lines = tuple(_first(model, program, call, tables, accepted))
    except Exception:  # what is told about an error never takes its place
        lines = ()
    return Explanation(lines=lines, advice=_DEBUG)


def _first(
    model: Any, program: Program, call: ExampleCall, tables: ConverterTables, accepted: float | None
) -> Iterator[str]:
    if not isinstance(model, onnx.ModelProto):
        return  # too large to keep every result of it
    made = {name for node in model.graph.node for name in node.output}
    outputs = {value.name for value in model.graph.output}
    results = {**program.results, **_returned(model, program)}
    names = [name for name in results if name in made]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    expected = _Recorder(program).values_of(call)
    leaves = zip(input_names(model, program), pytree.tree_leaves(call), strict=True)
    feeds = {name: array_of(leaf) for name, leaf in leaves if name is not None}
    computed = _results(watched, feeds, names)
    nodes = {node.name: node for node in program.graph_module.graph.nodes}
    order = {node.name: place for place, node in enumerate(nodes.values())}
    for name in sorted(names, key=lambda name: order[results[name]]):
        node = nodes[results[name]]
        if node.name not in expected:
            continue
        gap, problem = difference(computed[name], expected[node.name], accepted)
        if problem:
            about = problem if gap is None else f"by {gap:.3g}, {problem}"
            yield f"the first result that differs is that of FX node '{node.name}': {about}"
            yield from map(shortened, describe_node(node, tables.spec_files)[:5])
            return
    yield "without ONNX Runtime's optimizers every result is eager's: one of them changes it"


def _returned(model: Any, program: Program) -> dict[str, str]:
    """Names of the outputs of the model, and the FX nodes that return them."""
    leaves = flatten_output(program.graph_module.graph.output_node().args[0])
    users = [
        leaf
        for leaf, output in zip(leaves, program.outputs, strict=False)
        if output.kind == "user" and not output.is_none
    ]
    outputs = [value.name for value in model.graph.output]
    pairs = zip(outputs, users, strict=False)
    return {name: leaf.name for name, leaf in pairs if isinstance(leaf, Node)}


def _results(model: Any, feeds: dict[str, Any], names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Results of ONNX Runtime, each as the model has it: nothing is fused."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(list(names), feeds)
    return {name: torch.as_tensor(value) for name, value in zip(names, found, strict=True)}


class _Recorder(Interpreter):
    """Runs the graph of a program in torch and keeps the tensors that its nodes compute."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.graph_module)
        self.program = program
        self.values: dict[str, torch.Tensor] = {}

    def values_of(self, call: ExampleCall) -> dict[str, torch.Tensor]:
        """What the nodes compute for a call, by name."""
        given = iter(pytree.tree_leaves(copied_call(*call)))
        leaves = {node.name: next(given) for node in self.program.user_inputs}
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        weights = self.program.weights
        with torch.no_grad():
            self.run(
                *(leaves[n.name] if n.name in leaves else weights[n.name] for n in placeholders)
            )
        return self.values

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op == "call_function":
            self.values[n.name] = real_tensor(value.detach().cpu())
        return value
