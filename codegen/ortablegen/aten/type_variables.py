"""Read ``types:`` of an entry: type variables, their members (dtypes), and their arguments.

`with_variables` replaces ``T`` in the entry; `types` checks the lowering for all members.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from ortable import dtypes
from ortablegen.language import vocabulary
from ortablegen.language.entries import EntryReader
from ortablegen.language.parse import Code
from ortablegen.schemas.torch import OpSchema
from ortablegen.source.diagnostics import Span, did_you_mean
from ortablegen.source.yaml_source import YMap, YNode, YScalar

from .model import LowerCase, OpEntry, Promote, TypeVariable

FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
INTS = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8)
UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
# names of sets of dtypes in `types:`
CLASSES: dict[str, tuple[int, ...]] = {
    "float": FLOATS,
    "int": INTS,
    "number": FLOATS + INTS,
    "real": (*FLOATS, *INTS, dtypes.boolean),
    "index": (dtypes.int32, dtypes.int64),
    "unsigned": UNSIGNED,
    "any": (*FLOATS, *INTS, dtypes.boolean, *UNSIGNED),
}
ALL_DTYPES = CLASSES["any"]
# dtypes by the names that specs use
DTYPES = {name: getattr(dtypes, name) for name in vocabulary.DTYPES}


def parse_dtype_classes(text: str) -> tuple[int, ...] | str:
    """Parse ``"float int64"`` or ``"real -boolean"`` to dtypes, or return an unknown word."""
    members: set[int] = set()
    for word in text.split():
        class_name = word.removeprefix("-")
        class_dtypes = CLASSES.get(class_name) or (
            (DTYPES[class_name],) if class_name in DTYPES else ()
        )
        if not class_dtypes:
            return class_name
        members = (
            members - set(class_dtypes) if word.startswith("-") else members | set(class_dtypes)
        )
    return tuple(dtype for dtype in ALL_DTYPES if dtype in members)


def format_unknown_class(word: str) -> str:
    """Format the error for a word that names no dtypes."""
    return f"'{word}' names no dtypes{did_you_mean(word, [*CLASSES, *DTYPES])}"


def read_types(
    node: YNode | None, schema: OpSchema, promote: Promote | None, reader: EntryReader
) -> tuple[TypeVariable, ...]:
    """Read ``{T: float, index: int64}``: variables or arguments, and their members.

    A tensor argument without a key has the type of the first variable; the value of an argument
    may name a variable.
    """
    if node is None:
        return ()
    if not isinstance(node, YMap):
        reader.error(node.span, "types must be a mapping", fix="types: {T: float}")
        return ()
    kinds = {a.name: a.type for a in schema.arguments}
    promoted = promote.args if promote is not None else ()
    typed_names = {n for n, kind in kinds.items() if kind.startswith(("Tensor", "ScalarType"))}
    typed_names |= set(promoted)
    values = {key.text: value for key, value in node.items()}
    variables = [name for name in values if name not in typed_names]
    arguments_by_type: dict[str, list[str]] = {name: [] for name in variables}
    for name in (argument for argument in kinds if argument in typed_names):
        if name in values:
            value = values[name]
            variable_name = value.text if isinstance(value, YScalar) else ""
            arguments_by_type.setdefault(
                variable_name if variable_name in variables else name, []
            ).append(name)
        elif variables and not kinds[name].startswith("ScalarType"):
            arguments_by_type[variables[0]].append(name)
    spans = {key.text: key.span for key, _ in node.items()}
    read_variables = [
        _read_variable(name, values[name], arguments_by_type[name], spans[name], reader)
        for name in arguments_by_type
    ]
    type_variables = tuple(variable for variable in read_variables if variable is not None)
    for variable in type_variables:
        promoted_names = [name for name in promoted if name in variable.arguments]
        if promoted_names and len(promoted_names) < len(promoted):
            other_name = next(name for name in promoted if name not in promoted_names)
            message = (
                f"'{other_name}' is promoted with '{promoted_names[0]}', so both must have one type"
            )
            reader.error(variable.span, message, fix="use one variable for both: {T: ...}")
            return ()
    return type_variables if len(type_variables) == len(read_variables) else ()


def _read_variable(
    name: str, node: YNode, arguments: list[str], span: Span, reader: EntryReader
) -> TypeVariable | None:
    if name not in arguments and not re.fullmatch(r"[A-Z]\d?", name):
        fix = "name a variable by a capital letter: T"
        return reader.error(span, f"'{name}' is not a tensor argument of the operator", fix=fix)
    if not arguments:
        return reader.error(
            span,
            f"no argument has the type '{name}'",
            fix=f"give it to an argument: {{index: {name}}}",
        )
    members = parse_dtype_classes(reader.read_text(node, "the members") or "")
    if isinstance(members, str) or not members:
        message = format_unknown_class(members) if isinstance(members, str) else "no dtype remains"
        notes = [f"words are {', '.join(CLASSES)}, and dtypes; '-' removes a word's dtypes"]
        return reader.error(node.span, message, notes)
    return TypeVariable(name, members, tuple(arguments), span)


# -- variables in expressions ---------------------------------------------------------------------


class _Variables(ast.NodeTransformer):
    """Replaces ``T`` in an expression by the expression of its dtype."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.texts or isinstance(node.ctx, ast.Store):
            return node  # an assignment to this name is reported as never read
        replacement = ast.parse(self.texts[node.id], mode="eval").body
        for child in ast.walk(replacement):
            if isinstance(child, ast.expr | ast.keyword):
                ast.copy_location(child, node)
        return replacement


def with_variables(entry: OpEntry) -> OpEntry:
    """Replace the type variables of an entry.

    ``T`` becomes ``dtype_of(self)`` in blocks and conditions, ``same(self)`` or ``promote(self,
    other)`` in ``out``.
    """
    block_texts, out_texts = _variable_texts(entry)
    if not block_texts:
        return entry

    out = tuple(replace(rule, dtype=_expand_code(rule.dtype, out_texts)) for rule in entry.out)
    let = tuple((name, _expand_code(code, block_texts)) for name, code in entry.let)
    lower = tuple(_expand_case(case, block_texts) for case in entry.lower)
    return replace(entry, out=out, let=let, lower=lower)


def _expand_code(code: Code, texts: Mapping[str, str]) -> Code:
    if not any(name in code.text for name in texts):
        return code
    return replace(code, body=tuple(_Variables(texts).visit(statement) for statement in code.body))


def _expand_case(case: LowerCase, texts: Mapping[str, str]) -> LowerCase:
    when = _expand_code(case.when, texts) if case.when is not None else None
    do = _expand_code(case.do, texts) if case.do is not None else None
    return replace(case, when=when, do=do)


def _variable_texts(entry: OpEntry) -> tuple[dict[str, str], dict[str, str]]:
    promoted = entry.promote.args if entry.promote is not None else ()
    types = {argument.name: argument.type for argument in entry.schema.arguments}
    block_texts: dict[str, str] = {}
    out_texts: dict[str, str] = {}
    for variable in entry.types:
        tensor_names = [name for name in variable.arguments if types[name] == "Tensor"]
        if variable.name in types or not tensor_names:
            continue
        argument_name = next((name for name in tensor_names if name in promoted), tensor_names[0])
        block_texts[variable.name] = f"dtype_of({argument_name})"
        out_texts[variable.name] = (
            f"promote({', '.join(promoted)})"
            if argument_name in promoted
            else f"same({argument_name})"
        )
    return block_texts, out_texts
