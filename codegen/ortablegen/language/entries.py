"""Read keys that entries of several front ends have: `EntryReader`, from which theirs inherit."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from ortablegen.source.diagnostics import Diagnostics, did_you_mean
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .parse import Code, parse_expression
from .precision import REFUSED, PrecisionReason

TARGETS = ("onnxruntime",)
PRECISION_FORM = "precision: {ReduceSum: {via double: <reason>}, Gemm.alpha: <reason>}"
# Keys and traits that were renamed before 0.1.0, for the error about an old name.
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
# ((operator, deviation) or ("Op.attribute", ""), reason)
Precision = tuple[tuple[tuple[str, str], PrecisionReason], ...]


def find_new_name(word: str, known: Collection[str]) -> str:
    """Return a hint if ``word`` is an old name of one of ``known``, else an empty string."""
    new = _NEW_NAMES.get(word)
    return f": it was renamed to '{new}'" if new in known else ""


class EntryReader:
    """Reads the entries of one file."""

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        self.file = file
        self.diagnostics = diagnostics
        self.error = diagnostics.error

    def report_unknown(
        self, node: YNode, description: str, word: str, allowed: Iterable[str]
    ) -> Any:
        """Report a word outside a closed list; return None."""
        allowed = list(allowed)
        notes = [f"{description.split()[-1]}s are {', '.join(allowed)}"]
        hint = find_new_name(word, allowed) or did_you_mean(word, allowed)
        return self.error(node.span, f"unknown {description} '{word}'{hint}", notes)

    def check_keys(
        self, node: YMap, allowed: tuple[str, ...], description: str, fix: str | None = None
    ) -> None:
        """Report keys of a mapping that are not allowed."""
        for key, _ in node.items():
            if key.text not in allowed:
                hint = find_new_name(key.text, allowed) or did_you_mean(key.text, allowed)
                message = f"unknown key '{key.text}' in {description}{hint}"
                self.error(key.span, message, [f"keys are {', '.join(allowed)}"], fix)

    def read_text(self, node: YNode | None, description: str) -> str | None:
        """Return the text of a scalar; return None if it is missing, or report another node."""
        if isinstance(node, YScalar):
            return node.text
        if node is not None:
            self.error(node.span, f"{description} must be text")
        return None

    def read_key(self, entry: YMap, key: str) -> str | None:
        """Return the text at ``key``; return None if it is missing, or report another value."""
        return self.read_text(entry.get(key), key)

    def read_mapping(self, node: YNode | None, message: str, fix: str | None = None) -> YMap | None:
        """Return a mapping node; return None if it is missing, or report another node."""
        if node is None or isinstance(node, YMap):
            return node
        return self.error(node.span, message, fix=fix)

    def read_expression(self, node: YNode, description: str) -> Code | None:
        """Parse a scalar as an expression; report other nodes."""
        if not isinstance(node, YScalar):
            return self.error(node.span, f"{description} must be an expression")
        return parse_expression(node, self.diagnostics)

    def read_scalars(self, node: YNode | None, description: str) -> list[YScalar]:
        """Return the items of a list of words, no items if it is missing; report any other node."""
        scalars = (
            [value for value in node if isinstance(value, YScalar)]
            if isinstance(node, YSeq)
            else []
        )
        if node is not None and not (isinstance(node, YSeq) and len(scalars) == len(node)):
            self.error(node.span, f"{description} must be a list of words")
            return []
        return scalars

    def read_words(self, node: YNode | None, description: str) -> tuple[str, ...]:
        """Return the texts of a list of words."""
        return tuple(value.text for value in self.read_scalars(node, description))

    def read_rows(self, node: YNode | None, read_row: Callable[[YNode], T | None]) -> tuple[T, ...]:
        """Read a node or each item of a list node; leave out rows that ``read_row`` rejects."""
        nodes = node if isinstance(node, YSeq) else (node,) if node is not None else ()
        return tuple(row for item in nodes if (row := read_row(item)) is not None)

    def read_let(self, node: YNode | None) -> tuple[tuple[str, Code], ...]:
        """Return the names and expressions of ``let``."""
        node = self.read_mapping(node, "let must be a mapping from a name to an expression")
        if node is None:
            return ()
        for key, _ in node.items():
            if not _NAME.fullmatch(key.text) or keyword.iskeyword(key.text):
                self.error(key.span, f"'{key.text}' is not a valid name for a let value")
                return ()
        pairs = [
            (key.text, self.read_expression(value, "a let value")) for key, value in node.items()
        ]
        return tuple((name, code) for name, code in pairs if code is not None)

    def read_precision(self, node: YNode | None) -> Precision:
        """Read ``precision: {ReduceSum: {via double: counts of rows}, Gemm.alpha: it is 1}``."""
        message = "precision must be a mapping from an operator to reasons"
        node = self.read_mapping(node, message, fix=PRECISION_FORM)
        if node is None:
            return ()
        reasons = []
        for key, value in node.items():
            is_attribute = "." in key.text
            if isinstance(value, YMap) == is_attribute:
                message = f"cannot read the precision of '{key.text}'"
                self.error(key.span, message, fix=PRECISION_FORM)
                continue
            pairs = [(key, value)] if is_attribute else list(value.items())  # type: ignore[union-attr]
            for deviation, reason in pairs:
                deviation_name = "" if is_attribute else deviation.text
                text = self.read_text(reason, "the reason") or ""
                if deviation_name and deviation_name not in REFUSED:
                    self.report_unknown(
                        deviation, "precision word", deviation_name, sorted(REFUSED)
                    )
                if not text.strip():
                    message = f"precision gives no reason for '{key.text}'"
                    self.error(reason.span, message, fix=PRECISION_FORM)
                elif not deviation_name or deviation_name in REFUSED:
                    reasons.append(
                        ((key.text, deviation_name), PrecisionReason(text, deviation.span))
                    )
        return tuple(reasons)

    def read_target(self, node: YNode | None, allowed: tuple[str, ...] = TARGETS) -> str | None:
        """Return the target; report an unknown target."""
        text = self.read_text(node, "target")
        if node is not None and text not in allowed:
            return self.report_unknown(node, "target", text or "", allowed)
        return text

    def read_opset(self, node: YNode | None) -> tuple[str, int] | None:
        """Return an opset condition such as ``>=23`` as ``(">=", 23)``."""
        text = self.read_text(node, "opset")
        if node is None or text is None:
            return None
        match = re.fullmatch(r"(>=|<)\s*([0-9]{1,3})", text)
        if match is None:
            message = f"cannot read the opset condition '{text}'"
            return self.error(node.span, message, fix='write opset: ">=23"')
        return match[1], int(match[2])

    def to_plain(self, node: YNode) -> object:
        """Convert a sample value to text, None for null, or nested lists of these."""
        if isinstance(node, YSeq):
            return [self.to_plain(value) for value in node]
        if isinstance(node, YScalar):
            return None if node.is_null() else node.text
        return self.error(node.span, "a value of a sample call is text or a list", fix="quote it")

    def read_number(self, text: str | None, node: YNode | None) -> float | None:
        """Parse the text of ``node`` as a finite number of 0 or more, such as a tolerance."""
        if text is None or node is None:
            return None
        try:
            value = float(text)
        except ValueError:
            return self.error(node.span, f"'{text}' is not a number")
        if not 0 <= value < math.inf:
            return self.error(node.span, f"'{text}' is not between 0 and infinity")
        return value
