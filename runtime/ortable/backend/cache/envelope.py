"""Seal bytes for other processes: magic line, checksum, length of the header, header, content.

The header has the kind, the versions and plain values. The checksum detects damage, not forgery:
torch unpickles a loaded file before this module checks its bytes.
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
_ADVICE = "What to do: compile the model again in this environment, and save it again."


def seal_bytes(kind: str, header: Mapping[str, Any], content: bytes) -> bytes:
    """Return bytes that `unseal_bytes` reads.

    Args:
        kind: the kind of the content.
        header: further fields of the header, which JSON can represent.
        content: any bytes.
    """
    full_header = {"kind": kind, "versions": dependency_versions(), **header}
    text = json.dumps(full_header, separators=(",", ":")).encode()
    body = len(text).to_bytes(_LENGTH_SIZE, "big") + text + content
    return _MAGIC + hashlib.sha256(body).digest() + body


def unseal_bytes(kind: str | None, sealed: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the content of sealed bytes.

    Args:
        kind: the required kind; None for any.
        sealed: the bytes.

    Raises:
        PrecompileError: if the bytes are damaged, or not from `seal_bytes` with the same versions.
    """
    body_start = len(_MAGIC) + _DIGEST_SIZE
    if not isinstance(sealed, bytes) or not sealed.startswith(_MAGIC):
        raise _make_error("This is not a compiled graph of ortable.")
    body = memoryview(sealed)[body_start:]
    if hashlib.sha256(body).digest() != sealed[len(_MAGIC) : body_start]:
        raise _make_error("A compiled graph is damaged or truncated: its checksum does not match.")
    content_start = _LENGTH_SIZE + int.from_bytes(body[:_LENGTH_SIZE], "big")
    try:
        header = json.loads(bytes(body[_LENGTH_SIZE:content_start]))
        changes = _describe_version_changes(header["versions"])
        sealed_kind = str(header["kind"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _make_error(
            f"A compiled graph is damaged: {type(error).__name__} in its header."
        ) from None
    if changes:
        raise _make_error(f"A compiled graph was saved by other versions: {changes}.")
    if kind is not None and sealed_kind != kind:
        raise _make_error(f"A compiled graph is of kind {sealed_kind!r}, not {kind!r}.")
    return header, body[content_start:]


def _describe_version_changes(saved_versions: Mapping[str, str]) -> str:
    current_versions = dependency_versions()
    changes = []
    for name in sorted({*saved_versions, *current_versions}):
        saved, current = saved_versions.get(name), current_versions.get(name)
        if saved != current and name == "code":
            changes.append("other code of ortable")
        elif saved != current:
            changes.append(f"{name} {saved} (here {current})")
    return ", ".join(changes)


def _make_error(message: str) -> PrecompileError:
    return PrecompileError(message).with_advice(_ADVICE)
