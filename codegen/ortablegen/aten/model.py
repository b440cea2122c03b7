"""The specs as frozen dataclasses, with the position of everything that an error may point to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortablegen.language.entries import Precision
from ortablegen.language.parse import Code, names_in
from ortablegen.language.vocabulary import HelperFunction, load_prelude, operator_helpers
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.schemas.ranges import ALWAYS, VersionRange, covers
from ortablegen.schemas.registry import EVERY_VERSION, INSTALLED, Registry, TorchVersions
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.diagnostics import Span

# torch's ELEMENTWISE_TYPE_PROMOTION_KIND
PROMOTE_KINDS = (
    "default", "int_to_float", "bool_to_long", "always_bool", "complex_to_float", "pow",
    "no_opmath", "no_bool",
)  # fmt: skip


@dataclass(frozen=True)
class PythonLowering:
    """``python: module.function``, and the reason why YAML is not enough."""

    path: str
    span: Span
    why: str | None


@dataclass(frozen=True)
class LowerCase:
    """One case of ``lower``: a condition, and a block, a Python lowering or a refusal."""

    span: Span
    when: Code | None = None
    target: str | None = None
    opset: tuple[str, int] | None = None
    note: str | None = None
    do: Code | None = None
    python: PythonLowering | None = None
    refuse: str | None = None

    @property
    def opset_range(self) -> tuple[int, int]:
        """The first and the last opset at which the case applies."""
        low, high = DOMAIN_RANGE[""]
        if self.opset is None:
            return low, high
        sign, version = self.opset
        return (max(low, version), high) if sign == ">=" else (low, min(high, version - 1))

    @property
    def is_catch_all(self) -> bool:
        """Whether every call takes this case."""
        return self.when is None and self.target is None and self.opset is None


@dataclass(frozen=True)
class ShapeRule:
    """The shape of one result, by ``kind``.

    "word": the expression ``code``; "meta": the shape in the metadata of the FX node; "unify":
    ``patterns`` of dimension names (None: any shape) for the tensor arguments, which bind the
    dimensions of ``results``.
    """

    kind: str
    span: Span
    code: Code | None = None
    patterns: tuple[tuple[str, ...] | None, ...] = ()
    results: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class OutRule:
    """The shape and dtype rule of one result."""

    shape: ShapeRule
    dtype: Code
    span: Span


@dataclass(frozen=True)
class Promote:
    """``promote:``; torch computes with the argument ``opmath`` in float32 beside half floats."""

    args: tuple[str, ...]
    kind: str
    span: Span
    opmath: str | None = None


@dataclass(frozen=True)
class Sample:
    """A sample call: argument values as written, and options of the test that runs it."""

    span: Span
    values: tuple[tuple[str, object], ...]
    expect: tuple[str, ...] | None = None
    raises: str | None = None
    tolerance: float | None = None
    opset: tuple[str, int] | None = None
    target: str | None = None
    unused_results: tuple[int, ...] = ()
    random: bool = False

    def applies_at(self, opset: int, target: str | None) -> bool:
        """Whether the sample runs at this opset and for this target."""
        if self.target is not None and self.target != (target or "none"):
            return False
        if self.opset is None:
            return True
        sign, version = self.opset
        return opset >= version if sign == ">=" else opset < version


@dataclass(frozen=True)
class Deviation:
    """``deviates:``: how ONNX Runtime differs from torch, and why nothing exact is emitted.

    ``repro`` is a sample call; ``derived`` are patterns of derived samples (tests/derive) that
    fail.
    """

    what: str
    why: str
    upstream: str
    repro: Sample
    derived: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class DataCheck:
    """A row of ``checks:``: a requirement of torch on the elements of a tensor.

    The requirement is ``low <= values < high``, or (``is_condition``) that all ``values`` are true.
    ``when`` restricts the row to some calls; ``raises`` and ``message`` are torch's error, which
    may name ``axis``; torch rejects the sample call ``repro``.
    """

    values: Code
    low: Code | None
    high: Code | None
    axis: Code | None
    when: Code | None
    is_condition: bool
    raises: str
    message: str
    repro: Sample
    span: Span


@dataclass(frozen=True)
class ComplexForm:
    """``complex:``: cases for complex tensors, or how these use the lowering of real tensors.

    ``as_lower``: the cases of ``lower`` apply. ``by_parts``: the real lowering is called with the
    real parts of the arguments ``parts``, then with their imaginary parts. ``by_products``: the
    operator is linear in the first two of ``parts`` and adds the third, if there is one.
    """

    span: Span
    parts: tuple[str, ...] = ()
    by_parts: bool = False
    as_lower: bool = False
    by_products: bool = False
    cases: tuple[LowerCase, ...] = ()


@dataclass(frozen=True)
class Draw:
    """``draw:``: the call that samples random numbers, and its condition (None: always).

    ``overload`` is torch's overload with its arguments in order, None if no overload fits the call.
    """

    call: Code
    when: Code | None
    span: Span
    overload: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class TypeVariable:
    """A variable of ``types:``, or an argument with its dtypes.

    ``members`` are dtypes in the order of `type_variables.ALL_DTYPES`; in a call all ``arguments``
    have the same member as dtype.
    """

    name: str
    members: tuple[int, ...]
    arguments: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class OpEntry:
    """A torch overload, its rules, its lowering cases and its sample calls."""

    schema: OpSchema
    file: str
    span: Span
    out: tuple[OutRule, ...]
    lower: tuple[LowerCase, ...]
    samples: tuple[Sample, ...]
    promote: Promote | None = None
    let: tuple[tuple[str, Code], ...] = ()
    unused: tuple[tuple[str, str, Span], ...] = ()
    mutates: str | None = None
    complex: ComplexForm | None = None
    requires: str | None = None
    versions: TorchVersions = EVERY_VERSION
    draw: Draw | None = None
    precision: Precision = ()
    deviates: tuple[Deviation, ...] = ()
    checks: tuple[DataCheck, ...] = ()
    types: tuple[TypeVariable, ...] = ()

    @property
    def key(self) -> str:
        """The overload, such as ``aten::add.Tensor``."""
        return self.schema.key

    def all_cases(self) -> tuple[LowerCase, ...]:
        """Return the cases of ``lower``, then those of ``complex``."""
        return self.lower + (self.complex.cases if self.complex is not None else ())

    def case_names(self) -> tuple[str, ...]:
        """Return names of cases such as ``aten::addmm/2``; none if there is one case."""
        count = len(self.all_cases())
        return tuple(f"{self.key}/{n}" for n in range(1, count + 1)) if count > 1 else ()


def complex_cases(entry: OpEntry) -> tuple[LowerCase, ...]:
    """Return the cases for complex tensors; none for ``parts(...)`` and ``products(...)``."""
    if entry.complex is None:
        return ()
    return entry.lower if entry.complex.as_lower else entry.complex.cases


def complex_lets(entry: OpEntry) -> tuple[tuple[str, Code], ...]:
    """Return the ``let`` values that the cases for complex tensors read, transitively."""
    return find_lets_read(entry, [c for case in complex_cases(entry) for c in (case.when, case.do)])


def data_check_lets(entry: OpEntry) -> tuple[tuple[str, Code], ...]:
    """Return the ``let`` values that ``checks`` read, transitively."""
    codes = [c for row in entry.checks for c in (row.values, row.low, row.high, row.axis, row.when)]
    return find_lets_read(entry, codes)


def find_lets_read(entry: OpEntry, codes: Iterable[Code | None]) -> tuple[tuple[str, Code], ...]:
    """Return the ``let`` values that ``codes`` read, transitively, in the order of ``let``."""
    read = {name.id for code in codes if code is not None for name in names_in(*code.body)}
    lets = []
    for name, code in reversed(entry.let):
        if name in read:
            lets.append((name, code))
            read |= {reference.id for reference in names_in(*code.body)}
    return tuple(reversed(lets))


@dataclass(frozen=True)
class AliasEntry:
    """A torch overload that equals another overload with arguments renamed, fixed or defaulted."""

    schema: OpSchema
    of: str
    of_span: Span
    file: str
    span: Span
    args: tuple[tuple[str, Code], ...]
    unused: tuple[tuple[str, str, Span], ...]
    samples: tuple[Sample, ...]
    requires: str | None = None
    versions: TorchVersions = EVERY_VERSION
    unchecked: str | None = None  # why the ``checks`` of the target are skipped

    @property
    def key(self) -> str:
        """The overload, such as ``aten::detach``."""
        return self.schema.key


@dataclass(frozen=True)
class CallEntry:
    """A Python function or tensor method that stands for an ATen operator with all overloads."""

    kind: str
    name: str
    of: str
    file: str
    span: Span
    varargs: str | None = None
    fixed: tuple[tuple[str, object], ...] = ()
    # arguments of the Python function that ATen lacks: the only allowed value, or "any"
    python_only: tuple[tuple[str, object], ...] = ()
    # the operator of a call on tensors in an exported graph, if it is not `of`
    exported_as: str | None = None
    # the operators that the function may call, depending on its arguments
    overloads: tuple[str, ...] = ()


@dataclass(frozen=True)
class HopEntry:
    """A higher-order operator, which has no schema: a Python lowering, or a refusal."""

    name: str
    args: tuple[str, ...]
    python: PythonLowering | None
    file: str
    span: Span
    refuse: str | None = None


@dataclass(frozen=True)
class NumberEntry:
    """A Python function or condition on numbers that are known only at run time.

    ``parameters`` are (kind, name). ``folds``: calls may pass more arguments, folded from the left.
    """

    kind: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    lower: Code
    file: str
    span: Span
    folds: bool = False

    @property
    def function_name(self) -> str:
        """The name of the generated converter, for example ``number_math_sqrt``."""
        return f"{self.kind}_{self.name.replace('.', '_')}"

    @property
    def short_name(self) -> str:
        """The key in `ortable.interpreter.numbers`: ``sqrt`` for ``torch._sym_sqrt``."""
        return self.name.rpartition(".")[2].removeprefix("_").removeprefix("sym_")

    @property
    def key(self) -> str:
        """The key in specs: ``number sqrt``, ``condition lt``."""
        return f"{self.kind} {self.short_name}"

    @property
    def kind_letters(self) -> str:
        """The first letters of the parameters' kinds, with a + if more are accepted."""
        return "".join(kind[0] for kind, _ in self.parameters) + "+" * self.folds


@dataclass(frozen=True)
class TorchPlacement:
    """``run_in: torch`` and its reason; ``lowered``: the entry also has a lowering, for exports."""

    name: str
    why: str
    file: str
    span: Span
    lowered: bool
    present: VersionRange = ALWAYS


@dataclass(frozen=True)
class TraitUse:
    """One trait of an entry, with the values of its arguments in order."""

    name: str
    values: tuple[object, ...]
    span: Span


@dataclass(frozen=True)
class Traits:
    """``traits:`` of an operator or Python function; ``traits_only``: the entry has no lowering."""

    kind: str
    name: str
    uses: tuple[TraitUse, ...]
    file: str
    span: Span
    traits_only: bool = False

    @property
    def key(self) -> str:
        """The key of the entry: ``aten::lift``, ``hop wrap``."""
        return self.name if "::" in self.name else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Specs:
    """All entries, in file order within files sorted by name, and the schema registry."""

    ops: tuple[OpEntry, ...] = ()
    aliases: tuple[AliasEntry, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    hops: tuple[HopEntry, ...] = ()
    placed: tuple[TorchPlacement, ...] = ()
    traits: tuple[Traits, ...] = ()
    numbers: tuple[NumberEntry, ...] = ()
    registry: Registry = INSTALLED

    def operator_entries(self) -> tuple[OpEntry | AliasEntry, ...]:
        """Return the entries with a torch schema: operators, then aliases."""
        both: list[OpEntry | AliasEntry] = [*self.ops, *self.aliases]
        return tuple(both)

    def family_files(self) -> tuple[str, ...]:
        """Return the sorted spec files of which modules are generated, one for each file."""
        files = {entry.file for entry in (*self.operator_entries(), *self.hops, *self.numbers)}
        return tuple(sorted(files))


def operators_called(specs: Specs, keys: Iterable[str]) -> list[tuple[str, Span]]:
    """Return the operators of ``keys`` that blocks call, each with the position of a caller."""
    cases = [case for entry in specs.ops for case in entry.all_cases()]
    bodies = [(case.do.body, case.span) for case in cases if case.do is not None]
    spans_by_name = {name.id: span for body, span in bodies for name in names_in(*body)}
    functions = {key.replace("::", "_").replace(".", "_"): key for key in keys}
    return [(functions[name], spans_by_name[name]) for name in spans_by_name if name in functions]


class Targets:
    """The operators that aliases may target and blocks may call."""

    def __init__(self, entries: Iterable[OpEntry]) -> None:
        self._by_key: dict[str, list[OpEntry]] = {}
        for entry in entries:
            self._by_key.setdefault(entry.key, []).append(entry)

    def find_target(self, alias: AliasEntry) -> OpEntry | None:
        """Return the entry that ``alias`` targets; of several, the one for its torch versions."""
        entries = self._by_key.get(alias.of, [])
        if len(entries) == 1:
            return entries[0]
        versions = alias.versions.present
        return next((entry for entry in entries if covers(entry.versions.present, versions)), None)

    def helpers(self) -> dict[str, HelperFunction]:
        """Return the functions that blocks may call: of ortable, and one per operator."""
        schemas = (entry.schema for entries in self._by_key.values() for entry in entries)
        return {**load_prelude(), **operator_helpers(schemas)}

    def versions_of(self, key: str) -> list[str]:
        """Return the version ranges of the entries of ``key``."""
        return [str(entry.versions.present) for entry in self._by_key.get(key, [])]
