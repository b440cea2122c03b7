"""Conditions on sizes under which an exported program is the module that it was made from.

A branch of Python code on a size, ``if x.shape[0] % 8 == 7``, is decided by the example when torch
captures it; the program has one side only, and torch keeps the condition, a guard. This module
finds the guards that the dynamic shapes do not imply; exported.py calls it. conversion.py warns of
them, or refuses them, by `tell_guards`; record, metadata and validation read them.

Left out are guards that the model does not depend on: those of torch's own code, which computes the
same on every side of its branches or raises; those that hold for all sizes that the caller asked
for, sizes of 0 and 1 aside unless a minimum was given; and those on ``torch.export.Dim`` objects,
which torch itself checks against their ranges. Torch's own code counts where it fixes a number,
where it writes the size of a slice or of a part into the program (``x[:10]`` of a size below 10 has
that size), and where it asks for its caller (``F.gumbel_softmax(x, hard=n > m)``,
``min(n / 8, 1.0)``)."""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, graph_signature

from ortable.compat.torch import guards_code, pytree, symbol_of
from ortable.errors import ExportError
from ortable.exporter.request.program import Guard, UserLine
from ortable.exporter.signature.dimension_names import callers_level
from ortable.exporter.signature.dynamic_shapes import Leaf, NamedHint, combined

from .export_failures import (
    decides_for_caller,
    is_dispatch,
    is_ortable_file,
    is_user_file,
    line_from_location,
)
from .guard_proofs import Range, implied
from .pt2_trust import is_arithmetic

# Sizes at which a guard is tried besides those around its own numbers.
_SIZES = (2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 100)
_MOST_TRIALS = 2000
_MOST_QUOTED = 8
_DECIDING_FILE = "known_values.py"
_REMAINDERS = ("Mod", "PythonMod")
# L['args'][0]._base: what torch knows an input by, and what is read of it
_PATH = re.compile(r"L\['([^']*)'\]((?:\[[^\]]*\])*)(.*)")
_REMEDY = (
    "For other sizes its results may be wrong. Take the branch out of the model, write it with "
    "torch.cond, give the dimension a torch.export.Dim with a range in which the condition holds, "
    "or export a model for each side. Where an equality is none of your branches, a size became a "
    "plain number of an operator (scale=1 / n): multiply by it instead. "
    "ExportOptions(guards='ignore') leaves this out; the model's metadata has it under "
    "'ortable.guards'."
)


@dataclass(frozen=True)
class _Size:
    """A dynamic size of an input: torch's symbol as the capture began, what it is in the program,
    how it is called, and the range that the caller gave."""

    symbol: Any
    final: Any
    text: str
    name: str | None
    smallest: int | None
    largest: int | None


def find_guards(exported: ExportedProgram, asked: Sequence[Leaf] | None) -> list[Guard]:
    """The guards that the caller has to know, in the order of the code, or the shortest first where
    only their text is left; see the module.

    ``exported`` is the program as torch made it, ``asked`` what was asked for each input.
    """
    inputs = _inputs(exported)
    environment = _environment(inputs)
    if _captured_here(environment):
        return _kept(inputs, environment, asked, 0, _checked_by_torch(environment))
    ways = _ways(exported, [name for name, _ in inputs])
    code = guards_code(exported)
    return _distinct(_from_code(text, ways, inputs) for text in sorted(code, key=len))


def count_guards(exported: ExportedProgram) -> int:
    """How many conditions on the sizes of a program torch has kept by now."""
    return len(getattr(_environment(_inputs(exported)), "guards", ()))


def later_guards(
    exported: ExportedProgram, asked: Sequence[Leaf] | None, count: int
) -> list[Guard]:
    """The guards that came behind the first ``count``, which torch.export has not checked: of code
    that was traced with the sizes of the program afterwards."""
    inputs = _inputs(exported)
    return _kept(inputs, _environment(inputs), asked, count, frozenset())


def _kept(
    inputs: Sequence[tuple[str, Any]],
    environment: Any,
    asked: Sequence[Leaf] | None,
    first: int,
    checked: Collection[str],
) -> list[Guard]:
    """The guards that torch has kept, from the ``first`` on; ``checked`` as in
    `_from_expression`."""
    sizes = _sizes(inputs, asked if asked is not None and len(asked) == len(inputs) else None)
    kept = list(getattr(environment, "guards", ()))[first:]
    return _distinct(_from_expression(guard, environment, sizes, checked) for guard in kept)


def _distinct(found: Iterable[Guard | None]) -> list[Guard]:
    return list({(each.text, each.line): each for each in found if each is not None}.values())


def _inputs(exported: ExportedProgram) -> list[tuple[str, Any]]:
    """Name and fake value of each input of the user."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    names = [
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind == graph_signature.InputKind.USER_INPUT
    ]
    return [(name, nodes[name].meta.get("val") if name in nodes else None) for name in names]


def _ways(exported: ExportedProgram, names: Sequence[str]) -> dict[str, str]:
    """The names of the user's inputs by how guards write the way to them: ``d['a']`` of a dict
    among the arguments, ``flat_args[0]`` where torch has none of their names."""
    ways = {f"flat_args[{index}]": name for index, name in enumerate(names)}
    signature = exported.module_call_graph[0].signature
    if signature is None:
        return ways
    try:
        args, kwargs = pytree.tree_unflatten(list(names), signature.in_spec)
    except Exception:  # a container's own code, which is given names where it had tensors
        return ways
    parameters = list(signature.forward_arg_names or [])
    for parameter, value in [*zip(parameters, args, strict=False), *kwargs.items()]:
        leaves, _ = pytree.tree_flatten_with_path(value)
        ways |= {f"{parameter}{pytree.keystr(path)}": name for path, name in leaves}
    return ways


def _axes(name: str, value: Any) -> list[tuple[str, int, Any]]:
    """Text, axis and size of the dynamic sizes of one input."""
    if isinstance(value, torch.SymInt):
        return [(name, 0, value)]
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return [
        (f"{name}.shape[{axis}]", axis, size)
        for axis, size in enumerate(shape)
        if isinstance(size, torch.SymInt)
    ]


def _sizes(inputs: Sequence[tuple[str, Any]], asked: Sequence[Leaf] | None) -> dict[str, _Size]:
    """The sizes that are a symbol of their own, by the name of the symbol."""
    found: dict[str, _Size] = {}
    for index, (name, value) in enumerate(inputs):
        wanted = asked[index].dims() if asked is not None else {}
        for text, axis, size in _axes(name, value):
            # ``expr`` has the symbol that torch found equal to it
            symbol = symbol_of(size)
            if not getattr(symbol, "is_Symbol", False):
                continue
            dim = wanted.get(axis)
            each = _Size(symbol, size.node.expr, text, _name(dim), *_range(dim))
            found.setdefault(str(symbol), each)
    return found


def ranges_of_sizes(exported: ExportedProgram, asked: Sequence[Leaf] | None) -> dict[Any, Range]:
    """The sizes that the caller asked for, of each symbol that is a size of an input: from 2 on
    where no smallest one was given, as everywhere here."""
    inputs = _inputs(exported)
    sizes = _sizes(inputs, asked if asked is not None and len(asked) == len(inputs) else None)
    return {
        size.final: (2 if size.smallest is None else size.smallest, size.largest)
        for size in sizes.values()
        if getattr(size.final, "is_Symbol", False)
    }


def _name(dim: Any) -> str | None:
    if isinstance(dim, NamedHint):
        return dim.name
    return dim.__name__ if isinstance(dim, Dim) and not hasattr(dim, "root") else None


def _range(dim: Any) -> tuple[int | None, int | None]:
    least, most = getattr(dim, "min", None), getattr(dim, "max", None)
    finite = isinstance(most, int) and most < 2**62
    return least if isinstance(least, int) and not hasattr(dim, "root") else None, (
        most if finite else None
    )


def _environment(inputs: Sequence[tuple[str, Any]]) -> Any:
    for name, value in inputs:
        for _, _, size in _axes(name, value):
            return getattr(size.node, "shape_env", None)
    return None


def _fixes_a_number(expression: Any) -> bool:
    """True for ``n // 8 == 2`` and ``1 / n == 0.125``: an argument of an operator that takes a
    plain number has become that of the example, ``bins=n // 8``, ``scale=1 / n``; and torch takes
    sizes that are 0 or 1 there for constants. Its own code does both. (A remainder of 0 is what a
    view needs, eager raises otherwise.)"""
    import sympy

    if not isinstance(expression, sympy.Eq):
        return False
    left, right = expression.args
    if left.is_number:
        left, right = right, left
    return right.is_number and not (right == 0 and type(left).__name__ in _REMAINDERS)


def _captured_here(environment: Any) -> bool:
    """Whether the program was captured in this process: the symbols of a saved one have lost where
    they come from."""
    return any("L[" in name for names in _source_names(environment).values() for name in names)


def _source_names(environment: Any) -> dict[str, list[str]]:
    """Torch's names of the sources of each symbol: the sizes and integers that it stands for."""
    found = {}
    for symbol, sources in (getattr(environment, "var_to_sources", None) or {}).items():
        spelled = [getattr(source, "name", "") for source in sources]
        found[str(symbol)] = [str(each() if callable(each) else each) for each in spelled]
    return found


# Guards of a program that was captured in this process: expressions, with source lines.


def _from_expression(
    guard: Any, environment: Any, sizes: Mapping[str, _Size], checked: Collection[str]
) -> Guard | None:
    """``checked``: the symbols of which torch.export has compared the conditions with what was
    asked for."""
    expression, line = guard.expr, _decided_at(guard)
    fixed = line is None and _fixes_a_number(expression)
    passed = line is None and (_passed_on(guard) or _of_a_remainder(guard))
    if line is None and not (_of_a_slice(guard) or _answered_here(guard) or fixed or passed):
        return None
    symbols = {str(symbol): symbol for symbol in expression.free_symbols}
    if not symbols.keys() - checked:
        return None
    one, ranges = _unified(expression, sizes), _ranges(symbols, sizes)
    tried = _of_a_slice(guard) or fixed or passed
    if implied(one, ranges) or (tried and _met_where_tried(one, ranges)):
        return None
    final = environment.replace(expression)

    def holds(values: Mapping[str, int]) -> bool:
        try:
            found = final.subs({each: values.get(str(each), each) for each in final.free_symbols})
        except ZeroDivisionError:
            return False
        return found != False  # noqa: E712  (sympy's, or a relation that is still open)

    texts = {name: size.name or size.text for name, size in sizes.items()}
    return Guard(_text(_positive(expression), texts), line, holds, final)


def _met_where_tried(expression: Any, ranges: Mapping[Any, Range]) -> bool:
    """Whether the end of a slice is on one side at every size that is tried: torch asks of all
    slices, and many lengths are beyond proof (``n`` rows of ``n`` rounded up to chunks); so are
    numbers that torch's own code computes of sizes (two chunks of half a size, rounded up)."""
    import sympy

    free = {str(symbol): symbol for symbol in expression.free_symbols}
    constants = {abs(int(number)) for number in expression.atoms(sympy.Integer)}
    bounds = {name: ranges.get(symbol, (2, None)) for name, symbol in free.items()}
    for trial in _trials(list(free), constants):
        inside = all(
            bounds[name][0] <= size and size <= (bounds[name][1] or size)
            for name, size in trial.items()
        )
        if not inside:
            continue
        try:
            found = expression.subs({free[name]: size for name, size in trial.items()})
        except ZeroDivisionError:
            continue  # no size that the model takes
        if found != True:  # noqa: E712  (sympy's, or a relation that is still open)
            return False
    return True


def _positive(expression: Any) -> Any:
    """``n < 10`` for ``-n > -10``."""
    sides = (getattr(expression, "lhs", None), getattr(expression, "rhs", None))
    if all(side is not None and side.could_extract_minus_sign() for side in sides):
        return expression.reversedsign
    return expression


def _decided_at(guard: Any) -> UserLine | None:
    """The line of the user's code that asked; None where torch's own code did."""
    line = _asked_at(guard)
    return line if line is not None and is_user_file(line.file) else None


def _passed_on(guard: Any) -> bool:
    """Whether code asked that is given conditions and numbers by the user's: ``if hard`` of a flag,
    ``min`` of two sizes. That one size is another one the shapes of the program say themselves."""
    import sympy

    line, expression = _asked_at(guard), guard.expr
    if line is None or not decides_for_caller(line):
        return False
    return not (isinstance(expression, sympy.Eq) and all(s.is_Symbol for s in expression.args))


def _of_a_remainder(guard: Any) -> bool:
    """Whether a kernel of torch asked how many parts are longer by one: ``tensor_split`` of ``n``
    rows into 3 asks ``n % 3 > 0``, and the sizes of its parts in the program are of that side."""
    line, expression = _asked_at(guard), guard.expr
    if line is None or not is_dispatch(line) or not type(expression).__name__.endswith("Than"):
        return False  # an equality is what a view needs
    return any(type(side).__name__ in _REMAINDERS for side in expression.args)


def _asked_at(guard: Any) -> UserLine | None:
    """The line that asked, of anybody's code."""
    line = line_from_location(getattr(guard.sloc, "framework_loc", None))
    read = line is not None and {"_dynamo", "variables"} <= set(Path(line.file).parts)
    if read or _of_a_slice(guard):
        # dynamo asks for the code that it reads; for operators its other files do
        return line_from_location(getattr(guard.sloc, "maybe_user_loc", None))
    return line


def _of_a_slice(guard: Any) -> bool:
    """Whether torch asked on which side of a size the end of a slice is: it cuts to the size on
    one side only, eager raises on neither."""
    frame = getattr(guard.sloc, "framework_loc", None)
    return getattr(frame, "name", "") == "_compute_slice_index"


def _answered_here(guard: Any) -> bool:
    """Whether ortable asked, to answer the model: a 0-d tensor of sizes, or a flag of an
    operator."""
    file = str(getattr(getattr(guard.sloc, "framework_loc", None), "filename", ""))
    return is_ortable_file(file) and Path(file).name == _DECIDING_FILE


def _checked_by_torch(environment: Any) -> set[str]:
    """The symbols that stand for Dim objects."""
    named = getattr(environment, "source_name_to_debug_name", None) or {}
    sources = _source_names(environment)
    return {symbol for symbol, names in sources.items() if not named.keys().isdisjoint(names)}


def _unified(expression: Any, sizes: Mapping[str, _Size]) -> Any:
    """The expression with one symbol for the sizes that the caller gave one name, and the sum in
    place of one that the caller named as a sum of others."""
    first: dict[str, Any] = {}
    for size in sizes.values():
        if size.name is not None:
            first.setdefault(size.name, size.symbol)
    sums = {name: combined(name, first) for name in first}
    return expression.subs(
        {
            size.symbol: first[size.name] if sums[size.name] is None else sums[size.name]
            for size in sizes.values()
            if size.name is not None
        }
    )


def _ranges(symbols: Mapping[str, Any], sizes: Mapping[str, _Size]) -> dict[Any, Range]:
    found = {}
    for name, symbol in symbols.items():
        size = sizes.get(name)
        least = 2 if size is None or size.smallest is None else size.smallest
        found[symbol] = (least, None if size is None else size.largest)
    return found


def _text(expression: Any, names: Mapping[str, str]) -> str:
    from ortable.compat.torch import PythonPrinter

    class Printer(PythonPrinter):  # type: ignore[misc]
        def _print_Symbol(self, symbol: Any) -> str:
            return names.get(str(symbol), str(symbol))

        def _print_ToFloat(self, size: Any) -> str:
            inside = str(self._print(size.args[0]))
            return inside if inside.isidentifier() else f"({inside})"

    try:
        text = str(Printer().doprint(expression))
        return _tidy(text)
    except Exception:  # sympy's printers raise for roots and fractions, which are no Python here
        return str(expression)


def _tidy(text: str) -> str:
    """Python text without needless brackets, and with minus signs."""
    return ast.unparse(ast.parse(text, mode="eval")).replace(" + -1 * ", " - ")


# Guards of a program that was saved: Python text, without source lines.


def _from_code(
    code: str, ways: Mapping[str, str], inputs: Sequence[tuple[str, Any]]
) -> Guard | None:
    """The guard, unless it is met at every size that is tried. A text that is no arithmetic of
    sizes is not run: it is told to the reader as it is."""
    if not is_arithmetic(code):
        return Guard(code, None, lambda values: True)
    finder = _Sources(ways)
    try:
        tree = ast.fix_missing_locations(finder.visit(ast.parse(code, mode="eval")))
        compiled = compile(tree, "<guard>", "eval")
    except (SyntaxError, ValueError):
        return Guard(code, None, lambda values: True)
    sizes = {text: size.node.expr for name, value in inputs for text, _, size in _axes(name, value)}
    expressions = {key: sizes.get(text) for key, text in finder.texts.items()}
    free = sorted({str(s) for e in expressions.values() if e is not None for s in e.free_symbols})
    unbound = [key for key, expression in expressions.items() if expression is None]

    def holds(values: Mapping[str, int]) -> bool:
        variables = {key: values[key] for key in unbound if key in values}
        for key, expression in expressions.items():
            if expression is not None:
                given = {symbol: values.get(str(symbol)) for symbol in expression.free_symbols}
                if None not in given.values():
                    variables[key] = int(expression.subs(given))
        return _evaluated(compiled, variables)

    constants = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int
    }
    if all(holds(trial) for trial in _trials([*free, *unbound], constants)):
        return None
    spelled = code
    for original, key in finder.spelled.items():
        spelled = spelled.replace(original, finder.texts[key])
    return Guard(_tidy(spelled), None, holds)


class _Sources(ast.NodeTransformer):
    """Replaces ``L['x'].size()[0]`` by a name; ``texts`` has that of each, ``x.shape[0]``."""

    def __init__(self, ways: Mapping[str, str]) -> None:
        self.ways = ways
        self.texts: dict[str, str] = {}
        self.spelled: dict[str, str] = {}

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A size, or an integer input."""
        original = ast.unparse(node)
        if not original.startswith("L["):
            return self.generic_visit(node)
        base, _, axis = original.partition(".size()")
        text = self._input(base) + (f".shape{axis}" if axis else "")
        key = next((k for k, t in self.texts.items() if t == text), f"size_{len(self.texts)}")
        self.texts[key] = text
        self.spelled[original] = key
        return ast.copy_location(ast.Name(key, ast.Load()), node)

    def _input(self, base: str) -> str:
        """The text of an input, or of what is read of it: `_base` of one that is a view."""
        found = _PATH.fullmatch(base)
        if found is None:
            return base
        first, brackets, rest = found.groups()
        whole = f"{first}{brackets}{rest}"
        return self.ways.get(whole) or f"{self.ways.get(first + brackets, first + brackets)}{rest}"


def _evaluated(compiled: Any, variables: Mapping[str, int]) -> bool:
    from ortable.compat.torch import SYMPY_INTERP

    try:
        return bool(eval(compiled, {**SYMPY_INTERP, "math": math}, dict(variables)))
    except (NameError, ZeroDivisionError):  # a size without a value; no such size
        return True


def _trials(names: Sequence[str], constants: Collection[int]) -> list[dict[str, int]]:
    """Sizes to try: small ones, and those on both sides of the guard's numbers and of what two of
    them come to (``n // 8 < 200`` ends at 1600)."""
    pairs = list(itertools.combinations(sorted(constants), 2))
    ends = {*constants, *(a + b for a, b in pairs), *(a * b for a, b in pairs)}
    around = {end + step for end in ends for step in (-1, 0, 1)}
    more = sorted({*_SIZES, *(size for size in around if size >= min(_SIZES))})
    draw = random.Random(0)
    found: list[dict[str, int]] = []
    for sizes in dict.fromkeys((_SIZES, tuple(more))):
        if len(names) <= 2 and len(sizes) ** len(names) <= _MOST_TRIALS:
            every = itertools.product(sizes, repeat=len(names))
            found += [dict(zip(names, trial, strict=True)) for trial in every]
        else:
            found += [{name: draw.choice(sizes) for name in names} for _ in range(_MOST_TRIALS)]
    return found


def tell_guards(guards: Sequence[Guard], way: str) -> None:
    """Warn about the guards, or raise ExportError; nothing when there are none, or they are to be
    ignored."""
    if not guards or way == "ignore":
        return
    lines = [f"  {guard}" for guard in guards[:_MOST_QUOTED]]
    if len(guards) > _MOST_QUOTED:
        lines.append(f"  ... and {len(guards) - _MOST_QUOTED} more")
    text = "\n".join(["the model holds only for sizes with", *lines, _REMEDY])
    if way == "error":
        raise ExportError(text)
    warnings.warn(text, UserWarning, stacklevel=callers_level())


def refusing(exported: ExportedProgram, values: Mapping[str, int], names: Mapping[str, str]) -> str:
    """The first condition of torch that sizes do not meet, and the line that asks: what made a
    range narrower than the caller's. Empty where torch kept none.

    ``values`` are the sizes by torch's symbols, ``names`` what the symbols are called.
    """
    environment = _environment(_inputs(exported))
    for guard in list(getattr(environment, "guards", ())):
        expression = environment.replace(guard.expr)
        known = {each: values[str(each)] for each in expression.free_symbols if str(each) in values}
        if len(known) < len(expression.free_symbols):
            continue
        try:
            met = expression.subs(known)
        except ZeroDivisionError:
            met = False
        if met == False:  # noqa: E712  (sympy's, or a relation that is still open)
            places = (guard.sloc.maybe_user_loc, guard.sloc.framework_loc)
            line = next(filter(None, map(line_from_location, places)), None)
            text = _text(_positive(expression), names)
            if line is None:
                return text
            place = "/".join(Path(line.file).parts[-2:])
            return f"{text}, asked at {place}:{line.line}, in {line.function}"
    return ""
