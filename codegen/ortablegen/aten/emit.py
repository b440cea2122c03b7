"""Emit the converters, rules and dispatch tables of ATen specs as Python text.

The text is sorted and has no line numbers, so that a change of one entry changes few lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ortable import dtypes
from ortablegen.language import kinds, vocabulary
from ortablegen.language.emit import Needs, block_lines, expression_text
from ortablegen.language.kinds import kind_of_torch_type
from ortablegen.schemas.torch import Argument, OpSchema
from ortablegen.source.templates import render

from . import draws, numbers, rule_functions
from .data_checks import data_check_lines
from .model import (
    AliasEntry,
    CallEntry,
    ComplexForm,
    HopEntry,
    LowerCase,
    OpEntry,
    Promote,
    Specs,
    Targets,
    complex_cases,
    complex_lets,
)
from .traits import emit_traits

TORCH = "TORCH"  # name of the installed torch's version (major, minor) in generated code


def emit_aten(specs: Specs) -> dict[str, str]:
    """Emit ``ortable_generated/aten/*.py`` as relative path -> text."""
    files = {
        "ortable_generated/aten/__init__.py": render("aten_init.py.jinja"),
        "ortable_generated/aten/dispatch.py": _dispatch_text(specs),
        "ortable_generated/aten/traits.py": emit_traits(specs.traits),
    }
    for file in specs.family_files():
        files[f"ortable_generated/aten/{family_name(file)}.py"] = family_text(specs, file)
    return files


def family_name(file: str) -> str:
    """Return ``linalg`` for ``specs/aten/linalg.yaml``."""
    return Path(file).stem


def family_text(specs: Specs, file: str, existing: Mapping[str, OpEntry] | None = None) -> str:
    """Emit one generated module: the converters and rules of one spec file.

    Args:
        specs: the entries.
        file: the spec file to emit.
        existing: operators that aliases may target in addition to the operators of ``specs``; their
            functions are imported unless their file is ``file``.
    """
    spec_keys = {entry.key for entry in specs.ops}
    other_entries = [entry for key, entry in (existing or {}).items() if key not in spec_keys]
    targets = Targets([*other_entries, *specs.ops])
    needs = Needs(helpers=targets.helpers())
    functions: list[tuple[str, list[str]]] = []
    for entry in specs.operator_entries():
        if entry.file != file:
            continue
        needs.hidden = entry.schema.names
        if isinstance(entry, OpEntry):
            if entry.lower:
                functions.append((entry.schema.function_name, _converter_lines(entry, needs)))
            if entry.draw is not None:
                functions.append(("draw_" + entry.schema.function_name, _draw_lines(entry, needs)))
            if entry.complex is not None:
                name = "complex_" + entry.schema.function_name
                functions.append((name, _complex_converter(entry, entry.complex, needs)))
            if entry.checks:
                functions.append(
                    ("check_" + entry.schema.function_name, _check_function(entry, needs))
                )
            functions.append(("rule_" + entry.schema.function_name, _rule_lines(entry, needs)))
        else:
            target = targets.find_target(entry)
            assert target is not None
            functions.extend(_alias_functions(entry, target, needs))
    functions.extend(
        (f"hop_{hop.name}", _hop_lines(hop, needs)) for hop in specs.hops if hop.file == file
    )
    functions.extend(
        (number.function_name, numbers.converter_lines(number, needs))
        for number in specs.numbers
        if number.file == file
    )
    text = "\n\n\n".join("\n".join(lines) for _, lines in sorted(functions))
    signatures = "\n".join(lines[0] for _, lines in functions)
    return render(
        "aten_family.py.jinja",
        file=file,
        imports=needs.import_lines(),
        functions=text,
        kinds=_annotation_names(signatures),
        ir=["Graph", "ResultSpec"] if "res: ResultSpec" in signatures else ["Graph"],
        typing=["TYPE_CHECKING", *_names_in(signatures, ["Any"])],
        rules="-> Rules" in text,
    )


def _annotation_names(text: str) -> list[str]:
    return _names_in(text, kinds.KIND_NAMES - {kinds.ANY, kinds.RES, kinds.OPAQUE})


def _names_in(text: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if re.search(rf"(: |-> ){name}\b", text))


# -- converters ----------------------------------------------------------------------------------


def _converter_lines(entry: OpEntry, needs: Needs) -> list[str]:
    first_parameters, last_parameter = "graph: Graph, res: ResultSpec", _drawn_parameter(entry)
    lines = [
        _format_signature(
            entry.schema.function_name, entry.schema, first_parameters, last_parameter
        ),
        _docstring_line(entry.schema),
    ]
    lines += _promotion_lines(entry.promote, "ortable.prelude.promotion", "promote_values", needs)
    for name, code in entry.let:
        lines.append(f"    {name} = {expression_text(code.expression, needs)}")
    for number, case in enumerate(entry.lower, 1):
        lines.extend(_case_lines(entry, case, number, needs))
    return lines


def _drawn_parameter(entry: OpEntry) -> str:
    """Return the parameter for the drawn tensor; "" if the lowering does not read the tensor."""
    reads_drawn = entry.draw is not None and draws.lowering_reads_drawn(entry)
    return f"{draws.DRAWN}: Result | None = None" if reads_drawn else ""


def _promotion_lines(
    promote: Promote | None, module: str, function: str, needs: Needs
) -> list[str]:
    if promote is None:
        return []
    needs.add(module, function)
    names = ", ".join(promote.args)
    opmath = f", {promote.opmath}" if promote.opmath is not None else ""
    comma = "," if len(promote.args) == 1 else ""
    return [f"    {names}{comma} = {function}(graph, {promote.kind!r}, [{names}]{opmath})"]


def _complex_converter(entry: OpEntry, form: ComplexForm, needs: Needs) -> list[str]:
    """Emit the converter that is called when an argument or the result is complex."""
    schema = entry.schema
    function = "complex_" + schema.function_name
    lines = [
        _format_signature(function, schema, "graph: Graph, res: ResultSpec"),
        _docstring_line(schema),
    ]
    if form.by_parts or form.by_products:
        function = "each_part" if form.by_parts else "products_of_parts"
        needs.add("ortable.lowerings.complex.parts", function)
        part_texts = ", ".join(f"{name!r}: {name}" for name in form.parts)
        other_arguments = [
            f"{a.name}={a.name}" for a in schema.arguments if a.name not in form.parts
        ]
        arguments = ", ".join(
            ["graph", "res", schema.function_name, f"{{{part_texts}}}", *other_arguments]
        )
        return [*lines, f"    return {function}({arguments})"]
    module = "ortable.lowerings.complex.arithmetic"
    lines += _promotion_lines(entry.promote, module, "promote_complex", needs)
    for name, code in complex_lets(entry):
        lines.append(f"    {name} = {expression_text(code.expression, needs)}")
    first_number = 1 if form.as_lower else len(entry.lower) + 1
    for number, case in enumerate(complex_cases(entry), first_number):
        lines.extend(_case_lines(entry, case, number, needs))
    return lines


def _case_lines(entry: OpEntry, case: LowerCase, number: int, needs: Needs) -> list[str]:
    tests: list[str] = []
    if case.target is not None:
        tests.append(f"graph.target == {case.target!r}")
    if case.opset is not None:
        tests.append(f"graph.opset {case.opset[0]} {case.opset[1]}")
    if case.when is not None:
        text = expression_text(case.when.expression, needs)
        is_loose = " or " in text or isinstance(case.when.expression, ast.IfExp)
        tests.append(f"({text})" if tests and is_loose else text)
    note = "".join(c if c.isprintable() or c == "\n" else "?" for c in case.note or "")
    body = [f"# {line}" for line in note.splitlines()]
    if len(entry.all_cases()) > 1:
        body.append(f"graph.case = {number}")
    body += _case_body(entry, case, needs)
    if not tests:
        return ["    " + line for line in body]
    return [f"    if {' and '.join(tests)}:", *("        " + line for line in body)]


def _case_body(entry: OpEntry, case: LowerCase, needs: Needs) -> list[str]:
    if case.refuse is not None:
        needs.add("ortable.errors", "UnsupportedCase")
        return [f"raise UnsupportedCase({f'{entry.key}: {case.refuse}'!r})"]
    if case.python is not None:
        return [f"return {_python_call(case.python.path, entry.schema, needs)}"]
    assert case.do is not None
    returns = entry.schema.returns
    return block_lines(case.do.body, needs, len(returns) == 1 and returns[0].endswith("[]"))


def _python_call(path: str, schema: OpSchema, needs: Needs) -> str:
    module, _, name = path.rpartition(".")
    if module:
        needs.add(module, name)
    # ortable's lowering gets the arguments that it has parameters for, a user's gets all
    parameters = vocabulary.lowering_signature(path)
    passed_arguments = [
        f"{a.name}={a.name}" for a in schema.arguments if parameters is None or a.name in parameters
    ]
    return f"{name}(graph, res, {', '.join(passed_arguments)})"


# prefix of a function's name -> its return type
_RETURN_TYPES = {"rule": "Rules", "draw": "RngCall | None", "check": "list[DataCheck]"}


def _format_signature(
    function: str, schema: OpSchema, first_parameters: str, last_parameter: str = ""
) -> str:
    parts = [first_parameters]
    has_star = False
    for argument in schema.arguments:
        if argument.kwarg_only and not has_star:
            parts.append("*")
            has_star = True
        parts.append(_format_parameter(argument))
    if last_parameter:
        parts += [last_parameter] if has_star else ["*", last_parameter]
    result = _RETURN_TYPES.get(function.partition("_")[0])
    if result is None:
        result = "Result" if schema.returns == ("Tensor",) else "Any"
    return f"def {function}({', '.join(parts)}) -> {result}:"


def _format_parameter(argument: Argument) -> str:
    kind = kind_of_torch_type(argument.type)
    type_name = kind.base if kind.base in kinds.KIND_NAMES and kind.base != kinds.OPAQUE else "Any"
    annotation = f"{type_name} | None" if kind.optional and type_name != "Any" else type_name
    if not argument.has_default:
        return f"{argument.name}: {annotation}"
    return f"{argument.name}: {annotation} = {_format_default(argument)}"


# the order of c10::ScalarType: a schema's default dtype is an index of this list
_TORCH_DTYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "", "complex64",
    "complex128", "boolean",
)  # fmt: skip


def _format_default(argument: Argument) -> str:
    if argument.type.startswith("ScalarType") and isinstance(argument.default, int):
        return repr(getattr(dtypes, _TORCH_DTYPES[argument.default]))
    if isinstance(argument.default, list):
        return repr(tuple(argument.default))
    return repr(argument.default)


def _docstring_line(schema: OpSchema) -> str:
    quote = next((q for q in ('"', "'") if q not in schema.text), "")
    if not quote or not schema.text.isprintable() or "\\" in schema.text:
        return f"    {schema.text!r}"
    return f"    {quote * 3}{schema.text}{quote * 3}"


# -- draws, rules, aliases, higher-order operators -----------------------------------------------


def _draw_lines(entry: OpEntry, needs: Needs) -> list[str]:
    """Emit the function that returns the `RngCall` of a call on FX nodes or numbers."""
    needs.add("ortable.dispatch", "RngCall")
    name = "draw_" + entry.schema.function_name
    text = draws.draw_text(entry, needs)
    return [_format_signature(name, entry.schema, "res: Any"), f"    return {text}"]


def _check_function(entry: OpEntry, needs: Needs) -> list[str]:
    """Emit the function that returns the data checks of a call."""
    name, drawn_parameter = "check_" + entry.schema.function_name, _drawn_parameter(entry)
    return [
        _format_signature(name, entry.schema, "graph: Graph", drawn_parameter),
        *data_check_lines(entry, needs),
    ]


def _rule_lines(entry: OpEntry, needs: Needs) -> list[str]:
    lines = [_format_signature("rule_" + entry.schema.function_name, entry.schema, "graph: Graph")]
    pairs: list[str] = []
    for rule in entry.out:
        kind = entry.promote.kind if entry.promote is not None else "default"
        dtype = rule_functions.emit_dtype(rule.dtype, needs, kind)
        pairs.append(f"({dtype}, {rule_functions.emit_shape(rule.shape, entry, needs)})")
    lines.append(f"    return ({', '.join(pairs)},)" if pairs else "    return ()")
    return lines


def _alias_functions(
    alias: AliasEntry, target: OpEntry, needs: Needs
) -> list[tuple[str, list[str]]]:
    """Emit functions that pass an alias's arguments, renamed or fixed, to those of the target."""
    argument_texts = {name: expression_text(code.expression, needs) for name, code in alias.args}
    passed_arguments: list[str] = []
    for argument in target.schema.arguments:
        text = argument_texts.get(
            argument.name, argument.name if argument.name in alias.schema.names else None
        )
        if text is not None:
            passed_arguments.append(f"{argument.name}={text}")
    functions: list[tuple[str, list[str]]] = []
    variants = [("rule_", "graph: Graph", "graph")]
    if is_pure_draw(target):
        needs.add("ortable.dispatch", "RngCall")
        variants.insert(0, ("draw_", "res: Any", "res"))
    if target.checks and alias.unchecked is None:
        needs.add("ortable.dispatch", "DataCheck")
        variants.insert(0, ("check_", "graph: Graph", "graph"))
    if target.lower:
        variants.insert(0, ("", "graph: Graph, res: ResultSpec", "graph, res"))
    if target.complex is not None:
        variants.insert(0, ("complex_", "graph: Graph, res: ResultSpec", "graph, res"))
    for prefix, first_parameters, call in variants:
        name, target_name = (
            prefix + alias.schema.function_name,
            prefix + target.schema.function_name,
        )
        if alias.file != target.file:
            needs.add(f"ortable_generated.aten.{family_name(target.file)}", target_name)
        lines = [_format_signature(name, alias.schema, first_parameters)]
        if prefix not in ("rule_", "draw_", "check_"):
            lines.append(_docstring_line(alias.schema))
        functions.append(
            (name, [*lines, f"    return {target_name}({call}, {', '.join(passed_arguments)})"])
        )
    return functions


def is_pure_draw(entry: OpEntry) -> bool:
    """Whether the drawn tensor is the result; then an alias of the operator has a draw, too."""
    return entry.draw is not None and not draws.lowering_reads_drawn(entry)


def _hop_lines(entry: HopEntry, needs: Needs) -> list[str]:
    if entry.python is None:
        needs.add("ortable.errors", "UnsupportedCase")
        arguments = "graph: Graph, res: ResultSpec, *args: Any, **kwargs: Any"
        return [
            f"def hop_{entry.name}({arguments}) -> Any:",
            f'    """Higher-order operator {entry.name}, refused"""',
            f"    raise UnsupportedCase({f'{entry.name}: {entry.refuse}'!r})",
        ]
    module, _, name = entry.python.path.rpartition(".")
    needs.add(module, name)
    arguments = ", ".join(entry.args)
    annotated = ", ".join(f"{argument}: Any" for argument in entry.args)
    return [
        f"def hop_{entry.name}(graph: Graph, res: ResultSpec, {annotated}) -> Any:",
        f'    """Higher-order operator {entry.name}({arguments})"""',
        f"    return {name}(graph, res, {arguments})",
    ]


# -- dispatch -----------------------------------------------------------------------------------


def _dispatch_text(specs: Specs) -> str:
    operators = _operator_rows(specs)
    placed = _place_rows(specs)
    hops = sorted(
        (entry.name, family_name(entry.file), f"hop_{entry.name}") for entry in specs.hops
    )
    return render(
        "aten_dispatch.py.jinja",
        operators=operators,
        version=TORCH,
        versioned=any(row.condition for row in operators) or any(c for _, c, _ in placed),
        hops=hops,
        callables=_call_rows(specs.calls, "callable"),
        methods=_call_rows(specs.calls, "method"),
        numbers=numbers.dispatch_rows(specs.numbers, "number"),
        conditions=numbers.dispatch_rows(specs.numbers, "condition"),
        place=placed,
    )


@dataclass(frozen=True, order=True)
class _Row:
    """A row of the dispatch tables; ``condition`` limits torch's version ("": any version)."""

    key: str
    condition: str
    family: str
    function: str
    is_real: bool
    is_complex: bool
    is_drawn: bool
    is_checked: bool
    mutates: str


def _operator_rows(specs: Specs) -> list[_Row]:
    targets = Targets(specs.ops)
    rows = []
    for entry in specs.operator_entries():
        target = entry if isinstance(entry, OpEntry) else targets.find_target(entry)
        assert target is not None
        drawn = target.draw is not None if target is entry else is_pure_draw(target)
        rows.append(
            _Row(
                entry.key,
                entry.versions.present.condition(TORCH),
                family_name(entry.file),
                entry.schema.function_name,
                bool(target.lower),
                target.complex is not None,
                drawn,
                bool(target.checks) and getattr(entry, "unchecked", None) is None,
                (target.mutates or "") if target is entry else "",
            )
        )
    return sorted(rows)


def _place_rows(specs: Specs) -> list[tuple[str, str, str]]:
    """List operators that torch runs, with their aliases: name, condition, reason."""
    rows = {(p.name, p.present.condition(TORCH)): p.why for p in specs.placed}
    reasons = {placed.name: placed.why for placed in specs.placed}
    for alias in specs.aliases:
        if alias.of in reasons:
            condition = alias.versions.present.condition(TORCH)
            rows.setdefault((alias.key, condition), reasons[alias.of])
    return sorted((name, condition, reason) for (name, condition), reason in rows.items())


def _call_rows(calls: tuple[CallEntry, ...], kind: str) -> list[tuple[str, str]]:
    rows = []
    for call in sorted((c for c in calls if c.kind == kind), key=lambda c: c.name):
        arguments = [repr(call.of), repr(dict(call.fixed)), repr(call.varargs)]
        arguments.append(repr(dict(call.python_only)))
        if call.exported_as is not None:
            arguments.append(f"exported_as={call.exported_as!r}")
        if call.overloads:
            arguments.append(f"several={call.overloads!r}")
        rows.append((call.name, f"CallTarget({', '.join(arguments)})"))
    return rows


def count_escapes(specs: Specs) -> tuple[int, int]:
    """Count the operators and hops with a Python lowering, and the distinct Python lowerings."""
    paths = [
        [case.python.path for case in entry.all_cases() if case.python is not None]
        for entry in specs.ops
    ]
    distinct = {path for entry_paths in paths for path in entry_paths}
    distinct |= {hop.python.path for hop in specs.hops if hop.python is not None}
    lowered_hops = [hop for hop in specs.hops if hop.python is not None]
    return sum(bool(entry_paths) for entry_paths in paths) + len(lowered_hops), len(distinct)
