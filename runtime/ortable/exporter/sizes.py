"""What the dimensions of a call may be: those that the model fixes are as they were, one name is
one size, and sizes are in the ranges and meet the conditions under which the model is the module.
In come a program and tensors, out goes nothing or an error. Called by calling.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ortable import dims
from ortable.errors import InputError
from ortable.exporter.account.resize import (
    UNBOUNDED,
    bounds_of,
    is_default,
    ranges_of,
    sizes_of,
    solved,
)
from ortable.exporter.request.program import Guard, Program
from ortable.exporter.signature.dynamic_shapes import value_of
from ortable.interpreter import results

# One size of a call: the leaf, its axis (None for an integer), the size in the program (an int or a
# sympy expression), and that of the call.
Entry = tuple[Any, int | None, Any, int]

_REMEMBERED = 1024  # calls whose sizes are known to fit


@dataclass(frozen=True)
class Sizes:
    """``of_inputs``: of each leaf of the call, its sizes as ints and sympy expressions (an
    expression for an integer, None for a constant). ``names``: torch's symbols -> names.
    ``ranges``: symbol -> smallest and largest size. ``guards``: conditions on sizes. ``raised``:
    symbols whose smallest size torch set, not the caller; ``lowered``: those whose largest;
    ``reasons``: symbol -> why the model does not take a smaller size."""

    of_inputs: tuple[Any, ...]
    names: Mapping[str, str]
    ranges: Mapping[Any, tuple[int, int]]
    guards: tuple[Guard, ...]
    raised: frozenset[Any] = frozenset()
    lowered: frozenset[Any] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    checked: set[tuple[int, ...]] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, program: Program, guarded: bool) -> Sizes:
        """The sizes that a program takes; ``guarded`` says whether its conditions count."""
        found = tuple(sizes_of(results.node_value(node)) for node in program.user_inputs)
        symbols = {
            symbol
            for sizes in found
            for size in (sizes if isinstance(sizes, list) else (sizes,))
            for symbol in getattr(size, "free_symbols", ())
        }
        ranges = {
            symbol: (
                0 if is_default(symbol, each.lower, program) else int(each.lower),
                bounds_of(symbol, {symbol: each})[1],
            )
            for symbol, each in ranges_of(program).items()
            if symbol in symbols and each.lower.is_Integer  # not the unbounded int of an input
        }
        guards = tuple(program.guards) if guarded else ()
        raised = frozenset(
            s for s, (low, _) in ranges.items() if low and str(s) in program.open_dims
        )
        lowered = frozenset(
            s for s, (_, high) in ranges.items() if high < UNBOUNDED and str(s) in program.open_tops
        )
        reasons = {symbol: proved.reason for symbol, proved in program.smallest.items()}
        return cls(found, dict(program.symbol_names), ranges, guards, raised, lowered, reasons)

    def without_empty(self, names: Collection[str] | None = None) -> Sizes:
        """The same, where dimensions of these names, or all, are at least 1."""
        ranges = {
            symbol: (
                max(lower, 1) if names is None or self._name(symbol) in names else lower,
                upper,
            )
            for symbol, (lower, upper) in self.ranges.items()
        }
        return replace(self, ranges=ranges, checked=set())

    def text(self, shape: Sequence[Any]) -> str:
        """A shape in the user's names: ``[batch, 3]``."""
        return f"[{', '.join(str(dims.from_torch(size, self.names)) for size in shape)}]"

    def check(self, slots: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Raises InputError when a size is another than the model's, or two of one name differ, or
        one is outside of its range, or a condition does not hold."""
        found = [
            entry
            for slot, leaf, expected in zip(slots, leaves, self.of_inputs, strict=True)
            for entry in _entries(slot, leaf, expected)
        ]
        given = tuple(each for _, _, _, each in found)
        if given in self.checked:
            return
        values: dict[Any, int] = {}
        first: dict[Any, str] = {}
        self._check_entries(found, values, first)
        self._check_ranges(values, first)
        self._check_names(values, first)
        self._check_guards(values)
        if len(self.checked) >= _REMEMBERED:
            self.checked.clear()
        self.checked.add(given)

    def _check_entries(
        self, entries: Sequence[Entry], values: dict[Any, int], first: dict[Any, str]
    ) -> None:
        """Fills ``values`` of symbols, and where each was met first."""
        later: list[Entry] = []
        for slot, axis, size, given in entries:
            if not hasattr(size, "free_symbols"):
                if size != given:
                    raise InputError(
                        f"{_where(slot, axis)} is {given}; the model was exported without a "
                        f"dynamic shape for it, and takes {size} there"
                    )
            elif not size.is_Symbol:
                later.append((slot, axis, size, given))
            elif values.setdefault(size, given) != given:
                raise InputError(
                    f"{_where(slot, axis)} is {given}, and {first[size]} is {values[size]}: both "
                    f"are '{self._name(size)}', one size"
                )
            else:
                first.setdefault(size, _where(slot, axis))
        self._check_expressions(later, values)

    def _check_expressions(self, later: Sequence[Entry], values: dict[Any, int]) -> None:
        for slot, axis, size, given in later:
            free = [symbol for symbol in size.free_symbols if symbol not in values]
            if len(free) == 1:
                known = {symbol: values[symbol] for symbol in size.free_symbols - set(free)}
                found = solved(size.subs(known), free[0], given)
                if found is not None:
                    values[free[0]] = found
            if all(symbol in values for symbol in size.free_symbols):
                wanted = int(size.subs(values))
                if wanted == given:
                    continue
            elif free:
                wanted = None
            text = self._spelled(size)
            is_not = "" if wanted is None else f", which is {wanted}"
            raise InputError(
                f"{_where(slot, axis)} is {given}; the model takes {text} there{is_not}"
            )

    def _check_ranges(self, values: Mapping[Any, int], first: Mapping[Any, str]) -> None:
        for symbol, value in values.items():
            lower, upper = self.ranges.get(symbol, (0, value))
            if lower <= value <= upper:
                continue
            taken = f"{lower} or more" if upper >= UNBOUNDED else f"{lower} to {upper}"
            where = first.get(symbol, f"'{self._name(symbol)}'")
            bound = ""
            reason = self.reasons.get(str(symbol)) if value < lower else None
            if reason:
                bound = f": {reason}"
            elif symbol in (self.raised if value < lower else self.lowered):
                which = f" of which {lower if value < lower else upper} is"
                bound = f",{which if upper < UNBOUNDED else ''} a bound that torch.export found"
            raise InputError(f"{where} is {value}; the model takes {taken} there{bound}")

    def _check_names(self, values: Mapping[Any, int], first: Mapping[Any, str]) -> None:
        """Symbols of one name have one size, and a name that is an expression of others has its
        value: the caller has promised it."""
        by_name: dict[str, int] = {}
        for symbol, value in values.items():
            name = self._name(symbol)
            if by_name.setdefault(name, value) != value:
                raise InputError(
                    f"{first.get(symbol, symbol)} is {value}, and another dimension of the name "
                    f"'{name}' is {by_name[name]}"
                )
        for name, value in by_name.items():
            wanted = None if name.isidentifier() else value_of(name, by_name)
            if wanted is not None and wanted != value:
                raise InputError(f"'{name}' is {wanted} in this call, and its dimension is {value}")

    def _check_guards(self, values: Mapping[Any, int]) -> None:
        by_symbol = {str(symbol): value for symbol, value in values.items()}
        broken = [guard for guard in self.guards if not guard.holds(by_symbol)]
        if not broken:
            return
        here = dict.fromkeys(f"{self._name(symbol)}={value}" for symbol, value in values.items())
        raise InputError(
            f"the model holds only for sizes with {broken[0].short()}; this call has "
            f"{', '.join(here)}"
        )

    def _name(self, symbol: Any) -> str:
        return self.names.get(str(symbol), str(symbol))

    def _spelled(self, expression: Any) -> str:
        text = str(expression)
        for symbol in sorted(expression.free_symbols, key=lambda each: -len(str(each))):
            text = text.replace(str(symbol), self._name(symbol))
        return text


def _entries(slot: Any, leaf: Any, expected: Any) -> list[Entry]:
    if expected is None:
        return []
    if not isinstance(expected, list):
        return [(slot, None, expected, leaf)]
    pairs = enumerate(zip(expected, leaf.shape, strict=True))
    return [(slot, axis, size, given) for axis, (size, given) in pairs]


def _where(slot: Any, axis: int | None) -> str:
    return slot.label if axis is None else f"dimension {axis} of {slot.label}"
