"""Checked entries of specs/onnx: a frozen record for each operator and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ortablegen.schemas.onnx import OnnxSchema

from .check import Expression


@dataclass(frozen=True)
class Output:
    """The rule of a formal output; ``dtype`` is Python source that reads ``dtype_inputs``.

    ``bound``: the schema determines the dtype, so the entry does not.
    """

    name: str
    dtype: str
    bound: bool
    shape: Expression | None = None
    value: Expression | None = None
    dtype_inputs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OnnxRule:
    """An operator, whose rule is a function ``python`` of ortable.inference or its ``outputs``.

    ``versions`` are the supported schemas, oldest first. ``shapes`` and ``values`` are for all
    outputs of a variadic output together. Without ``has_rule`` the entry has traits only.
    """

    key: str
    family: str
    versions: tuple[OnnxSchema, ...]
    outputs: tuple[Output, ...] = ()
    shapes: Expression | None = None
    values: Expression | None = None
    python: str | None = None
    why: str | None = None
    note: str | None = None
    traits: tuple[str, ...] = ()
    has_rule: bool = True

    @property
    def function_name(self) -> str:
        """Name of the generated function: ``infer_Gemm``, ``infer_com_microsoft_BiasGelu``."""
        return "infer_" + self.key.replace("::", "_").replace(".", "_")


@dataclass(frozen=True)
class OnnxModel:
    """All entries, by family (the stem of their file), in file order."""

    families: Mapping[str, tuple[OnnxRule, ...]]

    @property
    def entries(self) -> tuple[OnnxRule, ...]:
        """Every entry, sorted by key."""
        return tuple(
            sorted((r for rules in self.families.values() for r in rules), key=lambda r: r.key)
        )

    @property
    def rules(self) -> tuple[OnnxRule, ...]:
        """Every entry with a rule, sorted by key."""
        return tuple(entry for entry in self.entries if entry.has_rule)

    def operators_with(self, trait: str) -> frozenset[str]:
        """Return the keys of the operators that have a trait."""
        return frozenset(entry.key for entry in self.entries if trait in entry.traits)
