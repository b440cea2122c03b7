"""Parts of entries: conditions, cases, rules, sample calls, each problem reported where it
stands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from ortablegen.language.parse import Code, parse_block, parse_expression
from ortablegen.schemas.torch import (
    EVERY_VERSION,
    OpSchema,
    SchemaProblem,
    TorchVersions,
    is_range,
    schema_of,
    schema_of_key,
)
from ortablegen.source.diagnostics import Diagnostics, Span
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .model import (
    PROMOTE_KINDS,
    ComplexForm,
    Draw,
    LowerCase,
    OutRule,
    Promote,
    PythonLowering,
    Sample,
    ShapeRule,
)

CASE_KEYS = ("when", "target", "opset", "note", "do", "python", "why", "refuse")
DRAW_FORM = "draw: bernoulli_(shape=same(input), p=1 - p), or {when: 0 < p, do: bernoulli_(...)}"
TARGETS = ("onnxruntime",)
SAMPLE_KEYS = ("expect", "refused", "tolerance", "opset", "built_for", "unread", "random")
_PARTS = re.compile(r"parts\(([\w\s,]*)\)")
SAMPLE_TARGETS = (*TARGETS, "none")


class PartReader:
    """Reads the parts of entries of one file."""

    def __init__(self, file: str, diagnostics: Diagnostics) -> None:
        self.file = file
        self.diagnostics = diagnostics

    def error(
        self, span: Span, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> None:
        self.diagnostics.error(span, message, notes, fix)

    def keys(self, node: YMap, allowed: tuple[str, ...], what: str) -> None:
        for key, _ in node.items():
            if key.text not in allowed:
                close = difflib.get_close_matches(key.text, allowed, n=1)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                self.error(
                    key.span,
                    f"unknown key '{key.text}' in {what}{hint}",
                    [f"keys are {', '.join(allowed)}"],
                )

    def text(self, node: YNode | None, what: str) -> str | None:
        if isinstance(node, YScalar):
            return node.text
        if node is not None:
            self.error(node.span, f"{what} must be text")
        return None

    def expression(self, node: YNode, what: str) -> Code | None:
        if not isinstance(node, YScalar):
            self.error(node.span, f"{what} must be an expression")
            return None
        return parse_expression(node, self.diagnostics)

    def words(self, node: YNode | None, what: str) -> tuple[str, ...]:
        if isinstance(node, YSeq) and all(isinstance(value, YScalar) for value in node):
            return tuple(value.text for value in node if isinstance(value, YScalar))
        if node is not None:
            self.error(node.span, f"{what} must be a list of words")
        return ()

    def torch_versions(self, node: YNode | None) -> TorchVersions:
        """``torch: "<2.15"`` (no other version has the operator), or ``torch: {">=2.15": schema}``
        (those versions have it with that schema)."""
        if node is None:
            return EVERY_VERSION
        fix = 'write torch: "<2.15", or torch: {">=2.15": "aten::name(...) -> Tensor"}'
        pairs = node.items() if isinstance(node, YMap) else ()
        spans = [key for key, _ in pairs] or ([node] if isinstance(node, YScalar) else [])
        if not spans or not all(is_range(span.text) for span in spans):
            self.error(node.span, "'torch' is no range of versions", fix=fix)
            return EVERY_VERSION
        if isinstance(node, YScalar):
            return TorchVersions(present=node.text)
        texts = [(key.text, self.text(value, "a schema")) for key, value in pairs]
        return TorchVersions(others=tuple((span, text) for span, text in texts if text))

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
                return schema_of(node.text, requires, versions)
            return schema_of_key(node.text, requires)
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

    def let(self, node: YNode | None) -> tuple[tuple[str, Code], ...]:
        if node is None:
            return ()
        if not isinstance(node, YMap):
            self.error(node.span, "let must be a mapping from a name to an expression")
            return ()
        pairs = [(key.text, self.expression(value, "a let value")) for key, value in node.items()]
        return tuple((name, code) for name, code in pairs if code is not None)

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
        """``parts(self, other)``, a block, or cases as those of ``lower``."""
        if node is None:
            return None
        if isinstance(node, YScalar) and (match := _PARTS.fullmatch(node.text.strip())):
            names = tuple(part.strip() for part in match[1].split(",") if part.strip())
            return ComplexForm(node.span, parts=names, by_parts=True)
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
        return Draw(code, when, node.span)

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

    def target(self, node: YNode | None) -> str | None:
        text = self.text(node, "target")
        if node is not None and text not in TARGETS:
            self.error(node.span, f"unknown target '{text}'", [f"targets are {', '.join(TARGETS)}"])
            return None
        return text

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

    def opset(self, node: YNode | None) -> tuple[str, int] | None:
        text = self.text(node, "opset")
        if node is None or text is None:
            return None
        match = re.fullmatch(r"(>=|<)\s*(\d+)", text)
        if match is None:
            self.error(
                node.span, f"cannot read the opset condition '{text}'", fix='write opset: ">=23"'
            )
            return None
        return match[1], int(match[2])

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
        expect = self.text(node.get("expect"), "expect")
        tolerance = self.text(node.get("tolerance"), "tolerance")
        return Sample(
            node.span,
            values,
            tuple(expect.split()) if expect is not None else None,
            self.text(node.get("refused"), "refused"),
            self.number(tolerance, node.get("tolerance")),
            self.opset(node.get("opset")),
            self.sample_target(node.get("built_for")),
            self.unread(node.get("unread"), schema),
            self.flag(node.get("random"), "random"),
        )

    def plain(self, node: YNode) -> object:
        """A sample value as nested lists of text; None for null."""
        if isinstance(node, YSeq):
            return [self.plain(value) for value in node]
        if isinstance(node, YScalar):
            return None if node.is_null() else node.text
        self.error(node.span, "a value of a sample call is text or a list", fix="quote it")
        return None

    def number(self, text: str | None, node: YNode | None) -> float | None:
        """A positive number, such as a tolerance."""
        if text is None or node is None:
            return None
        try:
            return float(text)
        except ValueError:
            self.error(node.span, f"'{text}' is no number")
            return None


def literal(text: str) -> object:
    """A Python literal as specs write it; text that is no literal stays text."""
    import ast

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
