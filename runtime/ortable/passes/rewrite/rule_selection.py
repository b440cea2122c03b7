"""Select the rules that run, by names of package rules and paths of users' spec files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ortable.errors import OptionError, SpecError

from .rule import Rule

SETS = ("default", "all", "none")
Names = str | Sequence[str]


def select_rules(names: Names = "default", user_files: bool = True) -> tuple[Rule, ...]:
    """Return the rules that a value of the argument ``rewrites`` selects.

    Args:
        names: a name or a list of names, read from left to right. ``"default"`` adds every rule
            that is not off by default, ``"all"`` adds every rule, and ``"none"`` removes all rules.
            The name of a rule, or of a rule file without ``.yaml``, adds its rules; with a leading
            ``-``, it removes them. A path that ends in ``.yaml`` adds the rules of a user's file.
        user_files: whether paths of users' files are accepted.

    Returns:
        The rules in the order in which the names add them.

    Raises:
        OptionError: a name is unknown.
        SpecError: a user's file has errors.
    """
    items = (names,) if isinstance(names, str) else names
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise OptionError(f"rewrites is a name or a list of names, not {names!r}")
    if not any(_is_path(name) for name in items):
        return _select_package_rules(tuple(items))
    return _resolve_names(tuple(items), user_files)


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


@lru_cache(maxsize=64)
def _select_package_rules(names: tuple[str, ...]) -> tuple[Rule, ...]:
    return _resolve_names(names, user_files=False)


def _resolve_names(names: tuple[str, ...], user_files: bool) -> tuple[Rule, ...]:
    selected: dict[Rule, None] = {}
    loaded: tuple[Rule, ...] = ()
    for name in names:
        if _is_path(name):
            if not user_files:
                raise OptionError(f"a file of rules is not accepted here: {name!r}")
            file_rules = load_rules(name)
            loaded += file_rules
            selected.update(dict.fromkeys(file_rules))
        elif name == "none":
            selected.clear()
        elif name in SETS:
            set_rules = [rule for rule in package_rules() if name == "all" or not rule.off]
            selected.update(dict.fromkeys(set_rules))
        elif name.startswith("-"):
            for rule in _find_rules(name[1:], (*package_rules(), *loaded)):
                selected.pop(rule, None)
        else:
            selected.update(dict.fromkeys(_find_rules(name, (*package_rules(), *loaded))))
    return tuple(selected)


def content_key(names: Names) -> tuple[str, ...]:
    """Return the names, with paths replaced by file contents: equal keys mean equal rules."""
    parts = []
    for name in (names,) if isinstance(names, str) else names:
        if _is_path(name):
            load_rules(name)
            parts.append(_read_file(Path(name))[0])
        else:
            parts.append(name)
    return tuple(parts)


def _find_rules(name: str, rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules with this name or from the file with this name."""
    rules = list(rules)
    matches = [rule for rule in rules if name in (rule.name, Path(rule.file).stem)]
    if matches:
        return matches
    names = sorted({*(rule.name for rule in rules), *(Path(rule.file).stem for rule in rules)})
    close = difflib.get_close_matches(name, (*names, *SETS), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise OptionError(
        f"rewrites has no rule or file of rules {name!r}.{hint} Known are {', '.join(SETS)}, names "
        "of rules (ortable rewrites lists them), the same with '-' before it, and paths of .yaml "
        "files."
    )


@cache
def package_rules() -> tuple[Rule, ...]:
    """Return every rule of the package."""
    from ortable_generated.rewrites.dispatch import RULES

    return RULES


_loaded: dict[tuple[str, int, int], tuple[Rule, ...]] = {}


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Load the rules of a user's file, which is checked and compiled like the package's files.

    Raises:
        SpecError: the file has errors or cannot be read.
    """
    file = Path(path)
    try:
        status = file.stat()
        key = (str(file.resolve()), status.st_mtime_ns, status.st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"cannot read the file of rewrites '{file}': {reason}") from error
    if key not in _loaded:
        _loaded[key] = _compile_rules(*_read_file(file))
    return _loaded[key]


def find_user_file(rule: Rule) -> Path | None:
    """Return the user's file from which a rule was loaded; None for a rule of the package."""
    for (path, _, _), file_rules in _loaded.items():
        if rule in file_rules:
            return Path(path)
    return None


def _read_file(file: Path) -> tuple[str, str, str]:
    """Return the text of a file, and its name and folder for messages."""
    from ortablegen.source.yaml_source import printable_folder, printable_name, read_utf8

    return read_utf8(file, "file of rewrites"), printable_name(file), printable_folder(file)


def compile_rules_to_source(path: str | Path) -> str:
    """Return the Python source that `load_rules` compiles a rewrite file to, without running it.

    Raises:
        SpecError: the file has errors.
    """
    file = Path(path)
    return _compile_to_source(*_read_file(file))


def _compile_to_source(text: str, display_name: str, folder: str) -> str:
    from ortable_generated.onnx.traits import BY_TRAIT
    from ortablegen.rewrites.check import check_rewrites
    from ortablegen.rewrites.emit import rewrites_text
    from ortablegen.rewrites.read import read_rewrites_text
    from ortablegen.source.diagnostics import Diagnostics

    diagnostics = Diagnostics(max_columns=None, folder=folder)
    rewrites = read_rewrites_text(text, display_name, diagnostics, BY_TRAIT)
    diagnostics.raise_if_any()
    check_rewrites(rewrites, diagnostics)
    diagnostics.raise_if_any()
    return rewrites_text(rewrites, display_name)


def _compile_rules(text: str, display_name: str, folder: str) -> tuple[Rule, ...]:
    source = _compile_to_source(text, display_name, folder)
    namespace: dict[str, Any] = {"__name__": f"ortable_rewrites_{Path(display_name).stem}"}
    # This exec is safe: the compiler generates the source, and copies text of the file into it
    # only after checking it.
    exec(compile(source, f"<{display_name}, compiled>", "exec"), namespace)
    compiled: tuple[Rule, ...] = namespace["RULES"]
    return compiled
