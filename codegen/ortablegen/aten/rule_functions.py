"""Functions that shape and dtype rules may call: their arguments and their Python functions.

Blocks call other functions, see `vocabulary`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ortablegen.language import vocabulary
from ortablegen.language.emit import Needs, expression_text
from ortablegen.language.parse import Code, called_name, is_call, names_in
from ortablegen.source.diagnostics import Diagnostics, did_you_mean

from .model import PROMOTE_KINDS, OpEntry, ShapeRule

MAX_FUNCTIONS = 15


@dataclass(frozen=True)
class RuleFunction:
    """A rule function: its Python function, and how each argument is read.

    ``reads`` has one letter for each argument: s = shape of a tensor, S = shapes of a tensor list,
    d = dtype of a tensor, t = the tensor (the function also gets the graph), v = the value. ``*``
    repeats the last argument.
    """

    function: str
    reads: str
    min_arguments: int
    module: str = "ortable.inference"


SHAPE_FUNCTIONS = {
    "same": RuleFunction("shape_or_none", "t", 1, "ortable.prelude.metadata"),
    "broadcast": RuleFunction("broadcast", "s*", 1),
    "reduce": RuleFunction("reduce_shape", "svv", 3),
    "permute": RuleFunction("permute_shape", "sv", 2),
    "swap": RuleFunction("swap_dims", "svv", 3, "ortable.prelude.metadata"),
    "concat": RuleFunction("concat_shape", "Sv", 2),
    "keep_leading": RuleFunction("keep_leading", "svv", 3),
    "given": RuleFunction("given_shape", "v", 1, "ortable.prelude.metadata"),
    "scalar": RuleFunction("scalar_shape", "", 0, "ortable.prelude.metadata"),
}
DTYPE_FUNCTIONS = {
    "same": RuleFunction("dtype_or_none", "t", 1, "ortable.prelude.metadata"),
    "promote": RuleFunction("promoted_dtype", "t*", 1, "ortable.prelude.promotion"),
    "promote_to_float": RuleFunction("promote_to_float", "d*", 1),
    "accumulate": RuleFunction("accumulate_dtype", "d", 1),
    "scalar_default": RuleFunction("scalar_dtype", "v", 1, "ortable.prelude.promotion"),
    "part": RuleFunction("part_type", "d", 1, "ortable.prelude.complex_value"),
    "complex_of": RuleFunction("complex_type", "d", 1, "ortable.prelude.complex_value"),
    "arg": RuleFunction("", "v", 1),
}
_READERS = {"s": "shape_or_none", "d": "dtype_or_none", "S": "shapes_or_none"}


def check_rules(entry: OpEntry, diagnostics: Diagnostics) -> None:
    """Check the number of the entry's rules, and the functions and names that the rules use."""
    returns = entry.schema.returns
    if len(entry.out) != len(returns) and not (len(returns) == 1 and len(entry.out) == 1):
        span = entry.out[0].span if entry.out else entry.span
        diagnostics.error(
            span, f"the schema has {len(returns)} results, but 'out' has {len(entry.out)} rules"
        )
    names = entry.schema.names
    for rule in entry.out:
        if rule.shape.code is not None:
            _check_expression(
                rule.shape.code, rule.shape.code.expression, SHAPE_FUNCTIONS, names, diagnostics
            )
        elif rule.shape.kind == "unify":
            _check_unify(rule.shape, entry, diagnostics)
        _check_expression(rule.dtype, rule.dtype.expression, DTYPE_FUNCTIONS, names, diagnostics)


def _check_unify(rule: ShapeRule, entry: OpEntry, diagnostics: Diagnostics) -> None:
    tensors = tensor_arguments(entry)
    if len(rule.patterns) > len(tensors):
        diagnostics.error(
            rule.span, f"{len(rule.patterns)} shape patterns for {len(tensors)} tensor arguments"
        )
    bound = {name for pattern in rule.patterns if pattern for name in pattern}
    for result in rule.results:
        for name in result:
            if name not in bound and not name.isdigit():
                diagnostics.error(
                    rule.span, f"'{name}' on the right of '->' is in no pattern on the left"
                )


def tensor_arguments(entry: OpEntry) -> list[str]:
    """Return the tensor arguments in schema order, as the patterns of a rule describe them."""
    return [
        argument.name for argument in entry.schema.arguments if argument.type.startswith("Tensor")
    ]


def _check_expression(
    code: Code,
    node: ast.expr,
    functions: dict[str, RuleFunction],
    names: frozenset[str],
    diagnostics: Diagnostics,
) -> None:
    if isinstance(node, ast.IfExp):
        _check_names(code, node.test, names, diagnostics)
        _check_expression(code, node.body, functions, names, diagnostics)
        _check_expression(code, node.orelse, functions, names, diagnostics)
        return
    if isinstance(node, ast.Name) and functions is DTYPE_FUNCTIONS:
        if node.id not in vocabulary.DTYPES:
            hint = did_you_mean(node.id, vocabulary.DTYPES)
            fix = "write a dtype such as int64, or same(x)"
            diagnostics.error(code.at(node), f"'{node.id}' is not a dtype{hint}", fix=fix)
        return
    name = called_name(node)
    if not isinstance(node, ast.Call) or name not in functions:
        text = name or ast.unparse(node)
        hint = did_you_mean(text, functions)
        diagnostics.error(
            code.at(node),
            f"unknown rule function '{text}'{hint}",
            [f"functions are {', '.join(functions)}"],
        )
        return
    rule_function = functions[name]
    max_arguments = None if rule_function.reads.endswith("*") else len(rule_function.reads)
    if len(node.args) < rule_function.min_arguments or (
        max_arguments is not None and len(node.args) > max_arguments
    ):
        diagnostics.error(
            code.at(node),
            f"'{name}' takes {rule_function.min_arguments} argument(s), {len(node.args)} given",
        )
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            message = f"'{name}' takes separate arguments; a list cannot be spread here"
            fix = "dtype of a list: arg(common_dtype(xs), else=same(xs)); shape: concat or meta"
            diagnostics.error(code.at(argument), message, fix=fix)
        _check_names(code, argument, names, diagnostics)
    for keyword in node.keywords:
        if name == "arg" and keyword.arg == "else_":
            _check_expression(code, keyword.value, functions, names, diagnostics)
        elif name == "promote" and keyword.arg == "kind":
            _check_kind(code, keyword.value, diagnostics)
        else:
            diagnostics.error(code.at(keyword), f"'{name}' has no keyword '{keyword.arg}'")


def _check_kind(code: Code, node: ast.expr, diagnostics: Diagnostics) -> None:
    kind = node.id if isinstance(node, ast.Name) else ast.unparse(node)
    if kind not in PROMOTE_KINDS:
        notes = [f"kinds are {', '.join(PROMOTE_KINDS)}"]
        diagnostics.error(code.at(node), f"unknown promotion kind '{kind}'", notes)


def _check_names(
    code: Code, node: ast.expr, names: frozenset[str], diagnostics: Diagnostics
) -> None:
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    for reference in names_in(node):
        noun, allowed = "name", [*names, *vocabulary.DTYPES]
        if id(reference) in functions:
            noun, allowed = "function", [*vocabulary.load_prelude(), *vocabulary.BUILTINS]
        if reference.id not in allowed:
            hint = did_you_mean(reference.id, allowed)
            diagnostics.error(
                code.at(reference), f"unknown {noun} '{reference.id}' in a rule{hint}"
            )


def emit_shape(rule: ShapeRule, entry: OpEntry, needs: Needs) -> str:
    """Emit a shape rule."""
    if rule.kind == "meta":
        return "None"
    if rule.kind == "unify":
        needs.add("ortable.inference", "unify_shapes")
        needs.add("ortable.prelude.metadata", "shape_or_none")
        names = tensor_arguments(entry)[: len(rule.patterns)]
        shapes = ", ".join(f"shape_or_none(graph, {name})" for name in names)
        patterns = tuple("*" if pattern is None else pattern for pattern in rule.patterns)
        return f"unify_shapes({patterns!r}, {rule.results!r}, [{shapes}])[0]"
    assert rule.code is not None
    return _emit_rule(rule.code.expression, SHAPE_FUNCTIONS, needs)


def emit_dtype(code: Code, needs: Needs, kind: str) -> str:
    """Emit a dtype rule; ``kind`` is the entry's promotion kind."""
    return _emit_rule(code.expression, DTYPE_FUNCTIONS, needs, kind)


def _emit_rule(
    node: ast.expr, functions: dict[str, RuleFunction], needs: Needs, kind: str = "default"
) -> str:
    if isinstance(node, ast.IfExp):
        body, otherwise = (
            _emit_rule(branch, functions, needs, kind) for branch in (node.body, node.orelse)
        )
        return f"{body} if {expression_text(node.test, needs)} else {otherwise}"
    if isinstance(node, ast.Name):
        needs.add("ortable.dtypes", node.id)
        return node.id
    assert is_call(node)
    rule_function = functions[called_name(node)]
    arguments = [expression_text(argument, needs) for argument in node.args]
    if called_name(node) == "arg":
        value = arguments[0]
        if not node.keywords:
            return value
        otherwise = _emit_rule(node.keywords[0].value, functions, needs, kind)
        return f"{otherwise} if {value} is None else {value}"
    needs.add(rule_function.module, rule_function.function)
    reads = rule_function.reads.rstrip("*")
    for position, text in enumerate(arguments):
        reader = _READERS.get(reads[min(position, len(reads) - 1)])
        if reader is not None:
            needs.add("ortable.prelude.metadata", reader)
            arguments[position] = f"{reader}(graph, {text})"
    if rule_function.function == "promoted_dtype":
        kind_node = next((k.value for k in node.keywords if k.arg == "kind"), None)
        arguments.insert(0, repr(kind_node.id if isinstance(kind_node, ast.Name) else kind))
    if "t" in reads:
        arguments.insert(0, "graph")
    return f"{rule_function.function}({', '.join(arguments)})"
