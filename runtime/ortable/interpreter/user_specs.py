"""Compile spec files of users at run time with the code generator, and list operators."""

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
    """Result of `load_specs`.

    Attributes:
        path: name of the file for messages.
        operators: overloads that the file added or replaced.
        source: Python text that the file was compiled to.
        lowerings: names of the functions that the caller of `load_specs` passed.
        file: absolute path of the file.
        lines: for each operator, the line of its entry followed by those of its cases.
    """

    path: str
    operators: tuple[str, ...]
    source: str
    lowerings: tuple[str, ...] = ()
    file: str = ""
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SupportedOp:
    """An operator with a converter.

    Attributes:
        name: the overload, for example ``aten::add.Tensor``.
        spec_file: the spec file, as a path in the repository or the name of a user's file.
    """

    name: str
    spec_file: str


def load_specs(
    path: str | Path,
    *,
    lowerings: Mapping[str, Callable[..., Any]] | None = None,
    override: bool = False,
) -> LoadedSpecs:
    """Compile a spec file and use its operators in all later conversions of this process.

    Args:
        path: a YAML file. ``op`` and ``alias`` entries are for operators that must be registered
            with torch; an alias refers to an operator of the file or any supported operator.
            Entries of ``traits`` state facts about an operator without adding a converter.
            ``number`` and ``condition`` entries are for Python functions of numbers.
        lowerings: functions ``f(graph, res, **arguments)`` by the names that ``python:`` in the
            file refers to. A user's file cannot import functions.
        override: allow the file to replace existing converters.

    Returns:
        The added operators and their compiled text.

    Raises:
        SpecError: the file has errors, which ``details`` lists, or converters exist already and
            ``override`` is False; nothing is added.
    """
    from ortable_generated.aten import dispatch

    functions = dict(lowerings or {})
    try:
        specs, display, existing, source = _compile_file(path, frozenset(functions))
    except SpecError as error:
        error.max_lines = MAX_LINES
        if error.message.count("\n") >= MAX_LINES:  # the message is cut
            command = f"`ortable specs check {path}`"
            error.with_advice(f"What to do: {command} shows every error of the file.")
        raise
    entries = specs.operator_entries()
    clashes = sorted(entry.key for entry in entries if entry.key in dispatch.CONVERTERS)
    clashes += sorted(item.name for item in specs.numbers if item.key in dispatch.PARAMETERS)
    if clashes and not override:
        raise SpecError(
            f"{display}: converters already exist for {', '.join(clashes)}; pass override=True to"
            " replace them"
        )
    namespace: dict[str, Any] = {
        "__name__": f"ortable_specs_{Path(path).stem}",
        **_functions_of(existing),
        **functions,
    }
    # safe, because the compiler makes the text from checked expressions of the spec language only
    exec(compile(source, f"<{display}, compiled>", "exec"), namespace)
    operators = tuple(entry.key for entry in entries)
    lines = {item.key: (item.span.line,) for item in specs.aliases} | {
        item.key: (item.span.line, *(case.span.line for case in item.all_cases()))
        for item in specs.ops
    }
    file = str(Path(path).resolve())
    loaded = LoadedSpecs(display, operators, source, tuple(sorted(functions)), file, lines)
    changes = _TableChanges()
    apply_or_undo(lambda: _add_specs(specs, loaded, namespace, changes), changes.undo)
    return loaded


class _TableChanges:
    """Changes of tables by a spec file, which are undone if loading the file fails.

    A partially loaded file would change conversions without being listed in `tables.LOADED_SPECS`,
    on which cache keys depend.
    """

    def __init__(self) -> None:
        self.old_entries: list[tuple[Any, str, Any]] = []
        self.loaded: list[Any] = []

    def put(self, table: Any, key: str, value: Any) -> None:
        """Set an entry of a dict or set and record the old one; _ABSENT removes the entry."""
        self.old_entries.append((table, key, _table_entry(table, key)))
        _set_entry(table, key, value)

    def undo(self) -> None:
        from .tables import LOADED_SPECS

        for table, key, value in reversed(self.old_entries):
            _set_entry(table, key, value)
        LOADED_SPECS[:] = [loaded for loaded in LOADED_SPECS if loaded not in self.loaded]


def _table_entry(table: Any, key: str) -> Any:
    """Return the value of a key, or the key itself for a set; _ABSENT if the table lacks it."""
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


def _add_specs(
    specs: Any, loaded: LoadedSpecs, namespace: Mapping[str, Any], changes: _TableChanges
) -> None:
    """Add the operators of a compiled file to the generated tables."""
    from ortable_generated.aten import dispatch

    from .tables import LOADED_SPECS

    for entry in specs.operator_entries():
        function = entry.schema.function_name
        complex_function = namespace.get("complex_" + function)
        changes.put(dispatch.CONVERTERS, entry.key, namespace.get(function, complex_function))
        changes.put(
            dispatch.COMPLEX_CONVERTERS,
            entry.key,
            _ABSENT if complex_function is None else complex_function,
        )
        changes.put(dispatch.RULES, entry.key, namespace["rule_" + function])
        changes.put(dispatch.CHECKS, entry.key, namespace.get("check_" + function, _ABSENT))
        changes.put(dispatch.SPEC_FILES, entry.key, loaded.path)
    for number in specs.numbers:
        table = dispatch.NUMBERS if number.kind == "number" else dispatch.CONDITIONS
        changes.put(table, number.short_name, namespace[number.function_name])
        changes.put(dispatch.PARAMETERS, number.key, number.kind_letters)
    _add_traits(specs.traits, changes)
    for placement in specs.placed:
        changes.put(dispatch.PLACE, placement.name, placement.why)
    changes.loaded.append(loaded)
    LOADED_SPECS.append(loaded)


def _add_traits(entries: Iterable[Any], changes: _TableChanges) -> None:
    """Add the traits of a file to the generated tables."""
    from ortable_generated.aten import traits
    from ortablegen.aten.traits import table_value

    for entry in entries:
        for use in entry.uses:
            table = getattr(traits, use.name.upper())
            changes.put(table, entry.name, None if isinstance(table, set) else table_value(use))


def _traits_text(entries: Iterable[Any]) -> str:
    """Format the traits of a file as comments, so that cache keys depend on them."""
    rows = ((entry.name, use.name, use.values) for entry in entries for use in entry.uses)
    return "".join(f"# {name!r}: {trait} {values}\n" for name, trait, values in rows)


def check_spec_file(path: str | Path, lowerings: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Check a spec file without adding its operators, and return the operators.

    ``lowerings`` are the names of functions to which ``python:`` in the file may refer.

    Raises:
        SpecError: the file has errors, which are all listed.
    """
    specs, _, _ = _check_file(path, lowerings)
    return tuple(entry.key for entry in specs.operator_entries())


def compile_spec_file(path: str | Path, lowerings: frozenset[str] = frozenset()) -> str:
    """Return the Python text that `load_specs` compiles a spec file to, without executing it.

    ``lowerings`` are the names of functions to which ``python:`` in the file may refer.

    Raises:
        SpecError: the file has errors, which are all listed.
    """
    return _compile_file(path, lowerings)[3]


def _compile_file(
    path: str | Path, lowerings: frozenset[str]
) -> tuple[Any, str, dict[str, Any], str]:
    """Return the result of `_check_file`, followed by the compiled Python text."""
    from ortablegen.aten.emit import family_text

    specs, display, existing = _check_file(path, lowerings)
    source = family_text(specs, display, existing) + _traits_text(specs.traits)
    return specs, display, existing, source


def read_spec_file(path: str | Path, lowerings: frozenset[str] = frozenset()) -> Any:
    """Return the entries of a spec file for the installed torch (`ortablegen.aten.model.Specs`).

    ``lowerings`` are the names of functions to which ``python:`` in the file may refer.

    Raises:
        SpecError: the file has errors, which are all listed.
    """
    specs, _, _ = _check_file(path, lowerings)
    return specs


def supported_ops() -> tuple[SupportedOp, ...]:
    """Return all overloads with a converter, including those of loaded specs, sorted by name."""
    from ortable_generated.aten import dispatch

    return tuple(
        SupportedOp(name, dispatch.SPEC_FILES[name]) for name in sorted(dispatch.CONVERTERS)
    )


def _check_file(path: str | Path, lowerings: frozenset[str]) -> tuple[Any, str, dict[str, Any]]:
    """Return the specs of a file, its name for messages, and the result of `_existing_targets`."""
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
        text = "a user's file may contain only op, alias, number, condition and traits entries"
        diagnostics.error(span, text)
    diagnostics.raise_if_any()
    return _for_installed_torch(specs), display, existing


def _for_installed_torch(specs: Any) -> Any:
    """Return the specs without the entries for other versions of torch."""
    from ortablegen.schemas.registry import installed_torch

    installed = installed_torch()
    return replace(
        specs,
        ops=tuple(entry for entry in specs.ops if entry.versions.has(installed)),
        aliases=tuple(entry for entry in specs.aliases if entry.versions.has(installed)),
        placed=tuple(entry for entry in specs.placed if entry.present.contains(installed)),
    )


def _existing_targets(specs: Any, file: str) -> dict[str, Any]:
    """Return stub entries for the supported operators to which aliases or blocks of a file refer.

    Excluded are operators of the file itself, those that the backend leaves to torch, and random
    ones, because each operator needs its own entry for random numbers.
    """
    from ortable_generated.aten import dispatch
    from ortablegen.aten.model import ComplexForm, LowerCase, OpEntry, operators_called
    from ortablegen.schemas.registry import schema_of_key

    own_keys = {entry.key for entry in specs.ops}
    targets = [(alias.of, alias.of_span) for alias in specs.aliases]
    targets += operators_called(specs, dispatch.CONVERTERS)
    entries = {}
    for name, span in targets:
        is_excluded = name in dispatch.DRAWS or name in dispatch.PLACE
        if name in own_keys or is_excluded or name not in dispatch.CONVERTERS:
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
    """Return converters and rules of existing operators by their names in compiled text."""
    from ortable_generated.aten import dispatch

    functions = {}
    for key, entry in existing.items():
        function = entry.schema.function_name
        functions[function] = dispatch.CONVERTERS[key]
        functions[f"rule_{function}"] = dispatch.RULES[key]
        if key in dispatch.COMPLEX_CONVERTERS:
            functions[f"complex_{function}"] = dispatch.COMPLEX_CONVERTERS[key]
    return functions
