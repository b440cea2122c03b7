"""Read what entries of every front end have: keys, words, expressions, conditions on target and
opset, values of cases. The readers of `aten`, `onnx` and `rewrites` inherit."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ortablegen.source.diagnostics import Diagnostics, did_you_mean
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .parse import Code, parse_expression
from .precision import REFUSED, Declared

TARGETS = ("onnxruntime",)
PRECISION_FORM = "precision: {ReduceSum: {via double: <reason>}, Gemm.alpha: <reason>}"
# Keys and traits that had another name before 0.1.0, for the error of a file that still has it.
_NEW_NAMES = {
    "also": "extra_outputs", "built_for": "export_target", "cases": "samples", "ignore": "unused",
    "pack": "varargs", "place": "run_in", "refused": "raises", "rounding": "quantize",
    "several": "overloads", "shared": "allow_external_uses", "shows": "repro",
    "unread": "unused_results",
    "ends_on_empty": "crashes_on_empty", "fresh": "returns_new_storage", "heavy": "compute_bound",
    "kept_whole": "never_decompose", "type_is_meaning": "dtype_sensitive",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
T = TypeVar("T")
Precision = tuple[tuple[tuple[str, str], Declared], ...]


def find_new_name(word: str, known: Iterable[str]) -> str:
    """The hint for a word that has another name now; empty for others."""
    new = _NEW_NAMES.get(word)
    return f": it is called '{new}' now" if new in known else ""


class EntryReader:
    """Reads the entries of one file."""

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        self.file = file
        self.diagnostics = diagnostics
        self.error = diagnostics.error

    def unknown(self, node: YNode, what: str, word: str, known: Iterable[str]) -> Any:
        """Report a word that is none of a closed list; returns None."""
        known = list(known)
        notes = [f"{what.split()[-1]}s are {', '.join(known)}"]
        hint = find_new_name(word, known) or did_you_mean(word, known)
        return self.error(node.span, f"unknown {what} '{word}'{hint}", notes)

    def keys(self, node: YMap, allowed: tuple[str, ...], what: str, fix: str | None = None) -> None:
        for key, _ in node.items():
            if key.text not in allowed:
                hint = find_new_name(key.text, allowed) or did_you_mean(key.text, allowed)
                message = f"unknown key '{key.text}' in {what}{hint}"
                self.error(key.span, message, [f"keys are {', '.join(allowed)}"], fix)

    def text(self, node: YNode | None, what: str) -> str | None:
        if isinstance(node, YScalar):
            return node.text
        if node is not None:
            self.error(node.span, f"{what} must be text")
        return None

    def given(self, entry: YMap, key: str) -> str | None:
        """The text of a key, or None."""
        return self.text(entry.get(key), key)

    def mapping(self, node: YNode | None, message: str, fix: str | None = None) -> YMap | None:
        """The node as a mapping; None where it is absent, or another thing, which is reported."""
        if node is None or isinstance(node, YMap):
            return node
        return self.error(node.span, message, fix=fix)

    def expression(self, node: YNode, what: str) -> Code | None:
        if not isinstance(node, YScalar):
            return self.error(node.span, f"{what} must be an expression")
        return parse_expression(node, self.diagnostics)

    def scalars(self, node: YNode | None, what: str) -> list[YScalar]:
        """The items of a list of words."""
        found = (
            [value for value in node if isinstance(value, YScalar)]
            if isinstance(node, YSeq)
            else []
        )
        if node is not None and not (isinstance(node, YSeq) and len(found) == len(node)):
            self.error(node.span, f"{what} must be a list of words")
            return []
        return found

    def words(self, node: YNode | None, what: str) -> tuple[str, ...]:
        return tuple(value.text for value in self.scalars(node, what))

    def rows(self, node: YNode | None, read: Callable[[YNode], T | None]) -> tuple[T, ...]:
        """What can be read of a node, or of each item of a list; none where it is absent."""
        nodes = node if isinstance(node, YSeq) else (node,) if node is not None else ()
        return tuple(found for each in nodes if (found := read(each)) is not None)

    def let(self, node: YNode | None) -> tuple[tuple[str, Code], ...]:
        node = self.mapping(node, "let must be a mapping from a name to an expression")
        if node is None:
            return ()
        for key, _ in node.items():
            if not _NAME.fullmatch(key.text) or keyword.iskeyword(key.text):
                self.error(key.span, f"'{key.text}' is no name for a let value")
                return ()
        pairs = [(key.text, self.expression(value, "a let value")) for key, value in node.items()]
        return tuple((name, code) for name, code in pairs if code is not None)

    def precision(self, node: YNode | None) -> Precision:
        """``precision: {ReduceSum: {via double: counts of rows}, Gemm.alpha: it is 1}``."""
        message = "precision must be a mapping from an operator to reasons"
        node = self.mapping(node, message, fix=PRECISION_FORM)
        if node is None:
            return ()
        found = []
        for key, value in node.items():
            of_attribute = "." in key.text
            if isinstance(value, YMap) == of_attribute:
                message = f"cannot read what precision says of '{key.text}'"
                self.error(key.span, message, fix=PRECISION_FORM)
                continue
            pairs = [(key, value)] if of_attribute else list(value.items())  # type: ignore[union-attr]
            for word, reason in pairs:
                name = "" if of_attribute else word.text
                text = self.text(reason, "the reason") or ""
                if name and name not in REFUSED:
                    self.unknown(word, "precision word", name, sorted(REFUSED))
                if not text.strip():
                    message = f"precision says nothing of '{key.text}'"
                    self.error(reason.span, message, fix=PRECISION_FORM)
                elif not name or name in REFUSED:
                    found.append(((key.text, name), Declared(text, word.span)))
        return tuple(found)

    def target(self, node: YNode | None, known: tuple[str, ...] = TARGETS) -> str | None:
        text = self.text(node, "target")
        if node is not None and text not in known:
            return self.unknown(node, "target", text or "", known)
        return text

    def opset(self, node: YNode | None) -> tuple[str, int] | None:
        text = self.text(node, "opset")
        if node is None or text is None:
            return None
        match = re.fullmatch(r"(>=|<)\s*([0-9]{1,3})", text)
        if match is None:
            message = f"cannot read the opset condition '{text}'"
            return self.error(node.span, message, fix='write opset: ">=23"')
        return match[1], int(match[2])

    def plain(self, node: YNode) -> object:
        """A sample value as nested lists of text; None for null."""
        if isinstance(node, YSeq):
            return [self.plain(value) for value in node]
        if isinstance(node, YScalar):
            return None if node.is_null() else node.text
        return self.error(node.span, "a value of a sample call is text or a list", fix="quote it")

    def number(self, text: str | None, node: YNode | None) -> float | None:
        """A finite number of 0 or more, such as a tolerance."""
        if text is None or node is None:
            return None
        try:
            found = float(text)
        except ValueError:
            return self.error(node.span, f"'{text}' is no number")
        if not 0 <= found < math.inf:
            return self.error(node.span, f"'{text}' is not between 0 and infinity")
        return found
