"""Operators of a user's library as nodes of an ONNX domain, when the caller asks for it: tensors
are inputs of the node, everything else is an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from onnx import AttributeProto

from ortable import dims, dtypes
from ortable.errors import OptionError, UnsupportedCase
from ortable.prelude.complex_value import ComplexValue

# Kinds of an attribute without elements, by the kind of the schema's type.
_EMPTY = {
    "IntType": AttributeProto.INTS,
    "SymIntType": AttributeProto.INTS,
    "BoolType": AttributeProto.INTS,
    "FloatType": AttributeProto.FLOATS,
    "NumberType": AttributeProto.FLOATS,
    "StringType": AttributeProto.STRINGS,
}
# A default dtype is the number that torch gives it; dtypes of a call come as ONNX's.
_SCALAR_TYPES = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64,
    5: dtypes.float16, 6: dtypes.float32, 7: dtypes.float64, 9: dtypes.complex64,
    10: dtypes.complex128, 11: dtypes.boolean, 15: dtypes.bfloat16,
}  # fmt: skip
_TEXTS = (torch.device, torch.layout, torch.memory_format)
_NUMBERS = ("BoolType", "FloatType", "IntType", "NumberType", "SymIntType")


def checked_domains(domains: Mapping[str, Any] | None) -> dict[str, tuple[str, int]]:
    """``{namespace: (domain, version)}`` of ``{namespace: domain}`` or ``{namespace: (domain,
    version)}``.

    Raises OptionError for anything else, and for ONNX's own domain, whose operators are known.
    """
    found = {}
    for namespace, given in (domains or {}).items():
        domain, version = given if isinstance(given, (tuple, list)) else (given, 1)
        if not isinstance(namespace, str) or not namespace or "::" in namespace:
            raise OptionError(
                "custom_domains maps namespaces of torch.library, for example {'mylib': "
                f"'my.domain'}}, not {namespace!r}"
            )
        if not isinstance(domain, str) or domain in ("", "ai.onnx"):
            raise OptionError(
                f"the operators of '{namespace}' need a domain of their own, for example "
                f"'my.domain', not {domain!r}"
            )
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise OptionError(f"the version of domain '{domain}' is 1 or more, not {version!r}")
        found[namespace] = (domain, version)
    return found


def node_converter(target: Any, domain: str, version: int) -> Callable[..., Any]:
    """A converter that writes one node ``domain::op`` for a call of the overload ``target``.

    Tensor arguments are inputs in the order of the schema (``""`` for None, a list spread out),
    the others attributes of their names; None is left out. Types and shapes of the outputs are
    torch's. Raises UnsupportedCase for what a node cannot hold: a symbolic size, a list of tensors
    that is not the last tensor argument, a result that is no tensor.
    """
    schema = target._schema
    op_type = target.name().partition("::")[2].replace(".", "_")

    def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        bound = _bound(schema, args, kwargs)
        inputs = _inputs(schema, bound)
        attributes = _attributes(schema, bound)
        if None in res.dtypes:
            raise UnsupportedCase(
                f"a node of domain '{domain}' returns tensors, and {schema.name} returns "
                "something else; write a converter for it"
            )
        given = graph.opsets.setdefault(domain, version)
        if given != version:
            raise UnsupportedCase(
                f"domain '{domain}' has version {given} in this model, custom_domains says "
                f"{version}; choose one with target_opset"
            )
        # results that nobody reads keep a name: the kernel may not know them as optional
        outputs = [name or graph.unique_name(f"{op_type}_unused") for name in res.outputs]
        graph.make_node(op_type, inputs, outputs, domain=domain, name=op_type)
        # set on the node: an argument may be called like one of make_node's own
        graph.nodes[-1].attrs.update(attributes)
        for name, dtype, shape in zip(outputs, res.dtypes, res.shapes, strict=True):
            graph.set_type(name, dtype)
            if shape is not None:
                graph.set_shape(name, shape)
        single = len(schema.returns) == 1 and schema.returns[0].type.kind() != "ListType"
        return outputs[0] if single and len(outputs) == 1 else outputs

    return convert


def _bound(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, in the order of the schema; those left out have their defaults."""
    named = {name.rstrip("_"): value for name, value in kwargs.items()}
    found = {}
    for index, argument in enumerate(schema.arguments):
        name = argument.name
        if index < len(args):
            found[name] = args[index]
        elif name.rstrip("_") in named:
            found[name] = named[name.rstrip("_")]
        else:
            default: Any = argument.default_value if argument.has_default_value() else None
            is_dtype = default is not None and "ScalarType" in str(argument.real_type)
            found[name] = _SCALAR_TYPES[default] if is_dtype else default
    return found


def _kind(argument: Any) -> tuple[str, bool]:
    """Kind of the elements of an argument (``TensorType``, ``IntType``...), and whether it is a
    list."""
    kind, is_list = argument.type, False
    while kind.kind() in ("OptionalType", "ListType"):
        is_list = is_list or kind.kind() == "ListType"
        kind = kind.getElementType()
    return str(kind.kind()), is_list


def _inputs(schema: Any, bound: Mapping[str, Any]) -> list[str]:
    inputs: list[str] = []
    spread = ""
    for argument in schema.arguments:
        kind, is_list = _kind(argument)
        if kind != "TensorType":
            continue
        if spread:
            raise UnsupportedCase(
                f"'{spread}' is a list of tensors before another tensor argument: a node would "
                "not say where it ends; write a converter, or put the list last"
            )
        value = bound[argument.name]
        items = (value or []) if is_list else [value]
        spread = argument.name if is_list else ""
        for item in items:
            if not isinstance(item, (str, type(None))):
                what = "complex" if isinstance(item, ComplexValue) else f"the number {item}"
                raise UnsupportedCase(
                    f"argument '{argument.name}' is {what}, an input of a node is a tensor"
                )
            inputs.append(item or "")
    return inputs


def _attributes(schema: Any, bound: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for argument in schema.arguments:
        kind, is_list = _kind(argument)
        value = bound[argument.name]
        if kind == "TensorType" or value is None:
            continue
        if not is_list:
            found[argument.name] = _plain(value, kind, argument.name)
            continue
        # torch takes one number for a list of a fixed length
        items = value if isinstance(value, (list, tuple)) else [value] * (argument.N or 1)
        found[argument.name] = [
            _plain(item, kind, argument.name) for item in items
        ] or AttributeProto(name=argument.name, type=_EMPTY[kind])
    return found


def _plain(value: Any, kind: str, name: str) -> Any:
    """A number or text of an attribute; bools are ints there.

    Raises UnsupportedCase for a symbolic size or a number that is computed of one, and for what no
    attribute holds.
    """
    if isinstance(value, dims.SymDim):
        raise UnsupportedCase(
            f"argument '{name}' is the symbolic size {value}, an attribute is a number: make the "
            "dimension static, take it from a tensor's shape inside the operator, or write a "
            "converter that passes graph.dim_as_vector(size) as an input"
        )
    if isinstance(value, str) and kind in _NUMBERS:  # the name of a result
        raise UnsupportedCase(
            f"argument '{name}' is a number that the model computes of sizes, an attribute is a "
            "plain one: make the dimension static, compute it of a tensor's shape inside the "
            "operator, or write a converter that passes it as an input"
        )
    if isinstance(value, _TEXTS):
        return str(value)
    if not isinstance(value, (bool, int, float, str)):
        raise UnsupportedCase(f"argument '{name}' is {value!r}, which no attribute holds")
    if kind == "FloatType":
        return float(value)
    return int(value) if isinstance(value, bool) else value
