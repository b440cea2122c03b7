"""The names of ONNX inputs and outputs, the order of outputs, and the names of their dimensions. In
come the program and the caller's names, out go names and an order. Called by conversion.py."""

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
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dimension_names import free_symbols
from ortable.exporter.signature.dynamic_shapes import expression_of
from ortable.interpreter import results
from ortable.interpreter.outputs import flatten_output


def checked_call(args: Any, kwargs: Any, mod: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the call to export; one tensor is taken as a tuple of
    one. ``mod`` is the model, whose results may need classes that torch does not know.

    Raises InputError for anything else.
    """
    if isinstance(args, torch.Tensor):
        args = (args,)
    if args is None:
        args = ()
    if not isinstance(args, (tuple, list)):
        hint = "; give kwargs= what forward takes by name" if isinstance(args, Mapping) else ""
        raise InputError(
            "args is a tuple of the positional arguments of the model, not "
            f"{type(args).__name__}{hint}"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(
            f"kwargs is a dict of the keyword arguments of the model, not {type(kwargs).__name__}"
        )
    pytrees.register_caches((args, kwargs), mod)
    return tuple(args), dict(kwargs or {})


def name_inputs(fx_names: Sequence[str], chosen: Sequence[str] | None) -> dict[str, str]:
    """FX placeholder name -> ONNX input name, for the inputs that the model keeps.

    Raises ExportError when ``chosen`` has another length, or a name twice.
    """
    if chosen is None:
        return {}
    names = _checked_names(chosen, "input_names")
    if len(names) != len(fx_names):
        raise ExportError(
            f"input_names has {len(names)} names {names}, but the model has {len(fx_names)} "
            f"inputs: {list(fx_names)} "
            "(numbers and None given in args are constants of the model, not inputs)"
        )
    return dict(zip(fx_names, names, strict=True))


def name_outputs(described: Sequence[str | None], chosen: Sequence[str] | None) -> list[str]:
    """A name for each output; ``described`` has None for those that have no ONNX output (None in
    torch).

    Outputs keep the number they have in torch: the second of ``(None, y)`` is ``output_1``.
    Raises ExportError when ``chosen`` has another length than there are outputs, or a name twice.
    """
    defaults = [f"output_{index}" for index in range(len(described))]
    if chosen is None:
        return defaults
    names = _checked_names(chosen, "output_names")
    kept = [index for index, entry in enumerate(described) if entry is not None]
    if len(names) != len(kept):
        raise ExportError(
            f"output_names has {len(names)} names {names}, but the model has {len(kept)} outputs: "
            f"{[described[index] for index in kept]}"
        )
    for index, name in zip(kept, names, strict=True):
        defaults[index] = name
    return defaults


def _checked_names(names: Any, what: str) -> list[str]:
    found = list(names)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ExportError(f"{what} has {', '.join(map(repr, twice))} more than once")
    return found


def chosen_inputs(program: Program, chosen: Any) -> Any:
    """``input_names`` as a list: a dict replaces some of the default names; in a list the names of
    a cache's tensors go to the tensors that they mean.

    Raises ExportError for a key that is no default name, and for names of a cache that mean others.
    """
    defaults = [str(node.target) for node in program.onnx_inputs()]
    if isinstance(chosen, (list, tuple)) and len(chosen) == len(defaults):
        return by_meaning("input_names", defaults, chosen)
    return _replaced("input_names", defaults, [], chosen)


def chosen_outputs(program: Program, chosen: Any, inputs: Sequence[str] | None = None) -> Any:
    """``output_names`` as a list: a dict replaces some of the default names, ``"auto"`` takes those
    of fields and keys. ``inputs`` are the names of the ONNX inputs.

    Raises ExportError for a key that is no default name.
    """
    defaults = [name for name, _ in user_outputs(program)]
    if isinstance(chosen, (list, tuple)):
        inner = [output.label for _, output in user_outputs(program)]
        if len(chosen) < len(inner):
            return chosen
        return [
            *by_meaning("output_names", inner, chosen[: len(inner)]),
            *chosen[len(inner) :],
        ]
    if not isinstance(chosen, Mapping) and chosen != "auto":
        return chosen
    taken = set(inputs or [str(node.target) for node in program.onnx_inputs()])
    labels = _unique([output.label for _, output in user_outputs(program)], taken)
    return labels if chosen == "auto" else _replaced("output_names", defaults, labels, chosen)


def user_outputs(program: Program) -> list[tuple[str, ProgramOutput]]:
    """Default name and description of each result of the forward that is an ONNX output. They keep
    the number that they have in torch: the second of ``(None, y)`` is ``output_1``."""
    users = [output for output in program.outputs if output.kind == "user"]
    return [(f"output_{i}", output) for i, output in enumerate(users) if not output.is_none]


def _replaced(what: str, defaults: list[str], labels: list[str], chosen: Any) -> Any:
    if not isinstance(chosen, Mapping):
        return chosen
    unknown = [name for name in chosen if name not in defaults and name not in labels]
    if unknown:
        raise ExportError(f"{what} renames {unknown}, but the model has {defaults}")
    other = dict(zip(defaults, labels, strict=True)) if labels else {}
    return [chosen.get(name, chosen.get(other.get(name), name)) for name in defaults]


def _unique(labels: Sequence[str], taken: set[str]) -> list[str]:
    """``labels`` as names; one that an input has gets ``_out`` behind it, one that is there already
    a number."""
    found: list[str] = []
    for label in labels:
        base = "".join(c if c.isalnum() or c in "._" else "_" for c in label) or "output"
        base = name = f"{base}_out" if base in taken else base
        number = 0
        while name in found or name in taken:
            number += 1
            name = f"{base}_{number}"
        found.append(name)
    return found


def output_labels(spec: Any, count: int) -> list[str]:
    """A label for each of ``count`` results, from the structure that the forward returns: names of
    fields, keys of dicts, and numbers."""
    if spec is None or spec.num_leaves != count:
        return [f"output_{i}" for i in range(count)]
    whole = pytrees.leaf_names(spec)
    return [f"output_{label}" if label[:1].isdigit() else label or "output" for label in whole]


def output_plan(
    program: Program, inputs: Mapping[str, str], chosen: Sequence[str] | None
) -> tuple[list[str], list[int]]:
    """Names of the flattened FX outputs, and the order of the ONNX outputs: the user's first, then
    mutated buffers and inputs.

    Raises ExportError when ``chosen`` does not have one name for each output of the user, or for
    each ONNX output.
    """
    described = [(index, output) for index, output in enumerate(program.outputs)]
    users = [(index, output) for index, output in described if output.kind == "user"]
    others = [(index, output) for index, output in described if output.kind != "user"]
    labels: list[str | None] = [
        None if output.is_none else f"output_{number}" for number, (_, output) in enumerate(users)
    ]
    extra = [
        output.target
        if output.kind == "buffer"
        else f"{inputs.get(output.target, output.target)}_mutated"
        for _, output in others
    ]
    kept = sum(label is not None for label in labels)
    if chosen is not None and len(chosen) == kept + len(extra) and extra:
        extra = list(chosen[kept:])
        chosen = chosen[:kept]
    found = name_outputs(labels, chosen)
    names = [""] * len(described)
    for (index, _), name in zip([*users, *others], [*found, *extra], strict=True):
        names[index] = name
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ExportError(
            f"two outputs have the name {', '.join(map(repr, twice))}; choose others with "
            "output_names"
        )
    both = sorted(
        {inputs.get(str(n.target), str(n.target)) for n in program.onnx_inputs()} & set(names)
    )
    if both and (chosen is not None or inputs):
        raise ExportError(f"{', '.join(map(repr, both))} is the name of an input and of an output")
    return names, [index for index, _ in [*users, *others]]


# -- names of dimensions


def name_output_dims(
    program: Program, asked: Any, chosen: Sequence[str] | None
) -> dict[tuple[str, int], str]:
    """Names that the user gives to dimensions of outputs.

    A dimension of its own (one that depends on data, or one of an input without a name) gets the
    name wherever it occurs: ``program.symbol_names`` has it afterwards. One that is computed from
    others (``2*batch``) is returned, by ONNX output and axis, to be written on that output alone.

    Raises ExportError for a dimension that is fixed, one that is an input's and has another name
    there, and a name that another dimension has.
    """
    if asked is None:
        return {}
    named = program.symbol_names
    written: dict[tuple[str, int], str] = {}
    given: dict[str, dims.Dim] = {}
    expressions: list[tuple[str, str, Any]] = []
    for name, value, spec in _asked_outputs(program, asked, chosen):
        for axis, wanted in _axes(name, value, spec).items():
            where, size = f"dimension {axis} of output '{name}'", value.shape[axis]
            plain = str(getattr(getattr(size, "node", None), "expr", ""))
            free = free_symbols(size)
            if not free:
                raise ExportError(
                    f"{where} is {int(size)} in every call, it cannot be named '{wanted}'"
                )
            if not wanted.isidentifier():
                expressions.append((where, wanted, size))
                continue
            dim = dims.from_torch(size)
            if given.setdefault(wanted, dim) != dim:
                raise ExportError(f"{where} is another dimension than the first named '{wanted}'")
            if plain != free[0]:
                _check_free(where, wanted, str(dims.from_torch(size, named)), named, free)
                written[name, axis] = wanted
            elif named.get(free[0]) != wanted:
                if named.get(free[0]) in program.user_dims:
                    raise ExportError(
                        f"{where} is the dimension '{named[free[0]]}' of the inputs: it keeps that "
                        f"name, and cannot be named '{wanted}'"
                    )
                _check_free(where, wanted, "", named, free)
                named[free[0]] = wanted
    for where, wanted, size in expressions:
        spelled = str(dims.from_torch(size, named))
        if spelled != wanted:
            raise ExportError(f"{where} is '{spelled}', it cannot be named '{wanted}'")
    return written


def _check_free(
    where: str, wanted: str, spelled: str, named: Mapping[str, str], own: Sequence[str]
) -> None:
    """Raise ExportError when ``wanted`` is the name of another dimension."""
    others = {name for symbol, name in named.items() if spelled or symbol not in own}
    if wanted in others:
        value = f" ({spelled})" if spelled else ""
        raise ExportError(
            f"{where}{value} cannot be named '{wanted}': another dimension has that name"
        )


def _asked_outputs(
    program: Program, asked: Any, chosen: Sequence[str] | None
) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """(ONNX output, its value in torch, what was asked) for each output of the user that something
    was asked for."""
    node = program.graph_module.graph.output_node()
    leaves = list(flatten_output(node.args[0]))
    users = [
        (leaf, output)
        for leaf, output in zip(leaves, program.outputs, strict=True)
        if output.kind == "user"
    ]
    defaults = user_outputs(program)
    names = [name for name, _ in defaults] if chosen is None else list(chosen)[: len(defaults)]
    by_name = iter(names)
    flat = _flat_specs(program, asked, [(None if o.is_none else next(by_name)) for _, o in users])
    for (leaf, output), (name, spec) in zip(users, flat, strict=True):
        if spec is None or (isinstance(spec, (Mapping, list, tuple)) and not spec):
            continue
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        shown = name or output.label or "None"
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"output_dynamic_shapes names dimensions of '{shown}', which is no tensor"
            )
        yield str(name), value, spec


def _flat_specs(
    program: Program, asked: Any, names: Sequence[str | None]
) -> list[tuple[str | None, Any]]:
    """(ONNX name, specification) of each result: by the names of outputs, or in the structure that
    the forward returns."""
    known = [name for name in names if name is not None]
    if isinstance(asked, Mapping) and asked and all(key in known for key in asked):
        return [(name, asked.get(name)) for name in names]
    structure = program.output_structure
    if structure is None:
        if isinstance(asked, (list, tuple)) and len(asked) == len(names):
            return list(zip(names, asked, strict=True))
        raise ExportError(f"output_dynamic_shapes is a dict by output name, among {known}")
    found = list(_walk(structure, asked, "output", known))
    return list(zip(names, found, strict=True))


def _walk(spec: Any, asked: Any, path: str, known: Sequence[str]) -> Iterator[Any]:
    if spec.is_leaf():
        yield asked
        return
    inner = pytrees.spec_children(spec)
    keys = [key for key, _ in inner]
    if asked is None:
        items: list[Any] = [None] * len(inner)
    elif isinstance(asked, Mapping) and all(key in keys for key in asked):
        items = [asked.get(key) for key in keys]
    elif isinstance(asked, (list, tuple)) and len(asked) == len(inner):
        items = list(asked)
    else:
        raise ExportError(
            f"output_dynamic_shapes of '{path}' has one entry for each of {keys}, or is a dict by "
            f"output name, among {list(known)}; not {asked!r}"
        )
    for (key, child), item in zip(inner, items, strict=True):
        yield from _walk(child, item, f"{path}[{key!r}]", known)


def _axes(name: str, value: torch.Tensor, spec: Any) -> dict[int, str]:
    """Names by axis.

    Raises ExportError for an axis out of range, or a name that is no identifier.
    """
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
    found = {axis: getattr(dim, "__name__", dim) for axis, dim in items.items() if dim is not None}
    for axis, dim in found.items():
        expression = expression_of(dim) if isinstance(dim, str) else None
        if expression is not None:
            found[axis] = str(expression)
        elif not isinstance(dim, str) or not dim.isidentifier():
            raise ExportError(f"dimension {axis} of output '{name}' is named {dim!r}, which is not "
                              "an identifier")  # fmt: skip
    return found


def write_dims(model: Any, written: Mapping[tuple[str, int], str]) -> None:
    """Write names of dimensions on the outputs of a ModelProto or LargeModel, and wherever its
    other results have these dimensions."""
    if not written:
        return
    proto = model.proto if hasattr(model, "proto") else model
    names: dict[str, str] = {}
    for output in proto.graph.output:
        for axis, dim in enumerate(output.type.tensor_type.shape.dim):
            if (output.name, axis) in written:
                names[dim.dim_param] = written[output.name, axis]
                dim.dim_param = written[output.name, axis]
    known = [(name, re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")) for name in names if name]
    for info in proto.graph.value_info:
        for dim in info.type.tensor_type.shape.dim:
            for name, words in known if dim.dim_param else ():
                dim.dim_param = words.sub(names[name], dim.dim_param)


# -- names of keys and values

_KIND = re.compile(r"(?:^|[^a-z])(key|value)s?(?![a-z])|(?:^|[^a-z0-9])([kv])(?![a-z])")
# The end of torch's names for the tensors of a cache; other names are the caller's own.
_DEFAULT = re.compile(r"(?:key_cache|value_cache|keys|values)_\d+$")
_PART = re.compile(r"(?:^|[^a-z])(self|decoder|cross|encoder)(?![a-z])")
_PARTS = {"self": "self", "decoder": "self", "cross": "cross", "encoder": "cross"}


@dataclass(frozen=True, order=True)
class Meaning:
    """What the name of a tensor of a cache says: the layer, keys or values, and in a cache of two
    which of them (self or cross attention)."""

    layer: int
    kind: str
    attention: str = ""

    def __str__(self) -> str:
        part = f" of the {self.attention} attention" if self.attention else ""
        return f"the {self.kind}s of layer {self.layer}{part}"


def meaning_of(name: str) -> Meaning | None:
    """What ``past_key_values.0.key``, ``present_1_decoder_value`` or torch's
    ``past_key_values_self_attention_cache_key_cache_0`` mean; None for other names."""
    text = re.sub(r"key_values?|kv_cache", "", name.lower())
    kinds = [match[1] or {"k": "key", "v": "value"}[match[2]] for match in _KIND.finditer(text)]
    numbers = re.findall(r"\d+", text)
    if len(kinds) != 1 or len(numbers) != 1:
        return None
    parts = {_PARTS[found] for found in _PART.findall(text)}
    return Meaning(int(numbers[0]), kinds[0], parts.pop() if len(parts) == 1 else "")


def by_meaning(what: str, defaults: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """``chosen``, names for the tensors that torch calls ``defaults``, with the names of a cache's
    tensors where they belong.

    Inputs that the caller named (``forward(k1, k2)``) are no such tensors and keep their order.
    Names that say nothing about layers, keys and values stay in torch's order. Raises ExportError
    when some say what they mean, and it is another set of tensors than the cache has.
    """
    tensors = {
        index: found
        for index, name in enumerate(defaults)
        if _DEFAULT.search(name) and (found := meaning_of(name)) is not None
    }
    given = {index: meaning_of(chosen[index]) for index in tensors}
    if not any(given.values()) or len(set(tensors.values())) != len(tensors):
        return list(chosen)
    if (
        len({found.attention for found in tensors.values()}) == 1
    ):  # one cache: which one says nothing
        bare = {index: found and Meaning(found.layer, found.kind) for index, found in given.items()}
        wanted = {Meaning(found.layer, found.kind): index for index, found in tensors.items()}
    else:
        bare, wanted = dict(given), {found: index for index, found in tensors.items()}
    if set(bare.values()) != set(wanted) or len(set(bare.values())) != len(tensors):
        raise ExportError(_refusal(what, defaults, chosen, list(tensors)))
    names = list(chosen)
    for index, found in bare.items():
        assert found is not None
        names[wanted[found]] = chosen[index]
    return names


def _refusal(
    what: str, defaults: Sequence[str], chosen: Sequence[str], indices: Sequence[int]
) -> str:
    lines = [f"  {chosen[index]!r} for {defaults[index]} ({meaning_of(defaults[index])})"
             for index in indices]  # fmt: skip
    return (
        f"{what} names the tensors of a cache, which torch flattens into all keys and then all "
        "values, and the names do not say the same:\n"
        + "\n".join(lines)
        + f"\nGive a dict, {{{defaults[indices[0]]!r}: ...}}, or names with layer and key or value "
        f"such as 'past_key_values.0.key'"
    )
