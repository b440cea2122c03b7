"""Forms of a model: original, with constant inputs, folded, and with unknown sizes.

Also compares two models, and the inferred types of outputs with the results.
"""

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
    """Return the version of ONNX's main domain; 0 when the model does not import it."""
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)


def draws(nodes: Sequence[NodeProto]) -> bool:
    """Return whether a node draws random numbers without a seed."""
    for node in nodes:
        has_seed = any(attribute.name == "seed" for attribute in node.attribute)
        if node.op_type in _DRAWS and not has_seed:
            return True
        if any(a.type == AttributeProto.GRAPH and draws(a.g.node) for a in node.attribute):
            return True
    return False


# -- forms


def make_original(model: ModelProto, feeds: Feeds) -> Form | None:
    """Return the model unchanged."""
    return model, feeds


def make_constant_inputs(model: ModelProto, feeds: Feeds) -> Form | None:
    """Return the model with all inputs but the first as initializers."""
    names = [value.name for value in model.graph.input if value.name in feeds]
    return _fix_inputs(model, feeds, names[1:]) if len(names) > 1 else None


def make_folded(model: ModelProto, feeds: Feeds) -> Form | None:
    """Return the model with all inputs as initializers and a node after each output, to fold."""
    form = _fix_inputs(model, feeds, [value.name for value in model.graph.input])
    version = opset(model)
    outputs = model.graph.output
    if form is None or not version or not all(o.type.HasField("tensor_type") for o in outputs):
        return None
    graph, remaining = form[0].graph, form[1]
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
    return form[0], remaining


def make_dynamic(model: ModelProto, feeds: Feeds) -> Form | None:
    """Return the model without sizes of inputs and outputs."""
    arrays = [feeds.get(value.name) for value in model.graph.input]
    if not any(isinstance(value, np.ndarray) and value.ndim for value in arrays):
        return None
    copy = _copy(model)
    initializers = {tensor.name for tensor in model.graph.initializer}
    del copy.graph.value_info[:]
    for value in copy.graph.input:
        if value.name not in initializers and value.type.HasField("tensor_type"):
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}.{axis}"
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            for size in value.type.tensor_type.shape.dim:
                size.Clear()
    return copy, feeds


FORMS: Mapping[str, Callable[[ModelProto, Feeds], Form | None]] = {
    "as it is": make_original,
    "constants": make_constant_inputs,
    "folded": make_folded,
    "dynamic": make_dynamic,
}


def _fix_inputs(model: ModelProto, feeds: Feeds, names: Sequence[str]) -> Form | None:
    """Return the model with tensors of ``names`` as initializers, None if none is a tensor."""
    declared = {value.name: value for value in model.graph.input}
    constants = [
        name
        for name in names
        if isinstance(feeds.get(name), np.ndarray) and declared[name].type.HasField("tensor_type")
    ]
    if not constants:
        return None
    copy = _copy(model)
    remaining = [value for value in copy.graph.input if value.name not in constants]
    del copy.graph.input[:]
    copy.graph.input.extend(remaining)
    copy.graph.initializer.extend(numpy_helper.from_array(feeds[name], name) for name in constants)
    return copy, {name: value for name, value in feeds.items() if name not in constants}


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


# -- inference


def inferred(model: ModelProto) -> GraphBuilder:
    """Read the model without declared types of results."""
    copy = _copy(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        value.ClearField("type")
    return GraphBuilder(copy)


def wrong_inference(builder: GraphBuilder, feeds: Feeds, expected: Sequence[Any]) -> str:
    """Describe the inferred types and shapes of outputs that are wrong; "" if all are right."""
    sizes: dict[str, int] = {}
    for info in builder.inputs:
        if info.shape is not None and isinstance(feeds.get(info.name), np.ndarray):
            for dim, size in zip(info.shape, feeds[info.name].shape, strict=True):
                if isinstance(dim, SymDim):
                    sizes[str(dim)] = size
    errors = []
    for info, value in zip(builder.outputs, expected, strict=True):
        if not isinstance(value, np.ndarray):
            continue
        elem_type = dtypes.from_numpy(value.dtype)
        if info.dtype and info.dtype != elem_type:
            errors.append(f"{info.name} is {dtypes.name(elem_type)}, not {dtypes.name(info.dtype)}")
        if info.rank is not None and info.rank != value.ndim:
            errors.append(f"{info.name} has rank {value.ndim}, not {info.rank}")
        elif info.shape is not None and not _shape_fits(info.shape, value.shape, sizes):
            errors.append(f"{info.name} has shape {value.shape}, not {info.shape}")
    return "; ".join(errors)


def _shape_fits(shape: Sequence[Any], sizes: Sequence[int], symbol_sizes: dict[str, int]) -> bool:
    for dim, size in zip(shape, sizes, strict=True):
        unknown = dims.free_symbols(dim) - set(symbol_sizes)
        if not unknown:
            if dims.evaluate_dim(dim, symbol_sizes) != size:
                return False
        elif dims.is_symbol(dim):
            symbol_sizes[str(dim)] = size  # a symbol of the results has the same size everywhere
    return True


def completeness(builder: GraphBuilder, expected: Sequence[Any]) -> str:
    """Return the least that is inferred of an output.

    It is ``sizes``, ``shape`` (with sizes that no input has), ``dtype`` or ``nothing``.
    """
    levels = ["sizes"]
    input_symbols = {str(dim) for info in builder.inputs for dim in info.shape or ()}
    for info, value in zip(builder.outputs, expected, strict=True):
        if not isinstance(value, np.ndarray):
            continue
        if info.shape is None:
            levels.append("dtype" if info.dtype else "nothing")
        elif any(dims.free_symbols(dim) - input_symbols for dim in info.shape):
            levels.append("shape")
    return max(levels, key=("sizes", "shape", "dtype", "nothing").index)


# -- comparison of models


def difference(before: ModelProto, after: ModelProto) -> str:
    """Describe where models differ, except in node names, doc strings and attribute order."""
    # passes import the main domain into a model that lacks it
    if {"": _opset_versions(after).get(""), **_opset_versions(before)} != _opset_versions(after):
        return f"opsets: {_opset_versions(after)} instead of {_opset_versions(before)}"
    functions = [sorted(f.SerializeToString() for f in m.functions) for m in (before, after)]
    if functions[0] != functions[1]:
        return "functions"
    return _compare_graphs(before.graph, after.graph)


def _opset_versions(model: ModelProto) -> dict[str, int]:
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def _compare_graphs(before: GraphProto, after: GraphProto) -> str:
    for field in ("input", "output"):
        pairs = [[(v.name, _serialize_type(v)) for v in getattr(g, field)] for g in (before, after)]
        if pairs[0] != pairs[1]:
            return f"{field}: {pairs[1]} instead of {pairs[0]}"
    tensors = [{t.name: _tensor_content(t) for t in g.initializer} for g in (before, after)]
    if tensors[0] != tensors[1]:
        return "initializers"
    sparse = [sorted(t.SerializeToString() for t in g.sparse_initializer) for g in (before, after)]
    if sparse[0] != sparse[1]:
        return "sparse initializers"
    if len(before.node) != len(after.node):
        return f"{len(after.node)} nodes instead of {len(before.node)}"
    for old, new in zip(before.node, after.node, strict=True):
        detail = _compare_nodes(old, new)
        if detail:
            return f"{old.op_type}: {detail}"
    return ""


def _serialize_type(value: onnx.ValueInfoProto) -> Any:
    return value.type.SerializeToString(deterministic=True)


def _tensor_content(tensor: onnx.TensorProto) -> Any:
    array = numpy_helper.to_array(tensor)
    data = array.astype(str).tolist() if array.dtype.kind in "OUST" else array.tobytes()
    return tensor.data_type, tuple(tensor.dims), data


def _compare_nodes(before: NodeProto, after: NodeProto) -> str:
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
    for name, old in attributes[0].items():
        new = attributes[1][name]
        if old.type != new.type:
            return f"type of {name}"
        detail = _compare_attributes(old, new)
        if detail:
            return f"{name}: {detail}"
    return ""


def _compare_attributes(before: AttributeProto, after: AttributeProto) -> str:
    if before.type == AttributeProto.GRAPH:
        return _compare_graphs(before.g, after.g)
    if before.type == AttributeProto.TENSOR:
        return "" if _tensor_content(before.t) == _tensor_content(after.t) else "another tensor"
    serialized = []
    for attribute in (before, after):
        copy = AttributeProto()
        copy.CopyFrom(attribute)
        copy.ClearField("doc_string")
        serialized.append(copy.SerializeToString(deterministic=True))
    return "" if serialized[0] == serialized[1] else "another value"
