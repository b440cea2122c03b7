"""``draw:`` of a random operator: torch's in-place operator that samples the same random numbers.

The call is read, checked, and emitted as a function of the random operator's arguments.
"""

from __future__ import annotations

import ast

from ortablegen.language import vocabulary
from ortablegen.language.emit import Needs
from ortablegen.language.parse import Code, called_name, is_call, names_in
from ortablegen.schemas.registry import Registry
from ortablegen.source.diagnostics import Diagnostics

from .model import OpEntry

DRAWN = "drawn"
DRAW_FORM = "draw: bernoulli_(shape=same(input), p=1 - p), or {when: 0 < p, do: bernoulli_(...)}"
_ALLOWED = (
    ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def lowering_reads_drawn(entry: OpEntry) -> bool:
    """Whether the lowering reads the drawn (sampled) tensor; otherwise it is the result."""
    codes = [code for case in entry.lower for code in (case.when, case.do) if code is not None]
    return any(name.id == DRAWN for code in codes for name in names_in(*code.body))


def find_overload(call: ast.expr, registry: Registry) -> tuple[str, tuple[str, ...]] | None:
    """Return the in-place overload for exactly a call's arguments, and their order, or None."""
    if not is_call(call) or not called_name(call).endswith("_"):
        return None
    arg_names = {keyword.arg for keyword in call.keywords} - {"shape", "dtype"}
    for schema in registry.overloads(f"aten::{called_name(call)}"):
        arguments = [a for a in schema.arguments[1:] if a.torch_name != "generator"]
        if any("Tensor" in a.type for a in arguments):
            continue
        if arg_names == {a.name for a in arguments}:
            return schema.key.removeprefix("aten::"), tuple(a.name for a in arguments)
    return None


def check_draw(entry: OpEntry, diagnostics: Diagnostics) -> set[str]:
    """Report errors in the ``draw`` of an entry; return the arguments that it reads."""
    assert entry.draw is not None
    code, when = entry.draw.call, entry.draw.when
    call = code.expression
    if not isinstance(call, ast.Call) or call.args:
        text = "draw is one call of an in-place operator, with named arguments"
        diagnostics.error(code.span, text, fix=DRAW_FORM)
        return set()
    if entry.draw.overload is None:
        name = ast.unparse(call.func)
        diagnostics.error(
            code.span,
            f"torch has no in-place operator '{name}' that takes exactly these arguments",
            fix="give every argument by name, in addition to shape= and dtype=",
        )
    names = entry.schema.names
    values = {keyword.arg: keyword.value for keyword in call.keywords}
    shape, dtype = values.pop("shape", None), values.pop("dtype", None)
    shape_source = shape.args[0] if isinstance(shape, ast.Call) and len(shape.args) == 1 else None
    if (
        not isinstance(shape, ast.Call)
        or ast.unparse(shape.func) != "same"
        or not isinstance(shape_source, ast.Name)
        or shape_source.id not in names | {"res"}
    ):
        text = "the shape of a draw is the shape of an argument or of res"
        diagnostics.error(code.span, text, fix="shape=same(self)")
    if dtype is not None and ast.unparse(dtype) not in vocabulary.DTYPES:
        diagnostics.error(code.span, f"'{ast.unparse(dtype)}' is not a dtype", fix="dtype=boolean")
    names_read = {shape_source.id} & names if isinstance(shape_source, ast.Name) else set()
    for value in values.values():
        names_read |= _check_value(code, value, entry, diagnostics)
    if when is not None:
        names_read |= _check_value(when, when.expression, entry, diagnostics)
    if not lowering_reads_drawn(entry) and len(entry.schema.returns) > 1:
        text = "the lowering never reads 'drawn', and there are several results"
        diagnostics.error(code.span, text, fix="add a case for 'drawn is not None'")
    return names_read


def _check_value(code: Code, value: ast.expr, entry: OpEntry, diagnostics: Diagnostics) -> set[str]:
    """Report expressions that a draw cannot compute; return the names that ``value`` reads."""
    names = entry.schema.names
    names_read = set()
    for node in ast.walk(value):
        if not isinstance(node, _ALLOWED):
            diagnostics.error(code.at(node), "a draw computes with arguments and numbers only")
            break
        if isinstance(node, ast.Name):
            names_read.add(node.id)
            if node.id not in names:
                text = f"'{node.id}' is not an argument of the operator"
                diagnostics.error(code.at(node), text, [f"schema: {entry.schema.text}"])
    return names_read


def draw_text(entry: OpEntry, needs: Needs) -> str:
    """Emit the expression that the generated draw function returns."""
    assert entry.draw is not None
    call, when = entry.draw.call.expression, entry.draw.when
    assert isinstance(call, ast.Call)
    overload = entry.draw.overload
    assert overload is not None
    values = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    shape_source = values["shape"].removeprefix("same(").removesuffix(")")
    dtype = values.get("dtype")
    arguments = "".join(f"{values[name]}, " for name in overload[1])
    call_text = (
        f"RngCall({overload[0]!r}, {shape_source}, {dtype}, ({arguments.rstrip()}), "
        f"{not lowering_reads_drawn(entry)})"
    )
    if when is not None:
        call_text += f" if {ast.unparse(when.expression)} else None"
    if dtype is not None:
        needs.add("ortable.dtypes", dtype)
    return call_text
