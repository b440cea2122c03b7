"""The plain arguments of to_onnx: flags, numbers, files, names, target and opset have the type and
the range that they should, which is said before torch begins to make the graph. In come values, out
go the same or an error. to_onnx calls this first; the backend reads its opset so too."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ortable.errors import ExportError, OptionError
from ortable.ir.versions import (
    CODED_OPSET,
    DEFAULT_OPSET,
    OLDEST_OPSET,
    RUNTIME_OPSET,
    TARGETS,
    newest_opset,
)
from ortable.passes.weight_codes import Stored, WeightOptions, checked_weights

_FILES = {
    "path": "the file to write",
    "filename": "the ONNX file to write",
    "report": "the Markdown file to write",
}


def check_flags(**values: Any) -> None:
    """Raises OptionError for a value that is not True or False: a text such as "no" is true in
    Python."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise OptionError(f"{name} is True or False, not {value!r:.80}")


def check_numbers(verbose: Any, external_threshold: Any) -> None:
    """Raises OptionError unless both are integers of 0 or more; ``verbose`` may be a bool."""
    if not isinstance(verbose, int) or verbose < 0:
        raise OptionError(
            f"verbose is 0 (silent), 1 (the steps) or 2 (the nodes too), not {verbose!r:.80}"
        )
    flag = isinstance(external_threshold, bool)
    if flag or not isinstance(external_threshold, int) or external_threshold < 0:
        raise OptionError(
            "external_threshold is a number of bytes, an int of 0 or more, not "
            f"{external_threshold!r:.80}"
        )


def check_file(name: str, value: Any) -> Path | None:
    """The path of a file to write, None for None.

    Raises OptionError for what is no path; see checked_path for one that cannot be written.
    """
    if value is None:
        return None
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path:
        hint = ""
        if callable(getattr(value, "write", None)):
            hint = (
                "; into an open file or a buffer you write what is returned: "
                "buffer.write(to_onnx(...).SerializeToString())"
            )
        elif value is True:
            hint = f'; give it a name, for example {name}="model.{_extension(name)}"'
        raise OptionError(f"{name} is the path of {_FILES[name]} or None, not {value!r:.80}{hint}")
    return checked_path(name, Path(path))


def checked_path(name: str, path: Path) -> Path:
    """``path`` itself; OptionError for a report and ExportError for the model when a file cannot be
    written there."""
    error = OptionError if name == "report" else ExportError
    if not path.parent.is_dir():
        raise error(f"folder '{path.parent}' of {_FILES[name]} ({name}) does not exist")
    if path.is_dir():
        raise error(f"'{path}' is a folder; {name} is {_FILES[name]}")
    if path.exists() and not path.is_file():  # it would be replaced: /dev/null by a model
        raise error(f"'{path}' is a device, no file; {name} is {_FILES[name]}")
    closed = path if path.exists() else path.parent
    if not os.access(closed, os.W_OK):
        raise error(f"'{closed}', the place of {_FILES[name]} ({name}), cannot be written")
    return path


def _extension(name: str) -> str:
    return "md" if name == "report" else "onnx"


def check_names(what: str, names: Any, word: str | None = None) -> None:
    """Raises ExportError unless ``names`` is None, a list of texts, a dict from text to text, or
    ``word``."""
    if names is None or (isinstance(names, str) and names == word):
        return
    words = f', a dict by default name, or "{word}"' if word else " or a dict by default name"
    if isinstance(names, Mapping):
        listed: Any = [*names.keys(), *names.values()]
    else:
        listed = names
    sequence = isinstance(listed, (list, tuple))
    if not sequence or not all(isinstance(name, str) and name for name in listed):
        raise ExportError(f"{what} is a list of non-empty strings{words}, not {names!r:.200}")


def check_model(mod: Any) -> Any:
    """``mod`` itself; ExportError, with what to do instead, for the results of torch.jit."""
    if not isinstance(mod, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return mod
    raise ExportError(
        f"{type(mod).__name__} is TorchScript (torch.jit.trace, torch.jit.script, torch.jit.load): "
        "torch.export reads Python code, which it no longer has. Give to_onnx the module that it "
        "was made of, to_onnx(module, args) in place of to_onnx(torch.jit.trace(module, args), "
        "args). If there is only the saved file, torch makes a program of it that to_onnx takes: "
        "torch._export.converter.TS2EPConverter(loaded, args).convert()"
    )


def checked_target(target: Any) -> str | None:
    """``target`` when it is one of ``TARGETS``; OptionError otherwise."""
    if target not in TARGETS:
        raise OptionError(f"target is one of {TARGETS}, not {target!r}")
    return target


def checked_validate(validate: Any) -> None:
    """Raises OptionError unless ``validate`` is a bool or a positive float."""
    if not isinstance(validate, bool) and not (isinstance(validate, float) and validate > 0):
        raise OptionError(
            "validate is True, False, or a positive float (the largest absolute difference "
            f"accepted), not {validate!r}"
        )


def checked_rounding(
    weights: Any, max_error: Any, validate: Any, functions: Any
) -> WeightOptions | Stored | None:
    """What ``weights`` asks for, None for nothing.

    Raises:
        OptionError: an argument that is not one of these, or two that contradict each other.
    """
    options = checked_weights(weights)
    if max_error is not None:
        number = isinstance(max_error, int | float) and not isinstance(max_error, bool)
        if not number or not 0 <= max_error < math.inf:
            raise OptionError(
                f"max_error is a number of 0 or more, 0.01 for one, not {max_error!r}"
            )
        if not isinstance(options, WeightOptions):
            raise OptionError("max_error limits what weights= rounds: give weights='int8', or so")
    if options is None or options == "keep":
        return options
    if functions:
        raise OptionError(
            "weights= changes what is in the graph, and export_modules_as_functions moves it into "
            "functions: remove one of the two"
        )
    if validate is True and isinstance(options, WeightOptions):
        raise OptionError(
            "validate=True compares with eager as exactly as floats allow, and weights= rounds: "
            "give max_error, which limits the error, or validate=0.1, the largest absolute "
            "difference"
        )
    return options


def checked_opset(
    opset: Any, target: str | None = None, coded: bool = False
) -> int | dict[str, int]:
    """The opset to write: an int for the main domain, or a dict by domain. None: 18, 21 where
    weights are ``coded`` as integers in groups, or 23 for ONNX Runtime.

    Raises:
        OptionError: not an int or dict of ints, no main domain in the dict, or outside the
            supported range.
    """
    if opset is None:
        plain = CODED_OPSET if coded else DEFAULT_OPSET
        return plain if target is None else RUNTIME_OPSET
    if coded:
        found = checked_opset(opset)
        main = found if isinstance(found, int) else found[""]
        if main < CODED_OPSET:
            raise OptionError(
                f"weights= needs opset {CODED_OPSET}, the first with scales for groups of codes, "
                f"and target_opset is {main}"
            )
        return found
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
    """The version of a domain other than the main one: at least 1, and one that exists where the
    domain is onnx's or ONNX Runtime's."""
    import onnx.defs

    newest = 1 if domain == "com.microsoft" else None
    if domain == "ai.onnx.ml":
        newest = onnx.defs.onnx_ml_opset_version()
    if version < 1 or (newest is not None and version > newest):
        known = "1 and more" if newest is None else f"1 to {newest}"
        raise OptionError(
            f"opset {version} of the domain '{domain}' does not exist; it has {known}"
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
