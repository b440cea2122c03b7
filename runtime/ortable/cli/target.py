"""What a command of the shell works on: a function of yours that returns a model and a call of it,
a module or its class, a saved program, or a model of transformers. In come words of a command line,
out goes a Target; called by every command that runs a model."""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortable.errors import ExportError, OptionError

from .hugging_face import from_transformers, names_transformers
from .model_call import ModelCall, Target, check_called, made_inputs, needed_parameters

ABOUT = (
    "module:name or file.py:name of a function that returns (model, args[, kwargs[, "
    "dynamic_shapes]]), of a module, or of its class; or a model of transformers: its folder, or "
    "its class"
)
_FORMS = (
    "(model, args), (model, args, kwargs) or (model, args, kwargs, dynamic_shapes), args being a "
    "tuple; or a model, with --inputs"
)


def load_target(
    words: str, inputs: Sequence[str] = (), task: str = "", config: Sequence[str] = ()
) -> Target:
    """The model that ``words`` name, its example call and its dynamic shapes.

    Args:
        words: ``module:name``, ``file.py:name``, ``MODEL.pt2``, or a model of transformers.
        inputs: what ``--inputs`` says; they stand in for those of the target.
        task: what transformers calls the task of the model.
        config: ``NAME=VALUE`` of the configuration of a class of transformers.

    Raises:
        ExportError: there is no such target, or it returns something else.
        InputError: the target is a model alone, and no inputs are known.
        OptionError: an input, or an option of models of transformers, is not as documented.
    """
    if names_transformers(words):
        return from_transformers(words, task, config, inputs)
    if task or config:
        flag = "--task" if task else "--config"
        raise OptionError(f"{flag} is for models of transformers: a folder, or the name of a class")
    if words.endswith(".pt2"):
        from ortable.exporter.capture.pt2 import opened

        if inputs:
            raise OptionError(f"{words} has example inputs of its own: leave out --inputs")
        return Target(opened(words))
    found = _called(words, _named(words))
    if inputs:
        found = replace(made_inputs(inputs), model=found.model)
    check_called(words, found)
    return found


def call_of(args: argparse.Namespace) -> ModelCall:
    """The model that a command line names, and one call of it."""
    target = load_target(args.target, args.inputs, args.task, args.config)
    return ModelCall(target, args.train)


# -- finding it


def _named(words: str) -> Any:
    """What ``module:name`` or ``file.py:name`` names."""
    place, colon, name = words.rpartition(":")
    if not colon or not name or not place:
        raise ExportError(_no_target(words))
    module = _file(place) if place.endswith(".py") else _module(place)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ExportError(_absent(place, module, name))
        found = getattr(found, part)
    return found


def _no_target(words: str) -> str:
    path = Path(words)
    if path.is_dir():
        return f"the folder '{words}' has no config.json: it is no model of transformers"
    if path.suffix == ".py":
        return f"{words!r} names no function or model: write {words}:NAME"
    if path.suffix == ".onnx":
        return f"'{words}' is an ONNX model already: this command takes a model of PyTorch"
    return (
        f"{words!r} is not module:callable, for instance my_package.models:tiny, nor a file "
        "MODEL.pt2, nor a folder or class of transformers."
    )


def _module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the current folder, as for `python -m`
    try:
        return importlib.import_module(name)
    except TypeError as error:
        if not name.startswith("."):
            raise
        raise ExportError(
            f"Cannot import {name!r}: a name of a module begins with no dot. For a file, write "
            "its path, ../net.py:NAME for one."
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports another one that is not
        hint = ""
        if os.sep in name or Path(f"{name}.py").is_file():
            hint = f" For a file, write {name.removesuffix('.py')}.py:NAME."
        raise ExportError(f"Cannot import {name!r}: {error}.{hint}") from error


def _file(path: str) -> Any:
    """The module in a file, which may import what lies beside it."""
    if not Path(path).is_file():
        raise ExportError(f"there is no file '{path}'")
    whole = Path(path).resolve()
    if str(whole.parent) not in sys.path:
        sys.path.insert(0, str(whole.parent))
    known = sys.modules.get(whole.stem)
    if known is not None and getattr(known, "__file__", None) == str(whole):
        return known
    # a file named as a module that is loaded, json.py, must not take its place
    name = whole.stem if known is None else f"{whole.stem}_of_the_shell"
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None and spec.loader is not None  # a .py file always has them
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _absent(place: str, module: Any, name: str) -> str:
    own = [each for each, value in vars(module).items() if each[0] != "_" and callable(value)]
    close = difflib.get_close_matches(name, own, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{place!r} has no callable {name!r}.{hint}"


# -- making it a model and a call


def _called(words: str, found: Any) -> Target:
    import torch
    from torch.export import ExportedProgram

    if isinstance(found, ExportedProgram):
        return Target(found)
    if isinstance(found, type):
        if not issubclass(found, torch.nn.Module):
            raise ExportError(f"{words} is a class, and no torch.nn.Module")
        _check_no_arguments(words, found, "a function of yours may make it, with its arguments")
        found = found()
    elif not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise ExportError(
                f"{words} is of type {type(found).__name__}, neither a function nor a module"
            )
        _check_no_arguments(words, found, "it returns " + _FORMS)
        found = found()
    if isinstance(found, torch.nn.Module):
        return _alone(found.eval())
    return _of_result(words, found)


def _kind(found: Any) -> str:
    return "None" if found is None else f"a {type(found).__name__}"


def _check_no_arguments(words: str, found: Callable[..., Any], then: str) -> None:
    needed = needed_parameters(found)
    if needed:
        listed = ", ".join(needed)
        raise ExportError(f"{words} is called without arguments, and needs {listed}: {then}")


def _of_result(words: str, found: Any) -> Target:
    from torch.export import ExportedProgram

    if isinstance(found, ExportedProgram):
        return Target(found)
    if not isinstance(found, tuple):
        raise ExportError(f"{words} must return {_FORMS}; it returned {_kind(found)}.")
    if len(found) not in (2, 3, 4) or not isinstance(found[1], tuple):
        kinds = ", ".join(type(each).__name__ for each in found)
        raise ExportError(f"{words} must return {_FORMS}; it returned ({kinds}).")
    model, args, kwargs, shapes = (*found, None, None)[:4]
    if not callable(model):
        raise ExportError(f"{words} returned a {type(model).__name__} in place of a model")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ExportError(f"{words}: kwargs is a dict, not a {type(kwargs).__name__}")
    return Target(model, args, dict(kwargs or {}), shapes)


def _alone(model: Any) -> Target:
    """A module without a call: what its attribute ``example_inputs`` says."""
    given = getattr(model, "example_inputs", None)
    if callable(given):
        given = given()
    if isinstance(given, Mapping):
        return Target(model, (), dict(given))
    if isinstance(given, (tuple, list)):
        return Target(model, tuple(given))
    return Target(model, () if given is None else (given,))
