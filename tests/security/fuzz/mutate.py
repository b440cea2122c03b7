"""Generate the text of a fuzzed file from its number: a changed entry of specs/aten or rewrites."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.rotation import ROOT

KINDS = ("aten", "rewrites")
# A name that hostile text calls; `worker` looks for it in the compiled code.
MARK = "pwned_by_a_file"
NodePath = tuple[Any, ...]

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
    """The kind and text of a generated file."""

    kind: str
    text: str


@cache
def entries(kind: str) -> tuple[Any, ...]:
    """Return the entries of a folder of specs as lists, mappings and text."""
    result: list[Any] = []
    for path in sorted((ROOT / "specs" / kind).glob("*.yaml")):
        rows = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
        # only built-in files may contain these keys; a user file with them is refused at once
        result += [row for row in rows if not {"callable", "method", "hop"} & {*row}]
    return tuple(result)


@cache
def _list_texts(kind: str) -> tuple[str, ...]:
    """Return every distinct text of the entries of a folder."""
    return tuple(sorted({_get(entry, path) for entry in entries(kind) for path in _leaves(entry)}))


class _Loader(yaml.BaseLoader):
    """A loader that keeps scalars as text."""


_LOADER = getattr(yaml, "CBaseLoader", _Loader)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """A dumper that writes block scalars and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text_node)


def made(number: int) -> Input:
    """Generate the file of a number."""
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    entry = _copy(rng.choice(entries(kind)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        entry = rng.choice(_CHANGES)(rng, kind, entry)
    listing = [entry]
    if rng.random() < 0.05:
        listing.append(_copy(rng.choice((entry, *entries(kind)))))
    try:
        text = yaml.dump(listing, Dumper=_Dumper, sort_keys=False, width=100000, allow_unicode=True)
    except (yaml.YAMLError, UnicodeEncodeError):  # YAML cannot represent the text
        text = repr(listing)
    if rng.random() < 0.25:
        text = _damage_text(rng, text)
    return Input(kind, text)


def _copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _copy(value) for key, value in node.items()}
    return [_copy(item) for item in node] if isinstance(node, list) else node


def _paths(node: Any, prefix: NodePath = ()) -> list[NodePath]:
    paths = [prefix]
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        paths += _paths(value, (*prefix, key))
    return paths


def _leaves(node: Any) -> list[NodePath]:
    return [path for path in _paths(node) if isinstance(_get(node, path), str)]


def _get(node: Any, path: NodePath) -> Any:
    for key in path:
        node = node[key]
    return node


def _set(node: Any, path: NodePath, value: Any) -> Any:
    if not path:
        return value
    _get(node, path[:-1])[path[-1]] = value
    return node


def _replace_text(rng: random.Random, kind: str, entry: Any) -> Any:
    """Replace a text by another."""
    paths = _leaves(entry)
    word = rng.choice(WORDS if rng.random() < 0.7 else _list_texts(kind))
    return _set(entry, rng.choice(paths), word) if paths else entry


def _edit_text(rng: random.Random, kind: str, entry: Any) -> Any:
    """Insert, replace or delete characters in a text."""
    paths = _leaves(entry)
    if not paths:
        return entry
    path = rng.choice(paths)
    text = _get(entry, path)
    start = rng.randint(0, len(text))
    end = min(len(text), start + rng.choice((0, 0, 1, 2, 5, 20)))
    middle = (
        rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(" ()[]{},.:=+-*/'\"\\\n$#%@!&|<>0x")
    )
    return _set(entry, path, text[:start] + middle + text[end:])


def _change_kind(rng: random.Random, kind: str, entry: Any) -> Any:
    """Replace a field by a value of another kind."""
    path = rng.choice(_paths(entry))
    value = _get(entry, path)
    deep: Any = value
    for _ in range(rng.choice((5, 30, 60))):
        deep = [deep]
    values = ([value], {"x": value}, [], {}, "", None, deep, [value] * 50, {str(value)[:40]: value})
    return _set(entry, path, rng.choice(values))


def _change_key(rng: random.Random, kind: str, entry: Any) -> Any:
    """Rename a key, delete it, or copy a key from another entry."""
    mappings = [
        path for path in _paths(entry) if isinstance(_get(entry, path), dict) and _get(entry, path)
    ]
    if not mappings:
        return entry
    node = _get(entry, rng.choice(mappings))
    name = rng.choice(list(node))
    choice = rng.random()
    if choice < 0.3:
        del node[name]
    elif choice < 0.7:
        rows = [(rng.choice(WORDS) if key == name else key, value) for key, value in node.items()]
        node.clear()
        node.update(rows)
    else:
        source = rng.choice(entries(kind))
        if isinstance(source, dict):
            key = rng.choice(list(source))
            node[key] = _copy(source[key])
    return entry


def _copy_field(rng: random.Random, kind: str, entry: Any) -> Any:
    """Replace a field by a field of another entry."""
    source = rng.choice(entries(kind))
    return _set(entry, rng.choice(_paths(entry)), _copy(_get(source, rng.choice(_paths(source)))))


_Change = Callable[[random.Random, str, Any], Any]
_CHANGES: tuple[_Change, ...] = (
    _replace_text,
    _replace_text,
    _edit_text,
    _edit_text,
    _edit_text,
    _change_kind,
    _change_key,
    _copy_field,
)
_YAML_PIECES = (
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


def _damage_text(rng: random.Random, text: str) -> str:
    """Cut, duplicate or insert pieces of the text without regard to YAML."""
    for _ in range(rng.choice((1, 2, 5))):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.choice((0, 1, 3, 30)))
        text = text[:start] + rng.choice((*_YAML_PIECES, text[start:end] * 3)) + text[end:]
    if rng.random() < 0.1:
        text = text[: rng.randint(0, len(text))]
    return text
