"""The specs as frozen dataclasses: what an entry says, with the position of everything that an
error may point to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortablegen.language.entries import Precision
from ortablegen.language.parse import Code, names_in
from ortablegen.language.vocabulary import Word, operator_words, prelude
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.schemas.ranges import ALWAYS, VersionRange, covers
from ortablegen.schemas.registry import EVERY_VERSION, INSTALLED, Registry, TorchVersions
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.diagnostics import Span

# torch's ELEMENTWISE_TYPE_PROMOTION_KIND
PROMOTE_KINDS = (
    "default", "int_to_float", "bool_to_long", "always_bool", "complex_to_float", "pow",
    "no_opmath",
)  # fmt: skip


@dataclass(frozen=True)
class PythonLowering:
    """``python: module.function`` with the reason why the language cannot say it."""

    path: str
    span: Span
    why: str | None


@dataclass(frozen=True)
class LowerCase:
    """One case of ``lower``: a condition and one of a block, a Python lowering, a refusal."""

    span: Span
    when: Code | None = None
    target: str | None = None
    opset: tuple[str, int] | None = None
    note: str | None = None
    do: Code | None = None
    python: PythonLowering | None = None
    refuse: str | None = None

    @property
    def opsets(self) -> tuple[int, int]:
        """The first and the last opset at which the case may be taken."""
        low, high = DOMAIN_RANGE[""]
        if self.opset is None:
            return low, high
        sign, version = self.opset
        return (max(low, version), high) if sign == ">=" else (low, min(high, version - 1))

    @property
    def is_catch_all(self) -> bool:
        """True when every call takes this case."""
        return self.when is None and self.target is None and self.opset is None


@dataclass(frozen=True)
class ShapeRule:
    """The shape of one result: an expression, named patterns that unify, or ``meta``."""

    kind: str
    span: Span
    code: Code | None = None
    patterns: tuple[tuple[str, ...] | None, ...] = ()
    results: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class OutRule:
    """Shape and dtype rule of one result."""

    shape: ShapeRule
    dtype: Code
    span: Span


@dataclass(frozen=True)
class Promote:
    """``promote: {args: [...], kind: ..., opmath: ...}``; ``opmath`` is the argument that torch's
    kernel reads in float32 beside half floats."""

    args: tuple[str, ...]
    kind: str
    span: Span
    opmath: str | None = None


@dataclass(frozen=True)
class Sample:
    """One call of ``samples``: values of arguments as written, and what the reader of samples needs
    besides."""

    span: Span
    values: tuple[tuple[str, object], ...]
    expect: tuple[str, ...] | None = None
    refused: str | None = None
    tolerance: float | None = None
    opset: tuple[str, int] | None = None
    target: str | None = None
    unread: tuple[int, ...] = ()
    random: bool = False

    def applies_at(self, opset: int, target: str | None) -> bool:
        """Whether the sample is run at this opset and for this target."""
        if self.target is not None and self.target != (target or "none"):
            return False
        if self.opset is None:
            return True
        sign, version = self.opset
        return opset >= version if sign == ">=" else opset < version


@dataclass(frozen=True)
class Deviation:
    """``deviates:``: what ONNX Runtime does otherwise than torch and why nothing exact is emitted,
    a sample call that shows it, and patterns of the derived samples (tests/derive) that fail."""

    what: str
    why: str
    upstream: str
    shows: Sample
    derived: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class DataCheck:
    """A row of ``checks:``: what torch demands of the elements of a tensor (``low <= values <
    high``, or that ``holds`` is true everywhere), ``when`` it does (None: always), the error it
    raises with its message, the ``axis`` that the message names, and a sample call that torch
    refuses."""

    values: Code
    low: Code | None
    high: Code | None
    axis: Code | None
    when: Code | None
    is_condition: bool
    raises: str
    message: str
    shows: Sample
    span: Span


@dataclass(frozen=True)
class ComplexForm:
    """``complex:``: cases of its own, the cases of ``lower`` (``as_lower``), whose words take pairs
    as well, or names of arguments: (``by_parts``) their real and imaginary parts go through the
    real lowering one after the other, (``by_products``) it is linear in two and
    adds a third."""

    span: Span
    parts: tuple[str, ...] = ()
    by_parts: bool = False
    as_lower: bool = False
    by_products: bool = False
    cases: tuple[LowerCase, ...] = ()


@dataclass(frozen=True)
class Draw:
    """``draw:``: the call that draws, ``when`` it does (None: always), and the overload of torch
    that fills a tensor so, with its arguments in order (None: torch has none)."""

    call: Code
    when: Code | None
    span: Span
    overload: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class TypeVariable:
    """A variable of ``types:``, or an argument with dtypes of its own: the members, in the order
    of `aten.types.EVERY`, and the arguments that have one of them, all the same one."""

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
    ignore: tuple[tuple[str, str, Span], ...] = ()
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
        """``aten::add.Tensor``."""
        return self.schema.key

    def every_case(self) -> tuple[LowerCase, ...]:
        """The cases of ``lower``, then those of ``complex``."""
        return self.lower + (self.complex.cases if self.complex is not None else ())

    def case_names(self) -> tuple[str, ...]:
        """``aten::addmm/2`` for the second of several cases, as errors and tests call it; none for
        an entry with one case."""
        count = len(self.every_case())
        return tuple(f"{self.key}/{n}" for n in range(1, count + 1)) if count > 1 else ()


def complex_cases(entry: OpEntry) -> tuple[LowerCase, ...]:
    """The cases by which complex tensors are lowered; none for ``parts(...)``."""
    if entry.complex is None:
        return ()
    return entry.lower if entry.complex.as_lower else entry.complex.cases


def complex_lets(entry: OpEntry) -> tuple[tuple[str, Code], ...]:
    """The names of ``let`` that the cases of ``complex`` read, and what those names read."""
    return lets_read(entry, [c for case in complex_cases(entry) for c in (case.when, case.do)])


def check_lets(entry: OpEntry) -> tuple[tuple[str, Code], ...]:
    """The names of ``let`` that ``checks`` read, and what those names read."""
    codes = [c for row in entry.checks for c in (row.values, row.low, row.high, row.axis, row.when)]
    return lets_read(entry, codes)


def lets_read(entry: OpEntry, codes: Iterable[Code | None]) -> tuple[tuple[str, Code], ...]:
    """The names of ``let`` that ``codes`` read, and what those names read."""
    read = {name.id for code in codes if code is not None for name in names_in(*code.body)}
    found = []
    for name, code in reversed(entry.let):
        if name in read:
            found.append((name, code))
            read |= {each.id for each in names_in(*code.body)}
    return tuple(reversed(found))


@dataclass(frozen=True)
class AliasEntry:
    """A torch overload that means the same as another one, with arguments renamed, fixed or
    defaulted."""

    schema: OpSchema
    of: str
    of_span: Span
    file: str
    span: Span
    args: tuple[tuple[str, Code], ...]
    ignore: tuple[tuple[str, str, Span], ...]
    samples: tuple[Sample, ...]
    requires: str | None = None
    versions: TorchVersions = EVERY_VERSION
    unchecked: str | None = None  # why the ``checks`` of the target are not made

    @property
    def key(self) -> str:
        """``aten::detach``."""
        return self.schema.key


@dataclass(frozen=True)
class CallEntry:
    """A Python function or a tensor method that stands for an ATen packet; torch itself picks the
    overload."""

    kind: str
    name: str
    of: str
    file: str
    span: Span
    pack: str | None = None
    fixed: tuple[tuple[str, object], ...] = ()
    # arguments of the Python function that ATen lacks: the one value that changes nothing, or "any"
    python_only: tuple[tuple[str, object], ...] = ()
    # the operator of a call on tensors in an exported graph, where that is not `of`
    exported_as: str | None = None
    # the operators that the function calls by its arguments; `of` is the usual one
    several: tuple[str, ...] = ()


@dataclass(frozen=True)
class HopEntry:
    """A higher-order operator, which has no schema: a Python lowering over named arguments, or the
    reason why it is refused."""

    name: str
    args: tuple[str, ...]
    python: PythonLowering | None
    file: str
    span: Span
    refuse: str | None = None


@dataclass(frozen=True)
class NumberEntry:
    """A Python function on numbers that only the running model knows (``kind`` "number"), or a
    condition over them: its parameters (kind, name), and the nodes. ``folds``: with more than two
    arguments it is applied from the left."""

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
    def word(self) -> str:
        """What the function is known by: ``sqrt`` for ``math.sqrt`` and ``torch._sym_sqrt``, as
        `ortable.interpreter.numbers` finds it."""
        return self.name.rpartition(".")[2].removeprefix("_").removeprefix("sym_")

    @property
    def key(self) -> str:
        """``number sqrt``, ``condition lt``."""
        return f"{self.kind} {self.word}"

    @property
    def letters(self) -> str:
        """The first letters of the parameters' kinds, with a + where more are taken."""
        return "".join(kind[0] for kind, _ in self.parameters) + "+" * self.folds


@dataclass(frozen=True)
class Placed:
    """``run_in: torch``: an operator that the backend leaves to torch, and why.  ``lowered`` tells
    whether it has an entry of its own besides, for exports."""

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
    """``traits:`` of the operator or Python function ``name``. ``alone`` tells that the entry has
    no lowering besides: it makes nothing supported."""

    kind: str
    name: str
    uses: tuple[TraitUse, ...]
    file: str
    span: Span
    alone: bool = False

    @property
    def key(self) -> str:
        """What tells the entry from others: ``aten::lift``, ``hop wrap``."""
        return self.name if "::" in self.name else f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Specs:
    """All entries, in file order within files sorted by name, and the registry that they were
    compared with."""

    ops: tuple[OpEntry, ...] = ()
    aliases: tuple[AliasEntry, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    hops: tuple[HopEntry, ...] = ()
    placed: tuple[Placed, ...] = ()
    traits: tuple[Traits, ...] = ()
    numbers: tuple[NumberEntry, ...] = ()
    registry: Registry = INSTALLED

    def operators(self) -> tuple[OpEntry | AliasEntry, ...]:
        """Entries with a torch schema: operators, then aliases."""
        both: list[OpEntry | AliasEntry] = [*self.ops, *self.aliases]
        return tuple(both)

    def families(self) -> tuple[str, ...]:
        """Names of the spec files that hold operators, sorted: one generated module each."""
        files = {entry.file for entry in (*self.operators(), *self.hops, *self.numbers)}
        return tuple(sorted(files))


def operators_called(specs: Specs, known: Iterable[str]) -> list[tuple[str, Span]]:
    """Which of the known operators the blocks of some specs call, and where."""
    cases = [case for entry in specs.ops for case in entry.every_case()]
    bodies = [(case.do.body, case.span) for case in cases if case.do is not None]
    called = {name.id: span for body, span in bodies for name in names_in(*body)}
    functions = {key.replace("::", "_").replace(".", "_"): key for key in known}
    return [(functions[name], called[name]) for name in called if name in functions]


class Targets:
    """The operators that aliases may mean, and blocks may call."""

    def __init__(self, entries: Iterable[OpEntry]) -> None:
        self._found: dict[str, list[OpEntry]] = {}
        for entry in entries:
            self._found.setdefault(entry.key, []).append(entry)

    def of(self, alias: AliasEntry) -> OpEntry | None:
        """The entry that ``alias`` means; of several, the one for all versions of the alias."""
        entries = self._found.get(alias.of, [])
        if len(entries) == 1:
            return entries[0]
        inside = alias.versions.present
        return next((each for each in entries if covers(each.versions.present, inside)), None)

    def words(self) -> dict[str, Word]:
        """The words of blocks: those of the prelude and of families, and one for each operator."""
        schemas = (entry.schema for entries in self._found.values() for entry in entries)
        return {**prelude(), **operator_words(schemas)}

    def versions_of(self, key: str) -> list[str]:
        """The ranges of versions that entries of ``key`` are for."""
        return [str(entry.versions.present) for entry in self._found.get(key, [])]
