"""``traits:`` of an entry: facts about an operator in addition to its lowering.

`TRAITS` lists all traits. The generated module has a set of operator names for each trait, or a
dict from name to arguments if the trait has arguments.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from ortablegen.language.entries import EntryReader
from ortablegen.language.parse import called_name, is_call, python_tree
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq

from .model import Traits, TraitUse

OPERATOR, HOP, CALLABLE = "op", "hop", "callable"
_OWNER_BY_KEY = {"op": OPERATOR, "alias": OPERATOR, "hop": HOP, "callable": CALLABLE}
_NOUNS = {OPERATOR: "an operator", HOP: "a higher-order operator", CALLABLE: "a Python function"}


@dataclass(frozen=True)
class Parameter:
    """An argument of a trait: its type, its default (None: required), its allowed values."""

    type: type
    default: object = None
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class Trait:
    """The meaning of a trait, the owners that may have it, and its arguments."""

    meaning: str
    owners: tuple[str, ...] = (OPERATOR,)
    parameters: dict[str, Parameter] = field(default_factory=dict)

    @property
    def table_annotation(self) -> str:
        """The type of the generated table."""
        names = [parameter.type.__name__ for parameter in self.parameters.values()]
        if not names:
            return "set[str]"
        value = names[0] if len(names) == 1 else f"tuple[{', '.join(names)}]"
        return f"dict[str, {value}]"


TRAITS = {
    "assertion": Trait(
        "a check while the model runs: ONNX has no operator that raises, so nothing is emitted",
        (OPERATOR, CALLABLE),
    ),
    "cast": Trait("converts to a dtype that the program names"),
    "casts": Trait(
        "a region that casts the operands of what is inside, where the graph does not show it,"
        " if the argument at this position is true",
        (HOP,),
        {"flag": Parameter(int)},
    ),
    "carries_token": Trait("calls an operator with an effect; a token orders it", (HOP,)),
    "condition": Trait(
        "its first argument must be true, its second is what torch says where it is false",
        (OPERATOR, CALLABLE),
    ),
    "extent": Trait("how many elements there are, along an axis or in all: never negative"),
    "filter": Trait("the elements that a condition picks: no more than the tensor has"),
    "returns_new_storage": Trait("composite in torch, but it always returns memory of its own"),
    "functionalized_call": Trait(
        "stands for a call of its first argument, an overload that writes", (HOP,)
    ),
    "item": Trait("reads the only value of its first argument"),
    "compute_bound": Trait("ONNX Runtime saves more by computing it than entering a session costs"),
    "hidden_view": Trait(
        "returns views of its input as that operator does, which its schema does not say",
        parameters={"like": Parameter(str)},
    ),
    "identity_in_eval": Trait(
        "returns its input itself unless it trains with p > 0, which its schema does not say"
    ),
    "never_decompose": Trait("torch's decomposition of it is wrong: no table of its own takes it"),
    "mask": Trait(
        "the dtype of the argument at this position says nothing about the result's",
        parameters={"at": Parameter(int)},
    ),
    "metadata_only": Trait("in-place by its schema, but no data is written"),
    "ordered": Trait("has an effect: it stays behind those before it", (HOP,)),
    "reads_strides": Trait(
        "its values, or whether torch can compute them, depend on the strides of its arguments"
    ),
    "recurrent": Trait("a recurrent network of several layers, with dropout between them"),
    "region": Trait(
        "sets a mode around the graph that it calls; torch writes it out when it decomposes", (HOP,)
    ),
    "returns": Trait(
        "computes nothing: it returns its first argument, all of them, or nothing",
        (HOP,),
        {"what": Parameter(str, None, ("all", "first", "nothing"))},
    ),
    "size": Trait("an integer that metadata spells out: nothing is emitted"),
    "subclass_part": Trait("a tensor inside a tensor subclass; torch writes it out"),
    "trained_in_torch": Trait(
        "slower than in torch where its weights change: torch runs it in graphs that train, unless"
        " its kernels take patches that never overlap"
    ),
    "transparent": Trait(
        "calls a graph once and changes only how torch sees it; the graph stands after `before`"
        " arguments, the operands (`packed`: one tuple) `between` further ones later",
        (HOP,),
        {
            "before": Parameter(int, 0),
            "between": Parameter(int, 0),
            "packed": Parameter(bool, False),
        },
    ),
    "uninitialized": Trait("leaves its result as the memory was: there is no value to compare"),
    "unmarked_view": Trait("returns memory of its input, which its schema does not say"),
    "unsafe_view": Trait("may share the memory of a tensor that nobody else reads"),
    "view": Trait("moves no data in torch, as a rule: not worth a session"),
    "whole_when_static": Trait(
        "torch's decomposition of it is slow; autograd's kernels need it where sizes are free"
    ),
}


def read_traits(entry: YMap, name: str, reader: EntryReader) -> Traits | None:
    """Read the traits of one entry."""
    node, entry_key = entry.get("traits"), entry.pairs[0][0].text
    if node is None:
        return None
    uses: list[TraitUse] = []
    if not isinstance(node, YSeq) or not len(node):
        reader.error(node.span, "traits must be a list of traits", fix="traits: [view]")
    for item in node if isinstance(node, YSeq) else ():
        use = _read_trait(item, entry_key, reader)
        if use is not None and any(use.name == earlier.name for earlier in uses):
            reader.error(use.span, f"the trait '{use.name}' is given twice")
        elif use is not None:
            uses.append(use)
    return Traits(entry_key, name, tuple(uses), reader.file, entry.pairs[0][1].span)


def _read_trait(node: YNode, entry_key: str, reader: EntryReader) -> TraitUse | None:
    text = node.text if isinstance(node, YScalar) else ""
    call = _parse_trait(text)
    if call is None:
        fix = 'write view, or "mask(at=1)" in quotes'
        return reader.error(node.span, f"'{text}' is not a trait", fix=fix)
    name, arguments = call
    trait = TRAITS.get(name)
    if trait is None:
        return reader.report_unknown(node, "trait", name, sorted(TRAITS))
    if _OWNER_BY_KEY.get(entry_key) not in trait.owners:
        nouns = " or ".join(_NOUNS[owner] for owner in trait.owners)
        return reader.error(node.span, f"'{name}' is a trait of {nouns}, not of '{entry_key}:'")
    values = _bind_arguments(trait, arguments)
    if values is None:
        fix = f"{name}({', '.join(map(_format_parameter, trait.parameters.items()))})".removesuffix(
            "()"
        )
        return reader.error(node.span, f"'{text}' has wrong arguments", fix=f"write {fix}")
    return TraitUse(name, values, node.span)


def _format_parameter(parameter: tuple[str, Parameter]) -> str:
    name, definition = parameter
    return f"{name}={' | '.join(map(str, definition.values)) or definition.type.__name__}"


def _parse_trait(text: str) -> tuple[str, dict[str | None, object]] | None:
    """Parse ``mask(at=1)`` to name and arguments; None if the text is neither name nor call."""
    try:
        tree = python_tree(text.strip(), "eval").body
    except SyntaxError:
        return None
    if isinstance(tree, ast.Name):
        return tree.id, {}
    if not is_call(tree) or tree.args:
        return None
    arguments: dict[str | None, object] = {}
    for keyword in tree.keywords:
        value = keyword.value
        if isinstance(value, ast.Name):  # true and false as YAML writes them; other words are texts
            arguments[keyword.arg] = {"true": True, "false": False}.get(value.id, value.id)
        elif isinstance(value, ast.Constant):
            arguments[keyword.arg] = value.value
        else:
            return None
    return called_name(tree), arguments


def _bind_arguments(trait: Trait, arguments: dict[str | None, object]) -> tuple[object, ...] | None:
    """Return the arguments of a trait in order; None if one is wrong or missing."""
    if not arguments.keys() <= trait.parameters.keys():
        return None
    values = []
    for name, parameter in trait.parameters.items():
        value = arguments.get(name, parameter.default)
        if type(value) is not parameter.type or value not in (parameter.values or (value,)):
            return None
        values.append(value)
    return tuple(values)


def table_value(use: TraitUse) -> object:
    """Return the value of an operator in the table of a trait with arguments."""
    return use.values[0] if len(use.values) == 1 else use.values


def emit_traits(entries: Iterable[Traits]) -> str:
    """Emit ``ortable_generated/aten/traits.py``."""
    parts = [_HEADER]
    uses = [(entry.name, use) for entry in entries for use in entry.uses]
    for name, trait in sorted(TRAITS.items()):
        # an operator may have several entries, one for each range of torch versions
        rows = {operator: table_value(use) for operator, use in reversed(uses) if use.name == name}
        has_arguments = bool(trait.parameters)
        body = [
            f'    "{operator}": {rows[operator]!r},' if has_arguments else f'    "{operator}",'
            for operator in sorted(rows)
        ]
        text = "\n".join(["{", *body, "}"]) if body else "{}" if has_arguments else "set()"
        meaning = textwrap.fill(
            trait.meaning, 98, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        parts.append(f"{meaning}\n{name.upper()}: {trait.table_annotation} = {text}\n")
    return "\n".join(parts)


_HEADER = f'''\
# {header("specs/aten")}
"""What is true of operators, by the keys under which nodes are looked up. `load_specs` adds what a
user's file says."""

from __future__ import annotations
'''
