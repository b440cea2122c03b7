"""Match ``dynamic_shapes`` with the leaves of the arguments, check and normalize it.

The normalized form is that of torch.export. Called by `capture`, `observation` and arguments.py;
parsing of dimension expressions has further callers.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim

from ortable import dims
from ortable.compat.torch import fx_config
from ortable.errors import BuilderError, ExportError
from ortable.exporter.frontend.module_state import replace_forward
from ortable.exporter.signature import pytrees

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: dims.floor_div,
    ast.Mod: dims.floor_mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": dims.max_of, "min": dims.min_of}
_SUMS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    kind: _OPERATORS[kind] for kind in (ast.Add, ast.Sub, ast.Mult)
}


def parse_dim_expression(text: str) -> dims.SymDim | None:
    """Parse a dimension expression of names, integers and ``+ - * // % max min``.

    The result is None for a single name or number, and for text that is not such an expression.
    """
    if text.isidentifier():
        return None
    try:
        expression = _parse_dim(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, BuilderError):
        return None
    return (
        expression
        if isinstance(expression, dims.SymDim) and not dims.is_symbol(expression)
        else None
    )


def _parse_dim(
    node: ast.AST,
    named: Callable[[str], Any] = dims.make_symbol,
    operators: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = _OPERATORS,
    functions: Mapping[str, Callable[..., Any]] = _FUNCTIONS,
) -> Any:
    """Evaluate a syntax tree; ``named`` returns the value of a name.

    Raises ValueError for syntax, operators and functions that are not in the tables.
    """
    parse = functools.partial(_parse_dim, named=named, operators=operators, functions=functions)
    if isinstance(node, ast.Name):
        return named(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -parse(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in operators:
        return operators[type(node.op)](parse(node.left), parse(node.right))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in functions
        and not node.keywords
    ):
        return functions[node.func.id](*map(parse, node.args))
    raise ValueError(f"{type(node).__name__} is no part of a dimension")


def evaluate_dim_expression(text: str, sizes: Mapping[str, int]) -> int | None:
    """Evaluate an expression such as ``past + new`` for the sizes of its names.

    The result is None if ``sizes`` lacks a name, and if ``text`` is a single name or no expression.
    """
    expression = parse_dim_expression(text)
    if expression is None or not dims.free_symbols(expression) <= set(sizes):
        return None
    return dims.evaluate_dim(expression, sizes)


def combine_values(text: str, values: Mapping[str, Any]) -> Any:
    """Evaluate an expression of ``+ - *`` with ``values``, such as torch's symbols, for the names.

    The result is None for a single name, for a name without a value, and for other operators.
    """
    if text.isidentifier() or parse_dim_expression(text) is None:
        return None
    try:
        return _parse_dim(ast.parse(text.strip(), mode="eval").body, values.__getitem__, _SUMS, {})
    except (ValueError, KeyError):
        return None


Hint: Any = type(Dim.DYNAMIC)
ShapesCollection = torch.export.ShapesCollection
AdditionalInputs = torch.export.AdditionalInputs


class NamedHint(Hint):  # type: ignore[misc]
    """A ``Dim.DYNAMIC`` with the caller's name; torch infers a bound that is None."""

    def __init__(self, name: str, least: int | None = None, most: int | None = None) -> None:
        super().__init__(Dim.DYNAMIC.type, min=least, max=most, _factory=False)
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


@dataclass(frozen=True)
class Leaf:
    """A leaf of the call: its value, its path (``cache.key_cache[0]``), and its spec.

    The spec of a tensor maps axes to dimensions (a Dim, hint or int), None for no spec. That of a
    number is a hint, an int or None.
    """

    path: str
    value: Any
    spec: Any = None

    def dims(self) -> dict[int, Any]:
        """Return the specs by axis; the axis of a number is 0."""
        if isinstance(self.spec, Mapping):
            return dict(self.spec)
        return {} if self.spec is None else {0: self.spec}


class Arguments(dict[str, Any]):
    """Arguments of a call by name; ``rest`` names the ``**kwargs`` parameter, if it is used."""

    rest: str | None = None


def bind_arguments(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Bind arguments to the parameters of ``module.forward``.

    ``*args`` and ``**kwargs`` are under the names of these parameters. Raises ExportError if the
    call does not match the signature.
    """
    signature = inspect.signature(module.forward)
    try:
        arguments = Arguments(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise ExportError(
            f"{type(module).__name__}.forward{signature} cannot be called with these arguments: "
            f"{error}"
        ) from error
    for name in arguments:
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.rest = name
    return arguments


def normalize_shapes(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> Any:
    """Convert ``dynamic_shapes`` to the form of torch.export.

    Names become NamedHints, negative axes count from 0, containers are those of the arguments, and
    keys have the order of the signature, with those of ``**kwargs`` at the end: ``[("batch", 4)]``
    becomes ``{"x": {0: NamedHint("batch"), 1: 4}}``. Raises ExportError for an unknown argument, a
    structure that does not match, or a dimension out of range; the message names the leaf.
    """
    if dynamic_shapes is None:
        return None
    matcher = _SpecMatcher()
    specs = _specs_by_argument(dynamic_shapes, arguments)
    matched = {key: matcher.match_spec(key, arguments[key], spec) for key, spec in specs.items()}
    matcher.check_expressions()
    kwargs_shapes = matched.pop(getattr(arguments, "rest", None) or "", None)
    return {**matched, **(kwargs_shapes or {})}


def collect_leaf_specs(
    dynamic_shapes: Any, arguments: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> list[Leaf]:
    """Return every leaf of the call with its spec, in the order of torch.export's placeholders.

    Positional arguments come first, then ``kwargs`` in the caller's order. Raises the errors of
    `normalize_shapes`.
    """
    matcher = _SpecMatcher()
    specs = _specs_by_argument(dynamic_shapes, arguments)
    by_name: dict[str, list[Leaf]] = {}
    for key, value in arguments.items():
        if key != getattr(arguments, "rest", None):
            matcher.leaves = by_name.setdefault(key, [])
            matcher.match_spec(key, value, specs.get(key))
            continue
        kwarg_specs = specs.get(key) or {}
        for name, item in value.items():
            matcher.leaves = by_name.setdefault(name, [])
            matcher.match_spec(f"{key}[{name!r}]", item, kwarg_specs.get(name))
    matcher.check_expressions()
    positional = [name for name in by_name if name not in kwargs]
    return [leaf for name in [*positional, *kwargs] for leaf in by_name.get(name, [])]


def _specs_by_argument(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = list(arguments)
    if isinstance(dynamic_shapes, Mapping):
        specs = dict(dynamic_shapes)
        kwargs_name = getattr(arguments, "rest", None)
        for key in [key for key in specs if key not in arguments]:
            if kwargs_name is None or key not in arguments[kwargs_name]:
                raise ExportError(
                    f"dynamic_shapes names {key!r}, but the arguments of the model are {names}"
                )
            specs.setdefault(kwargs_name, {})
            specs[kwargs_name] = {**(specs[kwargs_name] or {}), key: specs.pop(key)}
        return {key: specs.get(key) for key in arguments}
    if not isinstance(dynamic_shapes, (list, tuple)) or len(dynamic_shapes) != len(arguments):
        raise ExportError(
            "dynamic_shapes is a dict by argument name or one entry for each of "
            f"{names}, not {dynamic_shapes!r}"
        )
    return dict(zip(arguments, dynamic_shapes, strict=True))


class _SpecMatcher:
    """Matches arguments with their specs, and collects leaves and sizes by name."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.sizes: dict[str, tuple[str, int]] = {}  # name in a string -> first location, size
        self.dim_sizes: dict[str, int] = {}  # name of a Dim -> size

    def match_spec(self, path: str, value: Any, spec: Any) -> Any:
        """Return ``spec`` for an argument in torch's form, and append its leaves to ``leaves``."""
        children = pytrees.container_children(value)
        if children is not None:
            specs = self._child_specs(path, value, spec, children)
            items = [
                self.match_spec(pytrees.child_path(path, value, key), child, item)
                for (key, child), item in zip(children, specs, strict=True)
            ]
            return pytrees.rebuild_container(value, items)
        if isinstance(value, torch.Tensor):
            matched = self._match_tensor(path, value, spec)
        else:
            matched = self._match_number(path, value, spec)
        self.leaves.append(Leaf(path, value, matched))
        return matched

    def _child_specs(
        self, path: str, value: Any, spec: Any, children: Sequence[tuple[Any, Any]]
    ) -> list[Any]:
        """Return the spec of each child of a container; raise ExportError if they do not match."""
        keys = [key for key, _ in children]
        if spec is None or (not children and not spec):
            return [None] * len(children)
        is_registered = not pytrees.is_builtin(value)
        if is_registered and type(spec) is type(value):
            spec_by_key = dict(
                pytrees.container_children(spec) or ()
            )  # a dataclass omits fields that are None
            if all(key in keys for key in spec_by_key):
                return [spec_by_key.get(key) for key in keys]
        if isinstance(spec, Mapping):
            if is_registered and _are_dims(spec):
                return [_spec_for_tensors(child, spec) for _, child in children]
            # of a dataclass, fields that are None, a string... are no children
            is_dataclass = dataclasses.is_dataclass(value)
            fields = {field.name for field in dataclasses.fields(value)} if is_dataclass else ()
            if all(key in keys or (item is None and key in fields) for key, item in spec.items()):
                return [spec.get(key) for key in keys]
        elif isinstance(spec, (list, tuple)) and not pytrees.is_mapping(value):
            count = sum(1 for _, child in children for _ in pytrees.leaf_paths("", child))
            if (
                is_registered
                and len(spec) == count
                and all(item is None or _are_dims(item) for item in spec)
            ):
                # [None] may be of a container with one tensor, or of a tensor of rank 1
                return _group_specs(children, (item if _has_dims(item) else None for item in spec))
            if len(spec) == len(children):
                return list(spec)
        raise ExportError(
            f"dynamic_shapes of '{path}' needs one entry for each of its {len(children)} items "
            f"({', '.join(map(str, keys))}), not {spec!r}"
            if not pytrees.is_mapping(value)
            else f"dynamic_shapes of '{path}' is a dict with keys among {keys}, not {spec!r}"
        )

    def _match_tensor(self, path: str, value: torch.Tensor, spec: Any) -> dict[int, Any] | None:
        rank = value.dim()
        if spec is None:
            return None
        if isinstance(spec, Mapping):
            invalid = [axis for axis in spec if type(axis) is not int or not -rank <= axis < rank]
            if invalid:
                raise ExportError(
                    f"dynamic_shapes of '{path}' names dimension {invalid[0]!r}, but it has rank "
                    f"{rank} (shape {tuple(value.shape)})"
                )
            items = {(axis + rank if axis < 0 else axis): dim for axis, dim in spec.items()}
        elif isinstance(spec, (list, tuple)) and len(spec) == rank:
            items = dict(enumerate(spec))
        else:
            raise ExportError(
                f"dynamic_shapes of '{path}' is a dict by dimension or one entry for each of its "
                f"{rank} dimensions, not {spec!r}"
            )
        return {
            axis: self._match_dim(path, axis, dim, value.shape[axis])
            for axis, dim in items.items()
            if dim is not None
        }

    def _match_dim(self, path: str, axis: int, dim: Any, size: Any) -> Any:
        location = f"dimension {axis} of '{path}'"
        if isinstance(dim, int) and not isinstance(dim, bool):
            if isinstance(size, int) and dim != size:
                raise ExportError(f"{location} is {dim} in dynamic_shapes, but its size is {size}")
            return dim
        if isinstance(dim, NamedHint):
            return NamedHint(self._check_name(location, dim.name, size), dim.min, dim.max)
        if isinstance(dim, (Dim, Hint)):
            if isinstance(dim, Dim) and isinstance(size, int):
                self.dim_sizes[dim.__name__] = size
            return dim
        return NamedHint(self._check_name(location, dim, size))

    def _check_name(self, location: str, name: Any, size: Any) -> str:
        """Return the name of a dimension, an expression in normal form; record its size.

        Raises ExportError for an invalid name, and for two sizes of one name.
        """
        if not isinstance(name, str):
            raise ExportError(
                f"{location} is {name!r} in dynamic_shapes: it can be a name, a torch.export.Dim, "
                "Dim.DYNAMIC, Dim.AUTO, Dim.STATIC, the size itself, or None"
            )
        if not name.isidentifier():
            expression = parse_dim_expression(name)
            if expression is None:
                raise ExportError(
                    f"{location} is named {name!r}, which is neither an identifier nor an "
                    "expression such as 'past + new'"
                )
            name = str(expression)
        if isinstance(size, int):
            first_location, expected = self.sizes.setdefault(name, (location, size))
            if expected != size:
                raise ExportError(
                    f"{location} and {first_location} have the name '{name}' but the sizes {size} "
                    f"and {expected}: dimensions of one name have one size"
                )
        return name

    def check_expressions(self) -> None:
        """Check dimensions that are named by an expression of others (``past + new``).

        Raises ExportError if no dimension has a name in the expression, or if the value of the
        expression is not the size.
        """
        sizes = self.dim_sizes | {name: size for name, (_, size) in self.sizes.items()}
        for name, (location, size) in self.sizes.items():
            expression = None if name.isidentifier() else parse_dim_expression(name)
            if expression is None:
                continue
            missing = sorted(dims.free_symbols(expression) - set(sizes))
            if missing:
                raise ExportError(
                    f"{location} is named '{name}', and no dimension is named '{missing[0]}'"
                )
            try:
                expected = dims.evaluate_dim(expression, sizes)
            except BuilderError as error:  # a division by zero
                raise ExportError(
                    f"{location} is named '{name}', which has no size in args: {error}"
                ) from error
            if expected != size:
                raise ExportError(
                    f"{location} is named '{name}', which is {expected} in args, but its size is "
                    f"{size}"
                )

    def _match_number(self, path: str, value: Any, spec: Any) -> Any:
        """Match the spec of a value that is not a tensor; only integers can be dynamic."""
        if isinstance(value, enum.Enum):
            raise ExportError(
                f"'{path}' is {value}, and torch.export does not support enum members together "
                "with dynamic_shapes: pass its value, or make it an attribute of the module"
            )
        if spec is None or (isinstance(spec, (Mapping, list, tuple)) and not spec):
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            if isinstance(spec, (str, Dim, NamedHint)):
                name = getattr(spec, "__name__", None) or getattr(spec, "name", spec)
                if hasattr(spec, "root"):
                    raise ExportError(
                        f"'{path}' is a number: its name in dynamic_shapes cannot be the derived "
                        f"dimension {name}"
                    )
                return NamedHint(self._check_name(f"'{path}'", name, value), *_dim_bounds(spec))
            if isinstance(spec, Hint):
                return spec
            if isinstance(spec, int) and not isinstance(spec, bool):
                if spec != value:
                    raise ExportError(f"'{path}' is {spec} in dynamic_shapes, but {value} in args")
                return None  # a constant
        if isinstance(spec, Hint) and spec.type != Dim.DYNAMIC.type:
            return None  # Dim.AUTO or Dim.STATIC: torch treats the value as a constant
        problem = pytrees.unsupported_leaf_text(path, value)
        if problem is not None:
            raise ExportError(problem)
        raise ExportError(
            f"dynamic_shapes gives {spec!r} for '{path}', which is {value!r}: only tensors and "
            "integers can be dynamic. Other values are constants of the model; to make a number an "
            "input, pass it as a 0-d tensor"
        )


def _are_dims(spec: Any) -> bool:
    """Whether ``spec`` lists the dimensions of a tensor: by axis, or in order."""
    nested = (Mapping, list, tuple)
    if isinstance(spec, Mapping):
        return all(type(k) is int and not isinstance(v, nested) for k, v in spec.items())
    return isinstance(spec, (list, tuple)) and not any(isinstance(v, nested) for v in spec)


def _has_dims(spec: Any) -> bool:
    return not isinstance(spec, list) or any(dim is not None for dim in spec)


def _dim_bounds(spec: Any) -> tuple[int | None, int | None]:
    """Return the caller's smallest and largest value of a Dim; None for a name."""
    if isinstance(spec, str):
        return None, None
    largest = spec.max if isinstance(spec.max, int) and spec.max < 2**62 else None
    return spec.min, largest


def _spec_for_tensors(value: Any, spec: Any) -> Any:
    """Return a spec like the container ``value``, with ``spec`` for each tensor in it."""
    children = pytrees.container_children(value)
    if children is None:
        return spec if isinstance(value, torch.Tensor) else None
    return pytrees.rebuild_container(
        value, [_spec_for_tensors(child, spec) for _, child in children]
    )


def _group_specs(children: Iterable[tuple[Any, Any]], specs: Iterator[Any]) -> list[Any]:
    """Nest specs of leaves like ``children``: ``a, b, c`` becomes, for example, ``[a, [b, c]]``."""
    groups: list[Any] = []
    for _, child in children:
        inner = pytrees.container_children(child)
        groups.append(
            next(specs)
            if inner is None
            else pytrees.rebuild_container(child, _group_specs(inner, specs))
        )
    return groups


@contextlib.contextmanager
def prepare_export(
    module: torch.nn.Module, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> Iterator[None]:
    """Make torch.export accept normalized ``dynamic_shapes`` in the block.

    Otherwise torch.export fixes a dynamic dimension whose example size is 0 or 1, and fails if
    ``**kwargs`` received arguments. The function changes nothing for other calls.
    """
    with contextlib.ExitStack() as stack:
        if dynamic_shapes and _has_small_size(dynamic_shapes, arguments):
            stack.enter_context(fx_config.patch(backed_size_oblivious=True))
        kwargs_name = getattr(arguments, "rest", None)
        if dynamic_shapes and kwargs_name is not None:
            expanded = _expand_kwargs_parameter(module.forward, kwargs_name, arguments[kwargs_name])
            stack.enter_context(replace_forward(module, expanded))
        yield


def _has_small_size(dynamic_shapes: Any, arguments: Mapping[str, Any]) -> bool:
    return any(
        isinstance(leaf.value, torch.Tensor)
        and leaf.value.shape[axis] in (0, 1)
        and not isinstance(dim, int)
        and getattr(dim, "type", None) not in (Dim.STATIC.type, Dim.AUTO.type)
        for leaf in collect_leaf_specs(dynamic_shapes, arguments, {})
        for axis, dim in leaf.dims().items()
    )


def _expand_kwargs_parameter(forward: Any, kwargs_name: str, names: Iterable[str]) -> Any:
    """Wrap ``forward`` in a function whose signature has ``names`` in place of ``**kwargs``."""
    signature = inspect.signature(forward)
    remaining = [
        parameter for name, parameter in signature.parameters.items() if name != kwargs_name
    ]
    keyword_only = inspect.Parameter.KEYWORD_ONLY

    def spelled_out(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    parameters = [*remaining, *(inspect.Parameter(name, keyword_only) for name in names)]
    spelled_out.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return spelled_out


# -- translate errors of torch.export about arguments

# torch reports many conditions that follow from one; the first ones come from lines of the model.
MAX_REASONS = 2
_REMEDIES = (  # few lines, since a message has at most 15
    "What to do: for a Python loop over it ExportOptions(loops=True); for nn.GRU, nn.LSTM, nn.RNN",
    "  with ortable.bypass_export_some_errors(); for dimensions that must be equal one name;",
    "  if the range of a Dim is too large, give a name instead: torch then finds the range;",
    "  or leave the dimension out of dynamic_shapes, or change the code that fixes it.",
)


def explain_export_error(
    error: Exception, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> ExportError | None:
    """Return an ExportError for a dynamic dimension that cannot vary, or an unregistered class.

    The result is None for other errors. ``dynamic_shapes`` is the result of `normalize_shapes`.
    """
    text = str(error)
    if "Unsupported input type" in text:
        problems = [
            problem
            for key, value in arguments.items()
            for path, leaf in pytrees.leaf_paths(key, value)
            if (problem := pytrees.unsupported_leaf_text(path, leaf)) is not None
        ]
        return ExportError("\n".join(problems)) if problems else None
    match = re.search(r"Found <class '([\w.<>]+)'> in output", text)
    if match:
        class_name = match[1]
        return ExportError(
            f"the model returns a {class_name}, whose fields torch.export does not know: register "
            "it once, before to_onnx, with torch.export.register_dataclass (a dataclass) or "
            "torch.utils._pytree.register_pytree_node, or return a tuple or dict"
        )
    if "Constraints violated" not in text and "marked" not in text and "specialized" not in text:
        return None
    return _dimension_error(text, collect_leaf_specs(dynamic_shapes, arguments, {}))


def _dimension_error(text: str, leaves: Sequence[Any]) -> ExportError:
    """Return the error about the dimensions of ``leaves`` that torch's message ``text`` names."""
    violated = {
        name.strip()
        for names in re.findall(r"Constraints violated \(([^)]*)\)", text)
        for name in names.split(",")
    }
    sources = {
        (_normalize_path(f"{base}{path}"), int(axis))
        for pattern in (
            r"L\['(\w+)'\](\S*?)\.size\(\)\[(\d+)\]",
            r"inputs\['?(\w+)'?\](\S*?)\.shape\[(\d+)\]",
        )
        for base, path, axis in re.findall(pattern, text)
    }
    locations = []
    for leaf in leaves:
        for axis, dim in leaf.dims().items():
            name = getattr(dim, "__name__", None) or getattr(dim, "name", None)
            if name in violated or (_normalize_path(leaf.path), axis) in sources:
                size = leaf.value.shape[axis] if isinstance(leaf.value, torch.Tensor) else "?"
                locations.append(
                    f"  input '{leaf.path}', dimension {axis} ({name or dim}), size {size} in args"
                )
    torch_lines = [line.strip() for line in text.splitlines() if line.strip().startswith("- ")]
    reasons = [
        line.partition(" If you're using ")[0] for line in torch_lines
    ]  # drop the advice about mark_dynamic
    suggested = text.partition("Suggested fixes:")[2].partition("\n\n")[0]
    fixes = [line.strip() for line in suggested.splitlines() if line.strip()]
    lines = ["the dynamic shapes do not fit the model:", *locations]
    lines += (f"  {reason}" for reason in reasons[:MAX_REASONS])
    if len(reasons) > MAX_REASONS:
        lines.append(
            f"  ... and {len(reasons) - MAX_REASONS} more (error.details has torch's message)"
        )
    if fixes:
        lines += ["torch suggests:", *(f"  {fix}" for fix in fixes)]
    lines += _REMEDIES
    return ExportError("\n".join(lines), details="\n".join([*lines, "", text]))


def _normalize_path(path: str) -> str:
    """Replace ``['key']`` by ``.key``: torch and `pytrees` may spell a path differently."""
    return re.sub(r"\['(\w+)'\]", r".\1", path)
