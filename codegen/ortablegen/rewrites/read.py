"""Read specs/rewrites/*.yaml as `Rewrite`, with positions for errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from ortablegen.language.entries import EntryReader
from ortablegen.language.parse import Code, parse_block
from ortablegen.source.diagnostics import Diagnostics, Span
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load, parse

from .model import STAGES, Rewrite, RewriteSample

KEYS = (
    "rewrite", "stage", "why", "pattern", "let", "when", "opset", "target", "default",
    "allow_external_uses", "precision", "replace", "samples",
)  # fmt: skip
REQUIRED_KEYS = {  # key -> the fix of the error if it is missing
    "stage": f"stage: one of {', '.join(STAGES)}",
    "why": "state the benefit of the rewrite in a sentence",
    "pattern": "add the nodes to match: pattern: return Cast(x, to=kind)",
    "replace": "add the replacement: replace: return x",
    "samples": "add a graph that is rewritten, and one that is not (with unchanged:)",
}
SAMPLE_KEYS = ("graph", "expect", "unchanged", "extra_outputs", "tolerance", "opset", "quantize")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OFF = "off because "


OperatorsByTrait: TypeAlias = "Mapping[str, frozenset[str]]"  # trait -> operator keys


def read_rewrites(
    folder: Path, root: Path, diagnostics: Diagnostics, traits: OperatorsByTrait
) -> tuple[Rewrite, ...]:
    """Read every ``*.yaml`` in ``folder`` as rewrites; ``traits`` are those of specs/onnx."""
    rewrites: list[Rewrite] = []
    for path in sorted(folder.glob("*.yaml")):
        display_path = path.relative_to(root).as_posix()
        rewrites += _read_entries(
            load(path, display_path, diagnostics), display_path, diagnostics, traits
        )
    return tuple(rewrites)


def read_rewrites_text(
    text: str, display_path: str, diagnostics: Diagnostics, traits: OperatorsByTrait
) -> tuple[Rewrite, ...]:
    """Read one file of rewrites given as text."""
    return _read_entries(parse(text, display_path, diagnostics), display_path, diagnostics, traits)


def _read_entries(
    entries: YSeq, display_path: str, diagnostics: Diagnostics, traits: OperatorsByTrait
) -> tuple[Rewrite, ...]:
    reader = _Reader(display_path, diagnostics)
    reader.traits = traits
    rewrites = [reader.read_entry(node) for node in entries]
    return tuple(rewrite for rewrite in rewrites if rewrite is not None)


class _Reader(EntryReader):
    """Reads the entries of one file."""

    traits: OperatorsByTrait

    def read_entry(self, node: YNode) -> Rewrite | None:
        if not isinstance(node, YMap) or node.get("rewrite") is None:
            return self.error(
                node.span,
                "an entry is a mapping that begins with rewrite:",
                fix="rewrite: its_name",
            )
        error_count = len(self.diagnostics.errors)
        self.check_keys(node, KEYS, "a rewrite")
        for key, fix in REQUIRED_KEYS.items():
            if node.get(key) is None:
                self.error(node.span, f"a rewrite needs '{key}'", fix=fix)
        name = self.read_name(node.get("rewrite"))
        stage, why = self.read_stage(node.get("stage")), self.read_why(node.get("why"))
        pattern = self.read_block(node.get("pattern"), "pattern")
        replace = self.read_block(node.get("replace"), "replace")
        when_node = node.get("when")
        when = self.read_expression(when_node, "when") if when_node is not None else None
        rewrite = Rewrite(
            name=name,
            file=self.file,
            span=node.pairs[0][1].span,
            stage=stage,
            why=why,
            pattern=pattern or _empty_code(node.span),
            replace=replace or _empty_code(node.span),
            samples=self.read_samples(node.get("samples")),
            traits=self.traits,
            let=self.read_let(node.get("let")),
            when=when,
            opset=self.read_opset_condition(node.get("opset")),
            target=self.read_target(node.get("target")),
            off_reason=self.read_off_reason(node.get("default")),
            allow_external_uses=self.read_words(
                node.get("allow_external_uses"), "allow_external_uses"
            ),
            precision=self.read_precision(node.get("precision")),
        )
        return rewrite if len(self.diagnostics.errors) == error_count else None

    def read_name(self, node: YNode | None) -> str:
        text = self.read_text(node, "rewrite") or ""
        if node is not None and not _NAME.fullmatch(text):
            self.error(
                node.span, f"'{text}' is not a name of a rewrite", fix="write it in snake_case"
            )
        return text

    def read_stage(self, node: YNode | None) -> str:
        text = self.read_text(node, "stage") or ""
        if node is not None and text not in STAGES:
            self.report_unknown(node, "stage", text, STAGES)
        return text

    def read_why(self, node: YNode | None) -> str:
        text = (self.read_text(node, "why") or "").strip()
        if node is not None and not text:
            self.error(node.span, "why: is empty", fix=REQUIRED_KEYS["why"])
        return " ".join(text.split())

    def read_block(self, node: YNode | None, key: str) -> Code | None:
        if node is None:
            return None
        if not isinstance(node, YScalar):
            return self.error(node.span, f"{key} must be a block that ends in return")
        return parse_block(node, self.diagnostics)

    def read_opset_condition(self, node: YNode | None) -> str | None:
        condition = self.read_opset(node)
        return None if condition is None else "".join(str(part) for part in condition)

    def read_off_reason(self, node: YNode | None) -> str:
        text = (self.read_text(node, "default") or "").strip()
        reason = text.removeprefix(_OFF).strip()
        if node is not None and (not text.startswith(_OFF) or not reason):
            fix = "default: off because <reason>"
            self.error(node.span, "'default' can only turn a rule off, with a reason", fix=fix)
        return reason

    def read_samples(self, node: YNode | None) -> tuple[RewriteSample, ...]:
        if node is None:
            return ()
        if not isinstance(node, YSeq):
            self.error(node.span, "samples must be a list of graphs")
            return ()
        return tuple(self.read_sample(item) for item in node)

    def read_sample(self, node: YNode) -> RewriteSample:
        if not isinstance(node, YMap):
            self.error(node.span, "a sample is a mapping from capture to value")
            return RewriteSample(node.span, ())
        tolerance = self.read_text(node.get("tolerance"), "tolerance")
        return RewriteSample(
            span=node.span,
            values=tuple(
                (key.text, self.to_plain(value))
                for key, value in node.items()
                if key.text not in SAMPLE_KEYS
            ),
            graph=self.read_block(node.get("graph"), "graph"),
            expect=self.read_text(node.get("expect"), "expect"),
            unchanged=self.read_text(node.get("unchanged"), "unchanged"),
            extra_outputs=self.read_words(node.get("extra_outputs"), "extra_outputs"),
            tolerance=self.read_number(tolerance, node.get("tolerance")),
            opset=self.read_sample_opset(node.get("opset")),
            quantize=self.read_quantize(node.get("quantize")),
        )

    def read_quantize(self, node: YNode | None) -> Literal["int4"] | None:
        text = self.read_text(node, "quantize")
        if node is None or text is None:
            return None
        if text != "int4":
            return self.error(
                node.span, f"samples cannot quantize to '{text}'", fix="quantize: int4"
            )
        return "int4"

    def read_sample_opset(self, node: YNode | None) -> int | None:
        text = self.read_text(node, "opset")
        if node is None or text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,3}", text):
            return self.error(node.span, f"'{text}' is not an opset", fix="opset: 20")
        return int(text)


def _empty_code(span: Span) -> Code:
    return Code(YScalar("", span), ())
