"""Inference rules and traits of ONNX operators: reads specs/onnx/*.yaml, checks every entry
against the schemas of all supported opsets; what is right goes to the emitter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortable import dtypes
from ortablegen.language.vocabulary import inference_words
from ortablegen.schemas.onnx import (
    OnnxSchema,
    element_type,
    known_domains,
    operators,
    versions_between,
)
from ortablegen.source.diagnostics import Diagnostics, Span, did_you_mean
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load

from .check import Expression, read_expression
from .model import OnnxModel, OnnxRule, Output
from .traits import TRAITS, has_graph

_RULE_KEYS = ("shape", "shapes", "dtype", "value", "values")
_KEYS = ("onnx", "domain", "traits", "rule", *_RULE_KEYS, "python", "why", "note")
_PYTHON = "ortable.inference."
TABLES = ("dispatch", "traits")  # modules beside those of the families


def load_onnx_rules(spec_dir: Path, diagnostics: Diagnostics) -> OnnxModel:
    """Read ``spec_dir/*.yaml``; every problem goes to ``diagnostics``, what is right is
    returned."""
    families: dict[str, tuple[OnnxRule, ...]] = {}
    seen: dict[str, Span] = {}
    for path in sorted(spec_dir.glob("*.yaml")):
        display = f"specs/onnx/{path.name}"
        rules = []
        previous = ""
        entries = load(path, display, diagnostics)
        if path.stem in TABLES:
            diagnostics.error(
                entries.span, f"'{path.stem}' is a generated table, so no file can have its name"
            )
        for entry in entries:
            rule = _EntryReader(path.stem, diagnostics).read(entry)
            if rule is None:
                continue
            if rule.key in seen:
                first = seen[rule.key]
                diagnostics.error(
                    entry.span,
                    f"a second rule for {rule.key}",
                    [f"the first is at {first}"],
                    "keep one of the two",
                )
                continue
            if rule.key < previous:
                diagnostics.error(
                    entry.span,
                    f"{rule.key} must come before {previous}: entries are sorted by name",
                )
            previous = max(previous, rule.key)
            seen[rule.key] = entry.span
            rules.append(rule)
        families[path.stem] = tuple(rules)
    return OnnxModel(families)


class _EntryReader:
    """Reads and checks one entry."""

    def __init__(self, family: str, diagnostics: Diagnostics) -> None:
        self.family = family
        self.diagnostics = diagnostics

    def read(self, entry: YNode) -> OnnxRule | None:
        if not isinstance(entry, YMap):
            self.diagnostics.error(
                entry.span, "an entry is a mapping that begins with 'onnx: Operator'"
            )
            return None
        self.entry = entry
        for key, _ in entry.items():
            if key.text not in _KEYS:
                notes = [f"keys are {', '.join(_KEYS)}"]
                self.diagnostics.error(
                    key.span, f"unknown key '{key.text}'{did_you_mean(key.text, _KEYS)}", notes
                )
        schema = self._schemas()
        if schema is None:
            return None
        self.versions = schema
        rule = OnnxRule(
            schema[-1].key,
            self.family,
            schema,
            why=self._text("why"),
            note=self._text("note"),
            traits=self._traits(schema),
        )
        if entry.get("rule"):
            return self._without_rule(rule)
        return self._python(rule) if entry.get("python") else self._inferred(rule)

    def _traits(self, versions: tuple[OnnxSchema, ...]) -> tuple[str, ...]:
        """The traits of the entry that are right; every schema must allow them, and a graph among
        the attributes demands ``has_subgraph``."""
        key = versions[-1].key
        node = self.entry.get("traits")
        names = node if isinstance(node, YSeq) else ()
        if node is not None and not names:
            self.diagnostics.error(node.span, "'traits' is a list of names", fix="traits: [random]")
        found: list[str] = []
        for name in names:
            if not isinstance(name, YScalar):
                self.diagnostics.error(name.span, "a trait is a name", fix="traits: [random]")
                continue
            text = name.text
            if text not in TRAITS:
                notes = [f"traits are {', '.join(TRAITS)}"]
                self.diagnostics.error(
                    name.span, f"unknown trait '{text}'{did_you_mean(text, TRAITS)}", notes
                )
                continue
            if text in found:
                self.diagnostics.error(name.span, f"trait '{text}' is there already", fix="drop it")
                continue
            found.append(text)
            refused = next(filter(None, map(TRAITS[text].refuses, versions)), None)
            if refused is not None:
                notes = [f"{text}: {TRAITS[text].meaning}"]
                self.diagnostics.error(name.span, f"{key} {refused}", notes)
        if "has_subgraph" not in found and any(map(has_graph, versions)):
            self.diagnostics.error(
                (node or self.entry).span,
                f"{key} has a graph among its attributes",
                fix=f"traits: [{', '.join([*found, 'has_subgraph'])}]",
            )
        return tuple(found)

    def _without_rule(self, rule: OnnxRule) -> OnnxRule:
        node = self.entry.get("rule")
        assert node is not None
        if not isinstance(node, YScalar) or node.text != "none":
            self.diagnostics.error(
                node.span, "'rule' can only be none: the entry has traits alone", fix="rule: none"
            )
        for key in (*_RULE_KEYS, "python"):
            if (other := self.entry.key(key)) is not None:
                self.diagnostics.error(
                    other.span,
                    f"rule: none infers nothing, so '{key}' is never read",
                    fix="drop it",
                )
        if rule.why is None:
            self.diagnostics.error(
                node.span, "rule: none needs 'why:', the reason why nothing is inferred"
            )
        if not self.entry.get("traits"):
            self.diagnostics.error(node.span, "an entry without rule and traits says nothing")
        return replace(rule, has_rule=False)

    def _text(self, key: str) -> str | None:
        node = self.entry.get(key)
        if node is None:
            return None
        if not isinstance(node, YScalar) or not node.text:
            self.diagnostics.error(node.span, f"'{key}' must be text")
            return None
        return " ".join(node.text.split())

    def _schemas(self) -> tuple[OnnxSchema, ...] | None:
        op, domain = self.entry.get("onnx"), self.entry.get("domain")
        if not isinstance(op, YScalar):
            self.diagnostics.error(self.entry.span, "an entry begins with 'onnx: Operator'")
            return None
        domain_text = domain.text if isinstance(domain, YScalar) else ""
        if domain_text not in known_domains():
            span = domain.span if domain else self.entry.span
            names = [d for d in known_domains() if d]
            notes = [f"domains are {', '.join(names)}; without one it is the standard domain"]
            self.diagnostics.error(
                span, f"unknown domain '{domain_text}'{did_you_mean(domain_text, names)}", notes
            )
            return None
        versions = versions_between(op.text, domain_text)
        if not versions:
            known = operators(domain_text)
            where = domain_text or "the standard domain"
            self.diagnostics.error(
                op.span,
                f"no supported opset of {where} has an operator '{op.text}'"
                f"{did_you_mean(op.text, known)}",
            )
            return None
        return versions

    def _python(self, rule: OnnxRule) -> OnnxRule | None:
        node = self.entry.get("python")
        assert node is not None
        text = self._text("python") or ""
        for key in _RULE_KEYS:
            if (other := self.entry.key(key)) is not None:
                self.diagnostics.error(
                    other.span,
                    f"python: infers everything, so '{key}' is never read",
                    fix="drop it",
                )
        if rule.why is None:
            self.diagnostics.error(
                node.span, "python: needs 'why:', the reason why no expression will do"
            )
        name = text.removeprefix(_PYTHON)
        if not text.startswith(_PYTHON) or name not in inference_words():
            self.diagnostics.error(
                node.span,
                f"'{text}' is not a function of ortable.inference"
                f"{did_you_mean(name, inference_words())}",
            )
            return None
        parameters = inference_words()[name].parameters
        if sum(each.required for each in parameters) != 4:
            self.diagnostics.error(
                node.span, f"'{name}' must take (inputs, attrs, n_outputs, opset)"
            )
        return replace(rule, python=name)

    def _inferred(self, rule: OnnxRule) -> OnnxRule:
        formals = self.versions[-1].outputs
        several = len(formals) == 1 and formals[0].variadic
        shape = self._per_output("shape", "shape", required=not several)
        dtype = self._per_output("dtype", "dtype", required=False)
        value = self._per_output("value", "value", required=False)
        outputs = tuple(
            self._output(i, f.name, shape.get(f.name), dtype.get(f.name), value.get(f.name))
            for i, f in enumerate(formals)
        )
        shapes, values = (
            self._whole("shapes", "shape", several),
            self._whole("values", "value", several),
        )
        if several and any(e is not None and e.source != "None" for e in shape.values()):
            self.diagnostics.error(
                self.entry.span, "a variadic output takes 'shapes', or 'shape: unknown'"
            )
        if several and shapes is None and not shape:
            fix = f"shapes: ...   # one shape per {formals[0].name}"
            self.diagnostics.error(
                self.entry.span, f"{rule.key} has a variadic output, and no 'shapes'", fix=fix
            )
        return replace(rule, outputs=outputs, shapes=shapes, values=values)

    def _whole(self, key: str, aspect: str, several: bool) -> Expression | None:
        node = self.entry.get(key)
        if node is None:
            return None
        if not several:
            self.diagnostics.error(node.span, f"'{key}' is for a variadic output; use '{key[:-1]}'")
            return None
        return self._expression(node, aspect)

    def _expression(self, node: YNode, aspect: str) -> Expression | None:
        if not isinstance(node, YScalar):
            self.diagnostics.error(node.span, "an expression is needed here")
            return None
        return read_expression(node, self.versions, aspect, self.diagnostics)

    def _per_output(self, key: str, aspect: str, required: bool) -> dict[str, Expression | None]:
        """Expression of each output that ``key`` names; a plain expression is that of the only
        output."""
        names = [f.name for f in self.versions[-1].outputs]
        node = self.entry.get(key)
        if node is None:
            if required:
                self.diagnostics.error(
                    self.entry.span, f"'{key}' is missing", fix=f"write '{key}: unknown' if it is"
                )
            return {}
        if isinstance(node, YScalar):
            if len(names) != 1:
                self.diagnostics.error(
                    node.span, f"several outputs: give '{key}' as a mapping of {', '.join(names)}"
                )
                return {}
            return {names[0]: self._expression(node, aspect)}
        if isinstance(node, YSeq):
            self.diagnostics.error(
                node.span, f"'{key}' is an expression, or a mapping of outputs to expressions"
            )
            return {}
        found = {}
        for name, child in node.items():
            if name.text not in names:
                close = did_you_mean(name.text, names)
                self.diagnostics.error(
                    name.span,
                    f"no output '{name.text}'{close}",
                    [f"outputs are {', '.join(names)}"],
                )
            else:
                found[name.text] = self._expression(child, aspect)
        missing = [n for n in names if n not in found]
        if required and missing:
            fix = f"{missing[0]}: unknown   # if it is"
            self.diagnostics.error(node.span, f"no {key} for output '{missing[0]}'", fix=fix)
        return found

    def _output(
        self,
        index: int,
        name: str,
        shape: Expression | None,
        dtype: Expression | None,
        value: Expression | None,
    ) -> Output:
        bound = bound_dtype(self.versions, index)
        if bound is not None and dtype is not None:
            node = self.entry.key("dtype")
            assert node is not None
            what = "fixes it" if not bound[1] else f"binds it to {', '.join(sorted(bound[1]))}"
            self.diagnostics.error(
                node.span, f"dtype of '{name}' is redundant: the schema {what}", fix="drop it"
            )
        if bound is None and dtype is None:
            tensor = any(
                element_type(t) for s in self.versions for t in s.allowed(s.outputs[index].type)
            )
            if tensor:
                fix = (
                    f"dtype: {{{name}: ...}}"
                    if len(self.versions[-1].outputs) > 1
                    else "dtype: ..."
                )
                self.diagnostics.error(
                    self.entry.span,
                    f"the schema does not bind the dtype of output '{name}'",
                    fix=fix,
                )
        if bound is not None:
            return Output(name, bound[0], True, shape, value, bound[1])
        used = dtype.inputs if dtype else frozenset()
        return Output(name, dtype.source if dtype else "None", False, shape, value, used)


def bound_dtype(versions: tuple[OnnxSchema, ...], index: int) -> tuple[str, frozenset[str]] | None:
    """Source text for the dtype of output ``index`` where every schema version fixes it or binds
    it to required inputs.

    None when some version leaves it open, or binds it to optional inputs only. The second part
    names the inputs read.
    """
    found = {_bound_in(schema, index) for schema in versions}
    return found.pop() if len(found) == 1 else None


def _bound_in(schema: OnnxSchema, index: int) -> tuple[str, frozenset[str]] | None:
    formal = schema.outputs[index]
    types = schema.allowed(formal.type)
    if len(types) == 1:
        fixed = element_type(types[0])
        return ("None" if fixed is None else f"dtypes.{_dtype_name(fixed)}", frozenset())
    if formal.variadic and not formal.homogeneous:
        return None
    names = []
    for position, candidate in enumerate(schema.inputs):
        if candidate.type != formal.type or candidate.optional:
            continue
        if candidate.variadic:
            return (f"inputs[{position}].dtype", frozenset()) if candidate.homogeneous else None
        names.append(candidate.name)
    return (" or ".join(f"{n}.dtype" for n in names), frozenset(names)) if names else None


def _dtype_name(dtype: int) -> str:
    return "boolean" if dtype == dtypes.boolean else dtypes.name(dtype)
