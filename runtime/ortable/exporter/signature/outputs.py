"""Choose the names of ONNX inputs and outputs, the order of outputs, and names of their dimensions.

Called by conversion.py; arguments.py calls `checked_call`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from ortable import dims
from ortable.errors import ExportError, InputError
from ortable.exporter.frontend.export_request import Program, ProgramOutput
from ortable.exporter.signature import dataclass_nodes, pytrees
from ortable.exporter.signature.dimension_names import free_symbols
from ortable.exporter.signature.dynamic_shapes import parse_dim_expression
from ortable.interpreter import results
from ortable.interpreter.outputs import flatten_output


def checked_call(args: Any, kwargs: Any, mod: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Check the arguments of the example call, and return them as (args, kwargs).

    A single tensor becomes a tuple. Caches of transformers are registered as pytrees if the call
    has them or the model ``mod`` may return them, and dataclasses of the call until the export
    ends. Raises InputError for other types.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args is None:
        args = ()
    if not isinstance(args, (tuple, list)):
        hint = "; pass keyword arguments as kwargs=" if isinstance(args, Mapping) else ""
        raise InputError(
            "args is a tuple of the positional arguments of the model, not "
            f"{type(args).__name__}{hint}"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(
            f"kwargs is a dict of the keyword arguments of the model, not {type(kwargs).__name__}"
        )
    pytrees.register_caches((args, kwargs), mod)
    dataclass_nodes.register_dataclasses((args, kwargs))
    return tuple(args), dict(kwargs or {})


def name_inputs(fx_names: Sequence[str], requested: Sequence[str] | None) -> dict[str, str]:
    """Map FX placeholders to requested ONNX input names; the map is empty for default names.

    Raises ExportError if ``requested`` has another length than ``fx_names``, or duplicates.
    """
    if requested is None:
        return {}
    names = _checked_names(requested, "input_names")
    if len(names) != len(fx_names):
        raise ExportError(
            f"input_names has {len(names)} names {names}, but the model has {len(fx_names)} "
            f"inputs: {list(fx_names)} "
            "(numbers and None given in args are constants of the model, not inputs)"
        )
    return dict(zip(fx_names, names, strict=True))


def name_outputs(described: Sequence[str | None], requested: Sequence[str] | None) -> list[str]:
    """Return a name for each result of forward, by default ``output_0``, ``output_1``...

    ``described`` has a label for each result, and None for a result that is None, which has no ONNX
    output but counts: the second of ``(None, y)`` is ``output_1``. Raises ExportError if
    ``requested`` has another length than the ONNX outputs, or duplicates.
    """
    defaults = [f"output_{index}" for index in range(len(described))]
    if requested is None:
        return defaults
    names = _checked_names(requested, "output_names")
    indices = [index for index, entry in enumerate(described) if entry is not None]
    if len(names) != len(indices):
        raise ExportError(
            f"output_names has {len(names)} names {names}, but the model has {len(indices)} "
            f"outputs: {[described[index] for index in indices]}"
        )
    for index, name in zip(indices, names, strict=True):
        defaults[index] = name
    return defaults


def _checked_names(names: Any, option: str) -> list[str]:
    name_list = list(names)
    duplicates = sorted({name for name in name_list if name_list.count(name) > 1})
    if duplicates:
        raise ExportError(f"{option} has {', '.join(map(repr, duplicates))} more than once")
    return name_list


def choose_input_names(program: Program, requested: Any) -> Any:
    """Return ``input_names`` as a list, or None for the default names.

    A dict replaces some of the default names. In a list, names for the tensors of a cache are
    matched by layer and kind. Raises ExportError for an unknown default name, and for cache names
    that do not match the cache.
    """
    defaults = [str(node.target) for node in program.onnx_inputs()]
    if isinstance(requested, (list, tuple)) and len(requested) == len(defaults):
        return order_cache_names("input_names", defaults, requested)
    return _replace_names("input_names", defaults, [], requested)


def choose_output_names(
    program: Program, requested: Any, inputs: Sequence[str] | None = None
) -> Any:
    """Return ``output_names`` as a list, or None for the default names.

    A dict replaces some of the default names; ``"auto"`` uses the names of fields and keys. Names
    for the tensors of a cache are matched as in `choose_input_names`. ``inputs`` are the names of
    the ONNX inputs. Raises ExportError for an unknown default name, and for wrong cache names.
    """
    defaults = [name for name, _ in user_outputs(program)]
    if isinstance(requested, (list, tuple)):
        output_labels = [output.label for _, output in user_outputs(program)]
        if len(requested) < len(output_labels):
            return requested
        return [
            *order_cache_names("output_names", output_labels, requested[: len(output_labels)]),
            *requested[len(output_labels) :],
        ]
    if not isinstance(requested, Mapping) and requested != "auto":
        return requested
    used = set(inputs or [str(node.target) for node in program.onnx_inputs()])
    labels = _unique_names([output.label for _, output in user_outputs(program)], used)
    return (
        labels
        if requested == "auto"
        else _replace_names("output_names", defaults, labels, requested)
    )


def user_outputs(program: Program) -> list[tuple[str, ProgramOutput]]:
    """Return (default name, output) for each result of forward that is an ONNX output.

    Results keep their number in torch: the second of ``(None, y)`` is ``output_1``.
    """
    user_results = [output for output in program.outputs if output.kind == "user"]
    return [(f"output_{i}", output) for i, output in enumerate(user_results) if not output.is_none]


def _replace_names(option: str, defaults: list[str], labels: list[str], requested: Any) -> Any:
    """Apply a dict from default names or labels to new names; return other values unchanged."""
    if not isinstance(requested, Mapping):
        return requested
    unknown = [name for name in requested if name not in defaults and name not in labels]
    if unknown:
        raise ExportError(f"{option} renames {unknown}, but the model has {defaults}")
    label_of = dict(zip(defaults, labels, strict=True)) if labels else {}
    return [requested.get(name, requested.get(label_of.get(name), name)) for name in defaults]


def _unique_names(labels: Sequence[str], used: set[str]) -> list[str]:
    """Make unique names of ``labels``; ``used`` has the names of inputs.

    Special characters become "_", the name of an input gets the suffix "_out", and a second "y"
    becomes "y_1".
    """
    unique: list[str] = []
    for label in labels:
        base = "".join(c if c.isalnum() or c in "._" else "_" for c in label) or "output"
        base = name = f"{base}_out" if base in used else base
        number = 0
        while name in unique or name in used:
            number += 1
            name = f"{base}_{number}"
        unique.append(name)
    return unique


def output_labels(spec: Any, count: int) -> list[str]:
    """Return labels for ``count`` results, from the fields, keys and indices in the TreeSpec.

    The TreeSpec of ``{"a": x, "b": (y, z)}`` gives "a", "b_0" and "b_1". Without a TreeSpec of
    ``count`` leaves, the labels are ``output_0``, ``output_1``...
    """
    if spec is None or spec.num_leaves != count:
        return [f"output_{i}" for i in range(count)]
    labels = pytrees.leaf_names(spec)
    return [f"output_{label}" if label[:1].isdigit() else label or "output" for label in labels]


def output_plan(
    program: Program, inputs: Mapping[str, str], requested: Sequence[str] | None
) -> tuple[list[str], list[int]]:
    """Return names of the flattened FX outputs, and their indices in the order of the ONNX outputs.

    The user's outputs come first, then mutated buffers and inputs. Raises ExportError if
    ``requested`` has neither a name for each output of the user nor for each ONNX output, and if
    two values get one name.
    """
    indexed_outputs = [(index, output) for index, output in enumerate(program.outputs)]
    returned = [(index, output) for index, output in indexed_outputs if output.kind == "user"]
    mutations = [(index, output) for index, output in indexed_outputs if output.kind != "user"]
    labels: list[str | None] = [
        None if output.is_none else f"output_{number}"
        for number, (_, output) in enumerate(returned)
    ]
    extra_names = [
        output.target
        if output.kind == "buffer"
        else f"{inputs.get(output.target, output.target)}_mutated"
        for _, output in mutations
    ]
    user_count = sum(label is not None for label in labels)
    if requested is not None and len(requested) == user_count + len(extra_names) and extra_names:
        extra_names = list(requested[user_count:])
        requested = requested[:user_count]
    user_names = name_outputs(labels, requested)
    names = [""] * len(indexed_outputs)
    for (index, _), name in zip([*returned, *mutations], [*user_names, *extra_names], strict=True):
        names[index] = name
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ExportError(
            f"two outputs have the name {', '.join(map(repr, duplicates))}; choose others with "
            "output_names"
        )
    shared = sorted(
        {inputs.get(str(n.target), str(n.target)) for n in program.onnx_inputs()} & set(names)
    )
    if shared and (requested is not None or inputs):
        raise ExportError(
            f"{', '.join(map(repr, shared))} is the name of an input and of an output"
        )
    return names, [index for index, _ in [*returned, *mutations]]


# -- names of dimensions


def name_output_dims(
    program: Program, requested: Any, output_names: Sequence[str] | None
) -> dict[tuple[str, int], str]:
    """Apply the caller's names of dimensions of outputs.

    A dimension that is one symbol (a data-dependent size, or a dimension of an input that the
    caller did not name) gets its name in ``program.symbol_names``, so everywhere. The name of a
    dimension that is computed from others (``2*batch``) is returned by (ONNX output, axis), for
    `write_dims`.

    Raises ExportError for a static dimension, a dimension of an input that has another name, and
    the name of another dimension.
    """
    if requested is None:
        return {}
    symbol_names = program.symbol_names
    computed_dims: dict[tuple[str, int], str] = {}
    dim_by_name: dict[str, dims.Dim] = {}
    expressions: list[tuple[str, str, Any]] = []
    for name, value, spec in _requested_outputs(program, requested, output_names):
        for axis, new_name in _names_by_axis(name, value, spec).items():
            location, size = f"dimension {axis} of output '{name}'", value.shape[axis]
            expression_text = str(getattr(getattr(size, "node", None), "expr", ""))
            symbols = free_symbols(size)
            if not symbols:
                raise ExportError(
                    f"{location} is {int(size)} in every call, it cannot be named '{new_name}'"
                )
            if not new_name.isidentifier():
                expressions.append((location, new_name, size))
                continue
            dim = dims.from_torch(size)
            if dim_by_name.setdefault(new_name, dim) != dim:
                raise ExportError(
                    f"{location} is another dimension than the first named '{new_name}'"
                )
            if expression_text != symbols[0]:
                _check_free(
                    location,
                    new_name,
                    str(dims.from_torch(size, symbol_names)),
                    symbol_names,
                    symbols,
                )
                computed_dims[name, axis] = new_name
            elif symbol_names.get(symbols[0]) != new_name:
                if symbol_names.get(symbols[0]) in program.user_dims:
                    raise ExportError(
                        f"{location} is the dimension '{symbol_names[symbols[0]]}' of the "
                        f"inputs: it keeps that name, and cannot be named '{new_name}'"
                    )
                _check_free(location, new_name, "", symbol_names, symbols)
                symbol_names[symbols[0]] = new_name
    for location, new_name, size in expressions:
        dim_text = str(dims.from_torch(size, symbol_names))
        if dim_text != new_name:
            raise ExportError(f"{location} is '{dim_text}', it cannot be named '{new_name}'")
    return computed_dims


def _check_free(
    location: str,
    new_name: str,
    dim_text: str,
    symbol_names: Mapping[str, str],
    symbols: Sequence[str],
) -> None:
    """Raise ExportError if another dimension has the name ``new_name``.

    ``dim_text`` is the expression of a computed dimension, empty for one that is a single symbol.
    """
    used_names = {
        name for symbol, name in symbol_names.items() if dim_text or symbol not in symbols
    }
    if new_name in used_names:
        value = f" ({dim_text})" if dim_text else ""
        raise ExportError(
            f"{location}{value} cannot be named '{new_name}': another dimension has that name"
        )


def _requested_outputs(
    program: Program, requested: Any, output_names: Sequence[str] | None
) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """Yield (ONNX output, its value in torch, spec) for each output of the user with a spec."""
    node = program.graph_module.graph.output_node()
    leaves = list(flatten_output(node.args[0]))
    user_leaves = [
        (leaf, output)
        for leaf, output in zip(leaves, program.outputs, strict=True)
        if output.kind == "user"
    ]
    defaults = user_outputs(program)
    names = (
        [name for name, _ in defaults]
        if output_names is None
        else list(output_names)[: len(defaults)]
    )
    remaining_names = iter(names)
    specs = _flat_specs(
        program,
        requested,
        [(None if item.is_none else next(remaining_names)) for _, item in user_leaves],
    )
    for (leaf, output), (name, spec) in zip(user_leaves, specs, strict=True):
        if spec is None or (isinstance(spec, (Mapping, list, tuple)) and not spec):
            continue
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        display_name = name or output.label or "None"
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"output_dynamic_shapes names dimensions of '{display_name}', which is not a tensor"
            )
        yield str(name), value, spec


def _flat_specs(
    program: Program, requested: Any, names: Sequence[str | None]
) -> list[tuple[str | None, Any]]:
    """Return (ONNX name, spec) of each result.

    ``requested`` maps output names to specs, or has the structure of the results.
    """
    known_names = [name for name in names if name is not None]
    if (
        isinstance(requested, Mapping)
        and requested
        and all(key in known_names for key in requested)
    ):
        return [(name, requested.get(name)) for name in names]
    structure = program.output_structure
    if structure is None:
        if isinstance(requested, (list, tuple)) and len(requested) == len(names):
            return list(zip(names, requested, strict=True))
        raise ExportError(f"output_dynamic_shapes is a dict by output name, among {known_names}")
    specs = list(_walk_specs(structure, requested, "output", known_names))
    return list(zip(names, specs, strict=True))


def _walk_specs(
    structure: Any, requested: Any, path: str, known_names: Sequence[str]
) -> Iterator[Any]:
    """Yield the requested spec of each leaf of the TreeSpec ``structure``."""
    if structure.is_leaf():
        yield requested
        return
    children = pytrees.spec_children(structure)
    keys = [key for key, _ in children]
    if requested is None:
        items: list[Any] = [None] * len(children)
    elif isinstance(requested, Mapping) and all(key in keys for key in requested):
        items = [requested.get(key) for key in keys]
    elif isinstance(requested, (list, tuple)) and len(requested) == len(children):
        items = list(requested)
    else:
        raise ExportError(
            f"output_dynamic_shapes of '{path}' has one entry for each of {keys}, or is a dict by "
            f"output name, among {list(known_names)}; not {requested!r}"
        )
    for (key, child), item in zip(children, items, strict=True):
        yield from _walk_specs(child, item, f"{path}[{key!r}]", known_names)


def _names_by_axis(name: str, value: torch.Tensor, spec: Any) -> dict[int, str]:
    """Return the requested names by axis; raise ExportError for invalid axes and names."""
    rank = value.dim()
    if isinstance(spec, (list, tuple)) and len(spec) == rank:
        items = dict(enumerate(spec))
    elif isinstance(spec, Mapping) and all(type(a) is int and -rank <= a < rank for a in spec):
        items = {(axis + rank if axis < 0 else axis): dim for axis, dim in spec.items()}
    else:
        raise ExportError(
            f"output_dynamic_shapes of '{name}' is a dict by dimension or one entry for each of "
            f"its {rank} dimensions, not {spec!r}"
        )
    dim_names = {
        axis: getattr(dim, "__name__", dim) for axis, dim in items.items() if dim is not None
    }
    for axis, dim in dim_names.items():
        expression = parse_dim_expression(dim) if isinstance(dim, str) else None
        if expression is not None:
            dim_names[axis] = str(expression)
        elif not isinstance(dim, str) or not dim.isidentifier():
            raise ExportError(f"dimension {axis} of output '{name}' is named {dim!r}, which is not "
                              "an identifier")  # fmt: skip
    return dim_names


def write_dims(model: Any, dim_names: Mapping[tuple[str, int], str]) -> None:
    """Write names of dimensions on outputs, and on other results with the same dimensions."""
    if not dim_names:
        return
    proto = model.proto if hasattr(model, "proto") else model
    names: dict[str, str] = {}
    for output in proto.graph.output:
        for axis, dim in enumerate(output.type.tensor_type.shape.dim):
            if (output.name, axis) in dim_names:
                names[dim.dim_param] = dim_names[output.name, axis]
                dim.dim_param = dim_names[output.name, axis]
    patterns = [(name, re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")) for name in names if name]
    for info in proto.graph.value_info:
        for dim in info.type.tensor_type.shape.dim:
            for name, pattern in patterns if dim.dim_param else ():
                dim.dim_param = pattern.sub(names[name], dim.dim_param)


# -- names of the keys and values of a cache

# The words key, keys, value and values, and the letters k and v, in a lower-case name.
_KIND = re.compile(r"(?:^|[^a-z])(key|value)s?(?![a-z])|(?:^|[^a-z0-9])([kv])(?![a-z])")
# Suffix of torch's names for the tensors of a cache; other names come from the caller.
_CACHE_TENSOR = re.compile(r"(?:key_cache|value_cache|keys|values)_\d+$")
# Words for the attention in a pair of caches, and the attention that they mean.
_PART = re.compile(r"(?:^|[^a-z])(self|decoder|cross|encoder)(?![a-z])")
_PARTS = {"self": "self", "decoder": "self", "cross": "cross", "encoder": "cross"}


@dataclass(frozen=True, order=True)
class CacheTensorName:
    """Parsed name of a cache tensor: its layer, the kind "key" or "value", and its attention.

    The attention is "self" or "cross" if the name says so (an EncoderDecoderCache has both), and
    empty otherwise.
    """

    layer: int
    kind: str
    attention: str = ""

    def __str__(self) -> str:
        part = f" of the {self.attention} attention" if self.attention else ""
        return f"the {self.kind}s of layer {self.layer}{part}"


def parse_cache_name(name: str) -> CacheTensorName | None:
    """Parse the name of a cache tensor; return None for other names.

    Examples are ``past_key_values.0.key``, ``present_1_decoder_value`` and torch's
    ``past_key_values_self_attention_cache_key_cache_0``.
    """
    text = re.sub(r"key_values?|kv_cache", "", name.lower())
    kinds = [match[1] or {"k": "key", "v": "value"}[match[2]] for match in _KIND.finditer(text)]
    numbers = re.findall(r"\d+", text)
    if len(kinds) != 1 or len(numbers) != 1:
        return None
    parts = {_PARTS[part] for part in _PART.findall(text)}
    return CacheTensorName(int(numbers[0]), kinds[0], parts.pop() if len(parts) == 1 else "")


def order_cache_names(option: str, defaults: Sequence[str], requested: Sequence[str]) -> list[str]:
    """Order ``requested``, names of cache tensors, like torch's names ``defaults``.

    torch flattens a cache into all keys, then all values: requested names ``k0 v0 k1 v1`` become
    ``k0 k1 v0 v1``. Names at the positions of other inputs (``forward(k1, k2)``) stay there, and
    all names do if none has a layer and kind. Raises ExportError if some names of cache tensors can
    be parsed, but they describe other tensors than those of the cache.
    """
    tensors = {
        index: meaning
        for index, name in enumerate(defaults)
        if _CACHE_TENSOR.search(name) and (meaning := parse_cache_name(name)) is not None
    }
    requested_meanings = {index: parse_cache_name(requested[index]) for index in tensors}
    if not any(requested_meanings.values()) or len(set(tensors.values())) != len(tensors):
        return list(requested)
    if (
        len({meaning.attention for meaning in tensors.values()}) == 1
    ):  # with a single cache, the attention is irrelevant
        parsed = {
            index: meaning and CacheTensorName(meaning.layer, meaning.kind)
            for index, meaning in requested_meanings.items()
        }
        index_by_meaning = {
            CacheTensorName(meaning.layer, meaning.kind): index
            for index, meaning in tensors.items()
        }
    else:
        parsed, index_by_meaning = (
            dict(requested_meanings),
            {meaning: index for index, meaning in tensors.items()},
        )
    if set(parsed.values()) != set(index_by_meaning) or len(set(parsed.values())) != len(tensors):
        raise ExportError(_cache_names_error(option, defaults, requested, list(tensors)))
    names = list(requested)
    for index, meaning in parsed.items():
        assert meaning is not None
        names[index_by_meaning[meaning]] = requested[index]
    return names


def _cache_names_error(
    option: str, defaults: Sequence[str], requested: Sequence[str], indices: Sequence[int]
) -> str:
    lines = [f"  {requested[index]!r} for {defaults[index]} ({parse_cache_name(defaults[index])})"
             for index in indices]  # fmt: skip
    return (
        f"{option} names the tensors of a cache, which torch flattens into all keys and then all "
        "values, but the names describe other tensors:\n"
        + "\n".join(lines)
        + f"\nGive a dict, {{{defaults[indices[0]]!r}: ...}}, or names with layer and key or value "
        f"such as 'past_key_values.0.key'"
    )
