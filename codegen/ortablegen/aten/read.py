"""YAML nodes -> model: which keys an entry may have, what each holds; every problem is reported
where it stands."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ortable import dtypes
from ortablegen.language.parse import Code
from ortablegen.language.vocabulary import DTYPES
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load, parse

from .model import AliasEntry, CallEntry, HopEntry, OpEntry, Placed, Specs
from .read_parts import PartReader, literal

OP_KEYS = (
    "op", "requires", "torch", "promote", "out", "let", "lower", "complex", "ignore", "mutates",
    "draw", "place", "why", "cases",
)  # fmt: skip
ALIAS_KEYS = ("alias", "requires", "of", "args", "ignore", "cases")
CALL_KEYS = ("callable", "method", "of", "pack", "fixed", "python_only")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?")
HOP_KEYS = ("hop", "args", "python", "why", "refuse", "place")
_LOWERING_KEYS = {"out", "lower", "complex", "promote", "let", "ignore", "mutates", "draw", "cases"}


def read_folder(folder: Path, root: Path, diagnostics: Diagnostics) -> Specs:
    """Read every ``*.yaml`` below ``folder``; file names in errors are relative to ``root``."""
    sources = []
    for path in sorted(folder.glob("*.yaml")):
        display = path.relative_to(root).as_posix()
        sources.append((display, load(path, display, diagnostics)))
    return _read_all(sources, diagnostics)


def read_text(text: str, display: str, diagnostics: Diagnostics, *, imports: bool = True) -> Specs:
    """Read one spec given as text; without ``imports`` it may not name modules to import."""
    return _read_all([(display, parse(text, display, diagnostics))], diagnostics, imports)


def _read_all(
    sources: Iterable[tuple[str, YSeq]], diagnostics: Diagnostics, imports: bool = True
) -> Specs:
    ops: list[OpEntry] = []
    aliases: list[AliasEntry] = []
    calls: list[CallEntry] = []
    hops: list[HopEntry] = []
    placed: list[Placed] = []
    for display, entries in sources:
        for node in entries:
            reader = _Reader(display, diagnostics)
            reader.imports = imports
            entry = reader.entry(node)
            if isinstance(entry, OpEntry):
                ops.append(entry)
            elif isinstance(entry, AliasEntry):
                aliases.append(entry)
            elif isinstance(entry, CallEntry):
                calls.append(entry)
            elif isinstance(entry, HopEntry):
                hops.append(entry)
            placed += reader.placed
    return Specs(tuple(ops), tuple(aliases), tuple(calls), tuple(hops), tuple(placed))


class _Reader(PartReader):
    """Reads the entries of one file."""

    imports = True

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        super().__init__(file, diagnostics)
        self.placed: list[Placed] = []

    def entry(self, node: YNode) -> OpEntry | AliasEntry | CallEntry | HopEntry | None:
        if not isinstance(node, YMap) or not node.pairs:
            self.error(
                node.span,
                "an entry is a mapping that begins with op:, alias:, callable:, method: or hop:",
            )
            return None
        kind = node.pairs[0][0].text
        readers: dict[str, Callable[[YMap], OpEntry | AliasEntry | CallEntry | HopEntry | None]] = {
            "op": self.op,
            "alias": self.alias,
            "callable": self.call,
            "method": self.call,
            "hop": self.hop,
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
            self.place(node, schema.key if schema is not None else None, lowered)
            if not lowered:
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
        return OpEntry(
            schema=schema,
            file=self.file,
            span=node.pairs[0][1].span,
            promote=self.promote(node.get("promote")),
            out=out,
            let=self.let(node.get("let")),
            lower=lower,
            complex=complex_form,
            ignore=self.ignore(node.get("ignore")),
            mutates=self.text(node.get("mutates"), "mutates"),
            samples=self.samples(node.get("cases"), schema),
            requires=requires,
            versions=versions,
            draw=self.draw(node.get("draw")),
        )

    def place(self, node: YMap, name: str | None, lowered: bool) -> None:
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
            self.placed.append(Placed(name, why, self.file, node.pairs[0][1].span, lowered))

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
        schema = self.schema(node.get("alias"), verbatim=False, requires=requires)
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
        )

    def call(self, node: YMap) -> CallEntry | None:
        self.keys(node, CALL_KEYS, "a callable or method entry")
        kind = node.pairs[0][0].text
        name = self.text(node.pairs[0][1], kind)
        of = self.text(node.get("of"), "of")
        if name is None or of is None:
            self.error(node.span, f"a {kind} entry needs 'of', an ATen operator such as aten::add")
            return None
        for text, pattern in ((name, _DOTTED), (of, _OPERATOR)):
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

    def hop(self, node: YMap) -> HopEntry | None:
        self.keys(node, HOP_KEYS, "a hop entry")
        python = self.python(node)
        refuse = self.text(node.get("refuse"), "refuse")
        name = self.text(node.pairs[0][1], "hop")
        if node.get("place") is not None:
            self.place(node, name, lowered=False)
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
