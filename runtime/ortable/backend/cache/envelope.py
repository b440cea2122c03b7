"""The format of bytes that other processes read: a magic line, a checksum, the versions that made
them, a header of plain values, and a content.

The checksum detects damage, not forgery: torch unpickles what it loads before it is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ortable.errors import PrecompileError

from .keys import dependency_versions

_MAGIC = b"ortable precompiled 1\n"
_LENGTH_SIZE = 8
_DIGEST_SIZE = hashlib.sha256().digest_size
_ADVICE = "What to do: compile the model again, in this environment, and save it anew."


def seal_bytes(kind: str, header: Mapping[str, Any], content: bytes) -> bytes:
    """Return bytes that `unseal_bytes` reads.

    Args:
        kind: what the content is.
        header: plain values, which JSON can represent.
        content: any bytes.
    """
    head = {"kind": kind, "versions": dependency_versions(), **header}
    text = json.dumps(head, separators=(",", ":")).encode()
    rest = len(text).to_bytes(_LENGTH_SIZE, "big") + text + content
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def unseal_bytes(kind: str | None, sealed: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the content.

    Args:
        kind: the required kind; None: any.
        sealed: the bytes.

    Raises:
        PrecompileError: `seal_bytes` did not write this, or other versions did, or it is damaged.
    """
    begin = len(_MAGIC) + _DIGEST_SIZE
    if not isinstance(sealed, bytes) or not sealed.startswith(_MAGIC):
        raise _make_error("This is no compiled graph of ortable.")
    rest = memoryview(sealed)[begin:]
    if hashlib.sha256(rest).digest() != sealed[len(_MAGIC) : begin]:
        raise _make_error("A compiled graph is damaged or cut off: its checksum does not fit.")
    end = _LENGTH_SIZE + int.from_bytes(rest[:_LENGTH_SIZE], "big")
    try:
        header = json.loads(bytes(rest[_LENGTH_SIZE:end]))
        changes = _describe_version_changes(header["versions"])
        made_for = str(header["kind"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _make_error(
            f"A compiled graph is damaged: {type(error).__name__} in its header."
        ) from None
    if changes:
        raise _make_error(f"A compiled graph was made by other versions: {changes}.")
    if kind is not None and made_for != kind:
        raise _make_error(f"A compiled graph is of kind {made_for!r}, where {kind!r} was saved.")
    return header, rest[end:]


def _describe_version_changes(made_by: Mapping[str, str]) -> str:
    """List the versions that differ from those of this process."""
    here = dependency_versions()
    changes = []
    for name in sorted({*made_by, *here}):
        then, now = made_by.get(name), here.get(name)
        if then != now and name == "code":
            changes.append("other code of ortable")
        elif then != now:
            changes.append(f"{name} {then} (here {now})")
    return ", ".join(changes)


def _make_error(message: str) -> PrecompileError:
    return PrecompileError(message).with_advice(_ADVICE)
