"""The list of core words in `docs/language.md`, written from the docstrings of `ortable/prelude`.

In comes the page, out goes the page with the list between its two marks made new. Called by
`ortablegen.cli`: `generate` writes the page, `check` says when it is stale.
"""

from __future__ import annotations

import itertools
import re

from .kinds import ANY
from .vocabulary import Listing, Parameter, listings, prelude

BEGIN = "<!-- core words: written by `make codegen` from the docstrings of ortable/prelude -->"
END = "<!-- end of the core words -->"
_PRELUDE = "runtime/ortable/prelude/"


def with_core_words(page: str) -> str:
    """``page`` with the list of core words between its marks; a page without marks stays as it
    is."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n\n{core_words()}\n{end}{after}" if begin and end else page


def core_words() -> str:
    """One line a word of the prelude, a heading a module."""
    core = [each for each in listings() if each.file.startswith(_PRELUDE)]
    parts = []
    for file, words in itertools.groupby(core, key=lambda each: each.file):
        topic = file.removeprefix(_PRELUDE).removesuffix(".py")
        lines = [_line(each) for each in sorted(words, key=lambda each: each.name)]
        parts.append(f"**{topic}**\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(word: Listing) -> str:
    given = ", ".join(map(_parameter, prelude()[word.name].parameters))
    summary = re.split(r"[;:] ", word.summary)[0]  # the rest is said by the docstring alone
    return f"- `{word.name}({given})`: {summary.replace('``', '`')}"


def _parameter(parameter: Parameter) -> str:
    """The name, and the class of values that it takes where not every one is taken."""
    name = f"*{parameter.name}" if parameter.variadic else parameter.name
    return name if parameter.kind.base == ANY else f"{name}: {parameter.kind}"
