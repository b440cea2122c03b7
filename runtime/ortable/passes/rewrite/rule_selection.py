"""Which rules run. In come names given by the user, out go rules, those of this package or of spec
files of their own. Called by `passes.pipeline` for export and backend, and by the shell."""

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


def rules(names: Names = "default", user_files: bool = True) -> tuple[Rule, ...]:
    """The rules that a value of the argument ``rewrites`` stands for, in the order of their files.

    Args:
        names: a name or a list of them, read from left to right. ``"default"``: every rule that
            is not off by default; ``"all"``: those too; ``"none"``: nothing. The name of a rule,
            or of a file of rules without ``.yaml``, adds it; with ``-`` before it, takes it away.
            A path that ends in ``.yaml`` adds the rules of a file of the user.
        user_files: whether such paths are accepted.

    Raises:
        OptionError: a name that is none of these.
        SpecError: what is wrong with a user's file.
    """
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) for each in given):
        raise OptionError(f"rewrites is a name or a list of names, not {names!r}")
    if not any(_is_path(name) for name in given):
        return _of_package(tuple(given))
    return _chosen(tuple(given), user_files)


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))


@lru_cache(maxsize=64)
def _of_package(names: tuple[str, ...]) -> tuple[Rule, ...]:
    return _chosen(names, user_files=False)


def _chosen(given: tuple[str, ...], user_files: bool) -> tuple[Rule, ...]:
    chosen: dict[Rule, None] = {}
    loaded: tuple[Rule, ...] = ()
    for name in given:
        if _is_path(name):
            if not user_files:
                raise OptionError(f"a file of rules is not accepted here: {name!r}")
            found = load(name)
            loaded += found
            chosen.update(dict.fromkeys(found))
        elif name == "none":
            chosen.clear()
        elif name in SETS:
            wanted = [rule for rule in packaged() if name == "all" or not rule.off]
            chosen.update(dict.fromkeys(wanted))
        elif name.startswith("-"):
            for rule in _named(name[1:], (*packaged(), *loaded)):
                chosen.pop(rule, None)
        else:
            chosen.update(dict.fromkeys(_named(name, (*packaged(), *loaded))))
    return tuple(chosen)


def content(names: Names) -> tuple[str, ...]:
    """The names, with what user files among them hold: equal contents give equal rules."""
    found = []
    for name in (names,) if isinstance(names, str) else names:
        if _is_path(name):
            load(name)
            found.append(_opened(Path(name))[0])
        else:
            found.append(name)
    return tuple(found)


def _named(name: str, known: Iterable[Rule]) -> list[Rule]:
    """The rules of a name or of a file."""
    known = list(known)
    found = [rule for rule in known if name in (rule.name, Path(rule.file).stem)]
    if found:
        return found
    names = sorted({*(rule.name for rule in known), *(Path(rule.file).stem for rule in known)})
    close = difflib.get_close_matches(name, (*names, *SETS), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise OptionError(
        f"rewrites has no rule or file of rules {name!r}.{hint} Known are {', '.join(SETS)}, names "
        "of rules (ortable rewrites lists them), the same with '-' before it, and paths of .yaml "
        "files."
    )


@cache
def packaged() -> tuple[Rule, ...]:
    """Every rule of the package."""
    from ortable_generated.rewrites.dispatch import RULES

    return RULES


_loaded: dict[tuple[str, int, int], tuple[Rule, ...]] = {}


def load(path: str | Path) -> tuple[Rule, ...]:
    """The rules of a user's file, compiled by the same compiler with the same checks.

    Raises SpecError: everything that is wrong with the file, or that it cannot be read.
    """
    file = Path(path)
    try:
        status = file.stat()
        key = (str(file.resolve()), status.st_mtime_ns, status.st_size)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"cannot read the file of rewrites '{file}': {reason}") from error
    if key not in _loaded:
        _loaded[key] = _compiled(*_opened(file))
    return _loaded[key]


def path_of(rule: Rule) -> Path | None:
    """The user's file that a rule was loaded from; None for a rule of the package."""
    for (path, _, _), found in _loaded.items():
        if rule in found:
            return Path(path)
    return None


def _opened(file: Path) -> tuple[str, str, str]:
    """The text of a file, and its name and folder for messages."""
    from ortablegen.source.yaml_source import read_utf8, shown_folder, shown_name

    return read_utf8(file, "file of rewrites"), shown_name(file), shown_folder(file)


def compiled_rules(path: str | Path) -> str:
    """The Python text that `load` makes of a file of rewrites; nothing is run.

    Raises SpecError: everything that is wrong with the file.
    """
    file = Path(path)
    return _source(*_opened(file))


def _source(text: str, display: str, folder: str) -> str:
    from ortable_generated.onnx.traits import BY_TRAIT
    from ortablegen.rewrites.check import check_rewrites
    from ortablegen.rewrites.emit import rewrites_text
    from ortablegen.rewrites.read import read_rewrites_text
    from ortablegen.source.diagnostics import Diagnostics

    diagnostics = Diagnostics(most_columns=None, folder=folder)
    rewrites = read_rewrites_text(text, display, diagnostics, BY_TRAIT)
    diagnostics.raise_if_any()
    check_rewrites(rewrites, diagnostics)
    diagnostics.raise_if_any()
    return rewrites_text(rewrites, display)


def _compiled(text: str, display: str, folder: str) -> tuple[Rule, ...]:
    source = _source(text, display, folder)
    namespace: dict[str, Any] = {"__name__": f"ortable_rewrites_{Path(display).stem}"}
    # the text comes from the compiler alone: no text of the file reaches it other than through the
    # checked language
    exec(compile(source, f"<{display}, compiled>", "exec"), namespace)
    rules: tuple[Rule, ...] = namespace["RULES"]
    return rules
