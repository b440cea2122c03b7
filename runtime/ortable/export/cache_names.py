"""Names for the tensors of a key-value cache, given as a list: torch flattens a cache of
transformers into all keys and then all values, and most people name it layer by layer. Names that
say which tensor they mean go to that tensor, and names that say something else are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ExportError

_KIND = re.compile(r"(?:^|[^a-z])(key|value)s?(?![a-z])|(?:^|[^a-z0-9])([kv])(?![a-z])")
_PART = re.compile(r"(?:^|[^a-z])(self|decoder|cross|encoder)(?![a-z])")
_PARTS = {"self": "self", "decoder": "self", "cross": "cross", "encoder": "cross"}


@dataclass(frozen=True, order=True)
class Meaning:
    """What the name of a tensor of a cache says: the layer, keys or values, and in a cache of two
    which of them (self or cross attention)."""

    layer: int
    kind: str
    part: str = ""

    def __str__(self) -> str:
        part = f" of the {self.part} attention" if self.part else ""
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

    Names that say nothing about layers, keys and values stay in torch's order. Raises ExportError
    when some say what they mean, and it is another set of tensors than the cache has.
    """
    meant = {place: meaning_of(name) for place, name in enumerate(defaults)}
    places = {place: found for place, found in meant.items() if found is not None}
    given = {place: meaning_of(chosen[place]) for place in places}
    if not any(given.values()) or len(set(places.values())) != len(places):
        return list(chosen)
    if len({found.part for found in places.values()}) == 1:  # one cache: the part says nothing
        bare = {place: found and Meaning(found.layer, found.kind) for place, found in given.items()}
        wanted = {Meaning(found.layer, found.kind): place for place, found in places.items()}
    else:
        bare, wanted = dict(given), {found: place for place, found in places.items()}
    if set(bare.values()) != set(wanted) or len(set(bare.values())) != len(places):
        raise ExportError(_refusal(what, defaults, chosen, list(places)))
    names = list(chosen)
    for place, found in bare.items():
        assert found is not None
        names[wanted[found]] = chosen[place]
    return names


def _refusal(
    what: str, defaults: Sequence[str], chosen: Sequence[str], places: Sequence[int]
) -> str:
    lines = [f"  {chosen[place]!r} for {defaults[place]} ({meaning_of(defaults[place])})"
             for place in places]  # fmt: skip
    return (
        f"{what} names the tensors of a cache, which torch flattens into all keys and then all "
        "values, and the names do not say the same:\n"
        + "\n".join(lines)
        + f"\nGive a dict, {{{defaults[places[0]]!r}: ...}}, or names with layer and key or value "
        f"such as 'past_key_values.0.key'"
    )
