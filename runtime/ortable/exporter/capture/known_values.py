"""Numbers that a model reads from tensors which depend on its constants and on sizes only, as
``int(self.kernel_size)`` and ``(length - kernel) / stride`` in 0-d tensors are: such a number is
known while torch traces, and is no data. In come the module's buffers and every call of torch, out
go Python numbers, or torch's expressions of sizes. Used by tracing.py.

Tensors without a size among what they come from are computed beside the trace, by the same calls
on real tensors, so a number is exactly what eager mode reads. Those that come from sizes are
fractions of expressions; where eager mode would round such a fraction, a bound on the size is
stated as a guard below which rounding changes nothing. Of anything else nothing is known."""

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

from .recorded_calls import leaves_of

# Larger tensors are data of the model, and computing them twice takes time.
_MOST_ELEMENTS = 256
_MOST_STEPS = 6  # roundings in one number
# A float32 is off by 2**-24 of itself at most. With a numerator below 2**20, and constants below
# 2**16 added to it, the errors of _MOST_STEPS steps are less than one part of the denominator: no
# fraction gets to the other side of an integer, and integers are exact.
_EXACT_BELOW = 2**20
_SMALL_CONSTANT = 2**16
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# What forward reads as a number: the name of the method of a tensor, and of what it becomes.
_READS: Mapping[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "__int__": int,
    "__index__": operator.index,
    "__float__": float,
    "item": lambda value: value,
}


@dataclass(frozen=True)
class SizeValue:
    """A 0-d tensor that is a fraction of an expression of sizes. ``roundings`` is how often eager
    mode has rounded on the way, 0 for integers."""

    numerator: Any
    denominator: int = 1
    roundings: int = 0


@dataclass(frozen=True)
class _Known:
    """What is known of a tensor: a real tensor with its values, a SizeValue, or a condition on
    sizes; ``sources`` are the buffers that it comes from."""

    value: Any
    sources: frozenset[str] = frozenset()


_UNKNOWN = _Known(None)


@dataclass
class Answers:
    """What the mode of one run answered: how many numbers, and from which buffers; ``written`` are
    the buffers that forward wrote to."""

    count: int = 0
    sources: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)


class KnownValues(TorchFunctionMode):
    """Answers ``int(t)``, ``t.item()``, ``t.tolist()`` and the like for tensors whose values are
    known, and leaves all other calls as they are. ``traced`` are the buffers as forward sees them,
    ``real`` those with their values; ``answers`` is filled."""

    def __init__(
        self,
        traced: Mapping[str, torch.Tensor],
        real: Mapping[str, torch.Tensor],
        answers: Answers,
    ) -> None:
        super().__init__()
        self.answers = answers
        self.known: Any = WeakTensorKeyDictionary()
        self.memory: dict[int, str] = {}  # of the values of buffers
        for name, tensor in traced.items():
            if name in real and _small(real[name]):
                value = _copied(real[name])
                self.known[tensor] = _Known(value, frozenset((name,)))
                self.memory[_memory(value)] = name

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # it reads this code, for a torch.cond
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if args and isinstance(args[0], torch.Tensor) and (name in _READS or name == "tolist"):
            found = self.read(name, args[0])
            return func(*args, **kwargs) if found is None else found
        if _takes_numbers(func, name):
            args, kwargs = self.with_numbers(name, args, kwargs)
        if name == "__iter__":
            func, args, kwargs = torch.unbind, (args[0],), {}
            result = func(*args)
            self.learn(func, name, args, kwargs, result)
            return iter(result)
        result = func(*args, **kwargs)
        self.learn(func, name, args, kwargs, result)
        return result

    # -- reading

    def read(self, name: str, tensor: torch.Tensor) -> Any:
        """What forward reads from a tensor; None when that is not known."""
        known = self.of(tensor)
        value = known.value
        if value is None:
            return None
        if isinstance(value, torch.Tensor):
            if name != "tolist" and value.numel() != 1:
                return None  # torch raises
            found = _numbers(value)
            if name != "tolist":
                while isinstance(found, list):  # one element, of any rank
                    (found,) = found
                found = _READS[name](found)
        elif isinstance(value, SizeValue):
            # Python takes nothing but an int from int(t), and a float tensor holds floats
            if tensor.is_floating_point() or name in ("__int__", "__index__", "__float__"):
                return None
            found = bool(value.numerator != 0) if name == "__bool__" else value.numerator
        else:
            found = bool(value)
        self.answers.count += 1
        self.answers.sources |= known.sources
        return found

    def of(self, tensor: torch.Tensor) -> _Known:
        """What is known of a tensor. Tensors that torch does not trace are constants of the code:
        their values are there."""
        known = self.known.get(tensor)
        if known is None and _is_constant(tensor):
            known = _Known(_copied(tensor))
            self.known[tensor] = known
        return known or _UNKNOWN

    def with_numbers(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a function that takes one tensor and sizes, or sizes only, with numbers
        for the sizes that are tensors."""
        indexes = name == "__getitem__"
        tensor_first = indexes or _takes_tensor(name)

        def number(value: Any) -> Any:
            if isinstance(value, slice):
                return slice(number(value.start), number(value.stop), number(value.step))
            if (
                not isinstance(value, torch.Tensor)
                or value.ndim
                or value.is_floating_point()
                or value.is_complex()
            ):
                return value
            found = self.read("item", value)
            if found is None and not indexes:  # a size that depends on data, no constant
                found = value.item()
            return value if found is None else found

        first, rest = (args[:1], args[1:]) if tensor_first else ((), args)
        rest = pytree.tree_map(number, tuple(rest))
        return (*first, *rest), pytree.tree_map(number, dict(kwargs))

    # -- learning

    def learn(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
    ) -> None:
        """Note what is known of the results of a call, and of what it has written to."""
        if isinstance(kwargs.get("out"), torch.Tensor):
            self.forget(kwargs["out"])
            return
        leaves = list(leaves_of((args, kwargs)))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        writes = _writes(name)
        results = [each for each in leaves_of(result) if isinstance(each, torch.Tensor)]
        if not writes and not results:
            return
        knowns = [self.of(each) for each in tensors]
        if writes and knowns and isinstance(knowns[0].value, torch.Tensor):
            name_of_buffer = self.memory.get(_memory(knowns[0].value))
            self.answers.written |= {name_of_buffer} if name_of_buffer else set()
        if any(known.value is None for known in knowns):
            if writes and tensors:
                self.forget(tensors[0])
            return
        sources = frozenset().union(*(known.sources for known in knowns))
        symbolic = any(isinstance(leaf, _SYMBOLS) for leaf in leaves) or not all(
            isinstance(known.value, torch.Tensor) for known in knowns
        )
        values: Any = None
        if writes and sources != knowns[0].sources:
            values = None  # what shares memory with it would have them, too
        elif symbolic:
            if not writes and len(results) == 1 and isinstance(result, torch.Tensor):
                values = [self.of_sizes(name, args, kwargs, result)]
        elif all(map(_may_be_small, results)):
            values = self.computed(func, args, kwargs)
        if values is None or len(values) != len(results):
            if writes and tensors:
                self.forget(tensors[0])
            return
        for tensor, value in zip(results, values, strict=True):
            if value is not None and (not isinstance(value, torch.Tensor) or _small(value)):
                self.known[tensor] = _Known(value, sources)

    def forget(self, written: torch.Tensor) -> None:
        """Nothing is known any more of a tensor that was written to, nor of what shares memory
        with it."""
        value = self.of(written).value
        self.known[written] = _UNKNOWN
        if not isinstance(value, torch.Tensor):
            return
        memory = _memory(value)
        for tensor, known in list(self.known.items()):
            other = known.value
            if isinstance(other, torch.Tensor) and _memory(other) == memory:
                self.known[tensor] = _UNKNOWN

    def computed(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[torch.Tensor] | None:
        """What a call returns for the values that are known; None when it draws random numbers, or
        fails."""

        def real(leaf: Any) -> Any:
            return self.of(leaf).value if isinstance(leaf, torch.Tensor) else leaf

        given, named = pytree.tree_map(real, (tuple(args), dict(kwargs)))
        random = _Random()
        try:
            with disable_torch_function(), disable_current_modes(), random:
                found = func(*given, **named)
        except Exception:  # the traced call has succeeded: this one needs what is not here
            return None
        if random.drawn:
            return None
        return [each for each in leaves_of(found) if isinstance(each, torch.Tensor)]

    def of_sizes(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: torch.Tensor
    ) -> Any:
        """What an operator makes of numbers that come from sizes, None where that is not known."""
        if result.ndim:
            return None
        if kwargs and name != "tensor":
            return None
        plain = name.strip("_")
        if plain not in _OPERATORS or (plain not in _OF_ONE and len(args) != 2):
            return None
        operands = [self.operand(each) for each in (args[:1] if plain in _OF_ONE else args)]
        if None in operands or not operands:
            return None
        return _OPERATORS[plain](result, *operands)

    def operand(self, value: Any) -> SizeValue | None:
        """An argument as a fraction."""
        if isinstance(value, torch.Tensor):
            known = self.of(value).value
            if isinstance(known, SizeValue):
                return known
            if not isinstance(known, torch.Tensor) or known.ndim:
                return None
            value = _numbers(known)
        if isinstance(value, bool):
            return None
        if isinstance(value, (int, torch.SymInt)):
            return SizeValue(value)
        if isinstance(value, float) and value.is_integer():
            return SizeValue(int(value))
        return None


class _Random(TorchDispatchMode):
    """Sees whether random numbers are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.drawn |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


# -- tensors and functions


def buffers_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The buffers of a module and of those in it; one that has several names has all of them."""
    return dict(module.named_buffers(remove_duplicate=False))


def _small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() <= _MOST_ELEMENTS


def _memory(value: torch.Tensor) -> int:
    """Where the values of a tensor and of its views are."""
    with disable_torch_function(), disable_current_modes():
        return value.untyped_storage().data_ptr()


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with disable_torch_function(), disable_current_modes():
        return tensor.detach().clone()


def _numbers(tensor: torch.Tensor) -> Any:
    """What a tensor with values holds, as Python numbers; the modes around this one are asked for
    nothing."""
    with disable_torch_function(), disable_current_modes():
        return tensor.tolist()


def _may_be_small(tensor: torch.Tensor) -> bool:
    """Whether a traced tensor has a known size, and a small one."""
    sizes = tensor.shape
    if any(isinstance(size, torch.SymInt) for size in sizes):
        return False
    return tensor.numel() <= _MOST_ELEMENTS


def _is_constant(tensor: torch.Tensor) -> bool:
    """Whether a tensor has values while torch traces, and few."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return plain and not is_fake(tensor) and not is_functional_tensor(tensor) and _small(tensor)


def _writes(name: str) -> bool:
    """Whether a function writes to its first argument: ``add_``, ``__iadd__``, ``__setitem__``."""
    if name.startswith("__") and name.endswith("__"):
        plain = f"__{name[3:]}"  # of __iadd__
        return name == "__setitem__" or (name[2] == "i" and hasattr(operator, plain))
    return name.endswith("_")


def _takes_numbers(func: Any, name: str) -> bool:
    """Whether a function takes sizes after its first tensor, and no other tensor: ``view``,
    ``pad``, ``arange``, an index."""
    if name == "__getitem__":
        return True
    return bool(_arguments(name)) and all(
        "Tensor" not in str(argument.type)
        for arguments in _arguments(name)
        for argument in arguments[1:]
        if not argument.is_out
    )


def _takes_tensor(name: str) -> bool:
    """Whether the first argument of a function of torch is a tensor."""
    return any(each and "Tensor" in str(each[0].type) for each in _arguments(name))


@functools.cache
def _arguments(name: str) -> list[list[Any]]:
    """The arguments of the overloads of the operator of that name; none where there is none."""
    packet = getattr(torch.ops.aten, name, None) if name and not name.startswith("_") else None
    if not isinstance(packet, OpOverloadPacket):
        return []
    return [getattr(packet, overload)._schema.arguments for overload in packet.overloads()]


# -- fractions of expressions of sizes


def _sum(sign: int) -> Callable[..., SizeValue | None]:
    def computed(result: torch.Tensor, one: SizeValue, other: SizeValue) -> SizeValue | None:
        common = max(one.denominator, other.denominator)
        if min(one.denominator, other.denominator) not in (1, common):
            return None
        parts = [each.numerator * (common // each.denominator) for each in (one, other)]
        # a small constant keeps what is bounded below what is exact
        small = any(isinstance(each, int) and abs(each) <= _SMALL_CONSTANT for each in parts)
        return _rounded(
            result,
            one,
            other,
            parts[0] + sign * parts[1],
            common,
            bounded=small and bool(one.roundings or other.roundings),
        )

    return computed


def _product(result: torch.Tensor, one: SizeValue, other: SizeValue) -> SizeValue | None:
    if one.denominator != 1 or other.denominator != 1:
        return None  # rounded twice, by amounts that nobody follows here
    return _rounded(result, one, other, one.numerator * other.numerator, 1)


def _quotient(result: torch.Tensor, one: SizeValue, other: SizeValue) -> SizeValue | None:
    divisor = other.numerator
    if other.denominator != 1 or not isinstance(divisor, int) or divisor <= 0:
        return None
    return _rounded(result, one, other, one.numerator, one.denominator * divisor)


def _rounded(
    result: torch.Tensor,
    one: SizeValue,
    other: SizeValue,
    numerator: Any,
    denominator: int,
    bounded: bool = False,
) -> SizeValue | None:
    """What an operator returns: an int64, or a float that eager mode has rounded once more."""
    if result.dtype is torch.int64:
        return SizeValue(numerator) if denominator == 1 else None
    roundings = one.roundings + other.roundings + 1
    if not _is_float(result) or roundings > _MOST_STEPS or denominator > _SMALL_CONSTANT:
        return None
    if not bounded and not _is_bounded(numerator):
        return None
    return SizeValue(numerator, denominator, roundings)


def _is_float(result: torch.Tensor) -> bool:
    return result.dtype in (torch.float32, torch.float64)


def _is_bounded(numerator: Any) -> bool:
    """Whether a number is below what is exact in eager mode; for sizes that is a guard of the
    program from now on."""
    for inside in (numerator <= _EXACT_BELOW, numerator >= -_EXACT_BELOW):
        if not bool(inside):
            return False
        if not isinstance(inside, bool):
            check(inside, lambda: "a size is beyond what eager mode counts exactly")
    return True


def _whole(compute: Callable[[Any, int], Any]) -> Callable[..., SizeValue | None]:
    def computed(result: torch.Tensor, one: SizeValue, other: SizeValue) -> SizeValue | None:
        divisor = other.numerator
        if result.dtype is not torch.int64 or not isinstance(divisor, int) or divisor <= 0:
            return None
        return SizeValue(compute(one.numerator, divisor))

    return computed


def _converted(result: torch.Tensor, value: SizeValue) -> SizeValue | None:
    """Of another dtype: an integer stays one."""
    if value.denominator != 1:
        return None
    if result.dtype is torch.int64:
        return SizeValue(value.numerator)
    return _rounded(result, value, SizeValue(0), value.numerator, 1)


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def compared(result: torch.Tensor, one: SizeValue, other: SizeValue) -> Any:
        if one.denominator != 1 or other.denominator != 1 or one.roundings or other.roundings:
            return None
        return compare(one.numerator, other.numerator)

    return compared


def _swapped(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda result, one, other: compute(result, other, one)


_OF_ONE: Mapping[str, Callable[..., Any]] = {
    "ceil": lambda _, value: replace(
        value, numerator=-(-value.numerator // value.denominator), denominator=1
    ),
    "floor": lambda _, value: replace(
        value, numerator=value.numerator // value.denominator, denominator=1
    ),
    "to": _converted,
    "tensor": _converted,
    "long": _converted,
    "int": _converted,
    "float": _converted,
    "double": _converted,
    "neg": lambda _, value: replace(value, numerator=-value.numerator),
    "clone": lambda _, value: value,
    "detach": lambda _, value: value,
}
_BINARY: Mapping[str, Callable[..., Any]] = {
    "add": _sum(1),
    "sub": _sum(-1),
    "mul": _product,
    "div": _quotient,
    "truediv": _quotient,
    "floordiv": _whole(operator.floordiv),
    "floor_divide": _whole(operator.floordiv),
    "mod": _whole(operator.mod),
    "remainder": _whole(operator.mod),
}
_OPERATORS: Mapping[str, Callable[..., Any]] = {
    **_OF_ONE,
    **_BINARY,
    **{f"r{name}": _swapped(compute) for name, compute in _BINARY.items()},
    **{name: _comparison(getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}


# -- conditions on sizes as flags: ``torch.ops.lib.f(x, n > 4)``. torch's C++ code decides them
# where nobody can tell them from conditions of kernels; here they are decided before, so that
# guards.py finds who asked.


class DecidedFlags(TorchFunctionMode):
    """In the block an operator that is called gets bools for its flags. A condition that it takes
    as a number stays one: ``aten::_assert_scalar`` keeps it for the run."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        conditions = any(isinstance(each, torch.SymBool) for each in (*args, *kwargs.values()))
        if conditions and isinstance(func, (OpOverload, OpOverloadPacket)):
            flags = set(_flags(func))
            args = [_decided(value) if i in flags else value for i, value in enumerate(args)]
            kwargs = {k: _decided(value) if k in flags else value for k, value in kwargs.items()}
        return func(*args, **kwargs)


def _flags(operator: Any) -> Iterator[int | str]:
    """Places and names of the arguments that are bools, of any overload."""
    overloads: Mapping[str, Any] = {"": operator}
    if isinstance(operator, OpOverloadPacket):
        overloads = {name: getattr(operator, name) for name in operator.overloads()}
    for overload in overloads.values():
        for place, argument in enumerate(overload._schema.arguments):
            if argument.type.kind() == "BoolType":
                yield from (place, argument.name)


def _decided(value: Any) -> Any:
    return bool(value) if isinstance(value, torch.SymBool) else value
