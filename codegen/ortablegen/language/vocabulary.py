"""The names that specs may use: the runtime's functions, Python's functions, dtypes, constants.

Functions of the runtime are parsed from their source files, which are not imported.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ortable import dtypes
from ortablegen.schemas.torch import OpSchema

from .kinds import (
    ANY,
    BOOL,
    FLOAT,
    GRAPH_KINDS,
    INT,
    INTS,
    KIND_NAMES,
    RESULT,
    RESULTS,
    STR,
    SYMINT,
    SYMINTS,
    TENSOR,
    TENSORS,
    Kind,
    kind_of_torch_type,
)  # fmt: skip

RUNTIME = Path(dtypes.__file__).parent
DTYPES = (
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "boolean", "complex64", "complex128",
)  # fmt: skip
CONSTANTS = {"inf": "float('inf')", "nan": "float('nan')", "pi": "3.141592653589793"}
# Functions of Python's module `math`, for numbers that are known during conversion.
MATH = ("factorial", "log", "sqrt")
# Functions of Python -> kind of the result, None if it depends on the arguments.
BUILTINS: dict[str, str | None] = {
    "len": INT, "int": INT, "float": FLOAT, "bool": BOOL, "abs": None, "min": None, "max": None,
    "sum": SYMINT, "range": INTS, "list": None, "tuple": None, "sorted": INTS, "str": STR,
    "any": BOOL, "all": BOOL, "reversed": None, "zip": ANY, "enumerate": ANY,
    **dict.fromkeys(MATH, FLOAT),
}  # fmt: skip

# annotation of a function -> kind, for the functions of ONNX rules and for all others
_RULE_KINDS = {"Shape": SYMINTS, "int": INT, "str": STR}
_KINDS = {kind: kind for kind in KIND_NAMES}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function that specs may call."""

    name: str
    kind: Kind
    required: bool
    variadic: bool = False


@dataclass(frozen=True)
class HelperFunction:
    """A function that specs may call.

    ``takes_graph``: its first parameter is the graph, which specs do not pass and ``parameters``
    leave out. ``makes_nodes``: it may add nodes or constants to the graph.
    """

    name: str
    module: str
    takes_graph: bool
    parameters: tuple[Parameter, ...]
    result: Kind
    makes_nodes: bool
    operator: str = ""  # the torch operator that it lowers: `aten::sinh` for `aten_sinh`

    def signature(self) -> str:
        """Format ``const(value, dtype?) -> Result``; ``?`` marks optional parameters."""
        names = (
            ("*" if p.variadic else "") + p.name + ("" if p.required or p.variadic else "?")
            for p in self.parameters
        )
        return f"{self.name}({', '.join(names)}) -> {self.result}"


@cache
def load_prelude() -> dict[str, HelperFunction]:
    """Return name -> function, for ``__all__`` of the modules of the prelude and of lowerings."""
    functions = _listed_functions("prelude", "lowerings")
    return {function.name: _make_helper(function, _module_of(path)) for path, function in functions}


def operator_helpers(schemas: Iterable[OpSchema]) -> dict[str, HelperFunction]:
    """Return name -> function for calls of operators: ``aten_sinh(x)``, also of complex pairs."""
    tensor_kinds = {RESULT: TENSOR, RESULTS: TENSORS}
    helpers: dict[str, HelperFunction] = {}
    for schema in schemas:
        parameters = []
        for argument in schema.arguments:
            kind = kind_of_torch_type(argument.type)
            kind = replace(kind, base=tensor_kinds.get(kind.base, kind.base))
            parameters.append(Parameter(argument.name, kind, not argument.has_default))
        result = Kind(TENSOR if schema.returns == ("Tensor",) else TENSORS)
        name = schema.function_name
        helpers[name] = HelperFunction(name, "", True, tuple(parameters), result, True, schema.key)
    return helpers


@dataclass(frozen=True)
class Listing:
    """A function in a module's ``__all__``, with the first sentence of its docstring."""

    name: str
    file: str
    line: int
    summary: str


@cache
def load_listings() -> tuple[Listing, ...]:
    """Return a listing for each function of specs and rewrites, in each module that lists it."""
    return tuple(
        Listing(
            function.name,
            f"runtime/ortable/{path.relative_to(RUNTIME).as_posix()}",
            function.lineno,
            _first_sentence(function),
        )
        for path, function in _listed_functions("prelude", "lowerings", "passes/rewrite/helpers")
    )


def find_duplicate_listings() -> list[tuple[Listing, Listing]]:
    """Return pairs of listings with the same name, which must be unique."""
    first_listings: dict[str, Listing] = {}
    pairs = []
    for listing in load_listings():
        if listing.name in first_listings:
            pairs.append((first_listings[listing.name], listing))
        else:
            first_listings[listing.name] = listing
    return pairs


def _first_sentence(function: ast.FunctionDef) -> str:
    text = " ".join((ast.get_docstring(function) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".")


@cache
def inference_helpers() -> dict[str, HelperFunction]:
    """Return the functions that ONNX rules call: the public ones of ``ortable/inference/*.py``."""
    helpers: dict[str, HelperFunction] = {}
    for path in sorted((RUNTIME / "inference").glob("*.py")):
        for function in _public_functions(path):
            helper = _make_helper(function, "ortable.inference", _RULE_KINDS)
            helpers[function.name] = replace(helper, makes_nodes=False)
    return helpers


@cache
def rewrite_helpers() -> dict[str, HelperFunction]:
    """Return the functions of specs, and those of ``ortable/passes/rewrite/helpers``."""
    helpers = dict(load_prelude())
    for path, function in _listed_functions("passes/rewrite/helpers"):
        helper = _make_helper(function, _module_of(path))
        # a function of rewrites that returns a result may find it in the graph and make no node
        is_maker = helper.makes_nodes and function.name in _node_makers(path)
        helpers[function.name] = replace(helper, makes_nodes=is_maker)
    return helpers


def _module_of(path: Path) -> str:
    return ".".join(("ortable", *path.relative_to(RUNTIME).with_suffix("").parts))


def _listed_functions(*folders: str) -> Iterator[tuple[Path, ast.FunctionDef]]:
    """Yield the functions in ``__all__`` of all modules below ``folders``, with their files."""
    for path in (path for folder in folders for path in sorted((RUNTIME / folder).rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assignments = (node for node in tree.body if isinstance(node, ast.Assign))
        export_lists = [
            node.value for node in assignments if ast.unparse(node.targets[0]) == "__all__"
        ]
        exported_names = {name for value in export_lists for name in ast.literal_eval(value)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in exported_names:
                yield path, node


@cache
def _node_makers(path: Path) -> set[str]:
    """Return the functions of a file that make nodes or constants, directly or indirectly."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    makers = {name for name, helper in load_prelude().items() if helper.makes_nodes}
    has_grown = True
    while has_grown:
        has_grown = False
        for name, function in functions.items():
            if name not in makers and any(
                _makes_nodes(node, makers) for node in ast.walk(function)
            ):
                makers.add(name)
                has_grown = True
    return makers


def _makes_nodes(node: ast.AST, makers: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr.startswith("make_")
    return isinstance(node.func, ast.Name) and node.func.id in makers


def lowering_parameters(path: str) -> tuple[str, ...] | None:
    """Return the parameters that the body of ``ortable.lowerings.x.f`` reads; None if no such f."""
    function = _find_lowering(path)
    if function is None:
        return None
    names_read = {
        node.id for node in ast.walk(ast.Module(function.body, [])) if isinstance(node, ast.Name)
    }
    return tuple(name for name in _parameter_names(function) if name in names_read)


def lowering_signature(path: str) -> tuple[str, ...] | None:
    """Return all parameters of ``ortable.lowerings.x.f``; None if there is no such function."""
    function = _find_lowering(path)
    return None if function is None else _parameter_names(function)


@cache
def _find_lowering(path: str) -> ast.FunctionDef | None:
    module, _, name = path.rpartition(".")
    prefix = "ortable."
    if not module.startswith(prefix):
        return None
    file = RUNTIME.joinpath(*module[len(prefix) :].split(".")).with_suffix(".py")
    return next((function for function in _public_functions(file) if function.name == name), None)


def _parameter_names(function: ast.FunctionDef) -> tuple[str, ...]:
    arguments = function.args
    return tuple(
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    )


def _public_functions(path: Path) -> list[ast.FunctionDef]:
    if not path.exists():
        return []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]


def _make_helper(
    function: ast.FunctionDef, module: str, kinds: Mapping[str, str] = _KINDS
) -> HelperFunction:
    """Convert a function to a `HelperFunction`; ``kinds`` maps its annotations to kinds."""
    arguments = function.args.args
    takes_graph = bool(arguments) and arguments[0].arg == "graph"
    positional = arguments[1:] if takes_graph else arguments
    default_count = len(function.args.defaults)
    parameters = [
        Parameter(
            argument.arg,
            _annotation_kind(argument.annotation, kinds),
            position < len(positional) - default_count,
        )
        for position, argument in enumerate(positional)
    ]
    if (variadic := function.args.vararg) is not None:
        parameters.append(
            Parameter(variadic.arg, _annotation_kind(variadic.annotation, kinds), False, True)
        )
    parameters += [
        Parameter(argument.arg, _annotation_kind(argument.annotation, kinds), default is None)
        for argument, default in zip(
            function.args.kwonlyargs, function.args.kw_defaults, strict=True
        )
    ]
    result = _annotation_kind(function.returns, kinds)
    makes_nodes = result.base in GRAPH_KINDS | {TENSOR, TENSORS}
    return HelperFunction(
        function.name, module, takes_graph, tuple(parameters), result, makes_nodes
    )


def _annotation_kind(annotation: ast.expr | None, kinds: Mapping[str, str]) -> Kind:
    """Return the kind of an annotation such as ``Ints | None``; Any if it names no kind."""
    text = ast.unparse(annotation) if annotation is not None else ""
    parts = [part.strip() for part in text.split("|")]
    base = next((part for part in parts if part != "None"), "")
    return Kind(kinds.get(base, ANY), "None" in parts)


# -- the list of core functions in docs/language.md ------------------------------------------------

BEGIN = "<!-- core functions: written by `make codegen` from the docstrings of ortable/prelude -->"
END = "<!-- end of the core functions -->"
_PRELUDE = "runtime/ortable/prelude/"


def insert_core_functions(page: str) -> str:
    """Replace the list between the comments `BEGIN` and `END` of ``page``, if it has both."""
    before_begin, begin_mark, after_begin = page.partition(BEGIN)
    _, end_mark, after_end = after_begin.partition(END)
    return (
        f"{before_begin}{begin_mark}\n\n{core_functions_text()}\n{end_mark}{after_end}"
        if begin_mark and end_mark
        else page
    )


def core_functions_text() -> str:
    """Return a line for each function of the prelude, with a heading for each module."""
    core = [listing for listing in load_listings() if listing.file.startswith(_PRELUDE)]
    parts = []
    for file, listings in itertools.groupby(core, key=lambda listing: listing.file):
        topic = file.removeprefix(_PRELUDE).removesuffix(".py")
        lines = [
            _format_line(listing) for listing in sorted(listings, key=lambda listing: listing.name)
        ]
        parts.append(f"**{topic}**\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _format_line(listing: Listing) -> str:
    parameters = ", ".join(map(_format_parameter, load_prelude()[listing.name].parameters))
    summary = re.split(r"[;:] ", listing.summary)[0]  # the first clause
    return f"- `{listing.name}({parameters})`: {summary.replace('``', '`')}"


def _format_parameter(parameter: Parameter) -> str:
    """Return the name, with the kind unless the parameter accepts any value."""
    name = f"*{parameter.name}" if parameter.variadic else parameter.name
    return name if parameter.kind.base == ANY else f"{name}: {parameter.kind}"
