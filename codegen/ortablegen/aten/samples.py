"""Parse sample calls of operators, each value by the type of its argument."""

from __future__ import annotations

from typing import Any

from ortablegen.language.parse import names_in
from ortablegen.language.samples import (
    Expression,
    SampleProblem,
    TensorSample,
    literal_value,
    tensor_sample,
)
from ortablegen.schemas.torch import Argument, OpSchema

from .model import Sample


def parse_sample(sample: Sample, schema: OpSchema) -> dict[str, Any]:
    """Parse the arguments of a sample to TensorSample, literals, :class:`Expression` or lists.

    Raises:
        SampleProblem: a value cannot be parsed, or a dynamic dimension is unknown or has two sizes.
    """
    by_name = {argument.name: argument for argument in schema.arguments}
    values = {name: _parse_value(value, by_name[name]) for name, value in sample.values}
    sizes: dict[str, int] = {}
    for name, size in (dim for value in values.values() for dim in _named_dims(value)):
        if sizes.setdefault(name, size) != size:
            raise SampleProblem(f"dimension '{name}' has two sizes, {sizes[name]} and {size}")
    named = {name for value in values.values() for name in _expression_names(value)}
    if unknown := named - set(sizes):
        raise SampleProblem(
            f"'{', '.join(sorted(unknown))}' is not a dynamic dimension of this sample call"
        )
    return values


def _named_dims(value: Any) -> list[tuple[str, int]]:
    if isinstance(value, TensorSample):
        return [(name, size) for size, name in value.dims if name]
    if isinstance(value, list):
        return [dim for item in value for dim in _named_dims(item)]
    return []


def _expression_names(value: Any) -> list[str]:
    if isinstance(value, Expression):
        return [name.id for name in names_in(value.tree)]
    if isinstance(value, list):
        return [name for item in value for name in _expression_names(item)]
    return []


def _is_dtype(name: str) -> bool:
    import torch

    return isinstance(getattr(torch, name, None), torch.dtype)


def _parse_value(value: object, argument: Argument) -> Any:
    if value is None:
        return None
    type_name = argument.type.rstrip("?")
    if isinstance(value, list):
        element_argument = Argument(
            argument.name, argument.torch_name, type_name.removesuffix("[]"), False, False
        )
        return [_parse_value(item, element_argument) for item in value]
    text = str(value)
    if type_name.startswith("Tensor"):
        tensor = tensor_sample(text)
        if tensor is not None:
            if tensor.values is not None and tensor.number_count != tensor.element_count:
                raise SampleProblem(
                    f"'{text}' has {tensor.number_count} numbers for"
                    f" {tensor.element_count} elements"
                )
            return tensor
        # torch wraps a number in place of a tensor, as in x + 1
        if type_name != "Tensor" or isinstance(literal_value(text), str):
            raise SampleProblem(
                f"'{text}' is not a tensor; argument '{argument.name}' is {argument.type}"
            )
    if type_name == "ScalarType":
        if not _is_dtype(text):
            raise SampleProblem(f"'{text}' is not a dtype; write float32, int64, bool")
        return text
    if type_name in ("Layout", "Device", "MemoryFormat", "str"):
        return text
    return literal_value(text)
