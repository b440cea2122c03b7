"""Opsets and IR versions: what ortable writes, what onnx knows, what ONNX Runtime loads.

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

OLDEST_OPSET = 18  # of those that converters are generated for
DEFAULT_OPSET = 18  # of a model for any runtime
CODED_OPSET = 21  # the first whose DequantizeLinear has a scale for each block of codes
RUNTIME_OPSET = 23  # of one for ONNX Runtime: the first with Attention, which rewrites use there
# ONNX Runtime 1.31: newest opset of the main domain that it runs, newest IR version that it loads.
ORT_MAX_OPSET = 26
ORT_MAX_IR = 13
# The newest opset at which no operator loses its kernels on CUDA: from 22 on MaxPool does.
ORT_CUDA_OPSET = 21
TARGETS = (None, "onnxruntime")

DEFAULTS = {"ai.onnx.ml": 4}  # versions of domains that a graph uses without saying which, else 1


def by_domain(opsets: Iterable[tuple[str, Any]]) -> dict[str, int]:
    """Return versions by domain; the main domain is "" and never "ai.onnx".

    Raises:
        BuilderError: a version is no integer from 0 on, or a domain has two versions.
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
                f"Opset {reprlib.repr(version)} of domain {name!r} is no version: give an "
                f"integer, {DEFAULT_OPSET} for example, or a model as a ModelProto."
            )
        if versions.setdefault(domain, number) != number:
            raise BuilderError(
                f"Domain {name!r} has the opsets {versions[domain]} and {number} ('' and 'ai.onnx' "
                "are the same domain): give one of them."
            )
    return versions


def check_opsets(opsets: Mapping[str, int], target: str | None) -> None:
    """Reject opsets that onnx does not know or the target cannot run, and unknown targets.

    Args:
        opsets: from `by_domain`, with the main domain.
        target: None or ``"onnxruntime"``.

    Raises:
        BuilderError: an opset or the target is not supported.
    """
    if target not in TARGETS:
        raise BuilderError(
            f"Unknown target {target!r}; it is one of {', '.join(map(repr, TARGETS))}."
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
            f"opsets up to {ORT_MAX_OPSET}; ask for target_opset={ORT_MAX_OPSET} or less."
        )


def imply_main(opsets: dict[str, int], ir_version: int) -> None:
    """Add the main domain to a model that imports only others: passes write its operators.

    The version is the newest one that the model's IR version supports.
    """
    if "" in opsets:
        return
    table = [(row[1], row[2]) for row in helper.VERSION_TABLE]  # IR version, main opset
    fitting = [main for ir, main in table if ir <= ir_version]
    opsets[""] = min(max(fitting, default=1), ORT_MAX_OPSET)


def newest_opset() -> int:
    """Return the newest opset that both the converters and the installed onnx support."""
    return min(defs.onnx_opset_version(), ORT_MAX_OPSET)


def ir_version(
    opsets: Mapping[str, int], requested: int | None, target: str | None, functions: bool = False
) -> int:
    """Return the IR version to write: the requested one, or the smallest with these opsets."""
    if requested is not None:
        if target == "onnxruntime" and requested > ORT_MAX_IR:
            raise BuilderError(
                f"IR version {requested} cannot be loaded by ONNX Runtime, "
                f"the newest it knows is {ORT_MAX_IR}."
            )
        return requested
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    smallest = int(helper.find_min_ir_version_for(imports, ignore_unknown=True))
    return max(smallest, 8) if functions else smallest  # local functions exist since 8


def checked_opset(opset: Any) -> int | dict[str, int]:
    """Validate the user's opset: an int for the main domain, or a dict by domain.

    Raises:
        OptionError: not an int or dict of ints, no main domain in the dict, or outside the
            supported range.
    """
    if isinstance(opset, Mapping):
        wrong = {
            k: v
            for k, v in opset.items()
            if not isinstance(k, str) or isinstance(v, bool) or not isinstance(v, int)
        }
        if wrong:
            raise OptionError(
                f"target_opset maps domains to versions, for example {{'': 18}}, not {wrong}"
            )
        same = opset.get("ai.onnx", opset.get(""))
        if opset.get("", same) != same:
            raise OptionError(
                f"target_opset has {opset['']} for '' and {same} for 'ai.onnx', which are one "
                "domain: give one of them"
            )
        opset = {"" if domain == "ai.onnx" else domain: v for domain, v in opset.items()}
        if "" not in opset:
            raise OptionError(
                "target_opset as a dict needs the main domain '', for example "
                "{'': 18, 'com.microsoft': 1}"
            )
        others = {domain: _checked_domain(domain, v) for domain, v in opset.items() if domain}
        return {"": _checked_version(opset[""]), **others}
    return _checked_version(opset)


def _checked_domain(domain: str, version: int) -> int:
    """Validate the version of a domain other than the main one."""
    newest = 1 if domain == "com.microsoft" else None
    if domain == "ai.onnx.ml":
        newest = defs.onnx_ml_opset_version()
    if version < 1 or (newest is not None and version > newest):
        allowed = "1 and more" if newest is None else f"1 to {newest}"
        raise OptionError(
            f"opset {version} of the domain '{domain}' does not exist; it has {allowed}"
        )
    return version


def _checked_version(version: Any) -> int:
    newest = newest_opset()
    if isinstance(version, bool) or not isinstance(version, int):
        raise OptionError(
            f"target_opset is an int between {OLDEST_OPSET} and {newest}, not {version!r}"
        )
    if not OLDEST_OPSET <= version <= newest:
        raise OptionError(
            f"opset {version} is not supported; supported are {OLDEST_OPSET} to {newest}"
        )
    return version
