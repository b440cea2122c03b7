"""Names and docstrings are in the field's words: no bare participles, no everyday variables, no
pointers to what does not exist. The rules are those of docs/contributing.md."""

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

CODE = ("runtime", "codegen")
# Neither says what a function does or what a class or file holds.
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
EVERYDAY = frozenset(
    {
        "asked", "chosen", "each", "found", "given", "gone", "held", "kept", "known", "made",
        "mended", "place", "said", "shown", "taken", "told", "wanted",
    }
)  # fmt: skip
# Names that an interface of others or of ours dictates, or that are nouns of the field.
NAMED_EXCEPTIONS = frozenset(
    ("allowed", "frozen", "held", "kept", "own", "read", "rounded")
)  # public or stored fields, files that read YAML, frozen weights
MAX_ONE_WORD_FUNCTIONS = 265
MAX_EVERYDAY_STORES = 10
# Base names that several packages use: the package says whose they are. The front ends of codegen
# have the same files on purpose; a new pair needs a reason.
REPEATED_FILES = frozenset(
    {
        "__main__", "arguments", "attention", "caches", "call", "calls", "check", "compile",
        "constants", "control_flow", "conversion", "convolution", "data_checks", "draw",
        "emit", "entries", "export", "graph", "graphs", "indexing", "interpreter",
        "loops", "matcher", "metadata", "model", "modules", "normalization", "numbers", "onnx",
        "operators", "outputs", "parts", "pipeline", "pointwise", "precision", "providers",
        "ranges", "read", "record", "records", "recurrent", "reductions", "report", "results",
        "runner", "samples", "sessions", "shapes", "torch", "traits", "trial",
        "values", "versions", "view", "views", "weights",
    }
)  # fmt: skip
POINTER = re.compile(r"`{1,2}((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|jinja))`{1,2}")
IDENTIFIER = re.compile(r"`{1,2}(?:[\w.]+\.)?(_?[a-z]\w*_\w+)(?:\([^`]*\))?`{1,2}")
# In docstrings: what other projects call so, and names that are examples.
FOREIGN = frozenset(
    {
        "_create_runtime_wrapper", "compile_times", "graph_builder", "node_data_builder",
        "b_count", "cluster_k", "item_1", "linear_3", "name_1", "past_0",
        "past_key_values_key_cache_0",
        "past_key_values_self_attention_cache_key_cache_0", "present_1_decoder_value",
    }
)  # fmt: skip


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of the runtime and of the generator by path."""
    return {
        path.as_posix(): ast.parse((ROOT / path).read_text(encoding="utf-8"))
        for path in text_files()
        if path.suffix == ".py" and path.parts[0] in CODE
    }


def definitions(*kinds: type[ast.AST]) -> Iterator[tuple[str, str]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield node.name, f"{path}:{node.lineno}"  # type: ignore[attr-defined]


def is_one_word(name: str) -> bool:
    return "_" not in name.strip("_")


def test_no_bare_participle_names_a_function_or_class() -> None:
    bare = [
        f"{location} {name}"
        for name, location in definitions(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if name.strip("_").lower() in BARE - NAMED_EXCEPTIONS
    ]
    assert not bare, "\n".join(bare)


def test_no_bare_participle_names_a_file() -> None:
    assert [path for path in trees() if Path(path).stem in BARE - NAMED_EXCEPTIONS] == []


def test_few_functions_are_one_word() -> None:
    names = {
        name
        for name, _ in definitions(ast.FunctionDef, ast.AsyncFunctionDef)
        if is_one_word(name) and not name.startswith("__")
    }
    assert len(names) <= MAX_ONE_WORD_FUNCTIONS, sorted(names)


def test_variables_say_what_they_hold() -> None:
    stores = [
        f"{path}:{node.lineno} {node.id}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EVERYDAY
    ]
    assert len(stores) <= MAX_EVERYDAY_STORES, "\n".join(stores)


def test_limits_are_called_maxima_and_minima() -> None:
    limits = [
        f"{path}:{node.lineno} {node.id}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and re.match(r"_?(?:MOST|FEWEST|LEAST)_", node.id)
    ]
    assert not limits, "\n".join(limits)


def test_no_docstring_of_a_module_follows_the_formula() -> None:
    formula = re.compile(r"\bIn (?:comes|come|goes)\b|\bout (?:comes|goes|come|go)\b")
    wrong = [p for p, tree in trees().items() if formula.search(ast.get_docstring(tree) or "")]
    assert not wrong


def test_base_names_of_files_are_used_once() -> None:
    stems = Counter(Path(path).stem for path in trees())
    repeated = {stem for stem, count in stems.items() if count > 1 and stem != "__init__"}
    assert repeated == REPEATED_FILES


def docstrings() -> Iterator[tuple[str, str]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                yield path, ast.get_docstring(node) or ""


@cache
def paths() -> frozenset[str]:
    """Every part of a path of the repository that consists of whole names."""
    parts = set()
    for path in text_files():
        names = path.parts
        for first in range(len(names)):
            parts |= {"/".join(names[first:last]) for last in range(first + 1, len(names) + 1)}
    return frozenset(parts)


def is_path(text: str) -> bool:
    return text.rstrip("/") in paths() or (ROOT / text).exists()


def test_files_in_backticks_exist() -> None:
    """In docstrings every file; in documents those below a folder of the repository."""
    wrong = [f"{path}: {m[1]}" for path, text in docstrings() for m in POINTER.finditer(text)
             if not is_path(m[1]) and m[1].split(".")[0] not in FOREIGN]  # fmt: skip
    for document in text_files():
        if document.suffix == ".md":
            text = (ROOT / document).read_text(encoding="utf-8")
            wrong += [
                f"{document}: {m[1]}"
                for m in POINTER.finditer(text)
                if m[1].split("/")[0] in TOP
                and not is_path(m[1])
                and not re.search(r"[A-Z]{1,}\b|generated", m[1])
            ]
    assert not wrong, "\n".join(wrong)


@cache
def words() -> frozenset[str]:
    """Names of the code, and words of strings and tables."""
    known: set[str] = set()
    for path in text_files():
        if path.name == Path(__file__).name:  # it lists the exceptions
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.suffix in (".yaml", ".jinja", ".toml"):
            known |= set(re.findall(r"\w+", text))
        elif path.suffix == ".py":
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME:
                    known.add(token.string)
                elif token.type == tokenize.STRING and not token.string.startswith(('"""', 'r"""')):
                    known |= set(re.findall(r"\w+", token.string))
    return frozenset(known)


def test_names_in_backticks_of_docstrings_exist() -> None:
    wrong = defaultdict(set)
    for path, text in docstrings():
        for match in IDENTIFIER.finditer(text):
            if match[1] not in words() and match[1] not in FOREIGN:
                wrong[match[1]].add(path)
    assert not wrong


def test_each_exception_is_used() -> None:
    names = {name.strip("_") for name, _ in definitions(ast.FunctionDef, ast.ClassDef)}
    assert names | {Path(path).stem for path in trees()} >= NAMED_EXCEPTIONS
