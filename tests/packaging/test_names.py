"""Names and docstrings follow the rules of docs/contributing.md."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.packaging.files import ROOT, TOP, text_files

CODE_FOLDERS = ("runtime", "codegen")
# These words do not say what a function does or what a class or file contains.
BARE = frozenset(
    {
        "agreed", "allowed", "answered", "answering", "arriving", "asked", "built", "changed",
        "chosen", "coded", "collected", "compared", "done", "drawn", "each", "finished",
        "folded", "found", "frozen", "given", "gone", "grown", "held", "kept", "known", "left",
        "loaded", "made", "matched", "meant", "mended", "merged", "missed", "moved", "named",
        "needed", "opened", "own", "parsed", "prepared", "promised", "read", "refused",
        "rested", "resolved", "rolled", "rounded", "said", "seen", "shown", "single", "stored",
        "switched", "taken", "told", "tried", "undone", "unread", "unreached", "unused",
        "wanted", "whole", "written",
    }
)  # fmt: skip
VAGUE = frozenset(
    {
        "asked", "chosen", "each", "found", "given", "gone", "held", "kept", "known", "made",
        "mended", "place", "said", "shown", "taken", "told", "wanted",
    }
)  # fmt: skip
# Names that a public or third-party interface fixes, or that are nouns of the field.
ALLOWED = frozenset(
    ("allowed", "frozen", "held", "kept", "own", "read", "rounded")
)  # public or stored fields, files that read YAML, frozen weights
MAX_ONE_WORD_FUNCTIONS = 265
MAX_VAGUE_VARIABLES = 10
# Base names that several packages share on purpose; a new repeated name needs a reason. The front
# ends of codegen have parallel sets of files.
REPEATED_FILES = frozenset(
    {
        "__main__", "arguments", "attention", "caches", "call", "calls", "check", "compile",
        "constants", "control_flow", "conversion", "convolution", "data_checks", "draw",
        "emit", "entries", "export", "graph", "graphs", "indexing", "interpreter",
        "loops", "matcher", "metadata", "model", "modules", "normalization", "numbers",
        "older_opsets", "onnx", "operators", "outputs", "parts", "pipeline", "pointwise",
        "precision", "providers",
        "ranges", "read", "record", "records", "recurrent", "reductions", "report", "results",
        "runner", "samples", "sessions", "shapes", "torch", "traits", "trial",
        "values", "versions", "view", "views", "weights",
    }
)  # fmt: skip
IN_TICKS = re.compile(r"`{1,2}((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|jinja))`{1,2}")
NAME_PATTERN = re.compile(r"`{1,2}(?:[\w.]+\.)?(_?[a-z]\w*_\w+)(?:\([^`]*\))?`{1,2}")
# Names in docstrings that belong to other projects, and names used as examples.
FOREIGN = frozenset(
    {
        "_create_runtime_wrapper", "compile_times", "graph_builder", "node_data_builder",
        "b_count", "cluster_k", "item_1", "linear_3", "name_1", "past_0",
        "past_key_values_key_cache_0",
        "past_key_values_self_attention_cache_key_cache_0", "present_1_decoder_value",
    }
)  # fmt: skip


@cache
def modules() -> dict[str, ast.Module]:
    """Return the modules of the runtime and of the generator by path."""
    return {
        path.as_posix(): ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for path in text_files()
        if path.suffix == ".py" and path.parts[0] in CODE_FOLDERS
    }


def iter_definitions(*kinds: type[ast.AST]) -> Iterator[tuple[str, str]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield node.name, f"{path}:{node.lineno}"  # type: ignore[attr-defined]


def is_one_word(name: str) -> bool:
    return "_" not in name.strip("_")


def test_no_bare_participle_names_a_function_or_class() -> None:
    bare = [
        f"{location} {name}"
        for name, location in iter_definitions(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if name.strip("_").lower() in BARE - ALLOWED
    ]
    assert not bare, "\n".join(bare)


def test_no_bare_participle_names_a_file() -> None:
    assert [path for path in modules() if Path(path).stem in BARE - ALLOWED] == []


def test_few_functions_are_one_word() -> None:
    names = {
        name
        for name, _ in iter_definitions(ast.FunctionDef, ast.AsyncFunctionDef)
        if is_one_word(name) and not name.startswith("__")
    }
    assert len(names) <= MAX_ONE_WORD_FUNCTIONS, sorted(names)


def test_variables_say_what_they_hold() -> None:
    stores = [
        f"{path}:{node.lineno} {node.id}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
    ]
    assert len(stores) <= MAX_VAGUE_VARIABLES, "\n".join(stores)


def test_limits_are_called_maxima_and_minima() -> None:
    limits = [
        f"{path}:{node.lineno} {node.id}"
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and re.match(r"_?(?:MOST|FEWEST|LEAST)_", node.id)
    ]
    assert not limits, "\n".join(limits)


def test_no_docstring_of_a_module_follows_the_formula() -> None:
    formula = re.compile(r"\bIn (?:comes|come|goes)\b|\bout (?:comes|goes|come|go)\b")
    paths = [p for p, tree in modules().items() if formula.search(ast.get_docstring(tree) or "")]
    assert not paths


def test_base_names_of_files_are_used_once() -> None:
    stems = Counter(Path(path).stem for path in modules())
    repeated = {stem for stem, count in stems.items() if count > 1 and stem != "__init__"}
    assert repeated == REPEATED_FILES


def iter_docstrings() -> Iterator[tuple[str, str]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                yield path, ast.get_docstring(node) or ""


@cache
def subpaths() -> frozenset[str]:
    """Return every run of consecutive names in a path of the repository."""
    parts = set()
    for path in text_files():
        names = path.parts
        for first in range(len(names)):
            parts |= {"/".join(names[first:last]) for last in range(first + 1, len(names) + 1)}
    return frozenset(parts)


def is_path(text: str) -> bool:
    return text.rstrip("/") in subpaths() or (ROOT / text).exists()


def test_files_in_backticks_exist() -> None:
    """Docstrings name only files that exist; documents may also name generated files."""
    errors = [f"{path}: {m[1]}" for path, text in iter_docstrings() for m in IN_TICKS.finditer(text)
             if not is_path(m[1]) and m[1].split(".")[0] not in FOREIGN]  # fmt: skip
    for document in text_files():
        if document.suffix == ".md":
            text = (ROOT / document).read_text(encoding="utf-8")
            errors += [
                f"{document}: {m[1]}"
                for m in IN_TICKS.finditer(text)
                if m[1].split("/")[0] in TOP
                and not is_path(m[1])
                and not re.search(r"[A-Z]{1,}\b|generated", m[1])
            ]
    assert not errors, "\n".join(errors)


@cache
def code_names() -> frozenset[str]:
    """Return the names used in code and the words of strings and tables."""
    names: set[str] = set()
    for path in text_files():
        if path.name == Path(__file__).name:  # this file lists the exceptions
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.suffix in (".yaml", ".jinja", ".toml"):
            names |= set(re.findall(r"\w+", text))
        elif path.suffix == ".py":
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME:
                    names.add(token.string)
                elif token.type == tokenize.STRING and not token.string.startswith(('"""', 'r"""')):
                    names |= set(re.findall(r"\w+", token.string))
    return frozenset(names)


def test_names_in_backticks_of_docstrings_exist() -> None:
    unknown_names = defaultdict(set)
    for path, text in iter_docstrings():
        for match in NAME_PATTERN.finditer(text):
            if match[1] not in code_names() and match[1] not in FOREIGN:
                unknown_names[match[1]].add(path)
    assert not unknown_names


def test_each_exception_is_used() -> None:
    names = {name.strip("_") for name, _ in iter_definitions(ast.FunctionDef, ast.ClassDef)}
    assert names | {Path(path).stem for path in modules()} >= ALLOWED
