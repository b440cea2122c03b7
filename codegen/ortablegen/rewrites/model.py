"""Graph rewrites as dataclasses, which `read` fills from specs/rewrites/*.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ortablegen.language.entries import Precision
from ortablegen.language.parse import Code
from ortablegen.source.diagnostics import Span

STAGES = ("simplify", "fuse", "runtime", "arrange")


@dataclass(frozen=True)
class RewriteSample:
    """A sample: a small graph on which tests try the rule.

    ``values`` are texts (or lists of texts) by capture: ``"f32[n=2,3]"``, ``"const f32[3] = [1, 2,
    3]"`` for an initializer, or a literal for an attribute. The graph is the block ``graph``, or
    the pattern if this is None. ``expect`` lists the operators after the rewrite, separated by
    spaces. With ``unchanged``, the rule must not fire, and the logged reason contains this text.
    ``extra_outputs`` are intermediate results that are graph outputs, too. ``quantize`` is the type
    to which the test quantizes weights (int4); it does not quantize activations.
    """

    span: Span
    values: tuple[tuple[str, object], ...]
    graph: Code | None = None
    expect: str | None = None
    unchanged: str | None = None
    extra_outputs: tuple[str, ...] = ()
    tolerance: float | None = None
    opset: int | None = None
    quantize: Literal["int4"] | None = None


@dataclass(frozen=True)
class Rewrite:
    """An entry of a file of rewrites; ``traits`` maps each trait to operator keys.

    ``off_reason`` says why the rule is off unless users enable it; "" if the rule is on.
    """

    name: str
    file: str
    span: Span
    stage: str
    why: str
    pattern: Code
    replace: Code
    samples: tuple[RewriteSample, ...]
    traits: Mapping[str, frozenset[str]] = field(compare=False, repr=False)
    let: tuple[tuple[str, Code], ...] = ()
    when: Code | None = None
    opset: str | None = None
    target: str | None = None
    off_reason: str = ""
    allow_external_uses: tuple[str, ...] = ()
    precision: Precision = ()
