"""Metadata of a model: its name, versions, export steps, and the state_dict names of its weights.
Called by conversion.py.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.exporter.frontend.export_request import Program
from ortable.interpreter.diagnostics.origin import called_modules, module_path
from ortable.interpreter.outputs import InputRecord
from ortable.ir.initializers import storage_key
from ortable.ir.pictures.modules import CLASSES, compact_classes

DEFAULT_NAME = "ortable"
_COMPUTED = frozenset({"transposed", "scaled", "moved"})  # what passes put behind names of weights


def package_version() -> str:
    """Return the version of ortable, without importing the package and all that it re-exports."""
    return str(sys.modules["ortable"].__version__)


def write_metadata(model: Any, program: Program, text: str = "") -> None:
    """Write ``metadata_props`` and producer of a ModelProto or LargeModel, the user's ``text`` as
    its doc_string, and the doc_string of its initializers, which is the weight's name in the
    state_dict.

    Keys: ``ortable.version``, ``torch.version``, ``ortable.steps`` (what torch did to the graph),
    ``ortable.guards`` (conditions on sizes under which the model is right),
    ``ortable.smallest_sizes`` (dimensions that may not be 0 or 1, and why),
    ``ortable.modules`` (paths and classes of the modules that were called),
    ``ortable.tied_weights`` (other names of a weight that the state_dict has several times); the
    last five are absent when there is nothing to say.
    """
    proto = model.proto if hasattr(model, "proto") else model
    for value in proto.graph.input if program.fakes else ():
        value.doc_string = ", ".join(program.fakes.get(value.name, ()))
    proto.doc_string = _to_utf8(text)
    proto.producer_name = "ortable"
    proto.producer_version = package_version()
    properties = {"ortable.version": package_version(), "torch.version": torch.__version__}
    if program.notes:
        properties["ortable.steps"] = "; ".join(program.notes)
    if program.guards:
        properties["ortable.guards"] = "; ".join(guard.one_line() for guard in program.guards)
    smallest = {
        f"{program.symbol_names.get(symbol, symbol)} is {proved.size} or more: "
        f"{proved.reason}": None
        for symbol, proved in program.smallest.items()
        if proved.reason
    }
    if smallest:
        properties["ortable.smallest_sizes"] = "; ".join(smallest)
    tied = [f"{other}={names[0]}" for names in program.initializers.values() for other in names[1:]]
    modules = compact_classes(_module_classes(program))
    if modules:
        properties[CLASSES] = modules
    if tied:
        properties["ortable.tied_weights"] = "; ".join(tied)
    present = {prop.key for prop in proto.metadata_props}
    for key, value in properties.items():
        if key not in present:
            proto.metadata_props.add(key=key, value=_to_utf8(value))
    for initializer in proto.graph.initializer:
        names = program.initializers.get(initializer.name)
        if names is not None:
            initializer.doc_string = names[0]
        else:
            initializer.doc_string = _computed_of(initializer.name, program.initializers)


def _to_utf8(text: str) -> str:
    """Return valid UTF-8, which protobuf needs: file names may have other bytes."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _module_classes(program: Program) -> dict[str, str]:
    """Map paths of the modules that the nodes of a program belong to to their classes."""
    classes: dict[str, str] = {}
    seen: set[str] = set()
    inner = (module for module in program.graph_module.modules() if isinstance(module, GraphModule))
    for graph_module in inner:  # of branches and loops, too
        for node in graph_module.graph.nodes:
            innermost, _ = module_path(node)
            if innermost not in seen:
                seen.add(innermost)
                classes.update((path, kind) for path, kind in called_modules(node) if path)
    return classes


def _computed_of(name: str, weights: Mapping[str, Sequence[str]]) -> str:
    """Return from which weight passes computed an initializer, and how; empty if they did not."""
    suffixes: list[str] = []
    while True:
        name, _, what = name.rpartition("_")
        if what not in _COMPUTED:
            return ""
        suffixes.insert(0, what)
        if name in weights:
            return ", ".join([weights[name][0], *suffixes])


def make_doc_string(model: Any, doc_string: str | None) -> str:
    """Return the doc_string of the model: the user's, or the docstring of the module's class.

    Docstrings of torch's own classes are left out.
    """
    if doc_string is not None:
        return doc_string
    kind = type(model)
    if not isinstance(model, torch.nn.Module) or kind.__module__.partition(".")[0] == "torch":
        return ""
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def record_weights(program: Program, records: Sequence[InputRecord]) -> None:
    """Record the initializers of weights in ``program.initializers``. Tied weights are one
    initializer with the name of the first.
    """
    first, paths = program.tied, program.paths
    initializer_names = {
        first.get(record.fx_name, record.fx_name): record.name
        for record in records
        if record.role == "initializer"
    }
    for record in records:
        name = initializer_names.get(first.get(record.fx_name, record.fx_name))
        if name is not None and record.fx_name in paths:
            program.initializers.setdefault(name, []).append(paths[record.fx_name])


def weight_names(
    program: Program, inputs: Mapping[str, str], outputs: Sequence[str], style: str
) -> dict[str, str]:
    """Map placeholders to names of weights, for ``ExportOptions.initializer_names``.

    Unchanged names are left out. Where the state_dict calls a weight as an input or an output of
    the model is called, it has the placeholder's name.
    """
    program.tied = _find_tied_weights(program)
    if style == "placeholders":
        return program.tied
    used = {inputs.get(str(node.target), str(node.target)) for node in program.user_inputs}
    used.update(outputs)
    names = {}
    for name in program.paths:
        first = program.tied.get(name, name)
        path = program.paths[first]
        names[name] = first if path in used else path
    return names


def _find_tied_weights(program: Program) -> dict[str, str]:
    """Map placeholders to the first placeholder of the same weight.

    torch.export has one for each name in the state_dict, and may read the second of two; the
    builder merges those that are read.
    """
    nodes = program.graph_module.graph.find_nodes(op="placeholder")
    weights = program.weights
    if all(node.users for node in nodes if node.name in weights):
        return {}
    first: dict[Any, str] = {}
    tied = {}
    for name, tensor in weights.items():
        key = storage_key(tensor)
        if key is not None and first.setdefault(key, name) != name:
            tied[name] = first[key]
    return tied


def model_name(model: Any, program: Program) -> str:
    """Name of the graph: the class of the module, also when it was exported before."""
    if isinstance(model, torch.nn.Module) and not isinstance(model, GraphModule):
        return type(model).__name__
    for node in program.graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            path, kind = next(iter(stack.values()))
            kind = kind if isinstance(kind, str) else kind.__qualname__
            return kind.rpartition(".")[2] if path in ("", "L['self']") else DEFAULT_NAME
    return DEFAULT_NAME
