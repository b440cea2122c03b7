"""Forms of a model: as it is, with inputs made constants, with every size unknown until it runs;
whether two models hold the same; and what our rules of inference say of outputs.

In come a ModelProto and what is fed to it; called by `node_tests`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper, numpy_helper

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.dims import SymDim

Feeds = Mapping[str, Any]
Form = tuple[ModelProto, Feeds]
_DRAWS = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip


def opset(model: ModelProto) -> int:
    """The version of ONNX's own domain; 0 when the model does not use it."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)


def draws(nodes: Sequence[NodeProto]) -> bool:
    """Whether a node draws random numbers without a seed."""
    for node in nodes:
        seeded = any(attribute.name == "seed" for attribute in node.attribute)
        if node.op_type in _DRAWS and not seeded:
            return True
        if any(a.type == AttributeProto.GRAPH and draws(a.g.node) for a in node.attribute):
            return True
    return False


# -- forms


def as_it_is(model: ModelProto, feeds: Feeds) -> Form | None:
    """The model."""
    return model, feeds


def with_constants(model: ModelProto, feeds: Feeds) -> Form | None:
    """All inputs but the first are initializers: sizes, axes and weights are known."""
    names = [value.name for value in model.graph.input if value.name in feeds]
    return _fixed(model, feeds, names[1:]) if len(names) > 1 else None


def folded(model: ModelProto, feeds: Feeds) -> Form | None:
    """All inputs are initializers, and each output is read by one more node, so that what computes
    it can be folded."""
    form = _fixed(model, feeds, [value.name for value in model.graph.input])
    version = opset(model)
    outputs = model.graph.output
    if form is None or not version or not all(o.type.HasField("tensor_type") for o in outputs):
        return None
    graph, left = form[0].graph, form[1]
    axes = {} if version >= 13 else {"axes": [0]}
    if version >= 13:
        graph.initializer.append(numpy_helper.from_array(np.array([0]), "first.axis"))
    for value in graph.output:
        inputs = [value.name] if axes else [value.name, "first.axis"]
        value.name += ".unsqueezed"
        sizes = list(value.type.tensor_type.shape.dim)
        if value.type.tensor_type.HasField("shape"):
            del value.type.tensor_type.shape.dim[:]
            value.type.tensor_type.shape.dim.add().dim_value = 1
            value.type.tensor_type.shape.dim.extend(sizes)
        graph.node.append(helper.make_node("Unsqueeze", inputs, [value.name], **axes))
    return form[0], left


def dynamic(model: ModelProto, feeds: Feeds) -> Form | None:
    """No input or output says how long it is."""
    fed = [feeds.get(value.name) for value in model.graph.input]
    if not any(isinstance(value, np.ndarray) and value.ndim for value in fed):
        return None
    made = _copy(model)
    initialised = {tensor.name for tensor in model.graph.initializer}
    del made.graph.value_info[:]
    for value in made.graph.input:
        if value.name not in initialised and value.type.HasField("tensor_type"):
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}.{axis}"
    for value in made.graph.output:
        if value.type.HasField("tensor_type"):
            for size in value.type.tensor_type.shape.dim:
                size.Clear()
    return made, feeds


FORMS: Mapping[str, Callable[[ModelProto, Feeds], Form | None]] = {
    "as it is": as_it_is,
    "constants": with_constants,
    "folded": folded,
    "dynamic": dynamic,
}


def _fixed(model: ModelProto, feeds: Feeds, names: Sequence[str]) -> Form | None:
    """The model with some inputs as initializers; None when one is no tensor, or none is left."""
    declared = {value.name: value for value in model.graph.input}
    fixed = [
        name
        for name in names
        if isinstance(feeds.get(name), np.ndarray) and declared[name].type.HasField("tensor_type")
    ]
    if not fixed:
        return None
    made = _copy(model)
    kept = [value for value in made.graph.input if value.name not in fixed]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in fixed)
    return made, {name: value for name, value in feeds.items() if name not in fixed}


def _copy(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made


# -- what is inferred


def inferred(model: ModelProto) -> GraphBuilder:
    """The model as our reader sees it when nothing says what comes out."""
    made = _copy(model)
    del made.graph.value_info[:]
    for value in made.graph.output:
        value.ClearField("type")
    return GraphBuilder(made)


def wrong_inference(builder: GraphBuilder, feeds: Feeds, expected: Sequence[Any]) -> str:
    """What the rules say of outputs that is not so, as text; empty when there is nothing."""
    known: dict[str, int] = {}
    for info in builder.inputs:
        if info.shape is not None and isinstance(feeds.get(info.name), np.ndarray):
            for dim, size in zip(info.shape, feeds[info.name].shape, strict=True):
                if isinstance(dim, SymDim):
                    known[str(dim)] = size
    wrong = []
    for info, value in zip(builder.outputs, expected, strict=True):
        if not isinstance(value, np.ndarray):
            continue
        elem_type = dtypes.from_numpy(value.dtype)
        if info.dtype and info.dtype != elem_type:
            wrong.append(f"{info.name} is {dtypes.name(elem_type)}, not {dtypes.name(info.dtype)}")
        if info.rank is not None and info.rank != value.ndim:
            wrong.append(f"{info.name} has rank {value.ndim}, not {info.rank}")
        elif info.shape is not None and not _fits(info.shape, value.shape, known):
            wrong.append(f"{info.name} has shape {value.shape}, not {info.shape}")
    return "; ".join(wrong)


def _fits(shape: Sequence[Any], sizes: Sequence[int], known: dict[str, int]) -> bool:
    for dim, size in zip(shape, sizes, strict=True):
        free = dims.free_symbols(dim) - set(known)
        if not free:
            if dims.evaluate_dim(dim, known) != size:
                return False
        elif dims.is_symbol(dim):
            known[str(dim)] = size  # not known before the model runs: one size, wherever it stands
    return True


def completeness(builder: GraphBuilder, expected: Sequence[Any]) -> str:
    """How much the rules say of the outputs, where least: ``sizes``, ``shape`` (with sizes that
    nothing says), ``dtype`` or ``nothing``."""
    found = ["sizes"]
    given = {str(dim) for info in builder.inputs for dim in info.shape or ()}
    for info, value in zip(builder.outputs, expected, strict=True):
        if not isinstance(value, np.ndarray):
            continue
        if info.shape is None:
            found.append("dtype" if info.dtype else "nothing")
        elif any(dims.free_symbols(dim) - given for dim in info.shape):
            found.append("shape")
    return max(found, key=("sizes", "shape", "dtype", "nothing").index)


# -- whether two models hold the same


def difference(before: ModelProto, after: ModelProto) -> str:
    """Where two models differ in more than names of nodes, text for people and the order of
    attributes; empty when nowhere."""
    # a model without the main domain gets one: passes write its operators
    if {"": _opsets(after).get(""), **_opsets(before)} != _opsets(after):
        return f"opsets: {_opsets(after)} instead of {_opsets(before)}"
    functions = [sorted(f.SerializeToString() for f in m.functions) for m in (before, after)]
    if functions[0] != functions[1]:
        return "functions"
    return _graphs_differ(before.graph, after.graph)


def _opsets(model: ModelProto) -> dict[str, int]:
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def _graphs_differ(before: GraphProto, after: GraphProto) -> str:
    for field in ("input", "output"):
        pairs = [[(v.name, _typed(v)) for v in getattr(g, field)] for g in (before, after)]
        if pairs[0] != pairs[1]:
            return f"{field}: {pairs[1]} instead of {pairs[0]}"
    tensors = [{t.name: _content(t) for t in g.initializer} for g in (before, after)]
    if tensors[0] != tensors[1]:
        return "initializers"
    sparse = [sorted(t.SerializeToString() for t in g.sparse_initializer) for g in (before, after)]
    if sparse[0] != sparse[1]:
        return "sparse initializers"
    if len(before.node) != len(after.node):
        return f"{len(after.node)} nodes instead of {len(before.node)}"
    for one, other in zip(before.node, after.node, strict=True):
        wrong = _nodes_differ(one, other)
        if wrong:
            return f"{one.op_type}: {wrong}"
    return ""


def _typed(value: onnx.ValueInfoProto) -> Any:
    return value.type.SerializeToString(deterministic=True)


def _content(tensor: onnx.TensorProto) -> Any:
    array = numpy_helper.to_array(tensor)
    data = array.astype(str).tolist() if array.dtype.kind in "OUST" else array.tobytes()
    return tensor.data_type, tuple(tensor.dims), data


def _nodes_differ(before: NodeProto, after: NodeProto) -> str:
    for field in ("op_type", "overload"):
        if getattr(before, field) != getattr(after, field):
            return field
    if before.domain.removeprefix("ai.onnx") != after.domain.removeprefix("ai.onnx"):
        return "domain"
    for field in ("input", "output"):
        names = [list(getattr(node, field)) for node in (before, after)]
        if names[0] != names[1]:
            return f"{field}s {names[1]} instead of {names[0]}"
    attributes = [{a.name: a for a in node.attribute} for node in (before, after)]
    if set(attributes[0]) != set(attributes[1]):
        return f"attributes {sorted(attributes[1])} instead of {sorted(attributes[0])}"
    for name, one in attributes[0].items():
        other = attributes[1][name]
        if one.type != other.type:
            return f"type of {name}"
        wrong = _attributes_differ(one, other)
        if wrong:
            return f"{name}: {wrong}"
    return ""


def _attributes_differ(before: AttributeProto, after: AttributeProto) -> str:
    if before.type == AttributeProto.GRAPH:
        return _graphs_differ(before.g, after.g)
    if before.type == AttributeProto.TENSOR:
        return "" if _content(before.t) == _content(after.t) else "another tensor"
    plain = []
    for attribute in (before, after):
        copy = AttributeProto()
        copy.CopyFrom(attribute)
        copy.ClearField("doc_string")
        plain.append(copy.SerializeToString(deterministic=True))
    return "" if plain[0] == plain[1] else "another value"
