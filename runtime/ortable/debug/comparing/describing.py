"""A difference in the words of a reader: its node, its cause, a script. In comes what was found,
out comes a `Difference`; called by `difference` and `exports`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from ortable.exporter.account.gaps import Gap
from ortable.exporter.account.sessions import proto_of
from ortable.interpreter.diagnostics.origin import module_path, source_line

from ..arrays import describe, to_numpy
from .alone import AGREES, Alone, Differs, shown_alone
from .decompositions import Decomposed
from .diagnosis import case_of, cause_of, nodes_behind, texts_of
from .found import Found, Measure, operator_of, producer
from .places import Place
from .records import Difference, GraphKind
from .script import Exporting


@dataclass(frozen=True)
class Way:
    """The way through ortable, for scripts: whether a function differs on it, and its options;
    `complete` where these are all options of the compilation."""

    differs: Differs
    options: Mapping[str, Any] = field(default_factory=dict)
    exporting: Exporting | None = None
    complete: bool = True


def described(found: Found, measure: Measure, way: Way) -> Difference:
    """A result of a graph that differs, with its cause and a script."""
    cause = cause_of(found, measure)
    names = found.converted.fx_names
    given = {names[name]: value for name, value in found.agreed.items() if name in names}
    values = found.source.torch_values(given)
    alone = _alone(found.node, values, found.expected, found.source.kind, measure, way)
    if cause.culprit == "entry" and way.complete and (alone.why == AGREES or alone.operators > 1):
        cause = replace(cause, culprit="accumulated")
    place = cause.place
    model = proto_of(found.converted.model)
    nodes = nodes_behind(model, found.result, found.agreed) if found.result else []
    return Difference(
        graph=found.source.kind,
        culprit=cause.culprit,
        name=cause.name,
        spec_file=place.file if place is not None else "",
        spec_line=place.line if place is not None else 0,
        case=case_of(found),
        what=found.gap.what,
        largest=found.gap.largest,
        eager=describe(to_numpy(found.expected)),
        onnx=describe(to_numpy(found.got)),
        computed_by=texts_of(nodes),
        script=alone.script,
        tensors=alone.tensors or {},
        **of_node(found.node, values),
    )


def decomposed(found: Decomposed, place: Place, measure: Measure, way: Way | None) -> Difference:
    """An operator that its decomposition computes otherwise; no script without a way to run it."""
    alone = Alone()
    if way is not None:
        alone = _alone(found.node, found.values, found.expected, found.kind, measure, way)
    return Difference(
        graph=found.kind,
        culprit="decomposition",
        name=operator_of(found.node),
        spec_file=place.file,
        spec_line=place.line,
        case=0,
        what=found.gap.what,
        largest=found.gap.largest,
        eager=describe(to_numpy(found.expected)),
        onnx=describe(to_numpy(found.got)),
        script=alone.script,
        tensors=alone.tensors or {},
        **of_node(found.node, found.values),
    )


def captured(
    name: str, kind: GraphKind, gap: Gap, expected: torch.Tensor, got: torch.Tensor, by: str
) -> Difference:
    """A result of the call that the graphs which `by` made compute otherwise."""
    return Difference(
        graph=kind, node=name, operator="", culprit="capture", name=by, spec_file="", spec_line=0,
        case=0, module="", source="", what=gap.what, largest=gap.largest,
        eager=describe(to_numpy(expected)), onnx=describe(to_numpy(got)),
    )  # fmt: skip


def _alone(
    node: Node,
    values: Mapping[Node, Any],
    expected: torch.Tensor,
    kind: str,
    measure: Measure,
    way: Way,
) -> Alone:
    """A script of the operator of a node."""
    source = source_line(producer(node))
    return shown_alone(
        node,
        values,
        way.differs,
        about=f"Found in the {kind} graph, FX node '{node.name}'"
        + (f", {source}" if source else ""),
        options=way.options,
        tolerance=tuple(measure.tolerance.of(expected.dtype)),  # type: ignore[arg-type]
        exporting=way.exporting,
    )


def of_node(node: Node, values: Mapping[Node, Any]) -> dict[str, Any]:
    """What a difference says of its FX node."""
    made = producer(node)
    module, kind = module_path(made)
    return {
        "node": node.name,
        "operator": operator_of(node),
        "module": f"{module or '(root)'} ({kind})" if module or kind else "",
        "source": str(source_line(made) or ""),
        "arguments": tuple(_arguments(made, values)),
    }


def _arguments(node: Node, values: Mapping[Node, Any]) -> Iterator[str]:
    """The arguments of the operator in short."""
    for name, value in (*((f"{i}", v) for i, v in enumerate(node.args)), *node.kwargs.items()):
        known = values.get(value, value) if isinstance(value, Node) else value
        if isinstance(known, torch.Tensor):
            yield f"{getattr(value, 'name', name)}: {describe(to_numpy(known))}"
        elif isinstance(value, Node):
            yield f"{value.name}: {known}"
        else:
            yield f"{value}"
