"""Read parts of an entry: torch versions, schemas, rules, cases and sample calls."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from ortablegen.language.entries import TARGETS, EntryReader
from ortablegen.language.parse import parse_block, parse_expression, python_tree
from ortablegen.language.samples import unknown_operators
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.schemas.ranges import meet, parse_range
from ortablegen.schemas.registry import (
    EVERY_VERSION,
    INSTALLED,
    Registry,
    TorchVersions,
    schema_of,
    schema_of_key,
)
from ortablegen.schemas.torch import OpSchema, SchemaProblem
from ortablegen.source.diagnostics import Span
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .draws import DRAW_FORM, find_overload
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
SAMPLE_KEYS = (
    "expect",
    "raises",
    "tolerance",
    "why",
    "opset",
    "export_target",
    "unused_results",
    "random",
)
# a wider tolerance needs a reason, since it hides more than the rounding of a half float
WIDEST_TOLERANCE = 1e-2
_PARTS = re.compile(r"parts\(([\w\s,]*)\)")
_PRODUCTS = re.compile(r"products\((\w+(?:\s*,\s*\w+){1,2})\)")
SAMPLE_TARGETS = (*TARGETS, "none")


class PartReader(EntryReader):
    """Reads the parts of entries of one file."""

    registry: Registry = INSTALLED

    def torch_versions(self, node: YNode | None, schemas: bool = True) -> TorchVersions:
        """Read ``torch: "<2.15"``, or (``schemas``) ``torch: {">=2.15": schema}``.

        A text limits the entry to a range of versions; a mapping gives the schemas of ranges in
        which the entry's schema differs.
        """
        if node is None:
            return EVERY_VERSION
        pairs = node.items() if isinstance(node, YMap) and schemas else ()
        texts = [key for key, _ in pairs] or ([node] if isinstance(node, YScalar) else [])
        ranges = [
            version_range for text in texts if (version_range := parse_range(text.text)) is not None
        ]
        if not ranges or len(ranges) < len(texts):
            fix = 'write torch: "<2.15"'
            if schemas:
                fix += ', or torch: {">=2.15": "aten::name(...) -> Tensor"}'
            notes = ["bounds are <, <=, ==, !=, >= and > with a major and a minor version"]
            self.error(node.span, "'torch' is not a range of versions", notes, fix)
            return EVERY_VERSION
        for text, version_range in zip(texts, ranges, strict=True):
            if meet([version_range]) is None:
                self.error(text.span, f"no version of torch is in '{text.text}'")
                return EVERY_VERSION
        if not pairs:
            return TorchVersions(present=ranges[0])
        values = [self.read_text(value, "a schema") for _, value in pairs]
        versioned_texts = zip(ranges, values, strict=True)
        return TorchVersions(
            others=tuple((version_range, text) for version_range, text in versioned_texts if text)
        )

    def read_schema(
        self,
        node: YNode | None,
        verbatim: bool,
        requires: str | None = None,
        versions: TorchVersions = EVERY_VERSION,
    ) -> OpSchema | None:
        """Read a schema's text (``verbatim``), or a key that names one; None after an error."""
        if not isinstance(node, YScalar):
            return None
        try:
            if verbatim:
                return schema_of(node.text, self.registry, requires, versions)
            return schema_of_key(node.text, self.registry, requires, versions)
        except SchemaProblem as problem:
            return self.error(node.span, str(problem), problem.notes, problem.fix)

    def read_promote(self, node: YNode | None) -> Promote | None:
        """Read ``promote``; return None if it is missing."""
        node = self.read_mapping(node, "promote must be {args: [...], kind: ...}")
        if node is None:
            return None
        self.check_keys(node, ("args", "kind", "opmath"), "promote")
        kind = self.read_key(node, "kind") or "default"
        if kind not in PROMOTE_KINDS:
            self.report_unknown(node, "promotion kind", kind, PROMOTE_KINDS)
        arguments = self.read_words(node.get("args"), "args")
        if not arguments:
            fix = f"promote: {{args: [self, other], kind: {kind}}}"
            self.error(node.span, "promote names no arguments", fix=fix)
        opmath = self.read_key(node, "opmath")
        if opmath is not None and opmath not in arguments:
            self.error(node.span, f"opmath names '{opmath}', which is not in args of promote")
        return Promote(arguments, kind, node.span, opmath)

    def read_out(self, node: YNode | None) -> tuple[OutRule, ...] | None:
        """Read the rules of the results (none for ``out: []``); return None after an error."""
        error_calls_before = self.diagnostics.error_calls
        rules = self.read_rows(node, self.read_out_rule)
        return rules if self.diagnostics.error_calls == error_calls_before else None

    def read_out_rule(self, node: YNode) -> OutRule | None:
        """Read the rule of a result."""
        message = "out must be {shape: ..., dtype: ...}, or a list of them for several results"
        rules = self.read_mapping(node, message)
        if rules is None:
            return None
        self.check_keys(rules, ("shape", "dtype"), "out")
        shape, dtype = rules.get("shape"), rules.get("dtype")
        if not isinstance(shape, YScalar) or not isinstance(dtype, YScalar):
            fix = "'shape: meta' uses the shape of the FX node"
            return self.error(node.span, "out needs both 'shape' and 'dtype'", fix=fix)
        rule = self.read_shape_rule(shape)
        code = self.read_expression(escape_else(dtype), "dtype")
        return OutRule(rule, code, node.span) if rule is not None and code is not None else None

    def read_shape_rule(self, node: YScalar) -> ShapeRule | None:
        """Read a shape rule."""
        if node.text == "meta":
            return ShapeRule("meta", node.span)
        if "->" in node.text:
            return self.read_unify_rule(node)
        code = parse_expression(node, self.diagnostics)
        return ShapeRule("word", node.span, code) if code is not None else None

    def read_unify_rule(self, node: YScalar) -> ShapeRule | None:
        """Read a shape rule of patterns such as ``(m, k), (k, n) -> (m, n)``."""
        left, _, right = node.text.partition("->")
        try:
            results = tuple(names or () for names in parse_patterns(right))
            return ShapeRule("unify", node.span, None, parse_patterns(left), results)
        except ValueError as error:
            fix = 'write it like "(m, k), (k, n) -> (m, n)"'
            return self.error(node.span, str(error), fix=fix)

    def read_lower(self, node: YNode | None) -> tuple[LowerCase, ...]:
        """Read ``lower``: a block, a case or a list of cases."""
        if isinstance(node, YScalar):
            code = parse_block(node, self.diagnostics)
            return (LowerCase(node.span, do=code),) if code is not None else ()
        if isinstance(node, YMap):
            node = YSeq((node,), node.span)
        if not isinstance(node, YSeq):
            return ()
        cases = [self.read_case(item) for item in node]
        # without the unreadable case, checks of the order of cases would be wrong
        return () if None in cases else tuple(case for case in cases if case is not None)

    def complex_form(self, node: YNode | None) -> ComplexForm | None:
        """Read ``complex``: ``parts(...)``, ``products(...)``, ``lower``, a block, or cases."""
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
        cases = self.read_lower(node)
        return ComplexForm(node.span, cases=cases) if cases else None

    def read_draw(self, node: YNode | None) -> Draw | None:
        """Read a call such as ``bernoulli_(shape=same(self), p=p)`` or ``{when: ..., do: ...}``."""
        if node is None:
            return None
        when = None
        call: YNode | None = node
        if isinstance(node, YMap):
            self.check_keys(node, ("when", "do"), "draw")
            condition, call = node.get("when"), node.get("do")
            when = self.read_expression(condition, "when") if condition is not None else None
        code = self.read_expression(call, "draw") if call is not None else None
        if code is None:
            return self.error(node.span, "draw needs the call that draws", fix=DRAW_FORM)
        return Draw(code, when, node.span, find_overload(code.expression, self.registry))

    def read_case(self, node: YNode) -> LowerCase | None:
        """Read a case of ``lower`` or ``complex``; return None after an error."""
        if not isinstance(node, YMap):
            return self.error(node.span, "a case is a mapping with one of do:, python:, refuse:")
        self.check_keys(node, CASE_KEYS, "a case")
        when_node, do_node = node.get("when"), node.get("do")
        when = self.read_expression(when_node, "when") if when_node is not None else None
        do = parse_block(do_node, self.diagnostics) if isinstance(do_node, YScalar) else None
        python = self.read_python(node)
        refuse = self.read_key(node, "refuse")
        actions_given = [name for name in ("do", "python", "refuse") if node.get(name) is not None]
        if len(actions_given) != 1:
            message = "a case has exactly one of do:, python:, refuse:"
            return self.error(node.span, message, [f"found {actions_given or 'none'}"])
        target, opset = self.read_target(node.get("target")), self.read_opset(node.get("opset"))
        parsed = {"when": when, "do": do, "target": target, "opset": opset}
        if any(node.get(key) is not None and value is None for key, value in parsed.items()):
            return None
        note = self.read_key(node, "note")
        return LowerCase(node.span, when, target, opset, note, do, python, refuse)

    def read_python(self, node: YMap) -> PythonLowering | None:
        """Read ``python`` with its ``why``."""
        path = node.get("python")
        if not isinstance(path, YScalar):
            return None
        return PythonLowering(path.text, path.span, self.read_key(node, "why"))

    def read_sample_opset(self, node: YNode | None) -> tuple[str, int] | None:
        """Read the opset condition of a sample call; report if no supported opset meets it."""
        condition = self.read_opset(node)
        lowest, highest = DOMAIN_RANGE[""]
        if node is None or condition is None:
            return None
        sign, version = condition
        if version > highest if sign == ">=" else version <= lowest:
            notes = [f"supported are {lowest} to {highest}"]
            self.error(node.span, f"no supported opset is {sign}{version}", notes)
        return condition

    def read_flag(self, node: YNode | None, key: str) -> bool:
        """Read ``true`` or ``false``; return False if it is missing."""
        text = self.read_text(node, key)
        if node is not None and text not in ("true", "false"):
            self.error(node.span, f"{key} is true or false, not '{text}'")
        return text == "true"

    def read_unused_results(self, node: YNode | None, schema: OpSchema) -> tuple[int, ...]:
        """Read the positions of results that the sample call does not read."""
        text = self.read_text(node, "unused_results")
        if node is None or text is None:
            return ()
        positions = {str(position): position for position in range(len(schema.returns))}
        unknown = [word for word in text.split() if word not in positions]
        if unknown or not text.split():
            fix = 'write positions from 0: unused_results: "1 2"'
            unknown_text = " ".join(unknown)
            self.error(
                node.span, f"unused_results: {schema.key} has no result '{unknown_text}'", fix=fix
            )
        return tuple(positions[word] for word in text.split() if word in positions)

    def read_unused(self, node: YNode | None) -> tuple[tuple[str, str, Span], ...]:
        """Read ``unused``, arguments with reasons."""
        message = "unused must be a mapping from an argument to the reason"
        node = self.read_mapping(node, message, fix="unused: {device: why}")
        if node is None:
            return ()
        ignored = []
        for key, value in node.items():
            reason = self.read_text(value, "the reason") or ""
            if not reason.strip():
                self.error(value.span, f"unused gives no reason for '{key.text}'")
            ignored.append((key.text, reason, key.span))
        return tuple(ignored)

    def read_samples(self, node: YNode | None, schema: OpSchema) -> tuple[Sample, ...]:
        """Read the list of sample calls."""
        if not isinstance(node, YSeq):
            if node is not None:
                self.error(node.span, "samples must be a list of sample calls")
            return ()
        if not len(node):
            self.error(node.span, "samples must have at least one sample call")
        return self.read_rows(node, lambda item: self.read_sample(item, schema))

    def read_sample(self, node: YNode, schema: OpSchema) -> Sample | None:
        """Read a sample call; return None after an error."""
        if not isinstance(node, YMap):
            return self.error(node.span, "a sample call is a mapping from argument to value")
        names = tuple(argument.name for argument in schema.arguments)
        self.check_keys(node, names + SAMPLE_KEYS, "a sample call")
        values = tuple(
            (key.text, self.to_plain(value)) for key, value in node.items() if key.text in names
        )
        for argument in schema.arguments:
            if not argument.has_default and node.get(argument.name) is None:
                self.error(node.span, f"the sample call lacks argument '{argument.name}'")
        expect = self.read_expect(node)
        tolerance = self.read_number(self.read_key(node, "tolerance"), node.get("tolerance"))
        why = self.read_key(node, "why")
        if tolerance is not None and tolerance > WIDEST_TOLERANCE and not (why or "").strip():
            fix = "give the cause of the difference: why: ..."
            self.error(node.span, f"a tolerance above {WIDEST_TOLERANCE:g} needs 'why'", fix=fix)
        return Sample(
            node.span,
            values,
            tuple(expect.split()) if expect is not None else None,
            self.read_key(node, "raises"),
            tolerance,
            self.read_sample_opset(node.get("opset")),
            self.read_target(node.get("export_target"), SAMPLE_TARGETS),
            self.read_unused_results(node.get("unused_results"), schema),
            self.read_flag(node.get("random"), "random"),
        )

    def read_expect(self, node: YMap) -> str | None:
        """Read the ONNX operators that a sample call must be lowered to."""
        expected = node.get("expect")
        expect = self.read_text(expected, "expect")
        if expected is not None:
            for word, hint in unknown_operators(expect or ""):
                self.error(expected.span, f"expect: ONNX has no operator '{word}'{hint}")
        return expect


def parse_literal(text: str) -> object:
    """Parse a Python or YAML literal; other text stays text."""
    try:
        return ast.literal_eval(python_tree(text.lstrip(" \t"), "eval"))
    except (ValueError, SyntaxError, TypeError):
        return {"true": True, "false": False, "null": None}.get(text, text)


def parse_patterns(text: str) -> tuple[tuple[str, ...] | None, ...]:
    """Parse ``(*), (m, k)`` to (None, ("m", "k")); None stands for any shape."""
    parsed: list[tuple[str, ...] | None] = []
    remaining = text.strip()
    while remaining:
        match = re.match(r"\(([^()]*)\)\s*,?\s*", remaining)
        if match is None:
            raise ValueError(f"cannot read the shape pattern at '{remaining}'")
        inner = [part.strip() for part in match[1].split(",") if part.strip()]
        parsed.append(None if inner == ["*"] else tuple(inner))
        remaining = remaining[match.end() :]
    return tuple(parsed)


def escape_else(node: YScalar) -> YScalar:
    """Replace the keyword ``else`` in ``arg(dtype, else=same(self))`` by ``else_``."""
    return replace(node, text=re.sub(r"\belse\s*=", "else_=", node.text))
