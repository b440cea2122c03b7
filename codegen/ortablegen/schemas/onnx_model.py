"""ONNX operator schemas as plain frozen data. Made by `onnx.py` and `onnx_record.py`, read by every
front end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Formal:
    """One formal input or output. ``type`` is a type parameter (``T``) or a type
    (``tensor(int64)``)."""

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    homogeneous: bool = True


@dataclass(frozen=True)
class OnnxAttribute:
    """One attribute. ``type`` is the AttributeProto name (``INTS``); ``default`` a Python value,
    None when there is none."""

    name: str
    type: str
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class OnnxSchema:
    """One version of an operator: in force from opset ``since`` on, until the next version.

    ``type_params`` maps a type parameter to the types it allows (``tensor(float)``,
    ``seq(tensor(float))``).
    """

    op: str
    domain: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: tuple[OnnxAttribute, ...]
    type_params: tuple[tuple[str, tuple[str, ...]], ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    deprecated: bool = False
    has_function: bool = False

    @property
    def key(self) -> str:
        """``Gemm`` in the standard domain, ``com.microsoft::BiasGelu`` elsewhere."""
        return key_of(self.op, self.domain)

    def attribute(self, name: str) -> OnnxAttribute | None:
        """The attribute of that name, or None."""
        return next((a for a in self.attributes if a.name == name), None)

    def input_index(self, name: str) -> int | None:
        """Position of the formal input of that name, or None."""
        return next((i for i, f in enumerate(self.inputs) if f.name == name), None)

    def allowed(self, type_name: str) -> tuple[str, ...]:
        """The types that a formal of this type may have: those of the parameter, or the type
        itself."""
        return dict(self.type_params).get(type_name, (type_name,))

    def accepts_inputs(self, count: int) -> bool:
        """True when a node may have ``count`` inputs (trailing optional inputs left out)."""
        return self.min_inputs <= count <= self.max_inputs

    def accepts_outputs(self, count: int) -> bool:
        """True when a node may have ``count`` outputs."""
        return self.min_outputs <= count <= self.max_outputs

    def signature(self) -> str:
        """``Gemm(A: T, B: T, C?: T) -> (Y: T)``: one line for people."""
        return f"{self.op}({_formals(self.inputs)}) -> ({_formals(self.outputs)})"


def key_of(op: str, domain: str = "") -> str:
    """The key of an operator in tables: ``Gemm``, ``com.microsoft::BiasGelu``."""
    return f"{domain}::{op}" if domain else op


def _formals(formals: tuple[Formal, ...]) -> str:
    marks = {(True, False): "?", (False, True): "*"}
    return ", ".join(
        f"{f.name}{marks.get((f.optional, f.variadic), '')}: {f.type}" for f in formals
    )
