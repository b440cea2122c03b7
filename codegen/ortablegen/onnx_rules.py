"""Inference rules of ONNX operators: reads specs/onnx/*.yaml, checks every entry against the schemas of all supported
opsets, and emits one Python function per operator plus the dispatch table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from ortable import dtypes

from ortablegen.diagnostics import Diagnostics, Span
from ortablegen.onnx_rules_expr import Expression, ExpressionReader, rule_words, suggestion
from ortablegen.onnx_schemas import (
    OnnxSchema,
    known_domains,
    operators,
    versions_between,
)
from ortablegen.yamlsource import YMap, YNode, YScalar, YSeq, load

_KEYS = ("onnx", "domain", "shape", "shapes", "dtype", "value", "values", "python", "why", "note")
_PYTHON = "ortable.rules."
_ELEMENT = {
    "float": dtypes.float32, "double": dtypes.float64, "bool": dtypes.boolean, "string": dtypes.string,
    **{n: t for t, n in dtypes.NAMES.items() if n not in ("bool", "float32", "float64", "undefined")},
}  # fmt: skip


@dataclass(frozen=True)
class Output:
    """How one formal output is inferred; ``dtype`` is source text, ``bound`` says that the schema gave it."""

    name: str
    dtype: str
    bound: bool
    shape: Expression | None = None
    value: Expression | None = None
    dtype_inputs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OnnxRule:
    """One operator. Either ``python`` names a function of ortable.rules, or the outputs say everything;
    ``shapes`` and ``values`` give a variadic output all at once."""

    key: str
    family: str
    versions: tuple[OnnxSchema, ...]
    outputs: tuple[Output, ...] = ()
    shapes: Expression | None = None
    values: Expression | None = None
    python: str | None = None
    why: str | None = None
    note: str | None = None

    @property
    def function_name(self) -> str:
        """Name of the generated function: ``infer_Gemm``, ``infer_com_microsoft_BiasGelu``."""
        return "infer_" + self.key.replace("::", "_").replace(".", "_")


@dataclass(frozen=True)
class OnnxModel:
    """All rules, by family (the stem of their file), in file order."""

    families: Mapping[str, tuple[OnnxRule, ...]]

    @property
    def rules(self) -> tuple[OnnxRule, ...]:
        """Every rule, sorted by key."""
        return tuple(sorted((r for rules in self.families.values() for r in rules), key=lambda r: r.key))


def element_type(text: str) -> int | None:
    """``tensor(float)`` -> 1; None for sequences, optionals, maps and unknown types."""
    inner = text.removeprefix("tensor(").removesuffix(")")
    return _ELEMENT.get(inner) if text.startswith("tensor(") else None


def load_onnx_rules(spec_dir: Path, diagnostics: Diagnostics) -> OnnxModel:
    """Read ``spec_dir/*.yaml``; every problem goes to ``diagnostics``, what is right is returned."""
    families: dict[str, tuple[OnnxRule, ...]] = {}
    seen: dict[str, Span] = {}
    for path in sorted(spec_dir.glob("*.yaml")):
        display = f"specs/onnx/{path.name}"
        rules = []
        previous = ""
        for entry in load(path, display, diagnostics):
            rule = _EntryReader(path.stem, diagnostics).read(entry)
            if rule is None:
                continue
            if rule.key in seen:
                first = seen[rule.key]
                diagnostics.error(
                    entry.span, f"a second rule for {rule.key}", [f"the first is at {first}"], "keep one of the two"
                )
                continue
            if rule.key < previous:
                diagnostics.error(entry.span, f"{rule.key} must come before {previous}: entries are sorted by name")
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
            self.diagnostics.error(entry.span, "an entry is a mapping that begins with 'onnx: Operator'")
            return None
        self.entry = entry
        for key, _ in entry.items():
            if key.text not in _KEYS:
                notes = [f"keys are {', '.join(_KEYS)}"]
                self.diagnostics.error(key.span, f"unknown key '{key.text}'{suggestion(key.text, _KEYS)}", notes)
        schema = self._schemas()
        if schema is None:
            return None
        self.versions = schema
        self.reader = ExpressionReader(schema, self.diagnostics)
        rule = OnnxRule(
            schema[-1].key, self.family, schema, why=self._text("why"), note=self._text("note")
        )
        return self._python(rule) if entry.get("python") else self._inferred(rule)

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
            where = domain.span if domain else self.entry.span
            self.diagnostics.error(where, f"unknown domain '{domain_text}'", [f"domains are {known_domains()}"])
            return None
        versions = versions_between(op.text, domain_text)
        if not versions:
            known = operators(domain_text)
            self.diagnostics.error(
                op.span,
                f"no supported opset of domain '{domain_text}' has an operator '{op.text}'{suggestion(op.text, known)}",
            )
            return None
        return versions

    def _python(self, rule: OnnxRule) -> OnnxRule | None:
        node = self.entry.get("python")
        assert node is not None
        text = self._text("python") or ""
        for key in ("shape", "shapes", "dtype", "value", "values"):
            if (other := self.entry.key(key)) is not None:
                self.diagnostics.error(other.span, f"python: infers everything, so '{key}' is never read", fix="drop it")
        if rule.why is None:
            self.diagnostics.error(node.span, "python: needs 'why:', the reason why no expression will do")
        name = text.removeprefix(_PYTHON)
        if not text.startswith(_PYTHON) or name not in rule_words():
            self.diagnostics.error(
                node.span, f"'{text}' is not a function of ortable.rules{suggestion(name, rule_words())}"
            )
            return None
        if rule_words()[name].least != 4:
            self.diagnostics.error(node.span, f"'{name}' must take (inputs, attrs, n_outputs, opset)")
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
        shapes, values = self._whole("shapes", "shape", several), self._whole("values", "value", several)
        if several and any(e is not None and e.source != "None" for e in shape.values()):
            self.diagnostics.error(self.entry.span, "a variadic output takes 'shapes', or 'shape: unknown'")
        if several and shapes is None and not shape:
            fix = f"shapes: ...   # one shape per {formals[0].name}"
            self.diagnostics.error(self.entry.span, f"{rule.key} has a variadic output, and no 'shapes'", fix=fix)
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
        return self.reader.read(node.text, node.span, aspect)

    def _per_output(self, key: str, aspect: str, required: bool) -> dict[str, Expression | None]:
        """Expression of each output that ``key`` names; a plain expression is that of the only output."""
        names = [f.name for f in self.versions[-1].outputs]
        node = self.entry.get(key)
        if node is None:
            if required:
                self.diagnostics.error(self.entry.span, f"'{key}' is missing", fix=f"write '{key}: unknown' if it is")
            return {}
        if isinstance(node, YScalar):
            if len(names) != 1:
                self.diagnostics.error(node.span, f"several outputs: give '{key}' as a mapping of {', '.join(names)}")
                return {}
            return {names[0]: self._expression(node, aspect)}
        if isinstance(node, YSeq):
            self.diagnostics.error(node.span, f"'{key}' is an expression, or a mapping of outputs to expressions")
            return {}
        found = {}
        for name, child in node.items():
            if name.text not in names:
                close = suggestion(name.text, names)
                self.diagnostics.error(name.span, f"no output '{name.text}'{close}", [f"outputs are {', '.join(names)}"])
            else:
                found[name.text] = self._expression(child, aspect)
        missing = [n for n in names if n not in found]
        if required and missing:
            fix = f"{missing[0]}: unknown   # if it is"
            self.diagnostics.error(node.span, f"no {key} for output '{missing[0]}'", fix=fix)
        return found

    def _output(
        self, index: int, name: str, shape: Expression | None, dtype: Expression | None, value: Expression | None
    ) -> Output:
        bound = bound_dtype(self.versions, index)
        if bound is not None and dtype is not None:
            node = self.entry.key("dtype")
            assert node is not None
            what = "fixes it" if not bound[1] else f"binds it to {', '.join(sorted(bound[1]))}"
            self.diagnostics.error(node.span, f"dtype of '{name}' is redundant: the schema {what}", fix="drop it")
        if bound is None and dtype is None:
            tensor = any(element_type(t) for s in self.versions for t in s.allowed(s.outputs[index].type))
            if tensor:
                fix = f"dtype: {{{name}: ...}}" if len(self.versions[-1].outputs) > 1 else "dtype: ..."
                self.diagnostics.error(
                    self.entry.span, f"the schema does not bind the dtype of output '{name}'", fix=fix
                )
        if bound is not None:
            return Output(name, bound[0], True, shape, value, bound[1])
        used = dtype.inputs if dtype else frozenset()
        return Output(name, dtype.source if dtype else "None", False, shape, value, used)


def bound_dtype(versions: tuple[OnnxSchema, ...], index: int) -> tuple[str, frozenset[str]] | None:
    """Source text for the dtype of output ``index`` where every schema version fixes it or binds it to required inputs.

    None when some version leaves it open, or binds it to optional inputs only. The second part names the inputs read.
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


def emit_onnx_rules(model: OnnxModel) -> dict[str, str]:
    """Relative path -> text of ``ortable_generated/onnx``: one module per family and the dispatch table."""
    environment = _templates()
    files = {"ortable_generated/onnx/__init__.py": environment.get_template("onnx_init.jinja").render()}
    for family, rules in sorted(model.families.items()):
        functions = [_function(rule) for rule in sorted(rules, key=lambda r: r.key) if rule.python is None]
        if functions:
            uses = [m for m in ("dtypes", "rules") if any(f"{m}." in line for f in functions for line in f)]
            text = environment.get_template("onnx_family.jinja").render(family=family, uses=uses, functions=functions)
            files[f"ortable_generated/onnx/{family}.py"] = text
    modules = sorted({r.family for r in model.rules if r.python is None})
    table = [(r.key, f"rules.{r.python}" if r.python else f"{r.family}.{r.function_name}") for r in model.rules]
    uses_rules = any(r.python for r in model.rules)
    text = environment.get_template("onnx_dispatch.jinja").render(modules=modules, table=table, rules=uses_rules)
    files["ortable_generated/onnx/dispatch.py"] = text
    return files


def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )


def _function(rule: OnnxRule) -> list[str]:
    """Lines of the function of a rule."""
    schema = rule.versions[-1]
    lines = [f"def {rule.function_name}(inputs, attrs, n_outputs, opset):", f'    """{schema.signature()}"""']
    if rule.note:
        lines.append(f"    # {rule.note}")
    lines += _bind_inputs(rule)
    if rule.shapes is not None:
        lines += _variadic(rule)
        return lines
    if schema.outputs[0].variadic:
        return [*lines, f"    return (({rule.outputs[0].dtype}, None, None),) * n_outputs"]
    results = []
    one = len(rule.outputs) == 1
    for output in rule.outputs:
        suffix = "" if one else f"_{output.name}"
        dtype, shape, value = output.dtype, output.shape.source if output.shape else "None", "None"
        if output.value is not None:
            lines.append(f"    dtype{suffix} = {dtype}")
            dtype = f"dtype{suffix}"
            if _reads_result(output.value):
                lines.append(f"    result = {shape}")
                shape = "result"
            lines.append(f"    value{suffix} = None")
            lines.append(f"    if {dtype} in rules.INDEX_TYPES:")
            lines.append(f"        value{suffix} = rules.fit({dtype}, {output.value.source})")
            value = f"value{suffix}"
        results.append(f"({dtype}, {shape}, {value})")
    if one:
        lines.append(f"    return ({results[0]},)")
    else:
        lines += ["    if n_outputs == 1:", f"        return ({results[0]},)", "    known = ("]
        lines += [f"        {result}," for result in results]
        lines += ["    )", "    return known[:n_outputs]"]
    return lines


def _reads_result(value: Expression) -> bool:
    import ast

    return any(isinstance(n, ast.Name) and n.id == "result" for n in ast.walk(ast.parse(value.source)))


def _variadic(rule: OnnxRule) -> list[str]:
    output = rule.outputs[0]
    assert rule.shapes is not None
    lines = [f"    dtype = {output.dtype}", f"    result = {rule.shapes.source}"]
    if rule.values is None:
        return [*lines, "    return tuple((dtype, shape, None) for shape in result)"]
    return [
        *lines,
        "    values = (None,) * n_outputs",
        "    if dtype in rules.INDEX_TYPES:",
        f"        values = {rule.values.source}",
        "    return tuple((dtype, shape, value) for shape, value in zip(result, values))",
    ]


def _bind_inputs(rule: OnnxRule) -> list[str]:
    """Statements that name the inputs that the rule reads; omitted optional ones are None."""
    used: set[str] = set()
    for output in rule.outputs:
        used |= output.dtype_inputs
        for expression in (output.shape, output.value):
            used |= expression.inputs if expression else frozenset()
    for expression in (rule.shapes, rule.values):
        used |= expression.inputs if expression else frozenset()
    lines = []
    seen: set[str] = set()
    for schema in reversed(rule.versions):
        for position, formal in enumerate(schema.inputs):
            if formal.name not in used or formal.name in seen or formal.variadic:
                continue
            seen.add(formal.name)
            missing = any(s.input_index(formal.name) is None for s in rule.versions)
            get = f"inputs[{position}]"
            if formal.optional or missing:
                get += f" if len(inputs) > {position} else None"
            lines.append(f"    {formal.name} = {get}")
    return lines
