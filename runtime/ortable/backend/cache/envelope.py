"""Bytes that leave this process and come back into another: a magic line, a checksum, the versions
that made them, a header of plain values, and a content.

The checksum finds damage, not forgery: torch unpickles what it loads before this is asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ortable.errors import PrecompileError

from .keys import versions

_MAGIC = b"ortable precompiled 1\n"
_LENGTH = 8
_DIGEST = hashlib.sha256().digest_size
_AGAIN = "What to do: compile the model again, in this environment, and save it anew."


def seal(kind: str, header: Mapping[str, Any], content: bytes) -> bytes:
    """Bytes that `unseal` reads.

    :param kind: what the content is, for whoever reads it
    :param header: plain values, which JSON can hold
    """
    head = {"kind": kind, "versions": versions(), **header}
    text = json.dumps(head, separators=(",", ":")).encode()
    rest = len(text).to_bytes(_LENGTH, "big") + text + content
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def unseal(kind: str | None, sealed: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header and the content.

    :param kind: of what kind it must be; None: any
    :raises PrecompileError: `seal` did not write this, or other versions did, or it is damaged
    """
    begin = len(_MAGIC) + _DIGEST
    if not isinstance(sealed, bytes) or not sealed.startswith(_MAGIC):
        raise _error("This is no compiled graph of ortable.")
    rest = memoryview(sealed)[begin:]
    if hashlib.sha256(rest).digest() != sealed[len(_MAGIC) : begin]:
        raise _error("A compiled graph is damaged or cut off: its checksum does not fit.")
    end = _LENGTH + int.from_bytes(rest[:_LENGTH], "big")
    try:
        header = json.loads(bytes(rest[_LENGTH:end]))
        differing = _differing(header["versions"])
        made_for = str(header["kind"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _error(
            f"A compiled graph is damaged: {type(error).__name__} in its header."
        ) from None
    if differing:
        raise _error(f"A compiled graph was made by other versions: {differing}.")
    if kind is not None and made_for != kind:
        raise _error(f"A compiled graph is of kind {made_for!r}, where {kind!r} was saved.")
    return header, rest[end:]


def _differing(made_by: Mapping[str, str]) -> str:
    """Which versions are not those of this process, for people; nothing where all are."""
    here = versions()
    words = []
    for name in sorted({*made_by, *here}):
        then, now = made_by.get(name), here.get(name)
        if then != now and name == "code":
            words.append("other code of ortable")
        elif then != now:
            words.append(f"{name} {then} (here {now})")
    return ", ".join(words)


def _error(message: str) -> PrecompileError:
    return PrecompileError(message).advised(_AGAIN)
