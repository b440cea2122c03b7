"""Read YAML nodes into the model: each kind of entry with its keys.

`parts` reads the values of keys. `cli` calls `read_folder`, `ortable.load_specs` `read_text`.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortable import dtypes
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.record import PLACE, read_record
from ortablegen.schemas.registry import (
    EVERY_VERSION,
    INSTALLED,
    Registry,
    TorchVersions,
    canonical_text,
    import_problem,
    installed_torch,
)
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load, parse

from .data_checks import read_checks
from .deviations import read_deviations
from .model import (
    AliasEntry,
    CallEntry,
    HopEntry,
    NumberEntry,
    OpEntry,
    Specs,
    TorchPlacement,
    Traits,
)
from .numbers import read_number
from .parts import PartReader, parse_literal
from .rows import expand_tables
from .traits import read_traits
from .type_variables import read_types, with_variables

OP_KEYS = (
    "op", "requires", "torch", "promote", "types", "out", "let", "lower", "complex", "unused",
    "mutates", "precision", "draw", "deviates", "checks", "run_in", "why", "traits", "samples",
)  # fmt: skip
ALIAS_KEYS = (
    "alias",
    "requires",
    "torch",
    "of",
    "args",
    "unused",
    "unchecked",
    "traits",
    "samples",
)
CALL_KEYS = (
    "callable", "method", "of", "varargs", "fixed", "python_only", "exported_as", "overloads",
    "traits",
)  # fmt: skip
Entry = OpEntry | AliasEntry | CallEntry | HopEntry | NumberEntry
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?")
NUMBER_KEYS = ("number", "condition", "lower")
HOP_KEYS = ("hop", "args", "python", "why", "refuse", "run_in", "traits")
_LOWERING_KEYS = {
    "out", "lower", "complex", "promote", "let", "unused", "mutates", "draw", "samples", "deviates",
    "checks",
}  # fmt: skip
_MISSING = {
    "out": "add the result's shape and dtype: out: {shape: same(self), dtype: same(self)}",
    "lower": "add the lowering: lower: return Relu(self)",
    "samples": 'add at least one sample call, for example samples: [{self: "f32[2,3]"}]',
}


def read_folder(folder: Path, root: Path, diagnostics: Diagnostics) -> Specs:
    """Read every ``*.yaml`` in ``folder``.

    File names in errors are relative to ``root``. Schemas are compared with the record in ``root``,
    or with the installed torch if there is no record.
    """
    sources = []
    for path in sorted(folder.glob("*.yaml")):
        display_path = path.relative_to(root).as_posix()
        sources.append((display_path, load(path, display_path, diagnostics)))
    record = read_record(root / PLACE)
    return _read_all(sources, diagnostics, registry=record if record.versions else INSTALLED)


def read_text(
    text: str,
    display_path: str,
    diagnostics: Diagnostics,
    *,
    imports: bool = True,
    registry: Registry = INSTALLED,
) -> Specs:
    """Read a spec given as text; without ``imports`` its entries must not have ``requires``."""
    return _read_all(
        [(display_path, parse(text, display_path, diagnostics))], diagnostics, imports, registry
    )


def _read_all(
    sources: Iterable[tuple[str, YSeq]],
    diagnostics: Diagnostics,
    imports: bool = True,
    registry: Registry = INSTALLED,
) -> Specs:
    by_type: dict[type, list[Any]] = defaultdict(list)
    placed: list[TorchPlacement] = []
    traits: list[Traits] = []
    for display_path, entries in sources:
        for node in expand_tables(entries, diagnostics):
            reader = _Reader(display_path, diagnostics)
            reader.imports = imports
            reader.registry = registry
            entry = reader.read_entry(node)
            by_type[type(entry)].append(entry)
            placed += reader.placed
            traits += reader.traits
    return Specs(
        ops=_add_suffixes(by_type[OpEntry], by_type[AliasEntry]),
        aliases=_add_suffixes(by_type[AliasEntry], by_type[OpEntry]),
        calls=tuple(by_type[CallEntry]),
        hops=tuple(by_type[HopEntry]),
        placed=tuple(placed),
        traits=tuple(traits),
        numbers=tuple(by_type[NumberEntry]),
        registry=registry,
    )


def compare_external(specs: Specs) -> list[str]:
    """Return a line for each operator of another package whose registered schema differs.

    Entries whose package (``requires``) cannot be imported are skipped.
    """
    lines = []
    for entry in specs.operator_entries():
        if entry.requires is None or specs.registry.is_complete_for(entry.key):
            continue
        if import_problem(entry.requires) is None:
            registered = INSTALLED.text(entry.key, installed_torch())
            if registered != canonical_text(entry.schema.text):
                lines.append(f"{entry.key}: {entry.requires} registers {registered or 'none'}")
    return lines


def _add_suffixes(entries: list[Any], other_entries: list[Any]) -> tuple[Any, ...]:
    """Add the torch versions to the function names of operators with several entries."""
    count = Counter(entry.key for entry in (*entries, *other_entries))
    return tuple(
        replace(entry, schema=replace(entry.schema, suffix=entry.versions.present.suffix()))
        if count[entry.key] > 1
        else entry
        for entry in entries
    )


class _Reader(PartReader):
    """Reads the entries of one file."""

    imports = True

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        super().__init__(file, diagnostics)
        self.placed: list[TorchPlacement] = []
        self.traits: list[Traits] = []

    def read_entry(self, node: YNode) -> Entry | None:
        if not isinstance(node, YMap) or not node.pairs:
            return self.error(
                node.span,
                "an entry is a mapping that begins with op:, alias:, callable:, method:, hop:,"
                " number: or condition:",
            )
        kind = node.pairs[0][0].text
        readers: dict[str, Callable[[YMap], Entry | None]] = {
            "op": self.read_op,
            "alias": self.read_alias,
            "callable": self.read_call,
            "method": self.read_call,
            "hop": self.read_hop,
            "number": self.read_number_entry,
            "condition": self.read_number_entry,
        }
        if kind not in readers:
            notes = [f"kinds are {', '.join(sorted(readers))}"]
            if kind == "rewrite":
                notes = ["rewrites belong in separate files: `ortable rewrites check`, `rewrites=`"]
            return self.error(node.span, f"unknown kind of entry '{kind}'", notes)
        return readers[kind](node)

    def read_op(self, node: YMap) -> OpEntry | None:
        self.check_keys(node, OP_KEYS, "an op entry")
        requires = self.read_requires(node.get("requires"))
        versions = self.torch_versions(node.get("torch"))
        schema = self.read_schema(
            node.get("op"), verbatim=True, requires=requires, versions=versions
        )
        lowered = any(key.text in _LOWERING_KEYS for key, _ in node.items())
        if node.get("run_in") is not None or node.get("why") is not None:
            self.read_place(node, schema.key if schema is not None else None, lowered, versions)
        self.add_traits(node, schema.key if schema is not None else None)
        if not lowered and any(node.get(key) is not None for key in ("run_in", "why", "traits")):
            self.mark_traits_only()
            return None
        optional = ("lower",) if node.get("complex") is not None else ()
        missing = [key for key in _MISSING if node.get(key) is None and key not in optional]
        for key in missing:
            self.error(node.span, f"an op entry needs '{key}'", fix=_MISSING[key])
        lower = self.read_lower(node.get("lower"))
        complex_form = self.complex_form(node.get("complex"))
        out = self.read_out(node.get("out"))
        if schema is None or missing or out is None:
            return None
        if (node.get("lower") is not None and not lower) or (
            node.get("complex") is not None and complex_form is None
        ):
            return None
        promote = self.read_promote(node.get("promote"))
        entry = OpEntry(
            schema=schema,
            file=self.file,
            span=node.pairs[0][1].span,
            promote=promote,
            types=read_types(node.get("types"), schema, promote, self),
            out=out,
            let=self.read_let(node.get("let")),
            lower=lower,
            complex=complex_form,
            unused=self.read_unused(node.get("unused")),
            mutates=self.read_key(node, "mutates"),
            samples=self.read_samples(node.get("samples"), schema),
            deviates=read_deviations(node.get("deviates"), schema, self),
            requires=requires,
            versions=versions,
            draw=self.read_draw(node.get("draw")),
            precision=self.read_precision(node.get("precision")),
            checks=read_checks(node.get("checks"), schema, self),
        )
        return with_variables(entry)

    def add_traits(self, node: YMap, name: str | None) -> None:
        traits = read_traits(node, name or "", self)
        if traits is not None and name is not None:
            self.traits.append(traits)

    def mark_traits_only(self) -> None:
        """Mark the traits read last as those of an entry without a lowering."""
        if self.traits:
            last_traits = self.traits[-1]
            self.traits[-1] = replace(last_traits, traits_only=True)

    def read_place(
        self,
        node: YMap,
        name: str | None,
        lowered: bool,
        versions: TorchVersions = EVERY_VERSION,
    ) -> None:
        """Read ``run_in: torch`` and its ``why``."""
        place_node, why = node.get("run_in"), self.read_key(node, "why")
        if place_node is None:
            fix = "write the reason of a Python lowering into its case"
            self.error(node.span, "'why' belongs to 'run_in', which is not given", fix=fix)
        elif self.read_text(place_node, "run_in") not in ("torch", None):
            self.error(place_node.span, "the only value of 'run_in' is torch", fix="run_in: torch")
        elif not (why or "").strip():
            fix = "give the reason why ONNX Runtime should not run it"
            self.error(place_node.span, "'run_in: torch' needs 'why:'", fix=fix)
        elif name is not None and why is not None:
            span = node.pairs[0][1].span
            self.placed.append(
                TorchPlacement(name, why, self.file, span, lowered, versions.present)
            )

    def read_requires(self, node: YNode | None) -> str | None:
        """Read the module whose import registers the operator."""
        text = self.read_text(node, "requires")
        if node is None or text is None:
            return None
        if not self.imports:
            return self.error(
                node.span,
                "a user's file cannot import modules",
                fix="register the operators with torch before load_specs",
            )
        if not _DOTTED.fullmatch(text):
            return self.error(node.span, f"'{text}' is not a module name")
        return text

    def read_alias(self, node: YMap) -> AliasEntry | None:
        self.check_keys(node, ALIAS_KEYS, "an alias entry")
        requires = self.read_requires(node.get("requires"))
        versions = self.torch_versions(node.get("torch"), schemas=False)
        schema = self.read_schema(
            node.get("alias"), verbatim=False, requires=requires, versions=versions
        )
        of = node.get("of")
        if not isinstance(of, YScalar):
            return self.error(node.span, "an alias needs 'of', the operator that it stands for")
        if node.get("samples") is None:
            fix = "add at least one sample call"
            self.error(node.span, "an alias entry needs 'samples'", fix=fix)
        if schema is None:
            return None
        self.add_traits(node, schema.key)
        message = "args must be a mapping from the target's argument to an expression"
        mapping = self.read_mapping(node.get("args"), message)
        description = "an argument of the alias"
        args = (
            [(key.text, self.read_expression(value, description)) for key, value in mapping.items()]
            if mapping
            else []
        )
        return AliasEntry(
            schema=schema,
            of=of.text,
            of_span=of.span,
            file=self.file,
            span=node.pairs[0][1].span,
            args=tuple((name, code) for name, code in args if code is not None),
            unused=self.read_unused(node.get("unused")),
            samples=self.read_samples(node.get("samples"), schema),
            requires=requires,
            versions=versions,
            unchecked=self.read_key(node, "unchecked"),
        )

    def read_call(self, node: YMap) -> CallEntry | None:
        self.check_keys(node, CALL_KEYS, "a callable or method entry")
        kind = node.pairs[0][0].text
        name = self.read_text(node.pairs[0][1], kind)
        of = self.read_key(node, "of")
        if name is not None and not _DOTTED.fullmatch(name):
            self.error(node.span, f"'{name}' is not a function name")
        self.add_traits(node, name)
        if of is None and node.get("traits") is not None:
            self.mark_traits_only()
            return None
        if name is None or of is None:
            return self.error(
                node.span, f"a {kind} entry needs 'of', an ATen operator such as aten::add"
            )
        exported_as = self.read_key(node, "exported_as")
        overloads = self.read_words(node.get("overloads"), "overloads")
        operators = [of, *overloads, *([] if exported_as is None else [exported_as])]
        for text in operators:
            if not _OPERATOR.fullmatch(text):
                self.error(node.span, f"'{text}' is not an operator name", fix="write aten::name")
        return CallEntry(
            kind=kind,
            name=name,
            of=of,
            file=self.file,
            span=node.pairs[0][1].span,
            varargs=self.read_key(node, "varargs"),
            fixed=self.read_literals(node.get("fixed"), "fixed"),
            python_only=self.read_literals(node.get("python_only"), "python_only"),
            exported_as=exported_as,
            overloads=overloads,
        )

    def read_literals(self, node: YNode | None, key_name: str) -> tuple[tuple[str, object], ...]:
        """Read a mapping from argument to literal or dtype."""
        node = self.read_mapping(node, f"{key_name} must be a mapping from an argument to a value")
        if node is None:
            return ()
        texts = [(key.text, self.read_text(value, key_name)) for key, value in node.items()]
        return tuple(
            (key, getattr(dtypes, text) if text in DTYPES else parse_literal(text))
            for key, text in texts
            if text is not None
        )

    def read_number_entry(self, node: YMap) -> NumberEntry | None:
        self.check_keys(node, NUMBER_KEYS, "a number or condition entry")
        return read_number(node, self)

    def read_hop(self, node: YMap) -> HopEntry | None:
        self.check_keys(node, HOP_KEYS, "a hop entry")
        python = self.read_python(node)
        refuse = self.read_key(node, "refuse")
        name = self.read_text(node.pairs[0][1], "hop")
        args = self.read_words(node.get("args"), "args")
        if name is not None and not self.check_hop_names(node, (name, *args)):
            return None
        self.add_traits(node, name)
        if node.get("run_in") is not None:
            self.read_place(node, name, lowered=False)
            return None
        if python is None and refuse is None and node.get("traits") is not None:
            self.mark_traits_only()
            return None
        if (python is None) == (refuse is None) or name is None:
            return self.error(
                node.span,
                "a hop entry needs 'python', the lowering of the higher-order operator, or 'refuse'"
                ", the reason why it has none",
            )
        return HopEntry(name, args, python, self.file, node.pairs[0][1].span, refuse)

    def check_hop_names(self, node: YMap, parameters: tuple[str, ...]) -> bool:
        """Check that names are identifiers, and that no argument occurs twice."""
        names = [parameter.removeprefix("*").removeprefix("*") for parameter in parameters]
        error_calls_before = self.diagnostics.error_calls
        for parameter, name in zip(parameters, names, strict=True):
            if not name.isidentifier() or keyword.iskeyword(name):
                self.error(node.span, f"'{parameter}' is not a name of an operator or argument")
        for parameter, count in Counter(names[1:]).items():
            if count > 1:
                self.error(node.span, f"args has '{parameter}' twice")
        return self.diagnostics.error_calls == error_calls_before
