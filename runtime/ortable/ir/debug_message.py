"""Format the graph built so far for error messages: known facts, then the last build steps.

Flags such as `[##:#]` (two inputs, one output) tell what is known about the inputs and outputs of a
node: `#` is type and shape, `U` type and rank, `-` less. The text is built only for an error.
"""

from __future__ import annotations

from pprint import pformat
from typing import Any

from ortable import dtypes
from ortable.inference import ValueInfo

from . import initializers
from .node import Node
from .state import GraphState, describe_value

_MAX_LINES = 1000  # steps in one message; only the last ones of a larger graph are printed
# facts of one kind in one message: the last ones, and the first names of constants
_MAX_FACTS = 400


def debug_message(graph: GraphState) -> str:
    """Return the text to append to an error message, with a leading newline."""
    counts = (
        f"there are {len(graph.initializers_dict)} initializers, {len(graph.nodes)} nodes, "
        f"{len(graph.inputs)} inputs, {len(graph.outputs)} outputs."
    )
    title = f"[GraphBuilder-{graph.tag}]"
    rows = [
        "",
        "--DEBUG--",
        f"{title} Message starts, {counts}",
        "--LOCAL FUNCTIONS--",
        *_function_names(graph),
        "--PARAMETERS--",
        f"opsets={getattr(graph, 'opsets', {})}",
        f"target={getattr(graph, 'target', None)!r}",
        "--SHAPE--",
        "dynamic_objects=",
        *(f"{name} = {name!r}" for name in _dim_sources(graph)),
        "dynamic_dimensions_source=" + pformat(_dim_sources(graph)),
        "_known_value_shape=" + _format_facts(graph.known_values),
        "_known_types=" + _format_facts(graph.known_types),
        "_known_shapes=" + _format_facts(graph.known_shapes),
        "_known_constants=" + pformat(sorted(graph.constant_names)[:_MAX_FACTS], compact=True),
        "_known_ranks=" + _format_facts(graph.known_ranks),
    ]
    for section in graph.debug_sections:
        rows.append(section())
    rows.append("--ONNX--")
    steps = [_format_step(graph, step_name, subject) for step_name, subject in _build_steps(graph)]
    if len(steps) > _MAX_LINES:
        rows.append(f"({len(steps) - _MAX_LINES} earlier steps are left out)")
    rows.extend(steps[-_MAX_LINES:])
    rows.append(f"{title} Message completed, {counts}")
    return "\n".join(rows)


def _function_names(graph: GraphState) -> list[str]:
    return [f"{domain}.{name}" for domain, name in getattr(graph, "functions", {})]


def _dim_sources(graph: GraphState) -> dict[str, str]:
    materializer = getattr(graph, "materializer", None)
    return {} if materializer is None else materializer.describe_sources()


def _format_facts(facts: dict[str, Any]) -> str:
    if len(facts) <= _MAX_FACTS:
        return pformat(facts)
    last_facts = dict(list(facts.items())[-_MAX_FACTS:])
    return f"(last {_MAX_FACTS} of {len(facts)}) " + pformat(last_facts)


def _build_steps(graph: GraphState) -> list[tuple[str, Any]]:
    if not graph.edited:
        return graph.history
    return [
        *(("make_tensor_input", info.name) for info in graph.inputs),
        *(("make_initializer", name) for name in graph.initializers_dict),
        *(("make_node", node) for node in graph.nodes),
        *(("make_tensor_output", info.name) for info in graph.outputs),
    ]


def _format_step(graph: GraphState, step_name: str, subject: Any) -> str:
    prefix = f"[GraphBuilder-{graph.tag}.{step_name}]"
    if step_name == "make_node":
        return f"{prefix} {node_text(graph, subject)}"
    if step_name == "make_initializer":
        return f"{prefix} {subject}[{_initializer_text(graph.initializers_dict.get(subject))}]"
    return f"{prefix} {subject}[{_type_text(graph.values.get(subject))}]"


def node_text(graph: GraphState, node: Node) -> str:
    """Format a node as ``N1 [##:#] MatMul:['X', 'w']->['_onx_matmul0']``."""
    inputs = "".join(knowledge_flag(graph.values.get(name)) for name in node.inputs if name)
    outputs = "".join(knowledge_flag(graph.values.get(name)) for name in node.outputs if name)
    name = f"{node.name} " if node.name else ""
    return f"{name}[{inputs}:{outputs}] {node.key}:{node.inputs}->{node.outputs}"


def knowledge_flag(info: ValueInfo | None) -> str:
    """Return ``#`` if type and shape are known, ``U`` if type and rank are, else ``-``."""
    if info is None or not info.dtype:
        return "-"
    if info.shape is not None:
        return "#"
    return "U" if info.rank is not None else "-"


def _type_text(info: ValueInfo | None) -> str:
    if info is None:
        return "removed"
    sizes = "?" if info.shape is None else "x".join(str(dim) for dim in info.shape)
    return f"{info.dtype or '?'}:{sizes}"


def _initializer_text(value: Any) -> str:
    if value is None:
        return "removed"
    dtype_text = (
        value.dtype if hasattr(value, "dtype") else dtypes.name(initializers.dtype_of(value))
    )
    text = f"{dtype_text}:{dtype_text}:"
    if initializers.size_of(value) <= 10 and initializers.is_readable(value):
        return text + str(initializers.to_numpy(value).ravel().tolist())
    return text + "x".join(str(dim) for dim in initializers.shape_of(value))


def typed_names(graph: GraphState, names: list[str]) -> str:
    """Format names with type and shape for a message, as in ``X: float32[a, 3]; (none); w``."""
    parts = []
    for name in names:
        info = graph.values.get(name)
        if not name or info is None:
            parts.append(name or "(none)")
            continue
        dtype = dtypes.name(info.dtype) if info.dtype else "?"
        shape = "?" if info.shape is None else ", ".join(str(dim) for dim in info.shape)
        content = "" if info.value is None else f" = {describe_value(info.value)}"
        parts.append(f"{name}: {dtype}[{shape}]{content}")
    return "; ".join(parts)
