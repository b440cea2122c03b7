"""Read inference rules and traits from specs/onnx, and check them against all supported opsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortable import dtypes
from ortablegen.language.entries import EntryReader
from ortablegen.language.vocabulary import inference_helpers
from ortablegen.schemas.onnx import (
    DOMAIN_RANGE,
    OnnxSchema,
    element_type,
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
TABLES = ("dispatch", "traits")  # generated modules that are not families


def load_onnx_rules(spec_dir: Path, diagnostics: Diagnostics) -> OnnxModel:
    """Read ``spec_dir/*.yaml``; report errors to ``diagnostics``, return the valid entries."""
    families: dict[str, tuple[OnnxRule, ...]] = {}
    all_rules: list[tuple[str, Span]] = []
    for path in sorted(spec_dir.glob("*.yaml")):
        entries = load(path, f"specs/onnx/{path.name}", diagnostics)
        if path.stem in TABLES:
            text = f"'{path.stem}' is a generated table, so no file can have its name"
            diagnostics.error(entries.span, text)
        reader = _Reader(path.stem, diagnostics)
        rules = [(rule, entry.span) for entry in entries if (rule := reader.read_entry(entry))]
        diagnostics.check_sorted((rule.key, span) for rule, span in rules)
        all_rules += [(rule.key, span) for rule, span in rules]
        families[path.stem] = tuple(rule for rule, _ in rules)
    diagnostics.check_unique(all_rules)
    return OnnxModel(families)


class _Reader(EntryReader):
    """Reads and checks the entries of one family."""

    entry: YMap
    versions: tuple[OnnxSchema, ...]

    def read_entry(self, entry: YNode) -> OnnxRule | None:
        if not isinstance(entry, YMap) or not isinstance(op := entry.get("onnx"), YScalar):
            text = "an entry is a mapping that begins with 'onnx: Operator'"
            return self.error(entry.span, text)
        self.entry = entry
        self.check_keys(entry, _KEYS, "an entry")
        versions = self.find_schemas(op)
        if versions is None:
            return None
        self.versions = versions
        rule = OnnxRule(
            versions[-1].key,
            self.file,
            versions,
            why=self.read_line("why"),
            note=self.read_line("note"),
            traits=self.read_traits(),
        )
        if entry.get("rule"):
            return self.read_traits_only(rule)
        return self.read_python(rule) if entry.get("python") else self.read_outputs(rule)

    def read_line(self, key: str) -> str | None:
        """Return the text of a key as one line."""
        text = self.read_key(self.entry, key)
        return " ".join(text.split()) if text else None

    def read_traits(self) -> tuple[str, ...]:
        """Return the traits of the entry; report those that are unknown or a schema refuses."""
        key = self.versions[-1].key
        node = self.entry.get("traits")
        traits: list[str] = []
        for name in self.read_scalars(node, "traits"):
            if name.text not in TRAITS:
                self.report_unknown(name, "trait", name.text, TRAITS)
                continue
            if name.text in traits:
                self.error(name.span, f"trait '{name.text}' is given twice", fix="drop it")
                continue
            traits.append(name.text)
            trait = TRAITS[name.text]
            refused = next(filter(None, map(trait.refuses, self.versions)), None)
            if refused is not None:
                self.error(name.span, f"{key} {refused}", [f"{name.text}: {trait.meaning}"])
        if isinstance(node, YSeq) and not len(node):
            self.error(node.span, "traits is empty", fix="traits: [random]")
        if "has_subgraph" not in traits and any(map(has_graph, self.versions)):
            fix = f"traits: [{', '.join([*traits, 'has_subgraph'])}]"
            span = (node or self.entry).span
            self.error(span, f"{key} has a graph among its attributes", fix=fix)
        return tuple(traits)

    def read_traits_only(self, rule: OnnxRule) -> OnnxRule:
        node = self.entry.get("rule")
        assert node is not None
        if not isinstance(node, YScalar) or node.text != "none":
            text = "the only value of 'rule' is none, for an entry with traits only"
            self.error(node.span, text, fix="rule: none")
        self.report_unread((*_RULE_KEYS, "python"), "rule: none infers nothing")
        if rule.why is None:
            self.error(node.span, "rule: none needs 'why:', the reason why nothing is inferred")
        if not self.entry.get("traits"):
            self.error(node.span, "an entry needs a rule or traits")
        return replace(rule, has_rule=False)

    def report_unread(self, keys: tuple[str, ...], reason: str) -> None:
        """Report the keys of the entry that are never read, with the reason."""
        for key in keys:
            if (unread_key := self.entry.key(key)) is not None:
                self.error(unread_key.span, f"{reason}, so '{key}' is never read", fix="drop it")

    def find_schemas(self, op: YScalar) -> tuple[OnnxSchema, ...] | None:
        """Return the supported versions of the operator, oldest first; report if there are none."""
        node = self.entry.get("domain")
        domain = self.read_text(node, "domain") or ""
        if domain not in DOMAIN_RANGE:
            domains = [*filter(None, DOMAIN_RANGE), "the standard domain if 'domain' is missing"]
            return self.report_unknown(node or self.entry, "domain", domain, domains)
        versions = versions_between(op.text, domain)
        domain_text = domain or "the standard domain"
        text = f"no supported opset of {domain_text} has an operator '{op.text}'"
        return versions or self.error(op.span, text + did_you_mean(op.text, operators(domain)))

    def read_python(self, rule: OnnxRule) -> OnnxRule | None:
        node = self.entry.get("python")
        assert node is not None
        self.report_unread(_RULE_KEYS, "python: infers everything")
        if rule.why is None:
            self.error(node.span, "python: needs 'why:', the reason why no expression is enough")
        text = self.read_line("python") or ""
        name, functions = text.removeprefix(_PYTHON), inference_helpers()
        if not text.startswith(_PYTHON) or name not in functions:
            text = f"'{text}' is not a function of ortable.inference{did_you_mean(name, functions)}"
            return self.error(node.span, text)
        if sum(parameter.required for parameter in functions[name].parameters) != 4:
            self.error(node.span, f"'{name}' must take (inputs, attrs, n_outputs, opset)")
        return replace(rule, python=name)

    def read_outputs(self, rule: OnnxRule) -> OnnxRule:
        formals = self.versions[-1].outputs
        is_variadic = len(formals) == 1 and formals[0].variadic
        shape = self.read_by_output("shape", required=not is_variadic)
        dtype, value = self.read_by_output("dtype"), self.read_by_output("value")
        outputs = tuple(
            self.make_output(i, f.name, shape.get(f.name), dtype.get(f.name), value.get(f.name))
            for i, f in enumerate(formals)
        )
        shapes, values = (
            self.read_variadic("shapes", is_variadic),
            self.read_variadic("values", is_variadic),
        )
        span = self.entry.span
        if is_variadic and any(e is not None and e.source != "None" for e in shape.values()):
            self.error(span, "a variadic output takes 'shapes', or 'shape: unknown'")
        if is_variadic and shapes is None and not shape:
            fix = f"shapes: ...   # one shape per {formals[0].name}"
            self.error(span, f"{rule.key} has a variadic output, and no 'shapes'", fix=fix)
        return replace(rule, outputs=outputs, shapes=shapes, values=values)

    def read_variadic(self, key: str, is_variadic: bool) -> Expression | None:
        """Read ``shapes`` or ``values``, the expression for all of a variadic output."""
        node = self.entry.get(key)
        if node is None:
            return None
        if not is_variadic:
            text = f"'{key}' is for a variadic output; use '{key[:-1]}'"
            return self.error(node.span, text)
        return self.read_aspect(node, key[:-1])

    def read_aspect(self, node: YNode, aspect: str) -> Expression | None:
        if not isinstance(node, YScalar):
            return self.error(node.span, f"'{aspect}' is an expression, or a mapping of outputs")
        return read_expression(node, self.versions, aspect, self.diagnostics)

    def read_by_output(self, key: str, required: bool = False) -> dict[str, Expression | None]:
        """Return, by output, the expressions in the value of ``key``."""
        names = [f.name for f in self.versions[-1].outputs]
        node = self.entry.get(key)
        if node is None:
            if required:
                fix = f"write '{key}: unknown' if it is"
                self.error(self.entry.span, f"'{key}' is missing", fix=fix)
            return {}
        if not isinstance(node, YMap):
            if len(names) == 1:
                return {names[0]: self.read_aspect(node, key)}
            text = f"several outputs: give '{key}' as a mapping of {', '.join(names)}"
            self.error(node.span, text)
            return {}
        expressions = {}
        for name, child in node.items():
            if name.text in names:
                expressions[name.text] = self.read_aspect(child, key)
            else:
                self.report_unknown(name, "output", name.text, names)
        missing = [n for n in names if n not in expressions]
        if required and missing:
            fix = f"{missing[0]}: unknown   # if it is"
            self.error(node.span, f"no {key} for output '{missing[0]}'", fix=fix)
        return expressions

    def make_output(
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
            reason = "fixes it" if not bound[1] else f"binds it to {', '.join(sorted(bound[1]))}"
            text = f"dtype of '{name}' is redundant: the schema {reason}"
            self.error(node.span, text, fix="drop it")
        if bound is None and dtype is None:
            types = (t for s in self.versions for t in s.allowed(s.outputs[index].type))
            if any(map(element_type, types)):
                has_several_outputs = len(self.versions[-1].outputs) > 1
                fix = f"dtype: {{{name}: ...}}" if has_several_outputs else "dtype: ..."
                text = f"the schema does not bind the dtype of output '{name}'"
                self.error(self.entry.span, text, fix=fix)
        if bound is not None:
            return Output(name, bound[0], True, shape, value, bound[1])
        input_names = dtype.inputs if dtype else frozenset()
        return Output(name, dtype.source if dtype else "None", False, shape, value, input_names)


def bound_dtype(versions: tuple[OnnxSchema, ...], index: int) -> tuple[str, frozenset[str]] | None:
    """Return the dtype of output ``index`` as Python source, with the inputs that it reads.

    Return None if some schema version neither fixes it nor binds it to required inputs, or if
    versions differ.
    """
    bindings = {_bound_in(schema, index) for schema in versions}
    return bindings.pop() if len(bindings) == 1 else None


def _bound_in(schema: OnnxSchema, index: int) -> tuple[str, frozenset[str]] | None:
    """Return `bound_dtype` of one version: ``("A.dtype or B.dtype", {"A", "B"})`` for MatMul."""
    formal = schema.outputs[index]
    types = schema.allowed(formal.type)
    if len(types) == 1:
        element = element_type(types[0])
        return ("None" if element is None else f"dtypes.{_dtype_name(element)}", frozenset())
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
