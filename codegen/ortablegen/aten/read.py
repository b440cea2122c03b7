"""YAML nodes -> model: which keys an entry may have, what each holds; every problem is reported
where it stands."""

from __future__ import annotations

import ast
import keyword
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ortable import dtypes
from ortablegen.language.entries import TARGETS, EntryReader
from ortablegen.language.parse import Code, parse_block, parse_expression
from ortablegen.language.samples import unknown_operators
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.ranges import meet, parse_range
from ortablegen.schemas.record import PLACE, read_record
from ortablegen.schemas.registry import (
    EVERY_VERSION,
    INSTALLED,
    Registry,
    TorchVersions,
    canonical,
    import_problem,
    installed_torch,
    schema_of,
    schema_of_key,
)
from ortablegen.schemas.torch import OpSchema, SchemaProblem
from ortablegen.source.diagnostics import Diagnostics, Span
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load, parse

from .deviations import read_deviations
from .draws import DRAW_FORM, overload
from .model import (
    PROMOTE_KINDS,
    AliasEntry,
    CallEntry,
    ComplexForm,
    Draw,
    HopEntry,
    LowerCase,
    NumberEntry,
    OpEntry,
    OutRule,
    Placed,
    Promote,
    PythonLowering,
    Sample,
    ShapeRule,
    Specs,
    Traits,
)
from .numbers import read_number
from .rows import written_out
from .traits import read_traits
from .type_variables import read_types, with_variables

CASE_KEYS = ("when", "target", "opset", "note", "do", "python", "why", "refuse")
SAMPLE_KEYS = ("expect", "refused", "tolerance", "why", "opset", "built_for", "unread", "random")
# a wider tolerance has to say why: it hides more than the rounding of a half
WIDEST_TOLERANCE = 1e-2
_PARTS = re.compile(r"parts\(([\w\s,]*)\)")
_PRODUCTS = re.compile(r"products\((\w+(?:\s*,\s*\w+){1,2})\)")
SAMPLE_TARGETS = (*TARGETS, "none")


class PartReader(EntryReader):
    """Reads the parts of entries of one file."""

    registry: Registry = INSTALLED

    def torch_versions(self, node: YNode | None, schemas: bool = True) -> TorchVersions:
        """``torch: "<2.15"`` (the entry is for these versions), or, with ``schemas``,
        ``torch: {">=2.15": schema}`` (these have the operator with that schema)."""
        if node is None:
            return EVERY_VERSION
        pairs = node.items() if isinstance(node, YMap) and schemas else ()
        texts = [key for key, _ in pairs] or ([node] if isinstance(node, YScalar) else [])
        spans = [span for text in texts if (span := parse_range(text.text)) is not None]
        if not spans or len(spans) < len(texts):
            fix = 'write torch: "<2.15"'
            if schemas:
                fix += ', or torch: {">=2.15": "aten::name(...) -> Tensor"}'
            notes = ["bounds are <, <=, ==, !=, >= and > with a major and a minor version"]
            self.error(node.span, "'torch' is no range of versions", notes, fix)
            return EVERY_VERSION
        for text, span in zip(texts, spans, strict=True):
            if meet([span]) is None:
                self.error(text.span, f"no version of torch is in '{text.text}'")
                return EVERY_VERSION
        if not pairs:
            return TorchVersions(present=spans[0])
        values = [self.text(value, "a schema") for _, value in pairs]
        given = zip(spans, values, strict=True)
        return TorchVersions(others=tuple((span, text) for span, text in given if text))

    def schema(
        self,
        node: YNode | None,
        verbatim: bool,
        requires: str | None = None,
        versions: TorchVersions = EVERY_VERSION,
    ) -> OpSchema | None:
        if not isinstance(node, YScalar):
            return None
        try:
            if verbatim:
                return schema_of(node.text, self.registry, requires, versions)
            return schema_of_key(node.text, self.registry, requires, versions)
        except SchemaProblem as problem:
            self.error(node.span, str(problem), problem.notes, problem.fix)
            return None

    def promote(self, node: YNode | None) -> Promote | None:
        if node is None:
            return None
        if not isinstance(node, YMap):
            self.error(node.span, "promote must be {args: [...], kind: ...}")
            return None
        self.keys(node, ("args", "kind"), "promote")
        kind = self.text(node.get("kind"), "kind") or "default"
        if kind not in PROMOTE_KINDS:
            self.error(
                node.span,
                f"unknown promotion kind '{kind}'",
                [f"kinds are {', '.join(PROMOTE_KINDS)}"],
            )
        return Promote(self.words(node.get("args"), "args"), kind, node.span)

    def out(self, node: YNode | None) -> tuple[OutRule, ...] | None:
        """The rules of the results, none for ``out: []``; None when one is wrong."""
        nodes = list(node) if isinstance(node, YSeq) else [node] if node is not None else []
        rules = [self.out_rule(each) for each in nodes]
        return None if None in rules else tuple(rule for rule in rules if rule is not None)

    def out_rule(self, node: YNode) -> OutRule | None:
        if not isinstance(node, YMap):
            self.error(
                node.span,
                "out must be {shape: ..., dtype: ...}, or a list of them for several results",
            )
            return None
        self.keys(node, ("shape", "dtype"), "out")
        shape, dtype = node.get("shape"), node.get("dtype")
        if not isinstance(shape, YScalar) or not isinstance(dtype, YScalar):
            self.error(
                node.span, "out needs both 'shape' and 'dtype'", fix="shape: meta takes it from FX"
            )
            return None
        rule = self.shape_rule(shape)
        code = self.expression(_readable_else(dtype), "dtype")
        return OutRule(rule, code, node.span) if rule is not None and code is not None else None

    def shape_rule(self, node: YScalar) -> ShapeRule | None:
        if node.text == "meta":
            return ShapeRule("meta", node.span)
        if "->" in node.text:
            return self.unify_rule(node)
        code = parse_expression(node, self.diagnostics)
        return ShapeRule("word", node.span, code) if code is not None else None

    def unify_rule(self, node: YScalar) -> ShapeRule | None:
        left, _, right = node.text.partition("->")
        try:
            return ShapeRule(
                "unify", node.span, None, _patterns(left), tuple(p or () for p in _patterns(right))
            )
        except ValueError as error:
            self.error(node.span, str(error), fix='write it like "(m, k), (k, n) -> (m, n)"')
            return None

    def lower(self, node: YNode | None) -> tuple[LowerCase, ...]:
        if isinstance(node, YScalar):
            code = parse_block(node, self.diagnostics)
            return (LowerCase(node.span, do=code),) if code is not None else ()
        if isinstance(node, YMap):
            node = YSeq((node,), node.span)
        if not isinstance(node, YSeq):
            return ()
        cases = [self.case(each) for each in node]
        # with one case unreadable the order of the others says nothing
        return () if None in cases else tuple(case for case in cases if case is not None)

    def complex_form(self, node: YNode | None) -> ComplexForm | None:
        """``parts(self, other)``, ``products(input, weight, bias)``, ``lower``, a block, or
        cases as those of ``lower``."""
        if node is None:
            return None
        if isinstance(node, YScalar) and node.text.strip() == "lower":
            return ComplexForm(node.span, as_lower=True)
        if isinstance(node, YScalar) and (match := _PARTS.fullmatch(node.text.strip())):
            names = tuple(part.strip() for part in match[1].split(",") if part.strip())
            return ComplexForm(node.span, parts=names, by_parts=True)
        if isinstance(node, YScalar) and (match := _PRODUCTS.fullmatch(node.text.strip())):
            names = tuple(part.strip() for part in match[1].split(","))
            return ComplexForm(node.span, parts=names, by_products=True)
        cases = self.lower(node)
        return ComplexForm(node.span, cases=cases) if cases else None

    def draw(self, node: YNode | None) -> Draw | None:
        """A call such as ``bernoulli_(shape=same(self), p=p)``, or ``{when: ..., do: call}``."""
        if node is None:
            return None
        when = None
        call: YNode | None = node
        if isinstance(node, YMap):
            self.keys(node, ("when", "do"), "draw")
            condition, call = node.get("when"), node.get("do")
            when = self.expression(condition, "when") if condition is not None else None
        code = self.expression(call, "draw") if call is not None else None
        if code is None:
            self.error(node.span, "draw needs the call that draws", fix=DRAW_FORM)
            return None
        return Draw(code, when, node.span, overload(code.expression, self.registry))

    def case(self, node: YNode) -> LowerCase | None:
        if not isinstance(node, YMap):
            self.error(node.span, "a case is a mapping with one of do:, python:, refuse:")
            return None
        self.keys(node, CASE_KEYS, "a case")
        when_node, do_node = node.get("when"), node.get("do")
        when = self.expression(when_node, "when") if when_node is not None else None
        do = parse_block(do_node, self.diagnostics) if isinstance(do_node, YScalar) else None
        python = self.python(node)
        refuse = self.text(node.get("refuse"), "refuse")
        forms = [name for name in ("do", "python", "refuse") if node.get(name) is not None]
        if len(forms) != 1:
            self.error(
                node.span,
                "a case has exactly one of do:, python:, refuse:",
                [f"found {forms or 'none'}"],
            )
            return None
        target, opset = self.target(node.get("target")), self.opset(node.get("opset"))
        parsed = {"when": when, "do": do, "target": target, "opset": opset}
        if any(node.get(key) is not None and value is None for key, value in parsed.items()):
            return None
        return LowerCase(
            node.span, when, target, opset, self.text(node.get("note"), "note"), do, python, refuse
        )

    def python(self, node: YMap) -> PythonLowering | None:
        path = node.get("python")
        if not isinstance(path, YScalar):
            return None
        return PythonLowering(path.text, path.span, self.text(node.get("why"), "why"))

    def sample_target(self, node: YNode | None) -> str | None:
        text = self.text(node, "built_for")
        if node is not None and text not in SAMPLE_TARGETS:
            notes = [f"targets of a sample call are {', '.join(SAMPLE_TARGETS)}"]
            self.error(node.span, f"unknown target '{text}'", notes)
        return text

    def flag(self, node: YNode | None, what: str) -> bool:
        """``true`` or ``false``; false when it is not given."""
        text = self.text(node, what)
        if node is not None and text not in ("true", "false"):
            self.error(node.span, f"{what} is true or false, not '{text}'")
        return text == "true"

    def unread(self, node: YNode | None, schema: OpSchema) -> tuple[int, ...]:
        """Results that the sample call does not read, by position."""
        text = self.text(node, "unused")
        if node is None or text is None:
            return ()
        found = tuple(int(part) for part in text.split() if part.isdigit())
        if not found or max(found) >= len(schema.returns):
            fix = 'write positions from 0: unread: "1 2"'
            self.error(node.span, f"'{text}' names no result of {schema.key}", fix=fix)
        return found

    def ignore(self, node: YNode | None) -> tuple[tuple[str, str, Span], ...]:
        if node is None:
            return ()
        if not isinstance(node, YMap):
            self.error(
                node.span,
                "ignore must be a mapping from an argument to the reason",
                fix="ignore: {device: why}",
            )
            return ()
        found = []
        for key, value in node.items():
            reason = self.text(value, "the reason") or ""
            if not reason.strip():
                self.error(value.span, f"'{key.text}' is ignored without a reason")
            found.append((key.text, reason, key.span))
        return tuple(found)

    def samples(self, node: YNode | None, schema: OpSchema) -> tuple[Sample, ...]:
        if not isinstance(node, YSeq):
            if node is not None:
                self.error(node.span, "cases must be a list of sample calls")
            return ()
        if not len(node):
            self.error(node.span, "cases must hold at least one sample call")
        found = [self.sample(each, schema) for each in node]
        return tuple(sample for sample in found if sample is not None)

    def sample(self, node: YNode, schema: OpSchema) -> Sample | None:
        if not isinstance(node, YMap):
            self.error(node.span, "a sample call is a mapping from argument to value")
            return None
        names = tuple(argument.name for argument in schema.arguments)
        self.keys(node, names + SAMPLE_KEYS, "a sample call")
        values = tuple(
            (key.text, self.plain(value)) for key, value in node.items() if key.text in names
        )
        for argument in schema.arguments:
            if not argument.has_default and node.get(argument.name) is None:
                self.error(node.span, f"the sample call lacks argument '{argument.name}'")
        expect = self.expected(node)
        tolerance = self.number(
            self.text(node.get("tolerance"), "tolerance"), node.get("tolerance")
        )
        why = self.text(node.get("why"), "why")
        if tolerance is not None and tolerance > WIDEST_TOLERANCE and not (why or "").strip():
            fix = "say where the difference comes from: why: ..."
            self.error(node.span, f"a tolerance above {WIDEST_TOLERANCE:g} needs 'why'", fix=fix)
        return Sample(
            node.span,
            values,
            tuple(expect.split()) if expect is not None else None,
            self.text(node.get("refused"), "refused"),
            tolerance,
            self.opset(node.get("opset")),
            self.sample_target(node.get("built_for")),
            self.unread(node.get("unread"), schema),
            self.flag(node.get("random"), "random"),
        )

    def expected(self, node: YMap) -> str | None:
        """The operators that a case expects."""
        given = node.get("expect")
        expect = self.text(given, "expect")
        if given is not None:
            for word, hint in unknown_operators(expect or ""):
                self.error(given.span, f"expect: ONNX has no operator '{word}'{hint}")
        return expect


def literal(text: str) -> object:
    """A Python literal as specs write it; text that is no literal stays text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "null": None}.get(text, text)


def _patterns(text: str) -> tuple[tuple[str, ...] | None, ...]:
    """``(*), (m, k)`` -> (None, ("m", "k"))."""
    found: list[tuple[str, ...] | None] = []
    rest = text.strip()
    while rest:
        match = re.match(r"\(([^()]*)\)\s*,?\s*", rest)
        if match is None:
            raise ValueError(f"cannot read the shape pattern at '{rest}'")
        inner = [part.strip() for part in match[1].split(",") if part.strip()]
        found.append(None if inner == ["*"] else tuple(inner))
        rest = rest[match.end() :]
    return tuple(found)


def _readable_else(node: YScalar) -> YScalar:
    """``arg(dtype, else=same(self))``: 'else' is a Python keyword, so the parser sees ``else_``."""
    return YScalar(re.sub(r"\belse\s*=", "else_=", node.text), node.span, node.style)


OP_KEYS = (
    "op", "requires", "torch", "promote", "types", "out", "let", "lower", "complex", "ignore",
    "mutates", "precision", "draw", "deviates", "place", "why", "traits", "cases",
)  # fmt: skip
ALIAS_KEYS = ("alias", "requires", "torch", "of", "args", "ignore", "traits", "cases")
CALL_KEYS = (
    "callable", "method", "of", "pack", "fixed", "python_only", "exported_as", "several", "traits",
)  # fmt: skip
Entry = OpEntry | AliasEntry | CallEntry | HopEntry | NumberEntry
_Versioned = TypeVar("_Versioned", OpEntry, AliasEntry)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?")
NUMBER_KEYS = ("number", "condition", "lower")
HOP_KEYS = ("hop", "args", "python", "why", "refuse", "place", "traits")
_LOWERING_KEYS = {
    "out",
    "lower",
    "complex",
    "promote",
    "let",
    "ignore",
    "mutates",
    "draw",
    "cases",
    "deviates",
}


def read_folder(folder: Path, root: Path, diagnostics: Diagnostics) -> Specs:
    """Read every ``*.yaml`` below ``folder``; file names in errors are relative to ``root``, and
    schemas are compared with those recorded there (without a record, with the installed torch's).
    """
    sources = []
    for path in sorted(folder.glob("*.yaml")):
        display = path.relative_to(root).as_posix()
        sources.append((display, load(path, display, diagnostics)))
    record = read_record(root / PLACE)
    return _read_all(sources, diagnostics, registry=record if record.versions else INSTALLED)


def read_text(
    text: str,
    display: str,
    diagnostics: Diagnostics,
    *,
    imports: bool = True,
    registry: Registry = INSTALLED,
) -> Specs:
    """Read one spec given as text; without ``imports`` it may not name modules to import."""
    return _read_all([(display, parse(text, display, diagnostics))], diagnostics, imports, registry)


def _read_all(
    sources: Iterable[tuple[str, YSeq]],
    diagnostics: Diagnostics,
    imports: bool = True,
    registry: Registry = INSTALLED,
) -> Specs:
    ops: list[OpEntry] = []
    aliases: list[AliasEntry] = []
    calls: list[CallEntry] = []
    hops: list[HopEntry] = []
    numbers: list[NumberEntry] = []
    placed: list[Placed] = []
    traits: list[Traits] = []
    for display, entries in sources:
        for node in written_out(entries, diagnostics):
            reader = _Reader(display, diagnostics)
            reader.imports = imports
            reader.registry = registry
            entry = reader.entry(node)
            if isinstance(entry, OpEntry):
                ops.append(entry)
            elif isinstance(entry, AliasEntry):
                aliases.append(entry)
            elif isinstance(entry, CallEntry):
                calls.append(entry)
            elif isinstance(entry, HopEntry):
                hops.append(entry)
            elif isinstance(entry, NumberEntry):
                numbers.append(entry)
            placed += reader.placed
            traits += reader.traits
    several = _several(ops, aliases)
    return Specs(
        tuple(_suffixed(each, several) for each in ops),
        tuple(_suffixed(each, several) for each in aliases),
        tuple(calls),
        tuple(hops),
        tuple(placed),
        tuple(traits),
        tuple(numbers),
        registry,
    )


def compare_external(specs: Specs) -> list[str]:
    """How entries of operators that other packages register (``requires``) differ from what these
    register; nothing is said of a package that cannot be imported."""
    lines = []
    for entry in specs.operators():
        if entry.requires is None or specs.registry.speaks_for(entry.key):
            continue
        if import_problem(entry.requires) is None:
            found = INSTALLED.text(entry.key, installed_torch())
            if found != canonical(entry.schema.text):
                lines.append(f"{entry.key}: {entry.requires} registers {found or 'none'}")
    return lines


def _several(ops: Iterable[OpEntry], aliases: Iterable[AliasEntry]) -> set[str]:
    """The operators with several entries, each for a range of torch's versions."""
    keys = Counter([*(each.key for each in ops), *(each.key for each in aliases)])
    return {key for key, count in keys.items() if count > 1}


def _suffixed(entry: _Versioned, several: set[str]) -> _Versioned:
    """The entry, the versions in the names of its functions if there are several of its
    operator."""
    if entry.key not in several:
        return entry
    return replace(entry, schema=replace(entry.schema, suffix=entry.versions.present.suffix()))


class _Reader(PartReader):
    """Reads the entries of one file."""

    imports = True

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        super().__init__(file, diagnostics)
        self.placed: list[Placed] = []
        self.traits: list[Traits] = []

    def entry(self, node: YNode) -> Entry | None:
        if not isinstance(node, YMap) or not node.pairs:
            self.error(
                node.span,
                "an entry is a mapping that begins with op:, alias:, callable:, method:, hop:,"
                " number: or condition:",
            )
            return None
        kind = node.pairs[0][0].text
        readers: dict[str, Callable[[YMap], Entry | None]] = {
            "op": self.op,
            "alias": self.alias,
            "callable": self.call,
            "method": self.call,
            "hop": self.hop,
            "number": self.on_numbers,
            "condition": self.on_numbers,
        }
        if kind not in readers:
            self.error(
                node.span,
                f"unknown kind of entry '{kind}'",
                [f"kinds are {', '.join(sorted(readers))}"],
            )
            return None
        return readers[kind](node)

    def op(self, node: YMap) -> OpEntry | None:
        self.keys(node, OP_KEYS, "an op entry")
        requires = self.requires(node.get("requires"))
        versions = self.torch_versions(node.get("torch"))
        schema = self.schema(node.get("op"), verbatim=True, requires=requires, versions=versions)
        lowered = any(key.text in _LOWERING_KEYS for key, _ in node.items())
        if node.get("place") is not None or node.get("why") is not None:
            self.place(node, schema.key if schema is not None else None, lowered, versions)
        self.note_traits(node, schema.key if schema is not None else None)
        if not lowered and any(node.get(key) is not None for key in ("place", "why", "traits")):
            self.stand_alone()
            return None
        needed = ("out", "cases") if node.get("complex") is not None else ("out", "lower", "cases")
        missing = [key for key in needed if node.get(key) is None]
        for key in missing:
            fix = {
                "cases": 'add at least one sample call, for example cases: [{self: "f32[2,3]"}]',
                "out": (
                    "say the result's shape and dtype: out: {shape: same(self), dtype: same(self)}"
                ),
                "lower": "say how it is lowered: lower: return Relu(self)",
            }[key]
            self.error(node.span, f"an op entry needs '{key}'", fix=fix)
        lower = self.lower(node.get("lower"))
        complex_form = self.complex_form(node.get("complex"))
        out = self.out(node.get("out"))
        if schema is None or missing or out is None:
            return None
        if (node.get("lower") is not None and not lower) or (
            node.get("complex") is not None and complex_form is None
        ):
            return None
        promote = self.promote(node.get("promote"))
        entry = OpEntry(
            schema=schema,
            file=self.file,
            span=node.pairs[0][1].span,
            promote=promote,
            types=read_types(node.get("types"), schema, promote, self),
            out=out,
            let=self.let(node.get("let")),
            lower=lower,
            complex=complex_form,
            ignore=self.ignore(node.get("ignore")),
            mutates=self.text(node.get("mutates"), "mutates"),
            samples=self.samples(node.get("cases"), schema),
            deviates=read_deviations(
                node.get("deviates"), lambda each: self.sample(each, schema), self.diagnostics
            ),
            requires=requires,
            versions=versions,
            draw=self.draw(node.get("draw")),
            precision=self.precision(node.get("precision")),
        )
        return with_variables(entry)

    def note_traits(self, node: YMap, name: str | None) -> None:
        """Keep the ``traits:`` of an entry."""
        found = read_traits(node, name or "", self.file, self.diagnostics)
        if found is not None and name is not None:
            self.traits.append(found)

    def stand_alone(self) -> None:
        """Note that the entry that was read last says nothing but its traits."""
        if self.traits:
            at = self.traits[-1]
            self.traits[-1] = replace(at, alone=True)

    def place(
        self,
        node: YMap,
        name: str | None,
        lowered: bool,
        versions: TorchVersions = EVERY_VERSION,
    ) -> None:
        """``place: torch`` and its ``why:``."""
        place, why = node.get("place"), self.text(node.get("why"), "why")
        if place is None:
            fix = "a reason of a Python lowering stands in its case"
            self.error(node.span, "'why' belongs to 'place', which is not given", fix=fix)
        elif self.text(place, "place") not in ("torch", None):
            self.error(place.span, "an operator can be placed in torch only", fix="place: torch")
        elif not (why or "").strip():
            fix = "say why ONNX Runtime should not run it"
            self.error(place.span, "'place: torch' needs 'why:'", fix=fix)
        elif name is not None and why is not None:
            span = node.pairs[0][1].span
            self.placed.append(Placed(name, why, self.file, span, lowered, versions.present))

    def requires(self, node: YNode | None) -> str | None:
        """The module whose import registers the operator."""
        text = self.text(node, "requires")
        if node is None or text is None:
            return None
        if not self.imports:
            self.error(
                node.span,
                "a user's file imports nothing",
                fix="register the operators with torch before load_specs",
            )
            return None
        if not _DOTTED.fullmatch(text):
            self.error(node.span, f"'{text}' is no name of a module")
            return None
        return text

    def alias(self, node: YMap) -> AliasEntry | None:
        self.keys(node, ALIAS_KEYS, "an alias entry")
        requires = self.requires(node.get("requires"))
        versions = self.torch_versions(node.get("torch"), schemas=False)
        schema = self.schema(
            node.get("alias"), verbatim=False, requires=requires, versions=versions
        )
        of = node.get("of")
        if not isinstance(of, YScalar):
            self.error(node.span, "an alias needs 'of', the operator that it means")
            return None
        if node.get("cases") is None:
            self.error(
                node.span, "an alias entry needs 'cases'", fix="add at least one sample call"
            )
        if schema is None:
            return None
        self.note_traits(node, schema.key)
        args: list[tuple[str, Code]] = []
        given = node.get("args")
        if isinstance(given, YMap):
            for key, value in given.items():
                code = self.expression(value, "an argument of the alias")
                if code is not None:
                    args.append((key.text, code))
        elif given is not None:
            self.error(
                given.span, "args must be a mapping from the target's argument to an expression"
            )
        return AliasEntry(
            schema=schema,
            of=of.text,
            of_span=of.span,
            file=self.file,
            span=node.pairs[0][1].span,
            args=tuple(args),
            ignore=self.ignore(node.get("ignore")),
            samples=self.samples(node.get("cases"), schema),
            requires=requires,
            versions=versions,
        )

    def call(self, node: YMap) -> CallEntry | None:
        self.keys(node, CALL_KEYS, "a callable or method entry")
        kind = node.pairs[0][0].text
        name = self.text(node.pairs[0][1], kind)
        of = self.text(node.get("of"), "of")
        self.note_traits(node, name)
        if of is None and node.get("traits") is not None:
            self.stand_alone()
            return None
        if name is None or of is None:
            self.error(node.span, f"a {kind} entry needs 'of', an ATen operator such as aten::add")
            return None
        exported_as = self.text(node.get("exported_as"), "exported_as")
        several = self.words(node.get("several"), "several")
        operators = [of, *several, *([] if exported_as is None else [exported_as])]
        for text, pattern in ((name, _DOTTED), *((each, _OPERATOR) for each in operators)):
            if not pattern.fullmatch(text):
                self.error(node.span, f"'{text}' is no name of a function or operator")
        return CallEntry(
            kind,
            name,
            of,
            self.file,
            node.pairs[0][1].span,
            self.text(node.get("pack"), "pack"),
            self.literals(node.get("fixed"), "fixed"),
            self.literals(node.get("python_only"), "python_only"),
            exported_as,
            several,
        )

    def literals(self, node: YNode | None, what: str) -> tuple[tuple[str, object], ...]:
        """A mapping from argument to literal or dtype."""
        if node is None:
            return ()
        if not isinstance(node, YMap):
            self.error(node.span, f"{what} must be a mapping from an argument to a value")
            return ()
        found = [(key.text, self.text(value, what)) for key, value in node.items()]
        return tuple(
            (key, getattr(dtypes, text) if text in DTYPES else literal(text))
            for key, text in found
            if text is not None
        )

    def on_numbers(self, node: YMap) -> NumberEntry | None:
        self.keys(node, NUMBER_KEYS, "a number or condition entry")
        return read_number(node, self.file, self.diagnostics)

    def hop(self, node: YMap) -> HopEntry | None:
        self.keys(node, HOP_KEYS, "a hop entry")
        python = self.python(node)
        refuse = self.text(node.get("refuse"), "refuse")
        name = self.text(node.pairs[0][1], "hop")
        self.note_traits(node, name)
        if node.get("place") is not None:
            self.place(node, name, lowered=False)
            return None
        if python is None and refuse is None and node.get("traits") is not None:
            self.stand_alone()
            return None
        if (python is None) == (refuse is None) or name is None:
            self.error(
                node.span,
                "a hop entry needs 'python', the lowering of the higher-order operator, or 'refuse'"
                ", the reason why it has none",
            )
            return None
        for word in (name, *self.words(node.get("args"), "args")):
            bare = word.removeprefix("*").removeprefix("*")
            if not bare.isidentifier() or keyword.iskeyword(bare):
                self.error(node.span, f"'{word}' is no name of an operator or argument")
        return HopEntry(
            name,
            self.words(node.get("args"), "args"),
            python,
            self.file,
            node.pairs[0][1].span,
            refuse,
        )
