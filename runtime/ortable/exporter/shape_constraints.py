"""Check the sizes of a call against the sizes that the exported model accepts.

Static sizes must be equal, dimensions of one name must have one size, and sizes must lie in their
ranges and satisfy the guards of the model. Called by calling_convention.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ortable import dims
from ortable.errors import InputError
from ortable.exporter.frontend.export_request import Guard, Program
from ortable.exporter.reporting.example_sizes import (
    UNBOUNDED,
    is_torch_minimum,
    size_expressions,
    solve_for_symbol,
    symbol_bounds,
    symbol_ranges,
)
from ortable.exporter.signature.dynamic_shapes import evaluate_dim_expression
from ortable.interpreter import results

# A size of a call: the slot of its leaf, the axis (None for an integer argument), the size in the
# program (an int or a sympy expression), and the size in the call.
SizeEntry = tuple[Any, int | None, Any, int]

_MAX_CHECKED_CALLS = 1024  # size of the cache of accepted calls


@dataclass(frozen=True)
class SizeConstraints:
    """Constraints on the sizes of a model's inputs.

    ``input_sizes`` has for each leaf of the call a list of sizes (ints or sympy expressions), one
    expression if the leaf is an integer, and None if the leaf is a constant. ``names`` maps the
    texts of torch's symbols to names of dimensions, ``ranges`` symbols to the smallest and the
    largest size. ``guards`` are conditions on sizes. ``torch_minimums`` and ``torch_maximums`` are
    symbols whose smallest or largest size comes from torch, not from the caller. ``reasons`` maps
    texts of symbols to why the model rejects smaller sizes. ``checked`` caches the sizes of
    accepted calls.
    """

    input_sizes: tuple[Any, ...]
    names: Mapping[str, str]
    ranges: Mapping[Any, tuple[int, int]]
    guards: tuple[Guard, ...]
    torch_minimums: frozenset[Any] = frozenset()
    torch_maximums: frozenset[Any] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    checked: set[tuple[Any, ...]] = field(default_factory=set, compare=False)

    @classmethod
    def from_program(cls, program: Program, guarded: bool) -> SizeConstraints:
        """Collect the constraints of a program, including its guards if ``guarded``."""
        input_sizes = tuple(
            size_expressions(results.node_value(node)) for node in program.user_inputs
        )
        symbols = {
            symbol
            for sizes in input_sizes
            for size in (sizes if isinstance(sizes, list) else (sizes,))
            for symbol in getattr(size, "free_symbols", ())
        }
        ranges = {
            symbol: (
                0
                if is_torch_minimum(symbol, value_range.lower, program)
                else int(value_range.lower),
                symbol_bounds(symbol, {symbol: value_range})[1],
            )
            for symbol, value_range in symbol_ranges(program).items()
            if symbol in symbols
            and value_range.lower.is_Integer  # that of an integer input may be minus infinity
        }
        guards = tuple(program.guards) if guarded else ()
        torch_minimums = frozenset(
            s for s, (low, _) in ranges.items() if low and str(s) in program.open_dims
        )
        torch_maximums = frozenset(
            s
            for s, (_, high) in ranges.items()
            if high < UNBOUNDED and str(s) in program.open_maximums
        )
        reasons = {symbol: minimum.reason for symbol, minimum in program.smallest.items()}
        return cls(
            input_sizes,
            dict(program.symbol_names),
            ranges,
            guards,
            torch_minimums,
            torch_maximums,
            reasons,
        )

    def without_empty(self, names: Collection[str] | None = None) -> SizeConstraints:
        """Return a copy in which dimensions of these names are at least 1; None means all."""
        ranges = {
            symbol: (
                max(lower, 1) if names is None or self._name(symbol) in names else lower,
                upper,
            )
            for symbol, (lower, upper) in self.ranges.items()
        }
        return replace(self, ranges=ranges, checked=set())

    def format_shape(self, shape: Sequence[Any]) -> str:
        """Format a shape with the caller's names: ``[batch, 3]``."""
        return f"[{', '.join(str(dims.from_torch(size, self.names)) for size in shape)}]"

    def check_sizes(self, slots: Sequence[Any], leaves: Sequence[Any]) -> None:
        """Check all sizes of a call.

        Raises InputError if a size differs from a static or computed size of the model, two sizes
        of one name differ, a size is out of range, or a guard does not hold.
        """
        call_sizes = tuple(
            [
                leaf.shape if isinstance(expected, list) else leaf
                for leaf, expected in zip(leaves, self.input_sizes, strict=True)
                if expected is not None
            ]
        )
        if call_sizes in self.checked:
            return
        entries = [
            entry
            for slot, leaf, expected in zip(slots, leaves, self.input_sizes, strict=True)
            for entry in _size_entries(slot, leaf, expected)
        ]
        values: dict[Any, int] = {}
        labels: dict[Any, str] = {}
        self._check_entries(entries, values, labels)
        self._check_ranges(values, labels)
        self._check_names(values, labels)
        self._check_guards(values)
        if len(self.checked) >= _MAX_CHECKED_CALLS:
            self.checked.clear()
        self.checked.add(call_sizes)

    def _check_entries(
        self, entries: Sequence[SizeEntry], values: dict[Any, int], labels: dict[Any, str]
    ) -> None:
        """Check static, repeated and computed sizes, without ranges, names and guards.

        ``values`` gets the size of each symbol, and ``labels`` the text for its first dimension.
        """
        expressions: list[SizeEntry] = []
        for slot, axis, size, actual in entries:
            if not hasattr(size, "free_symbols"):
                if size != actual:
                    raise InputError(
                        f"{_dim_label(slot, axis)} is {actual}; the model was exported without a "
                        f"dynamic shape for it, and takes {size} there"
                    )
            elif not size.is_Symbol:
                expressions.append((slot, axis, size, actual))
            elif values.setdefault(size, actual) != actual:
                raise InputError(
                    f"{_dim_label(slot, axis)} is {actual}, and {labels[size]} is {values[size]}: "
                    f"both are named '{self._name(size)}', and must have one size"
                )
            else:
                labels.setdefault(size, _dim_label(slot, axis))
        self._check_expressions(expressions, values)

    def _check_expressions(self, expressions: Sequence[SizeEntry], values: dict[Any, int]) -> None:
        """Check computed sizes (``2*s0``); one with a single unknown symbol first determines it."""
        for slot, axis, size, actual in expressions:
            unsolved = [symbol for symbol in size.free_symbols if symbol not in values]
            if len(unsolved) == 1:
                substitutions = {
                    symbol: values[symbol] for symbol in size.free_symbols - set(unsolved)
                }
                solution = solve_for_symbol(size.subs(substitutions), unsolved[0], actual)
                if solution is not None:
                    values[unsolved[0]] = solution
            if all(symbol in values for symbol in size.free_symbols):
                expected = int(size.subs(values))
                if expected == actual:
                    continue
            elif unsolved:
                expected = None
            text = self._spell_expression(size)
            value_text = "" if expected is None else f", which is {expected}"
            raise InputError(
                f"{_dim_label(slot, axis)} is {actual}; the model takes {text} there{value_text}"
            )

    def _check_ranges(self, values: Mapping[Any, int], labels: Mapping[Any, str]) -> None:
        for symbol, value in values.items():
            lower, upper = self.ranges.get(symbol, (0, value))
            if lower <= value <= upper:
                continue
            accepted = f"{lower} or more" if upper >= UNBOUNDED else f"{lower} to {upper}"
            label = labels.get(symbol, f"'{self._name(symbol)}'")
            explanation = ""
            reason = self.reasons.get(str(symbol)) if value < lower else None
            if reason:
                explanation = f": {reason}"
            elif symbol in (self.torch_minimums if value < lower else self.torch_maximums):
                bound = f" of which {lower if value < lower else upper} is"
                explanation = (
                    f",{bound if upper < UNBOUNDED else ''} a bound that torch.export found"
                )
            raise InputError(f"{label} is {value}; the model takes {accepted} there{explanation}")

    def _check_names(self, values: Mapping[Any, int], labels: Mapping[Any, str]) -> None:
        """Check that symbols of one name have one size.

        If the name is an expression of other names (``2*n``), the size must be its value.
        """
        by_name: dict[str, int] = {}
        for symbol, value in values.items():
            name = self._name(symbol)
            if by_name.setdefault(name, value) != value:
                raise InputError(
                    f"{labels.get(symbol, symbol)} is {value}, and another dimension of the name "
                    f"'{name}' is {by_name[name]}"
                )
        for name, value in by_name.items():
            expected = None if name.isidentifier() else evaluate_dim_expression(name, by_name)
            if expected is not None and expected != value:
                raise InputError(
                    f"'{name}' is {expected} in this call, and its dimension is {value}"
                )

    def _check_guards(self, values: Mapping[Any, int]) -> None:
        by_symbol = {str(symbol): value for symbol, value in values.items()}
        violated = [guard for guard in self.guards if not guard.holds(by_symbol)]
        if not violated:
            return
        sizes = dict.fromkeys(f"{self._name(symbol)}={value}" for symbol, value in values.items())
        raise InputError(
            f"the model holds only for sizes with {violated[0].one_line()}; this call has "
            f"{', '.join(sizes)}"
        )

    def _name(self, symbol: Any) -> str:
        return self.names.get(str(symbol), str(symbol))

    def _spell_expression(self, expression: Any) -> str:
        text = str(expression)
        for symbol in sorted(expression.free_symbols, key=lambda s: -len(str(s))):
            text = text.replace(str(symbol), self._name(symbol))
        return text


def _size_entries(slot: Any, leaf: Any, expected: Any) -> list[SizeEntry]:
    if expected is None:
        return []
    if not isinstance(expected, list):
        return [(slot, None, expected, leaf)]
    pairs = enumerate(zip(expected, leaf.shape, strict=True))
    return [(slot, axis, size, actual) for axis, (size, actual) in pairs]


def _dim_label(slot: Any, axis: int | None) -> str:
    return slot.display_name if axis is None else f"dimension {axis} of {slot.display_name}"
