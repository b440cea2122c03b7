"""Opsets and IR versions that ortable writes, onnx defines and ONNX Runtime supports.

Codegen, which cannot import this module, repeats the opset range in `ortablegen.schemas.onnx`
(tests/ir/test_versions.py compares them).
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from onnx import defs, helper

from ortable.errors import BuilderError, OptionError

OLDEST_TARGET_OPSET = 18  # oldest opset that converters are generated for
OLDEST_WRITTEN_OPSET = 13  # oldest opset that exports write, see `passes.older_opsets`
DEFAULT_OPSET = 18  # default opset of a model for any runtime
BLOCK_DEQUANTIZE_OPSET = (
    21  # oldest opset whose DequantizeLinear has a scale for each block of values
)
ORT_DEFAULT_OPSET = 23  # default for ONNX Runtime: oldest with Attention, which fusions make
# Newest opset of the main domain, and newest IR version, that ONNX Runtime 1.31 supports.
ORT_MAX_OPSET = 26
ORT_MAX_IR = 13
# Newest opset at which all operators still have their CUDA kernels: MaxPool of opset 22 has none.
ORT_CUDA_OPSET = 21
TARGETS = (None, "onnxruntime")

# Versions of domains that a graph uses without importing them; 1 for all other domains.
DEFAULTS = {"ai.onnx.ml": 4}


def normalize_opsets(opsets: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Return versions by domain, with "ai.onnx" replaced by "".

    Raises:
        BuilderError: a version is not a non-negative integer, or a domain has two versions.
    """
    versions: dict[str, int] = {}
    for name, version in opsets:
        domain = "" if name == "ai.onnx" else name
        try:
            number = operator.index(version)
        except TypeError:
            number = -1
        if number < 0:
            raise BuilderError(
                f"Opset {reprlib.repr(version)} of domain {name!r} is not a version: give an "
                f"integer such as {DEFAULT_OPSET}, or a model as a ModelProto."
            )
        if versions.setdefault(domain, number) != number:
            raise BuilderError(
                f"Domain {name!r} has the opsets {versions[domain]} and {number} ('' and 'ai.onnx' "
                "are the same domain): give only one opset."
            )
    return versions


def check_opsets(opsets: Mapping[str, int], target: str | None) -> None:
    """Reject unknown targets, and opsets that onnx does not define or the target cannot run."""
    if target not in TARGETS:
        raise BuilderError(
            f"Unknown target {target!r}; give one of {', '.join(map(repr, TARGETS))}."
        )
    main = opsets[""]
    newest = defs.onnx_opset_version()
    if not 1 <= main <= newest:
        raise BuilderError(
            f"Opset {main} is unknown to the installed onnx, which has 1 to {newest}."
        )
    if target == "onnxruntime" and main > ORT_MAX_OPSET:
        raise BuilderError(
            f"Opset {main} cannot run in ONNX Runtime, which supports "
            f"opsets up to {ORT_MAX_OPSET}; set target_opset to {ORT_MAX_OPSET} or less."
        )


def add_main_domain(opsets: dict[str, int], ir_version: int) -> None:
    """Add the main domain to the opsets of a model that does not import it.

    Passes need it, because they make nodes of the main domain. The version is the newest that
    ``ir_version`` supports, at most ``ORT_MAX_OPSET``.
    """
    if "" in opsets:
        return
    table = [(row[1], row[2]) for row in helper.VERSION_TABLE]  # IR version, main opset
    supported = [main_opset for row_ir_version, main_opset in table if row_ir_version <= ir_version]
    opsets[""] = min(max(supported, default=1), ORT_MAX_OPSET)


def newest_opset() -> int:
    """Return the newest opset that both the converters and the installed onnx support."""
    return min(defs.onnx_opset_version(), ORT_MAX_OPSET)


def ir_version(
    opsets: Mapping[str, int], requested: int | None, target: str | None, functions: bool = False
) -> int:
    """Return the IR version to write: the requested one, or the smallest that the opsets allow.

    Raises BuilderError if the target does not support the requested version.
    """
    if requested is not None:
        if target == "onnxruntime" and requested > ORT_MAX_IR:
            raise BuilderError(
                f"IR version {requested} cannot be loaded by ONNX Runtime, "
                f"which supports versions up to {ORT_MAX_IR}."
            )
        return requested
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    smallest = int(helper.find_min_ir_version_for(imports, ignore_unknown=True))
    return max(smallest, 8) if functions else smallest  # local functions exist since 8


def validate_opset(opset: Any, oldest: int = OLDEST_TARGET_OPSET) -> int | dict[str, int]:
    """Validate and return the user's opset: an int for the main domain, or a dict by domain.

    In the returned dict, ``"ai.onnx"`` is replaced by ``""``. ``oldest`` is the oldest opset of the
    main domain that is accepted.

    Raises:
        OptionError: the opset is not an int or a dict of ints, lacks the main domain, or is outside
            the supported range.
    """
    if isinstance(opset, Mapping):
        invalid = {
            key: version
            for key, version in opset.items()
            if not isinstance(key, str) or isinstance(version, bool) or not isinstance(version, int)
        }
        if invalid:
            raise OptionError(
                f"target_opset maps domains to versions, for example {{'': 18}}, not {invalid}"
            )
        main_opset = opset.get("ai.onnx", opset.get(""))
        if opset.get("", main_opset) != main_opset:
            raise OptionError(
                f"target_opset has {opset['']} for '' and {main_opset} for 'ai.onnx', which are "
                "the same domain: give only one opset"
            )
        opset = {
            "" if domain == "ai.onnx" else domain: version for domain, version in opset.items()
        }
        if "" not in opset:
            raise OptionError(
                "target_opset as a dict must contain the main domain '', for example "
                "{'': 18, 'com.microsoft': 1}"
            )
        other_domains = {
            domain: _check_domain(domain, version) for domain, version in opset.items() if domain
        }
        return {"": _check_main_version(opset[""], oldest), **other_domains}
    return _check_main_version(opset, oldest)


def _check_domain(domain: str, version: int) -> int:
    """Validate and return the version of a domain other than the main one."""
    newest = 1 if domain == "com.microsoft" else None
    if domain == "ai.onnx.ml":
        newest = defs.onnx_ml_opset_version()
    if version < 1 or (newest is not None and version > newest):
        allowed = "1 and more" if newest is None else f"1 to {newest}"
        raise OptionError(
            f"opset {version} of the domain '{domain}' does not exist; its opsets are {allowed}"
        )
    return version


def _check_main_version(version: Any, oldest: int) -> int:
    newest = newest_opset()
    if isinstance(version, bool) or not isinstance(version, int):
        raise OptionError(f"target_opset is an int between {oldest} and {newest}, not {version!r}")
    if not oldest <= version <= newest:
        raise OptionError(f"opset {version} is not supported; supported are {oldest} to {newest}")
    return version
