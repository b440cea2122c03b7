"""Emit ONNX inference rules, a module per operator family, and tables of rules and of traits."""

from __future__ import annotations

import ast

from ortablegen.source.templates import render

from .check import Expression
from .model import OnnxModel, OnnxRule
from .traits import TRAITS


def emit_onnx_rules(model: OnnxModel) -> dict[str, str]:
    """Return relative path -> text of the modules of ``ortable_generated/onnx``."""
    files = {"ortable_generated/onnx/__init__.py": render("onnx_init.jinja")}
    for family, rules in sorted(model.families.items()):
        functions = [
            _function_lines(rule)
            for rule in sorted(rules, key=lambda r: r.key)
            if rule.has_rule and rule.python is None
        ]
        if functions:
            used_modules = [
                m
                for m in ("dtypes", "inference")
                if any(f"{m}." in line for f in functions for line in f)
            ]
            text = render(
                "onnx_family.jinja", family=family, uses=used_modules, functions=functions
            )
            files[f"ortable_generated/onnx/{family}.py"] = text
    modules = sorted({r.family for r in model.rules if r.python is None})
    table = [
        (r.key, f"inference.{r.python}" if r.python else f"{r.family}.{r.function_name}")
        for r in model.rules
    ]
    imports_inference = any(r.python for r in model.rules)
    text = render("onnx_dispatch.jinja", modules=modules, table=table, rules=imports_inference)
    files["ortable_generated/onnx/dispatch.py"] = text
    files["ortable_generated/onnx/traits.py"] = _traits_text(model)
    return files


def _traits_text(model: OnnxModel) -> str:
    """Return the text of the module of traits, without traits that no operator has."""
    traits = [
        (name.upper(), trait.meaning, sorted(model.operators_with(name)))
        for name, trait in TRAITS.items()
    ]
    traits = [row for row in traits if row[2]]
    return render("onnx_traits.jinja", traits=traits)


def _function_lines(rule: OnnxRule) -> list[str]:
    """Return the lines of a rule's function, which returns (dtype, shape, value) per output."""
    schema = rule.versions[-1]
    lines = [
        f"def {rule.function_name}(inputs, attrs, n_outputs, opset):",
        f'    """{schema.signature()}"""',
    ]
    if rule.note:
        lines.append(f"    # {rule.note}")
    lines += _bind_inputs(rule)
    if rule.shapes is not None:
        lines += _variadic_lines(rule)
        return lines
    if schema.outputs[0].variadic:
        return [*lines, f"    return (({rule.outputs[0].dtype}, None, None),) * n_outputs"]
    results = []
    has_one_output = len(rule.outputs) == 1
    for output in rule.outputs:
        suffix = "" if has_one_output else f"_{output.name}"
        dtype, shape, value = output.dtype, output.shape.source if output.shape else "None", "None"
        if output.value is not None:
            lines.append(f"    dtype{suffix} = {dtype}")
            dtype = f"dtype{suffix}"
            if _reads_result(output.value):
                lines.append(f"    result = {shape}")
                shape = "result"
            lines.append(f"    value{suffix} = None")
            lines.append(f"    if {dtype} in inference.INDEX_TYPES:")
            lines.append(
                f"        value{suffix} = inference.fitting_value({dtype}, {output.value.source})"
            )
            value = f"value{suffix}"
        results.append(f"({dtype}, {shape}, {value})")
    if has_one_output:
        lines.append(f"    return ({results[0]},)")
    else:
        lines += ["    if n_outputs == 1:", f"        return ({results[0]},)", "    known = ("]
        lines += [f"        {result}," for result in results]
        lines += ["    )", "    return known[:n_outputs]"]
    return lines


def _reads_result(value: Expression) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == "result" for n in ast.walk(ast.parse(value.source))
    )


def _variadic_lines(rule: OnnxRule) -> list[str]:
    output = rule.outputs[0]
    assert rule.shapes is not None
    lines = [f"    dtype = {output.dtype}", f"    result = {rule.shapes.source}"]
    if rule.values is None:
        return [*lines, "    return tuple((dtype, shape, None) for shape in result)"]
    return [
        *lines,
        "    values = (None,) * n_outputs",
        "    if dtype in inference.INDEX_TYPES:",
        f"        values = {rule.values.source}",
        "    return tuple((dtype, shape, value) for shape, value in zip(result, values))",
    ]


def _bind_inputs(rule: OnnxRule) -> list[str]:
    """Return assignments of the inputs that the rule reads; omitted inputs are None."""
    expressions = [rule.shapes, rule.values]
    expressions += [expression for o in rule.outputs for expression in (o.shape, o.value)]
    used = {
        name for expression in expressions if expression is not None for name in expression.inputs
    }
    used |= {name for output in rule.outputs for name in output.dtype_inputs}
    lines = []
    seen: set[str] = set()
    for schema in reversed(rule.versions):
        for position, formal in enumerate(schema.inputs):
            if formal.name not in used or formal.name in seen or formal.variadic:
                continue
            seen.add(formal.name)
            may_be_missing = any(s.input_index(formal.name) is None for s in rule.versions)
            source = f"inputs[{position}]"
            if formal.optional or may_be_missing:
                source += f" if len(inputs) > {position} else None"
            lines.append(f"    {formal.name} = {source}")
    return lines
