"""A user's own specs, compiled at run time by the same compiler with the same checks; and the list
of supported operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ortable.compat.scoped_patch import apply_or_undo
from ortable.errors import MAX_LINES, SpecError

_ABSENT = object()


@dataclass(frozen=True)
class LoadedSpecs:
    """What ``load_specs`` made: the operators it added, the Python text they were compiled to,
    and the names of the user's functions that it calls.

    Attributes:
        path: the file.
        operators: overloads that have a converter now.
        source: the Python text.
        lowerings: names of the user's functions.
        file: where the file is, absolute.
        lines: by operator, the line of its entry, then those of its cases.
    """

    path: str
    operators: tuple[str, ...]
    source: str
    lowerings: tuple[str, ...] = ()
    file: str = ""
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SupportedOp:
    """One converter: ``aten::add.Tensor``, and the spec file that it comes from.

    Attributes:
        name: the overload.
        spec_file: a path in the repository, or the user's file.
    """

    name: str
    spec_file: str


def load_specs(
    path: str | Path,
    *,
    lowerings: Mapping[str, Callable[..., Any]] | None = None,
    override: bool = False,
) -> LoadedSpecs:
    """Compile a spec file and add its operators to every later conversion of this process.

    Args:
        path: a YAML file of ``op`` and ``alias`` entries; their operators must be registered with
            torch already. An alias means an operator of the file or any supported one. An entry of
            ``traits`` alone adds no converter: it says what is true of an operator. ``number`` and
            ``condition`` entries are Python functions on numbers of the graph.
        lowerings: functions ``f(graph, res, **arguments)`` by the name that ``python:`` uses. A
            user's file never imports a dotted path.
        override: let an entry take the place of a converter that exists.

    Raises:
        SpecError: everything that is wrong with the file, in codegen's format; nothing is added
            then.
    """
    from ortable_generated.aten import dispatch

    functions = dict(lowerings or {})
    try:
        specs, display, existing, source = _compile_file(path, frozenset(functions))
    except SpecError as error:
        error.max_lines = MAX_LINES
        if error.message.count("\n") >= MAX_LINES:  # else all of them are here
            command = f"`ortable specs check {path}`"
            error.with_advice(f"What to do: {command} shows every error of the file.")
        raise
    entries = specs.operator_entries()
    clashes = sorted(entry.key for entry in entries if entry.key in dispatch.CONVERTERS)
    clashes += sorted(item.name for item in specs.numbers if item.key in dispatch.PARAMETERS)
    if clashes and not override:
        raise SpecError(
            f"{display}: converters exist for {', '.join(clashes)}; pass override=True to replace"
            " them"
        )
    namespace: dict[str, Any] = {
        "__name__": f"ortable_specs_{Path(path).stem}",
        **_functions_of(existing),
        **functions,
    }
    # the text comes from the compiler alone: no text of the file reaches it other than through the
    # checked language
    exec(compile(source, f"<{display}, compiled>", "exec"), namespace)
    operators = tuple(entry.key for entry in entries)
    lines = {item.key: (item.span.line,) for item in specs.aliases} | {
        item.key: (item.span.line, *(case.span.line for case in item.every_case()))
        for item in specs.ops
    }
    file = str(Path(path).resolve())
    loaded = LoadedSpecs(display, operators, source, tuple(sorted(functions)), file, lines)
    added = _Added()
    apply_or_undo(lambda: _add_specs(specs, loaded, namespace, added), added.take_back)
    return loaded


class _Added:
    """What a file puts into tables, so that it can be taken back. Half a file would not be among
    the loaded ones, by which caches tell conversions apart."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, str, Any]] = []
        self.loaded: list[Any] = []

    def put(self, table: Any, key: str, value: Any) -> None:
        """``value`` is _ABSENT where nothing is to be there."""
        self.before.append((table, key, _table_entry(table, key)))
        _set_entry(table, key, value)

    def take_back(self) -> None:
        from .tables import LOADED

        for table, key, value in reversed(self.before):
            _set_entry(table, key, value)
        LOADED[:] = [loaded for loaded in LOADED if loaded not in self.loaded]


def _table_entry(table: Any, key: str) -> Any:
    if isinstance(table, set):
        return key if key in table else _ABSENT
    return table.get(key, _ABSENT)


def _set_entry(table: Any, key: str, value: Any) -> None:
    if isinstance(table, set):
        table.discard(key) if value is _ABSENT else table.add(key)
    elif value is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = value


def _add_specs(specs: Any, made: LoadedSpecs, namespace: Mapping[str, Any], added: _Added) -> None:
    """Put a compiled file into the generated tables."""
    from ortable_generated.aten import dispatch

    from .tables import LOADED

    for entry in specs.operator_entries():
        function = entry.schema.function_name
        in_complex = namespace.get("complex_" + function)
        added.put(dispatch.CONVERTERS, entry.key, namespace.get(function, in_complex))
        added.put(
            dispatch.COMPLEX_CONVERTERS, entry.key, _ABSENT if in_complex is None else in_complex
        )
        added.put(dispatch.RULES, entry.key, namespace["rule_" + function])
        added.put(dispatch.CHECKS, entry.key, namespace.get("check_" + function, _ABSENT))
        added.put(dispatch.SPEC_FILES, entry.key, made.path)
    for number in specs.numbers:
        table = dispatch.NUMBERS if number.kind == "number" else dispatch.CONDITIONS
        added.put(table, number.short_name, namespace[number.function_name])
        added.put(dispatch.PARAMETERS, number.key, number.kind_letters)
    _add_traits(specs.traits, added)
    for placed in specs.placed:
        added.put(dispatch.PLACE, placed.name, placed.why)
    added.loaded.append(made)
    LOADED.append(made)


def _add_traits(entries: Iterable[Any], added: _Added) -> None:
    """Put the traits of a file into the generated tables."""
    from ortable_generated.aten import traits
    from ortablegen.aten.traits import table_value

    for entry in entries:
        for use in entry.uses:
            table = getattr(traits, use.name.upper())
            added.put(table, entry.name, None if isinstance(table, set) else table_value(use))


def _traits_text(entries: Iterable[Any]) -> str:
    """The traits of a file as comments, by which caches tell files apart."""
    rows = ((entry.name, use.name, use.values) for entry in entries for use in entry.uses)
    return "".join(f"# {name!r}: {trait} {values}\n" for name, trait, values in rows)


def check_spec_file(path: str | Path, lowerings: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Check a spec file without adding anything; returns its operators.

    Raises:
        SpecError: everything that is wrong with the file.
    """
    specs, _, _ = _check_file(path, lowerings)
    return tuple(entry.key for entry in specs.operator_entries())


def compiled_specs(path: str | Path, lowerings: frozenset[str] = frozenset()) -> str:
    """The Python text that `load_specs` makes of a spec file; nothing is run or added.

    Raises:
        SpecError: everything that is wrong with the file.
    """
    return _compile_file(path, lowerings)[3]


def _compile_file(
    path: str | Path, lowerings: frozenset[str]
) -> tuple[Any, str, dict[str, Any], str]:
    """What `_checked` returns, and the text that is compiled of it."""
    from ortablegen.aten.emit import family_text

    specs, display, existing = _check_file(path, lowerings)
    source = family_text(specs, display, existing) + _traits_text(specs.traits)
    return specs, display, existing, source


def checked_specs(path: str | Path, lowerings: frozenset[str] = frozenset()) -> Any:
    """The entries of a spec file (`ortablegen.aten.model.Specs`), those for the installed torch.

    Raises:
        SpecError: everything that is wrong with the file.
    """
    specs, _, _ = _check_file(path, lowerings)
    return specs


def supported_ops() -> tuple[SupportedOp, ...]:
    """Every operator with a converter, sorted by name; loaded specs included."""
    from ortable_generated.aten import dispatch

    return tuple(
        SupportedOp(name, dispatch.SPEC_FILES[name]) for name in sorted(dispatch.CONVERTERS)
    )


def _check_file(path: str | Path, lowerings: frozenset[str]) -> tuple[Any, str, dict[str, Any]]:
    """The specs of a file, the file's name for messages, and the supported operators that its
    aliases mean."""
    from ortable_generated.kernels import KERNELS_CPU, WIDER
    from ortable_generated.onnx.traits import DTYPE_SENSITIVE
    from ortablegen.aten.check import check_specs
    from ortablegen.aten.read import read_text
    from ortablegen.language.served import Kernels
    from ortablegen.source.diagnostics import Diagnostics
    from ortablegen.source.yaml_source import printable_folder, printable_name, read_utf8

    file = Path(path)
    text = read_utf8(file, "spec file")
    display = printable_name(file)
    diagnostics = Diagnostics(max_columns=None, folder=printable_folder(file))
    specs = read_text(text, display, diagnostics, imports=False)
    existing = _existing_targets(specs, display)
    kernels = Kernels(KERNELS_CPU, WIDER, DTYPE_SENSITIVE)
    check_specs(specs, diagnostics, user_lowerings=lowerings, existing=existing, kernels=kernels)
    for span in [*(call.span for call in specs.calls), *(hop.span for hop in specs.hops)]:
        text = "a user's file holds op, alias, number and condition entries, and traits"
        diagnostics.error(span, text)
    diagnostics.raise_if_any()
    return _for_installed_torch(specs), display, existing


def _for_installed_torch(specs: Any) -> Any:
    """The specs without the entries that are for other versions of torch."""
    from ortablegen.schemas.registry import installed_torch

    installed = installed_torch()
    return replace(
        specs,
        ops=tuple(entry for entry in specs.ops if entry.versions.has(installed)),
        aliases=tuple(entry for entry in specs.aliases if entry.versions.has(installed)),
        placed=tuple(entry for entry in specs.placed if entry.present.holds(installed)),
    )


def _existing_targets(specs: Any, file: str) -> dict[str, Any]:
    """Entries, without rules of their own, for the supported operators that aliases of the file
    mean or blocks call. (Not for random ones: what torch draws is written for each operator.)"""
    from ortable_generated.aten import dispatch
    from ortablegen.aten.model import ComplexForm, LowerCase, OpEntry, operators_called
    from ortablegen.schemas.registry import schema_of_key

    own = {entry.key for entry in specs.ops}
    targets = [(alias.of, alias.of_span) for alias in specs.aliases]
    targets += operators_called(specs, dispatch.CONVERTERS)
    entries = {}
    for name, span in targets:
        random = name in dispatch.DRAWS or name in dispatch.PLACE
        if name in own or random or name not in dispatch.CONVERTERS:
            continue
        has_complex = name in dispatch.COMPLEX_CONVERTERS
        entries[name] = OpEntry(
            schema_of_key(name),
            file,
            span,
            out=(),
            lower=(LowerCase(span),),
            samples=(),
            complex=ComplexForm(span) if has_complex else None,
        )
    return entries


def _functions_of(existing: Mapping[str, Any]) -> dict[str, Any]:
    """Converters and rules of supported operators, by the names that compiled text calls them."""
    from ortable_generated.aten import dispatch

    functions = {}
    for key, entry in existing.items():
        function = entry.schema.function_name
        functions[function] = dispatch.CONVERTERS[key]
        functions[f"rule_{function}"] = dispatch.RULES[key]
        if key in dispatch.COMPLEX_CONVERTERS:
            functions[f"complex_{function}"] = dispatch.COMPLEX_CONVERTERS[key]
    return functions
