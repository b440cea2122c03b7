"""Check a node call against the ONNX schemas at every opset where it may run."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.schemas.onnx import DOMAIN_RANGE, Formal, OnnxSchema, operators, versions_between
from ortablegen.source.diagnostics import did_you_mean

from . import kinds, narrowing
from .kinds import ANY, NONE, RESULT, RESULTS, Kind
from .narrowing import Value
from .parse import onnx_call
from .precision import Limits, check_precision

Report = Callable[..., object]

_ATTRIBUTE_KINDS = {
    "INT": (kinds.INT, kinds.BOOL, kinds.DTYPE),
    "FLOAT": (kinds.FLOAT, kinds.INT),
    "STRING": (kinds.STR,),
    "INTS": (kinds.INTS, kinds.BOOLS),
    "FLOATS": (kinds.FLOATS, kinds.INTS),
    "STRINGS": (kinds.STRS,),
}
_FIXES = {
    "INT": "static(x) for a SymInt, int(x) for a Scalar",
    "INTS": "static(x) requires known ints",
    "FLOAT": "float(x)",
    "STRING": "a string",
}


@dataclass
class OnnxCall:
    """A CapWord call in a case or rewrite, which errors name by ``unit``.

    ``outputs`` is the number of results, None for a list. With ``spread``, ``attrs=`` passes on all
    attributes of a matched node.
    """

    node: ast.Call
    inputs: list[Value]
    attributes: dict[str, Value]
    outputs: int | None
    opsets: tuple[int, int]
    target: str | None
    spread: bool = False
    unit: str = "case"
    limits: Limits | None = None


def check_onnx_call(call: OnnxCall, error: Report) -> Value:
    """Report errors of the call; return the kind and dtypes of its results."""
    callee = onnx_call(call.node)
    assert callee is not None
    domain, op = callee
    schemas = _find_schemas(call, domain, op, error)
    count = _output_count(call)
    if not schemas:
        return _result_value(count, [None] * (count or 1))
    has_error = False

    def report_error(*arguments: object, **keywords: object) -> None:
        nonlocal has_error
        has_error = True
        error(*arguments, **keywords)

    for schema in schemas:
        _check_inputs(call, schema, report_error)
        _check_attributes(call, schema, report_error)
        _check_outputs(call, schema, count, report_error)
        if has_error:
            break
    if not has_error and call.limits is not None:
        check_precision(
            call.node, schemas, call.inputs, call.attributes, call.opsets, call.limits, error
        )
    return _result_value(count, _output_dtypes(call, schemas[-1], count or 1, error))


def _find_schemas(call: OnnxCall, domain: str, op: str, error: Report) -> tuple[OnnxSchema, ...]:
    if op not in operators(domain):
        hint = did_you_mean(op, operators(domain))
        error(call.node, f"ONNX has no operator '{op}' in domain '{domain or 'ai.onnx'}'{hint}")
        return ()
    if domain == "com.microsoft" and call.target != "onnxruntime":
        error(
            call.node,
            f"ms.{op} exists in ONNX Runtime only",
            fix="put it into a case with target: onnxruntime, and add a standard case after it"
            if call.unit == "case"
            else f"add target: onnxruntime to the {call.unit}",
        )
    low, high = call.opsets if domain == "" else DOMAIN_RANGE[domain]
    schemas = versions_between(op, domain, low, high)
    if not schemas or schemas[0].since > low:
        since = schemas[0].since if schemas else versions_between(op, domain)[0].since
        error(
            call.node,
            f"{op} exists from opset {since} on, but this {call.unit} may run at {low}",
            fix=f'add opset: ">={since}" to the {call.unit}'
            + (", and a case for older opsets" if call.unit == "case" else ""),
        )
    return schemas


def _output_count(call: OnnxCall) -> int | None:
    argument = next((k.value for k in call.node.keywords if k.arg == "outputs"), None)
    if argument is None:
        return call.outputs
    count = argument.value if isinstance(argument, ast.Constant) else None
    return count if isinstance(count, int) else None


def _check_inputs(call: OnnxCall, schema: OnnxSchema, error: Report) -> None:
    name = f"{schema.op}-{schema.since}"
    has_star = any(isinstance(argument, ast.Starred) for argument in call.node.args)
    if not has_star and not schema.accepts_inputs(len(call.inputs)):
        expected = _format_count(schema.min_inputs, schema.max_inputs, "input")
        error(call.node, f"{name} takes {expected}, {len(call.inputs)} given", [schema.signature()])
        return
    for position, (argument, value) in enumerate(zip(call.node.args, call.inputs, strict=True)):
        if isinstance(argument, ast.Starred):
            if value.kind.base not in (RESULTS, ANY):
                error(argument, f"{name}: '*' needs a list of results, got {value.kind}")
            continue
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        if value.kind.base in (RESULT, NONE, ANY):
            if (value.kind.optional or value.kind.base == NONE) and not formal.optional:
                error(
                    argument,
                    f"input '{formal.name}' of {name} is required, but this may be None",
                    fix=_none_fix(argument, call.unit),
                )
        else:
            is_pair = value.kind.base == kinds.COMPLEX
            actual = "a complex tensor" if is_pair else value.kind
            no_pairs = "ONNX Runtime has no complex numbers: pass the parts to nodes"
            text = f"input '{formal.name}' of {name} must be a result, got {actual}"
            notes = [no_pairs if is_pair else schema.signature()]
            error(argument, text, notes, fix=_suggest_fix(call, argument, value, formal))


def _suggest_fix(call: OnnxCall, argument: ast.expr, value: Value, formal: Formal) -> str:
    """Suggest ``re, im`` for a pair, ``as_vec`` for ints, else a constant of an operand's dtype."""
    text = ast.unparse(argument)
    if value.kind.base == kinds.COMPLEX:
        return f"re({text}), im({text})"
    is_constant = text.lstrip("-").isdecimal() and formal.type != "tensor(int64)"
    if value.kind.base in (kinds.INT, kinds.SYMINT, kinds.INTS, kinds.SYMINTS) and not is_constant:
        return f"as_vec({text})"
    return f"const({text}, {_operand_dtype_text(call)})"


def _operand_dtype_text(call: OnnxCall) -> str:
    """Return ``dtype_of(x)`` for the first operand that is a name of a result, or ``float32``."""
    for argument, value in zip(call.node.args, call.inputs, strict=False):
        if value.kind.base == RESULT and isinstance(argument, ast.Name):
            return f"dtype_of({argument.id})"
    return "float32"


def _none_fix(argument: ast.expr, unit: str) -> str:
    text = ast.unparse(argument)
    if unit == "case":
        return "add a case for None: when: x is None"
    if text.startswith("maybe("):
        return f"write {text.removeprefix('maybe(').removesuffix(')')}"
    return f"exclude it: when: {text} is not None"


def _format_count(minimum: int, maximum: int, noun: str) -> str:
    if minimum == maximum:
        return f"{minimum} {noun}{'s' * (minimum != 1)}"
    return (
        f"{minimum} to {maximum} {noun}s"
        if maximum < 1000  # ONNX gives variadic parameters a maximum of 2**31 - 1
        else f"at least {minimum} {noun}{'s' * (minimum != 1)}"
    )


def _check_attributes(call: OnnxCall, schema: OnnxSchema, error: Report) -> None:
    name = f"{schema.op}-{schema.since}"
    names = [attribute.name for attribute in schema.attributes]
    by_name = {keyword.arg: keyword for keyword in call.node.keywords}
    for attribute_name, value in call.attributes.items():
        keyword = by_name[attribute_name]
        if attribute_name == "outputs":
            continue
        attribute = schema.attribute(attribute_name)
        if attribute is None:
            hint = did_you_mean(attribute_name, names)
            note = f"attributes are {', '.join(names)}" if names else f"{name} has no attributes"
            error(keyword, f"{name} has no attribute '{attribute_name}'{hint}", [note])
            continue
        _check_attribute_value(
            keyword, value, attribute.type, attribute.required, f"{name}.{attribute_name}", error
        )
    for attribute in schema.attributes:
        if attribute.required and attribute.name not in call.attributes and not call.spread:
            error(call.node, f"{name} requires the attribute '{attribute.name}'")


def _check_attribute_value(
    keyword: ast.keyword, value: Value, type_name: str, required: bool, name: str, error: Report
) -> None:
    allowed = _ATTRIBUTE_KINDS.get(type_name)
    if allowed is None or value.kind.base == ANY:
        return
    if value.kind.base == NONE or value.kind.optional:
        if required:
            fix = "exclude None: when: x is not None"
            error(keyword.value, f"{name} is required, but this may be None", fix=fix)
        if value.kind.base == NONE:
            return
    if value.kind.base not in allowed:
        error(
            keyword.value,
            f"{name} is an attribute of type {type_name}, got {value.kind}",
            fix=_FIXES.get(type_name),
        )


def _check_outputs(call: OnnxCall, schema: OnnxSchema, count: int | None, error: Report) -> None:
    limits = _format_count(schema.min_outputs, schema.max_outputs, "output")
    if count is None and not any(output.variadic for output in schema.outputs):
        error(
            call.node,
            f"{schema.op}-{schema.since} has {limits}, but a list is needed",
            [schema.signature()],
            fix="write [...] for a list of results, or use an operator with a list of outputs",
        )
    elif count is not None and not schema.accepts_outputs(count):
        error(
            call.node,
            f"{schema.op}-{schema.since} has {limits}, but {count} are needed",
            [schema.signature()],
        )


def _output_dtypes(
    call: OnnxCall, schema: OnnxSchema, count: int, error: Report
) -> list[frozenset[int] | None]:
    """Return the dtypes of the outputs; report inputs whose dtypes are not allowed or differ."""
    bound: dict[str, frozenset[int]] = {}
    for position, (argument, value) in enumerate(zip(call.node.args, call.inputs, strict=True)):
        if isinstance(argument, ast.Starred):
            break
        formal = schema.inputs[min(position, len(schema.inputs) - 1)]
        allowed = schema.elements(formal.type) & _ELEMENTS
        if not value.dtypes or not formal.homogeneous or not allowed:
            continue
        possible = bound.get(formal.type, allowed)
        bound[formal.type] = possible & value.dtypes
        if not value.dtypes & allowed:
            names = ", ".join(sorted(dtypes.name(dtype) for dtype in value.dtypes))
            error(
                argument,
                f"input '{formal.name}' of {schema.op}-{schema.since} does not take {names}",
                [f"it takes {', '.join(sorted(dtypes.name(dtype) for dtype in allowed))}"],
                fix="cast(x, dtype), or another operator for this dtype",
            )
            bound[formal.type] = allowed
        elif not bound[formal.type]:
            error(
                argument,
                f"inputs of {schema.op}-{schema.since} must share one dtype ({formal.type})",
                fix="cast one",
            )
            bound[formal.type] = allowed
    output_dtypes: list[frozenset[int] | None] = []
    for output in map(schema.output_at, range(count)):
        allowed = schema.elements(output.type) & _ELEMENTS if output is not None else frozenset()
        output_dtypes.append(
            (bound.get(output.type, allowed) if output is not None else None) or None
        )
    return output_dtypes


# the element types that a value of the language may have
_ELEMENTS = narrowing.ALL | {dtypes.string}


def _result_value(count: int | None, output_dtypes: list[frozenset[int] | None]) -> Value:
    if count is None:
        return Value(Kind(RESULTS))
    if count == 1:
        return Value(Kind(RESULT), output_dtypes[0])
    return Value(
        Kind(RESULTS), None, tuple(Value(Kind(RESULT), members) for members in output_dtypes)
    )
