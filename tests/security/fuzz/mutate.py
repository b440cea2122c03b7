"""Makes the text of a file out of a number: an entry of specs/aten or specs/rewrites with some of
it changed. In comes the number, out go the kind of file and its text; called by `worker`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.rotation import ROOT

KINDS = ("aten", "rewrites")
# What would be called if any of it were run; `worker` looks for it in what is compiled.
MARK = "pwned_by_a_file"
PATH = tuple[Any, ...]

CODE = (
    f"__import__('os').system('touch {MARK}')",
    f"{MARK}()",
    f'"""\n{MARK}()\n"""',
    f"'''\n{MARK}()\n'''",
    f"x\n{MARK}()\n",
    f"\\\n{MARK}()",
    f"'); {MARK}(); ('",
    f'"); {MARK}(); ("',
    f"# \n{MARK}()",
    f"a\r{MARK}()",
    f"a\x85{MARK}()",
    f"a\u2028{MARK}()",
    "{{ 7 * 7 }}",
    "{{ self.__init__.__globals__.__builtins__ }}",
    f"{{% for c in [].__class__.__base__.__subclasses__() %}}{MARK}(){{% endfor %}}",
    f"lambda: {MARK}()",
    f"[{MARK}() for x in y]",
    f"exec('{MARK}()')",
    "getattr(graph, '__class__').__mro__",
    "().__class__.__bases__[0].__subclasses__()",
    f"f'{{{MARK}()}}'",
    f"(y := {MARK}())",
    f"return {MARK}()",
    f"import os\nreturn {MARK}",
    "%s%s%s%n",
    "${jndi:ldap://x}",
    "$name",
    "${" * 50,
    "!!python/object/apply:os.system [x]",
)
NUMBERS = (
    "0",
    "-1",
    "9" * 30,
    "9" * 5000,
    "1e999",
    "-0.0",
    "nan",
    "0x" + "f" * 50,
    "1_000",
    "00",
    "9**9**9",
    "1 << 10**9",
    "[0] * 10**10",
    "'x' * 10**10",
    "2.5",
    "1j",
    "10**10 * 10**10",
    "-" * 50 + "1",
)
TENSORS = (
    "f32[99999999999999999999]",
    "f32[4,4] = " + "[" * 60 + "]" * 60,
    "f32[-1]",
    "f32[n=]",
    "f32[2] = [__import__('os')]",
    "i64[3] in 0..1e999",
    "q7[2]",
    "f32[" + "2," * 500 + "]",
    "f32[2] = 1" + " + 1" * 300,
    "b[2] = [True, 'x']",
)
TEXTS = (
    "",
    " ",
    "\0",
    "\x07",
    "\ud7ff",
    "\U0001f600",
    "é" * 50,
    "\uff41\uff54\uff45\uff4e",
    "\u202eabc",
    "a" * 3000,
    "(" * 300,
    "[" * 300,
    "x" + "(x" * 150 + ")" * 150,
    "not " * 400 + "x",
    "x if x else " * 200 + "x",
    "x" + ".x" * 300,
    "x" + " + x" * 400,
    "x == " * 300 + "x",
    "../../etc/passwd",
    "null",
    "~",
    "true",
    "aten::",
    "::",
    "aten::relu",
    "aten::add.Tensor",
    "os.system",
    "None",
    "self",
    "class",
    "graph",
    "return x",
    "return",
    "Add(x, y)",
    "ms.Gelu(x)",
    "x[",
    "x[0]",
    "x[::0]",
    "*x",
    "**x",
    "x, y",
    "Tensor" + "[]" * 400,
    "aten::f(" + "Tensor a, " * 300 + ") -> ()",
    "aten::f(Tensor" + "?" * 300 + ")",
    "aten::f(Tensor(a!) x) -> Tensor(a!)",
    "aten::f() -> ((((Tensor))))",
    "aten::f(int x=" + "9" * 99 + ") -> ()",
    "aten::f(str x=\"'''\\n\") -> Tensor",
    "a\tb",
    "- a",
    "a: b",
    "@a",
    "`a`",
    "%a",
    "|",
    ">",
    "&a",
    "*a",
)
WORDS = CODE + NUMBERS + TENSORS + TEXTS


@dataclass(frozen=True)
class Input:
    """A file: its kind, and its text."""

    kind: str
    text: str


@cache
def entries(kind: str) -> tuple[Any, ...]:
    """The entries of a folder of specs, as lists, mappings and text."""
    found: list[Any] = []
    for path in sorted((ROOT / "specs" / kind).glob("*.yaml")):
        rows = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
        # what only the house's own files may hold would be refused before anything else is read
        found += [row for row in rows if not {"callable", "method", "hop"} & {*row}]
    return tuple(found)


@cache
def _pieces(kind: str) -> tuple[str, ...]:
    """Every text of a folder's entries once, to be put where another stands."""
    return tuple(sorted({_at(entry, path) for entry in entries(kind) for path in _scalars(entry)}))


class _Loader(yaml.BaseLoader):
    """Text stays text."""


_LOADER = getattr(yaml, "CBaseLoader", _Loader)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Blocks of several lines as people write them; nothing is an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text_node)


def made(number: int) -> Input:
    """The file of a number."""
    draw = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    entry = _copy(draw.choice(entries(kind)))
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        entry = draw.choice(_CHANGES)(draw, kind, entry)
    rows = [entry]
    if draw.random() < 0.05:
        rows.append(_copy(draw.choice((entry, *entries(kind)))))
    try:
        text = yaml.dump(rows, Dumper=_Dumper, sort_keys=False, width=100000, allow_unicode=True)
    except (yaml.YAMLError, UnicodeEncodeError):  # what YAML cannot write is written as it is
        text = repr(rows)
    if draw.random() < 0.25:
        text = _torn(draw, text)
    return Input(kind, text)


def _copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _copy(value) for key, value in node.items()}
    return [_copy(each) for each in node] if isinstance(node, list) else node


def _paths(node: Any, here: PATH = ()) -> list[PATH]:
    found = [here]
    rows = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in rows:
        found += _paths(value, (*here, key))
    return found


def _scalars(node: Any) -> list[PATH]:
    return [path for path in _paths(node) if isinstance(_at(node, path), str)]


def _at(node: Any, path: PATH) -> Any:
    for key in path:
        node = node[key]
    return node


def _set(node: Any, path: PATH, value: Any) -> Any:
    if not path:
        return value
    _at(node, path[:-1])[path[-1]] = value
    return node


def _word(draw: random.Random, kind: str, entry: Any) -> Any:
    """A text becomes another."""
    paths = _scalars(entry)
    word = draw.choice(WORDS if draw.random() < 0.7 else _pieces(kind))
    return _set(entry, draw.choice(paths), word) if paths else entry


def _inside(draw: random.Random, kind: str, entry: Any) -> Any:
    """A word, or a few characters, come into a text, or go."""
    paths = _scalars(entry)
    if not paths:
        return entry
    path = draw.choice(paths)
    text = _at(entry, path)
    start = draw.randint(0, len(text))
    end = min(len(text), start + draw.choice((0, 0, 1, 2, 5, 20)))
    middle = (
        draw.choice(WORDS)
        if draw.random() < 0.5
        else draw.choice(" ()[]{},.:=+-*/'\"\\\n$#%@!&|<>0x")
    )
    return _set(entry, path, text[:start] + middle + text[end:])


def _kind_of_node(draw: random.Random, kind: str, entry: Any) -> Any:
    """A field becomes of another kind: text, a list, a mapping, deep, or nothing."""
    path = draw.choice(_paths(entry))
    value = _at(entry, path)
    deep: Any = value
    for _ in range(draw.choice((5, 30, 60))):
        deep = [deep]
    others = ([value], {"x": value}, [], {}, "", None, deep, [value] * 50, {str(value)[:40]: value})
    return _set(entry, path, draw.choice(others))


def _key(draw: random.Random, kind: str, entry: Any) -> Any:
    """A key is renamed, copied from another entry, or goes."""
    maps = [
        path for path in _paths(entry) if isinstance(_at(entry, path), dict) and _at(entry, path)
    ]
    if not maps:
        return entry
    node = _at(entry, draw.choice(maps))
    name = draw.choice(list(node))
    what = draw.random()
    if what < 0.3:
        del node[name]
    elif what < 0.7:
        rows = [(draw.choice(WORDS) if key == name else key, value) for key, value in node.items()]
        node.clear()
        node.update(rows)
    else:
        other = draw.choice(entries(kind))
        if isinstance(other, dict):
            key = draw.choice(list(other))
            node[key] = _copy(other[key])
    return entry


def _crossed(draw: random.Random, kind: str, entry: Any) -> Any:
    """A field has the value that one has in another entry."""
    other = draw.choice(entries(kind))
    return _set(entry, draw.choice(_paths(entry)), _copy(_at(other, draw.choice(_paths(other)))))


_Change = Callable[[random.Random, str, Any], Any]
_CHANGES: tuple[_Change, ...] = (
    _word,
    _word,
    _inside,
    _inside,
    _inside,
    _kind_of_node,
    _key,
    _crossed,
)
_TORN = (
    "\t",
    "&a ",
    "*a",
    "!!python/name:os.system ",
    "---\n",
    "...\n",
    "? ",
    "- ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "|\n",
    ">-\n",
    "\0",
    "\ufeff",
    "%YAML 9.9\n",
    "#",
    "\r",
    "&a [*a]",
    "<<: *a",
    "!",
    "@",
)


def _torn(draw: random.Random, text: str) -> str:
    """The text with some of it cut out, doubled or put in by no rule of YAML."""
    for _ in range(draw.choice((1, 2, 5))):
        start = draw.randint(0, len(text))
        end = min(len(text), start + draw.choice((0, 1, 3, 30)))
        text = text[:start] + draw.choice((*_TORN, text[start:end] * 3)) + text[end:]
    if draw.random() < 0.1:
        text = text[: draw.randint(0, len(text))]
    return text
