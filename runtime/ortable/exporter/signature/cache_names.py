"""Names for the tensors of a key-value cache, given as a list: torch flattens a cache of
transformers into all keys and then all values, and most people name it layer by layer. Names
that say which tensor they mean go to that tensor, and names that say something else are refused.
In come default and chosen names, out go names in order. Called by outputs.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ortable.errors import ExportError

_KIND = re.compile(r"(?:^|[^a-z])(key|value)s?(?![a-z])|(?:^|[^a-z0-9])([kv])(?![a-z])")
# The end of torch's names for the tensors of a cache; other names are the caller's own.
_DEFAULT = re.compile(r"(?:key_cache|value_cache|keys|values)_\d+$")
_PART = re.compile(r"(?:^|[^a-z])(self|decoder|cross|encoder)(?![a-z])")
_PARTS = {"self": "self", "decoder": "self", "cross": "cross", "encoder": "cross"}


@dataclass(frozen=True, order=True)
class Meaning:
    """What the name of a tensor of a cache says: the layer, keys or values, and in a cache of two
    which of them (self or cross attention)."""

    layer: int
    kind: str
    attention: str = ""

    def __str__(self) -> str:
        part = f" of the {self.attention} attention" if self.attention else ""
        return f"the {self.kind}s of layer {self.layer}{part}"


def meaning_of(name: str) -> Meaning | None:
    """What ``past_key_values.0.key``, ``present_1_decoder_value`` or torch's
    ``past_key_values_self_attention_cache_key_cache_0`` mean; None for other names."""
    text = re.sub(r"key_values?|kv_cache", "", name.lower())
    kinds = [match[1] or {"k": "key", "v": "value"}[match[2]] for match in _KIND.finditer(text)]
    numbers = re.findall(r"\d+", text)
    if len(kinds) != 1 or len(numbers) != 1:
        return None
    parts = {_PARTS[found] for found in _PART.findall(text)}
    return Meaning(int(numbers[0]), kinds[0], parts.pop() if len(parts) == 1 else "")


def by_meaning(what: str, defaults: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """``chosen``, names for the tensors that torch calls ``defaults``, with the names of a cache's
    tensors where they belong.

    Inputs that the caller named (``forward(k1, k2)``) are no such tensors and keep their order.
    Names that say nothing about layers, keys and values stay in torch's order. Raises ExportError
    when some say what they mean, and it is another set of tensors than the cache has.
    """
    tensors = {
        index: found
        for index, name in enumerate(defaults)
        if _DEFAULT.search(name) and (found := meaning_of(name)) is not None
    }
    given = {index: meaning_of(chosen[index]) for index in tensors}
    if not any(given.values()) or len(set(tensors.values())) != len(tensors):
        return list(chosen)
    if (
        len({found.attention for found in tensors.values()}) == 1
    ):  # one cache: which one says nothing
        bare = {index: found and Meaning(found.layer, found.kind) for index, found in given.items()}
        wanted = {Meaning(found.layer, found.kind): index for index, found in tensors.items()}
    else:
        bare, wanted = dict(given), {found: index for index, found in tensors.items()}
    if set(bare.values()) != set(wanted) or len(set(bare.values())) != len(tensors):
        raise ExportError(_refusal(what, defaults, chosen, list(tensors)))
    names = list(chosen)
    for index, found in bare.items():
        assert found is not None
        names[wanted[found]] = chosen[index]
    return names


def _refusal(
    what: str, defaults: Sequence[str], chosen: Sequence[str], indices: Sequence[int]
) -> str:
    lines = [f"  {chosen[index]!r} for {defaults[index]} ({meaning_of(defaults[index])})"
             for index in indices]  # fmt: skip
    return (
        f"{what} names the tensors of a cache, which torch flattens into all keys and then all "
        "values, and the names do not say the same:\n"
        + "\n".join(lines)
        + f"\nGive a dict, {{{defaults[indices[0]]!r}: ...}}, or names with layer and key or value "
        f"such as 'past_key_values.0.key'"
    )
