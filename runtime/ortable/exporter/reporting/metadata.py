"""Write metadata of a model, and choose the names of its graph and of its weights.

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
from ortable.ir.pictures.modules import CLASSES_KEY, compact_classes

DEFAULT_NAME = "ortable"
_COMPUTED_SUFFIXES = frozenset(
    {"transposed", "scaled", "moved"}
)  # suffixes that passes add to weights


def package_version() -> str:
    """Return the version of ortable; the package is loaded, since it contains this module."""
    return str(sys.modules["ortable"].__version__)


def write_metadata(model: Any, program: Program, text: str = "") -> None:
    """Write the metadata, producer and doc_strings of a ModelProto or LargeModel.

    The doc_string of the model is ``text``; that of an initializer is the name of the weight in the
    state_dict, followed by the changes of passes (``linear.weight, transposed``). An input that was
    a weight without data has the names of the weight.

    The keys of ``metadata_props`` are ``ortable.version``, ``torch.version``, ``ortable.steps``
    (notes on the capture and on changes to the graph), ``ortable.guards`` (conditions on sizes
    under which the model is correct), ``ortable.smallest_sizes`` (dimensions that may not be 0 or
    1, with the reason), ``ortable.modules`` (paths and classes of the modules that were called),
    ``ortable.tied_weights`` (other names of a weight with several names in the state_dict). Keys
    with an empty value are left out, and existing keys keep their values.
    """
    proto = model.proto if hasattr(model, "proto") else model
    for value in proto.graph.input if program.fake_weight_inputs else ():
        value.doc_string = ", ".join(program.fake_weight_inputs.get(value.name, ()))
    proto.doc_string = _to_utf8(text)
    proto.producer_name = "ortable"
    proto.producer_version = package_version()
    properties = {"ortable.version": package_version(), "torch.version": torch.__version__}
    if program.notes:
        properties["ortable.steps"] = "; ".join(program.notes)
    if program.guards:
        properties["ortable.guards"] = "; ".join(guard.one_line() for guard in program.guards)
    minimums = {
        f"{program.symbol_names.get(symbol, symbol)} is {proved.size} or more: "
        f"{proved.reason}": None
        for symbol, proved in program.smallest.items()
        if proved.reason
    }
    if minimums:
        properties["ortable.smallest_sizes"] = "; ".join(minimums)
    tied = [f"{alias}={names[0]}" for names in program.initializers.values() for alias in names[1:]]
    modules = compact_classes(_module_classes(program))
    if modules:
        properties[CLASSES_KEY] = modules
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
            initializer.doc_string = _describe_source(initializer.name, program.initializers)


def _to_utf8(text: str) -> str:
    """Return valid UTF-8, which protobuf requires; file names may have other bytes."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _module_classes(program: Program) -> dict[str, str]:
    """Map the paths of modules that contain a node of the program to their classes."""
    classes: dict[str, str] = {}
    visited: set[str] = set()
    graph_modules = (
        module for module in program.graph_module.modules() if isinstance(module, GraphModule)
    )
    for graph_module in graph_modules:  # includes those of branches and loops
        for node in graph_module.graph.nodes:
            innermost, _ = module_path(node)
            if innermost not in visited:
                visited.add(innermost)
                classes.update(
                    (path, class_name) for path, class_name in called_modules(node) if path
                )
    return classes


def _describe_source(name: str, weights: Mapping[str, Sequence[str]]) -> str:
    """Return ``w, scaled, moved`` for an initializer ``<w>_scaled_moved`` of a weight.

    The result is empty for other names.
    """
    suffixes: list[str] = []
    while True:
        name, _, suffix = name.rpartition("_")
        if suffix not in _COMPUTED_SUFFIXES:
            return ""
        suffixes.insert(0, suffix)
        if name in weights:
            return ", ".join([weights[name][0], *suffixes])


def make_doc_string(model: Any, doc_string: str | None) -> str:
    """Return the caller's doc_string, or the docstring of the module's class; empty for torch's."""
    if doc_string is not None:
        return doc_string
    module_class = type(model)
    if (
        not isinstance(model, torch.nn.Module)
        or module_class.__module__.partition(".")[0] == "torch"
    ):
        return ""
    return inspect.cleandoc(module_class.__dict__.get("__doc__") or "")


def record_weights(program: Program, records: Sequence[InputRecord]) -> None:
    """Record the initializers of weights in ``program.initializers``; tied weights share one."""
    canonical, paths = program.tied, program.paths
    initializer_names = {
        canonical.get(record.fx_name, record.fx_name): record.name
        for record in records
        if record.role == "initializer"
    }
    for record in records:
        name = initializer_names.get(canonical.get(record.fx_name, record.fx_name))
        if name is not None and record.fx_name in paths:
            program.initializers.setdefault(name, []).append(paths[record.fx_name])


def weight_names(
    program: Program, inputs: Mapping[str, str], outputs: Sequence[str], style: str
) -> dict[str, str]:
    """Map placeholders to names of initializers for ``style``, ``ExportOptions.initializer_names``.

    ``"placeholders"`` maps only the placeholders in ``program.tied``, which this function sets.
    ``"state_dict"`` maps all; but a weight keeps the placeholder's name if an input or output of
    the model (``inputs``, ``outputs``) has the weight's name in the state_dict.
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

    torch.export has a placeholder for each state_dict name of a tied weight, and its graph may use
    only the second one. The map is empty if the graph uses all: the builder then merges them.
    """
    nodes = program.graph_module.graph.find_nodes(op="placeholder")
    weights = program.weights
    if all(node.users for node in nodes if node.name in weights):
        return {}
    first_by_storage: dict[Any, str] = {}
    tied = {}
    for name, tensor in weights.items():
        key = storage_key(tensor)
        if key is not None and first_by_storage.setdefault(key, name) != name:
            tied[name] = first_by_storage[key]
    return tied


def model_name(model: Any, program: Program) -> str:
    """Return the name of the graph: the class of the exported module, or `DEFAULT_NAME`."""
    if isinstance(model, torch.nn.Module) and not isinstance(model, GraphModule):
        return type(model).__name__
    for node in program.graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            path, class_name = next(iter(stack.values()))
            class_name = class_name if isinstance(class_name, str) else class_name.__qualname__
            return class_name.rpartition(".")[2] if path in ("", "L['self']") else DEFAULT_NAME
    return DEFAULT_NAME
