"""The generated look-up tables that the interpreter walks with, as one value that callers may
extend. A user's specs, a dispatcher or a test replaces entries here; nothing else in the
interpreter knows where converters live."""

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
    """What the interpreter can convert, keyed as the generated dispatch tables are.

    ``converters``: ``"aten::add.Tensor"`` -> generated function; ``complex_converters``: the same
    keys -> the function for complex arguments or results; ``rules``: the same keys -> shape
    and dtype rule; ``callables``: ``"torch.nn.functional.relu"`` -> call target; ``methods``:
    ``"sum"`` -> call target; ``hops``: ``"cond"`` -> converter; ``mutates``: overload -> the bool
    argument that makes it write its inputs; ``spec_files``: overload -> spec file; ``decompose``:
    overloads that are decomposed by torch when asked for; ``foreach``: overloads on lists of
    tensors -> what calls the operators of one tensor in their place; ``place``: overload -> why
    the backend leaves its calls to torch; ``draws``: overload -> function of a call, what torch
    draws for it; ``checks``: overload -> function of a call, what torch demands of its data;
    ``given``: those of ``converters`` that the caller gave.
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
        """The generated converter of an overload or higher order operator; None where the caller
        gave one."""
        if key in self.given:
            return None
        return self.converters.get(key) or self.hops.get(key)

    def with_converters(self, converters: Mapping[str, Converter]) -> ConverterTables:
        """The same tables with ``converters`` added, or put in the place of the entries they
        name."""
        if not converters:
            return self
        # one function of the caller takes every call of its operator, complex tensors included
        overrides = dict(converters)
        return replace(
            self,
            converters=ChainMap(overrides, self.converters),  # type: ignore[arg-type]
            complex_converters=ChainMap(overrides, self.complex_converters),  # type: ignore[arg-type]
            given={**self.given, **overrides},
        )


@lru_cache(maxsize=1)
def generated_tables() -> ConverterTables:
    """The tables of ``ortable_generated``, imported at the first call."""
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


# What `load_specs` added in this process, in order: `LoadedSpecs`, which caches compare.
LOADED: list[Any] = []
