"""Look-up tables of the interpreter: the generated tables, which callers can extend."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ortable.dispatch import Function
from ortable.ir.context import Converter


@dataclass(frozen=True)
class ConverterTables:
    """Converters of operators, and facts about operators.

    Keys are names of overloads, such as ``"aten::add.Tensor"``, unless stated otherwise.

    Attributes:
        converters: converters of overloads.
        complex_converters: converters for calls with complex arguments or results.
        rules: functions that return dtype and shape of each result of a call.
        callables: call targets (an operator and how to pass the arguments) by the public name of a
            function, such as ``"torch.nn.functional.relu"``.
        methods: call targets by the name of a tensor method, such as ``"sum"``.
        hops: converters by the name of a higher-order operator, such as ``"cond"``.
        mutates: name of the bool argument that makes the overload write to its inputs, such as
            ``"training"`` of batch_norm.
        spec_files: path of the spec file.
        decompose: overloads that torch decomposes before the conversion.
        foreach: for overloads on lists of tensors, a function that calls the operator on each
            tensor.
        place: for overloads that the backend leaves to torch, the reason.
        draws: for random overloads, a function that returns the `RngCall` of a call, which
            describes the random numbers, or None.
        checks: for overloads that torch checks the data of, a function that returns the list of
            `DataCheck` of a call.
        given: the converters that the caller added with `with_converters`.
    """

    converters: Mapping[str, Converter]
    complex_converters: Mapping[str, Converter] = field(default_factory=dict)
    rules: Mapping[str, Converter] = field(default_factory=dict)
    callables: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Any] = field(default_factory=dict)
    hops: Mapping[str, Converter] = field(default_factory=dict)
    mutates: Mapping[str, str] = field(default_factory=dict)
    spec_files: Mapping[str, str] = field(default_factory=dict)
    decompose: tuple[str, ...] = ()
    foreach: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    place: Mapping[str, str] = field(default_factory=dict)
    draws: Mapping[str, Function] = field(default_factory=dict)
    checks: Mapping[str, Function] = field(default_factory=dict)
    given: Mapping[str, Converter] = field(default_factory=dict)

    def native_converter(self, key: str) -> Converter | None:
        """Return the converter from the specs, or None if the caller replaced it or none exists."""
        if key in self.given:
            return None
        return self.converters.get(key) or self.hops.get(key)

    def with_converters(self, converters: Mapping[str, Converter]) -> ConverterTables:
        """Return a copy of the tables in which ``converters`` are added or replace entries."""
        if not converters:
            return self
        # a converter of the caller also converts calls with complex tensors
        overrides = dict(converters)
        return replace(
            self,
            converters=ChainMap(overrides, self.converters),  # type: ignore[arg-type]
            complex_converters=ChainMap(overrides, self.complex_converters),  # type: ignore[arg-type]
            given={**self.given, **overrides},
        )


@lru_cache(maxsize=1)
def generated_tables() -> ConverterTables:
    """Return the tables of ``ortable_generated``; the first call imports them."""
    from ortable_generated import decompositions, foreach
    from ortable_generated.aten import dispatch

    return ConverterTables(
        converters=dispatch.CONVERTERS,
        complex_converters=dispatch.COMPLEX_CONVERTERS,
        rules=dispatch.RULES,
        callables=dispatch.CALLABLES,
        methods=dispatch.METHODS,
        hops=dispatch.HOPS,
        mutates=dispatch.MUTATES,
        spec_files=dispatch.SPEC_FILES,
        decompose=tuple(decompositions.DECOMPOSE),
        foreach=foreach.FOREACH,
        place=dispatch.PLACE,
        draws=dispatch.DRAWS,
        checks=dispatch.CHECKS,
    )


# `LoadedSpecs` of the calls of `load_specs` in this process, in order; cache keys depend on them.
LOADED_SPECS: list[Any] = []
