"""Evaluate numbers that a model reads from tensors of constants and sizes, while torch traces.

Examples are ``int(self.kernel_size)`` and ``(length - kernel) / stride`` in 0-d tensors. tracing.py
enters the torch function mode `ConcreteValues`, which intercepts every call of torch; strategies.py
enters `FlagEvaluationMode`.

Tensors that do not depend on sizes are computed next to the trace, by the same calls on real
tensors, so that a number is exactly the number of eager mode. Tensors that depend on sizes are
represented as fractions of size expressions, or as conditions on sizes; where eager mode would
round a fraction, a guard bounds the size so that rounding changes nothing. No other tensor is
evaluated.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from ortable.compat.torch import (
    OpOverload,
    OpOverloadPacket,
    TorchDispatchMode,
    check,
    disable_current_modes,
    disable_torch_function,
    is_functional_tensor,
    pytree,
)
from ortable.ir.initializers import is_fake

from .recorded_calls import iterate_leaves

# Larger tensors are data of the model, and it takes time to compute them twice.
_MAX_ELEMENTS = 256
_MAX_ROUNDINGS = 6  # of eager mode in one number
# Rounding to float32 has a relative error of at most 2**-24. With a numerator below 2**20, and
# added constants below 2**16, the errors of _MAX_ROUNDINGS roundings sum to less than
# 1 / denominator: no fraction crosses an integer, and integers are exact.
_EXACT_BELOW = 2**20
_SMALL_CONSTANT = 2**16
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Tensor methods that read a number -> conversion of the number to the method's result.
_READS: Mapping[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "__int__": int,
    "__index__": operator.index,
    "__float__": float,
    "item": lambda value: value,
}


@dataclass(frozen=True)
class SizeValue:
    """A 0-d tensor that is a fraction of a size expression.

    ``roundings`` counts the roundings of eager mode in its computation; integers have 0.
    """

    numerator: Any
    denominator: int = 1
    roundings: int = 0


@dataclass(frozen=True)
class _ConcreteValue:
    """A tensor's value and the buffers that the value depends on.

    ``value`` is a real tensor, a SizeValue, or a condition on sizes; None if it is unknown.
    """

    value: Any
    sources: frozenset[str] = frozenset()


_UNKNOWN = _ConcreteValue(None)


@dataclass
class ConcreteReads:
    """The reads of numbers that one run evaluated: their count, and the buffers they depend on.

    ``written`` are the buffers that forward wrote to.
    """

    count: int = 0
    sources: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)


class ConcreteValues(TorchFunctionMode):
    """Evaluates ``int(t)``, ``t.item()``, ``t.tolist()`` and the like for tensors of known values.

    Other calls pass through. ``traced`` has the buffers that forward uses, ``real`` the same
    buffers with their values. The mode records its reads in ``answers``.
    """

    def __init__(
        self,
        traced: Mapping[str, torch.Tensor],
        real: Mapping[str, torch.Tensor],
        answers: ConcreteReads,
    ) -> None:
        super().__init__()
        self.answers = answers
        self.values: Any = WeakTensorKeyDictionary()
        self.buffer_names: dict[int, str] = {}  # by the address of the buffer's storage
        for name, tensor in traced.items():
            if name in real and _is_small(real[name]):
                value = _copy_tensor(real[name])
                self.values[tensor] = _ConcreteValue(value, frozenset((name,)))
                self.buffer_names[_storage_pointer(value)] = name

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # Dynamo traces this code inside a torch.cond
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if args and isinstance(args[0], torch.Tensor) and (name in _READS or name == "tolist"):
            value = self.read_value(name, args[0])
            return func(*args, **kwargs) if value is None else value
        if _takes_numbers(func, name):
            args, kwargs = self.replace_with_numbers(name, args, kwargs)
        if name == "__iter__":
            func, args, kwargs = torch.unbind, (args[0],), {}
            result = func(*args)
            self.record_call(func, name, args, kwargs, result)
            return iter(result)
        result = func(*args, **kwargs)
        self.record_call(func, name, args, kwargs, result)
        return result

    # -- reading

    def read_value(self, name: str, tensor: torch.Tensor) -> Any:
        """Return the number that forward reads from a tensor; None if it is unknown."""
        concrete = self.find_value(tensor)
        value = concrete.value
        if value is None:
            return None
        if isinstance(value, torch.Tensor):
            if name != "tolist" and value.numel() != 1:
                return None  # torch raises its own error
            number = _tensor_to_list(value)
            if name != "tolist":
                while isinstance(number, list):  # one element, of any rank
                    (number,) = number
                number = _READS[name](number)
        elif isinstance(value, SizeValue):
            # int(t) has to return an int, not a SymInt, and a float tensor yields floats
            if tensor.is_floating_point() or name in ("__int__", "__index__", "__float__"):
                return None
            number = bool(value.numerator != 0) if name == "__bool__" else value.numerator
        else:
            number = bool(value)
        self.answers.count += 1
        self.answers.sources |= concrete.sources
        return number

    def find_value(self, tensor: torch.Tensor) -> _ConcreteValue:
        """Return the value of a tensor; tensors that torch does not trace are constants."""
        concrete = self.values.get(tensor)
        if concrete is None and _is_constant(tensor):
            concrete = _ConcreteValue(_copy_tensor(tensor))
            self.values[tensor] = concrete
        return concrete or _UNKNOWN

    def replace_with_numbers(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Replace 0-d integer tensors among the sizes or indices of a call with their numbers."""
        is_indexing = name == "__getitem__"
        tensor_first = is_indexing or _takes_tensor(name)

        def read_number(value: Any) -> Any:
            if isinstance(value, slice):
                return slice(
                    read_number(value.start), read_number(value.stop), read_number(value.step)
                )
            if (
                not isinstance(value, torch.Tensor)
                or value.ndim
                or value.is_floating_point()
                or value.is_complex()
            ):
                return value
            read = self.read_value("item", value)
            if read is None and not is_indexing:  # a size that depends on data
                read = value.item()
            return value if read is None else read

        leading, number_args = (args[:1], args[1:]) if tensor_first else ((), args)
        number_args = pytree.tree_map(read_number, tuple(number_args))
        return (*leading, *number_args), pytree.tree_map(read_number, dict(kwargs))

    # -- recording

    def record_call(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """Record the values of a call's results, and the buffer that the call wrote to."""
        if isinstance(kwargs.get("out"), torch.Tensor):
            self.invalidate_tensor(kwargs["out"])
            return
        leaves = list(iterate_leaves((args, kwargs)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if _writes_to_others(func, name, args):
            for tensor in tensors:
                self.note_write(tensor)
                self.invalidate_tensor(tensor)
            return
        writes = bool(tensors) and _writes(name)
        results = [item for item in iterate_leaves(result) if isinstance(item, torch.Tensor)]
        if not writes and not results:
            return
        concretes = [self.find_value(operand) for operand in tensors]
        if writes:
            self.note_write(tensors[0])
        if any(concrete.value is None for concrete in concretes):
            if writes:
                self.invalidate_tensor(tensors[0])
            return
        sources = frozenset().union(*(concrete.sources for concrete in concretes))
        symbolic = any(isinstance(leaf, _SYMBOLS) for leaf in leaves) or not all(
            isinstance(concrete.value, torch.Tensor) for concrete in concretes
        )
        values: Any = None
        if writes and sources != concretes[0].sources:
            values = None  # tensors that share the memory would depend on the new sources, too
        elif symbolic:
            if not writes and len(results) == 1 and isinstance(result, torch.Tensor):
                values = [self.compute_sizes(name, args, kwargs, result)]
        elif all(map(_may_be_small, results)):
            values = self.compute_call(func, args, kwargs)
        if values is None or len(values) != len(results):
            if writes:
                self.invalidate_tensor(tensors[0])
            return
        for tensor, value in zip(results, values, strict=True):
            if value is not None and (not isinstance(value, torch.Tensor) or _is_small(value)):
                self.values[tensor] = _ConcreteValue(value, sources)

    def note_write(self, written: torch.Tensor) -> None:
        """Record that the buffer in whose memory the tensor is, if there is one, is written to."""
        value = self.find_value(written).value
        if isinstance(value, torch.Tensor):
            buffer_name = self.buffer_names.get(_storage_pointer(value))
            self.answers.written |= {buffer_name} if buffer_name else set()

    def invalidate_tensor(self, written: torch.Tensor) -> None:
        """Drop the values of a tensor that was written to and of tensors that share its memory."""
        value = self.find_value(written).value
        self.values[written] = _UNKNOWN
        if not isinstance(value, torch.Tensor):
            return
        memory = _storage_pointer(value)
        for tensor, concrete in list(self.values.items()):
            other_value = concrete.value
            if isinstance(other_value, torch.Tensor) and _storage_pointer(other_value) == memory:
                self.values[tensor] = _UNKNOWN

    def compute_call(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[torch.Tensor] | None:
        """Compute a call on real values; None if it draws random numbers or fails."""

        def concrete_leaf(leaf: Any) -> Any:
            return self.find_value(leaf).value if isinstance(leaf, torch.Tensor) else leaf

        values, keyword_values = pytree.tree_map(concrete_leaf, (tuple(args), dict(kwargs)))
        random = _RandomDetector()
        try:
            with disable_torch_function(), disable_current_modes(), random:
                result = func(*values, **keyword_values)
        except Exception:  # the call on real values lacks state that the traced call has
            return None
        if random.drawn:
            return None
        return [output for output in iterate_leaves(result) if isinstance(output, torch.Tensor)]

    def compute_sizes(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor
    ) -> Any:
        """Apply an operator to fractions of size expressions; None if that is not supported."""
        if result.ndim:
            return None
        if kwargs and name != "tensor":
            return None
        operator_name = name.strip("_")
        if operator_name not in _OPERATORS or (operator_name not in _UNARY and len(args) != 2):
            return None
        operands = [
            self.to_fraction(argument)
            for argument in (args[:1] if operator_name in _UNARY else args)
        ]
        if None in operands or not operands:
            return None
        return _OPERATORS[operator_name](result, *operands)

    def to_fraction(self, value: Any) -> SizeValue | None:
        """Return an argument as a fraction; None if it is not a known number."""
        if isinstance(value, torch.Tensor):
            concrete = self.find_value(value).value
            if isinstance(concrete, SizeValue):
                return concrete
            if not isinstance(concrete, torch.Tensor) or concrete.ndim:
                return None
            value = _tensor_to_list(concrete)
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, torch.SymInt)):
            return SizeValue(value)
        if isinstance(value, float) and value.is_integer():
            return SizeValue(int(value))
        return None


class _RandomDetector(TorchDispatchMode):
    """Detects whether a block draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.drawn |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


# -- tensors and functions


def get_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return all buffers of a module under all their names."""
    return dict(module.named_buffers(remove_duplicate=False))


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() <= _MAX_ELEMENTS


def _storage_pointer(value: torch.Tensor) -> int:
    """Return the address of a tensor's storage, which its views share."""
    with disable_torch_function(), disable_current_modes():
        return value.untyped_storage().data_ptr()


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    with disable_torch_function(), disable_current_modes():
        return tensor.detach().clone()


def _tensor_to_list(tensor: torch.Tensor) -> Any:
    """Return the values of a tensor as Python numbers, outside of all modes."""
    with disable_torch_function(), disable_current_modes():
        return tensor.tolist()


def _may_be_small(tensor: torch.Tensor) -> bool:
    """Whether a traced tensor has a static, small size."""
    sizes = tensor.shape
    if any(isinstance(size, torch.SymInt) for size in sizes):
        return False
    return tensor.numel() <= _MAX_ELEMENTS


def _is_constant(tensor: torch.Tensor) -> bool:
    """Whether a tensor is small and has values while torch traces."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return (
        is_plain and not is_fake(tensor) and not is_functional_tensor(tensor) and _is_small(tensor)
    )


def _writes(name: str) -> bool:
    """Whether a function writes to its first argument: ``add_``, ``__iadd__``, ``__setitem__``."""
    if name.startswith("__") and name.endswith("__"):
        binary_name = f"__{name[3:]}"  # of __iadd__
        return name == "__setitem__" or (name[2] == "i" and hasattr(operator, binary_name))
    return name.partition(".")[0].endswith("_")  # "add_.Tensor" is an overload


def _writes_to_others(func: Any, name: str, args: Sequence[Any]) -> bool:
    """Whether a function may write to other tensors than its first argument.

    Operators that users define write to any argument, `torch._foreach_add_` to a list, and
    `torch.fill_(value=n, input=x)` has no first argument.
    """
    if _writes(name):
        return name.startswith("_foreach_") or not args
    if isinstance(func, OpOverload):
        return _has_written_argument(func)
    overloads = func.overloads() if isinstance(func, OpOverloadPacket) else ()
    return any(_has_written_argument(getattr(func, overload)) for overload in overloads)


def _has_written_argument(overload: OpOverload) -> bool:
    arguments = overload._schema.arguments
    return any(a.alias_info and a.alias_info.is_write and not a.is_out for a in arguments)


def _takes_numbers(func: Any, name: str) -> bool:
    """Whether a function takes no tensor after its first argument (``view``), or is indexing."""
    if name == "__getitem__":
        return True
    return bool(_schema_arguments(name)) and all(
        "Tensor" not in str(argument.type)
        for arguments in _schema_arguments(name)
        for argument in arguments[1:]
        if not argument.is_out
    )


def _takes_tensor(name: str) -> bool:
    """Whether the first argument of an aten operator is a tensor in some overload."""
    return any(
        arguments and "Tensor" in str(arguments[0].type) for arguments in _schema_arguments(name)
    )


@functools.cache
def _schema_arguments(name: str) -> list[list[Any]]:
    """Return the arguments of each overload of an aten operator; empty for any other name."""
    packet = getattr(torch.ops.aten, name, None) if name and not name.startswith("_") else None
    if not isinstance(packet, OpOverloadPacket):
        return []
    return [getattr(packet, overload)._schema.arguments for overload in packet.overloads()]


# -- arithmetic of fractions of size expressions


def _make_sum(sign: int) -> Callable[..., SizeValue | None]:
    def add_sizes(result: torch.Tensor, left: SizeValue, right: SizeValue) -> SizeValue | None:
        common = max(left.denominator, right.denominator)
        if min(left.denominator, right.denominator) not in (1, common):
            return None
        numerators = [
            fraction.numerator * (common // fraction.denominator) for fraction in (left, right)
        ]
        # adding a small constant keeps a bounded number in the exact range
        adds_constant = any(
            isinstance(number, int) and abs(number) <= _SMALL_CONSTANT for number in numerators
        )
        return _round_result(
            result,
            left,
            right,
            numerators[0] + sign * numerators[1],
            common,
            bounded=adds_constant and bool(left.roundings or right.roundings),
        )

    return add_sizes


def _multiply_sizes(result: torch.Tensor, left: SizeValue, right: SizeValue) -> SizeValue | None:
    if left.denominator != 1 or right.denominator != 1:
        return None  # a product of fractions has rounding errors that are not tracked
    return _round_result(result, left, right, left.numerator * right.numerator, 1)


def _divide_sizes(result: torch.Tensor, left: SizeValue, right: SizeValue) -> SizeValue | None:
    divisor = right.numerator
    if right.denominator != 1 or not isinstance(divisor, int) or divisor <= 0:
        return None
    return _round_result(result, left, right, left.numerator, left.denominator * divisor)


def _round_result(
    result: torch.Tensor,
    left: SizeValue,
    right: SizeValue,
    numerator: Any,
    denominator: int,
    bounded: bool = False,
) -> SizeValue | None:
    """Return the fraction as int64 or, with one more rounding, as a float of ``result``'s dtype.

    None if roundings could change the number, or if a fraction would have to be an int64.
    """
    if result.dtype is torch.int64:
        return SizeValue(numerator) if denominator == 1 else None
    roundings = left.roundings + right.roundings + 1
    if not _is_float(result) or roundings > _MAX_ROUNDINGS or denominator > _SMALL_CONSTANT:
        return None
    if not bounded and not _is_bounded(numerator):
        return None
    return SizeValue(numerator, denominator, roundings)


def _is_float(result: torch.Tensor) -> bool:
    return result.dtype in (torch.float32, torch.float64)


def _is_bounded(numerator: Any) -> bool:
    """Whether a number is at most ``_EXACT_BELOW`` in magnitude; for a size, add a guard."""
    for condition in (numerator <= _EXACT_BELOW, numerator >= -_EXACT_BELOW):
        if not bool(condition):
            return False
        if not isinstance(condition, bool):
            check(condition, lambda: "a size is larger than eager mode can represent exactly")
    return True


def _make_integer_op(compute: Callable[[Any, int], Any]) -> Callable[..., SizeValue | None]:
    def apply_integers(result: torch.Tensor, left: SizeValue, right: SizeValue) -> SizeValue | None:
        divisor = right.numerator
        if result.dtype is not torch.int64 or not isinstance(divisor, int) or divisor <= 0:
            return None
        return SizeValue(compute(left.numerator, divisor))

    return apply_integers


def _convert_size(result: torch.Tensor, value: SizeValue) -> SizeValue | None:
    """Convert a number to the dtype of ``result``; None for a fraction."""
    if value.denominator != 1:
        return None
    if result.dtype is torch.int64:
        return SizeValue(value.numerator)
    return _round_result(result, value, SizeValue(0), value.numerator, 1)


def _make_comparison(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compare_sizes(result: torch.Tensor, left: SizeValue, right: SizeValue) -> Any:
        if left.denominator != 1 or right.denominator != 1 or left.roundings or right.roundings:
            return None
        return compare(left.numerator, right.numerator)

    return compare_sizes


def _swap_operands(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda result, left, right: compute(result, right, left)


_UNARY: Mapping[str, Callable[..., Any]] = {
    "ceil": lambda _, value: replace(
        value, numerator=-(-value.numerator // value.denominator), denominator=1
    ),
    "floor": lambda _, value: replace(
        value, numerator=value.numerator // value.denominator, denominator=1
    ),
    "to": _convert_size,
    "tensor": _convert_size,
    "long": _convert_size,
    "int": _convert_size,
    "float": _convert_size,
    "double": _convert_size,
    "neg": lambda _, value: replace(value, numerator=-value.numerator),
    "clone": lambda _, value: value,
    "detach": lambda _, value: value,
}
_BINARY: Mapping[str, Callable[..., Any]] = {
    "add": _make_sum(1),
    "sub": _make_sum(-1),
    "mul": _multiply_sizes,
    "div": _divide_sizes,
    "truediv": _divide_sizes,
    "floordiv": _make_integer_op(operator.floordiv),
    "floor_divide": _make_integer_op(operator.floordiv),
    "mod": _make_integer_op(operator.mod),
    "remainder": _make_integer_op(operator.mod),
}
_OPERATORS: Mapping[str, Callable[..., Any]] = {
    **_UNARY,
    **_BINARY,
    **{f"r{name}": _swap_operands(compute) for name, compute in _BINARY.items()},
    **{
        name: _make_comparison(getattr(operator, name))
        for name in ("lt", "le", "gt", "ge", "eq", "ne")
    },
}


# -- conditions on sizes as flags: ``torch.ops.lib.f(x, n > 4)``. torch's C++ code would evaluate
# them in the dispatcher; evaluating them here lets guards.py find the source line.


class FlagEvaluationMode(TorchFunctionMode):
    """Evaluates conditions on sizes that are passed as bool arguments of operators.

    A condition that is passed as a number stays symbolic.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        has_conditions = any(
            isinstance(argument, torch.SymBool) for argument in (*args, *kwargs.values())
        )
        if has_conditions and isinstance(func, (OpOverload, OpOverloadPacket)):
            flags = set(_flag_arguments(func))
            args = [
                _decide_condition(value) if i in flags else value for i, value in enumerate(args)
            ]
            kwargs = {
                name: _decide_condition(value) if name in flags else value
                for name, value in kwargs.items()
            }
        return func(*args, **kwargs)


def _flag_arguments(operator: Any) -> Iterator[int | str]:
    """Yield positions and names of the bool arguments of any overload."""
    overloads: Mapping[str, Any] = {"": operator}
    if isinstance(operator, OpOverloadPacket):
        overloads = {name: getattr(operator, name) for name in operator.overloads()}
    for overload in overloads.values():
        for index, argument in enumerate(overload._schema.arguments):
            if argument.type.kind() == "BoolType":
                yield from (index, argument.name)


def _decide_condition(value: Any) -> Any:
    return bool(value) if isinstance(value, torch.SymBool) else value
