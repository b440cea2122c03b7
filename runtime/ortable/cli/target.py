"""Load the TARGET of a command: a function, torch module or class, or a stored model.

Stored models are files of torch.export.save (`MODEL.pt2`), and folders of transformers.
"""

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

from .hugging_face import is_transformers_name, load_transformers_target
from .model_call import ModelCall, Target, check_has_inputs, make_inputs, required_parameters

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
    target_name: str, inputs: Sequence[str] = (), task: str = "", config: Sequence[str] = ()
) -> Target:
    """Load the model of a target, its example call and its dynamic shapes.

    Args:
        target_name: ``module:name``, ``file.py:name``, ``MODEL.pt2``, or a model of transformers.
        inputs: the values of ``--inputs``, which replace the example inputs of the target.
        task: the task of a model of transformers, such as ``fill-mask``.
        config: for a class of transformers, ``NAME=VALUE`` or a folder with a configuration.

    Raises:
        ExportError: the target does not exist, or is or returns no model.
        InputError: the inputs of the model are unknown.
        OptionError: an input, a task or a field of a configuration is invalid.
    """
    if is_transformers_name(target_name):
        return load_transformers_target(target_name, task, config, inputs)
    if task or config:
        flag = "--task" if task else "--config"
        raise OptionError(f"{flag} is for models of transformers: a folder, or the name of a class")
    if target_name.endswith(".pt2"):
        from ortable.exporter.capture.pt2 import load_program

        if inputs:
            raise OptionError(f"{target_name} has example inputs: leave out --inputs")
        return Target(load_program(target_name))
    target = _make_target(target_name, _resolve_target(target_name))
    if inputs:
        target = replace(make_inputs(inputs), model=target.model)
    check_has_inputs(target_name, target)
    return target


def make_call(args: argparse.Namespace) -> ModelCall:
    """Load the model that a command line names, with its inputs and, with --train, for training."""
    target = load_target(args.target, args.inputs, args.task, args.config)
    return ModelCall(target, args.train)


# -- lookup


def _resolve_target(target_name: str) -> Any:
    """Import the object that ``module:name`` or ``file.py:name`` names; a name may have dots."""
    source, colon, name = target_name.rpartition(":")
    if not colon or not name or not source:
        raise ExportError(_unknown_target_message(target_name))
    module = _import_file(source) if source.endswith(".py") else _import_module(source)
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise ExportError(_missing_message(source, module, name))
        value = getattr(value, part)
    return value


def _unknown_target_message(target_name: str) -> str:
    path = Path(target_name)
    if path.is_dir():
        return f"the folder '{target_name}' has no config.json: it is no model of transformers"
    if path.suffix == ".py":
        return f"{target_name!r} names no function or model: write {target_name}:NAME"
    if path.suffix == ".onnx":
        return f"'{target_name}' is an ONNX model already: this command takes a model of PyTorch"
    return (
        f"{target_name!r} is not module:callable, for instance my_package.models:tiny, nor a file "
        "MODEL.pt2, nor a folder or class of transformers."
    )


def _import_module(name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")  # find modules of the current folder, as `python -m` does
    try:
        return importlib.import_module(name)
    except TypeError as error:
        if not name.startswith("."):
            raise
        raise ExportError(
            f"Cannot import {name!r}: the name of a module does not begin with a dot. For a file, "
            "write its path, such as ../net.py:NAME."
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists; a module that it imports is missing
        hint = ""
        if os.sep in name or Path(f"{name}.py").is_file():
            hint = f" For a file, write {name.removesuffix('.py')}.py:NAME."
        raise ExportError(f"Cannot import {name!r}: {error}.{hint}") from error


def _import_file(path: str) -> Any:
    """Import a file as a module, with its folder in `sys.path`; reuse a module of this file."""
    if not Path(path).is_file():
        raise ExportError(f"there is no file '{path}'")
    resolved = Path(path).resolve()
    if str(resolved.parent) not in sys.path:
        sys.path.insert(0, str(resolved.parent))
    loaded = sys.modules.get(resolved.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(resolved):
        return loaded
    # a file with the name of a loaded module, such as json.py, must not replace the module
    name = resolved.stem if loaded is None else f"{resolved.stem}_of_the_shell"
    spec = importlib.util.spec_from_file_location(name, resolved)
    assert spec is not None and spec.loader is not None  # never None for a .py file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _missing_message(source: str, module: Any, name: str) -> str:
    callables = [
        attribute
        for attribute, value in vars(module).items()
        if attribute[0] != "_" and callable(value)
    ]
    close = difflib.get_close_matches(name, callables, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{source!r} has no callable {name!r}.{hint}"


# -- model and call


def _make_target(target_name: str, value: Any) -> Target:
    import torch
    from torch.export import ExportedProgram

    if isinstance(value, ExportedProgram):
        return Target(value)
    if isinstance(value, type):
        if not issubclass(value, torch.nn.Module):
            raise ExportError(f"{target_name} is a class, and no torch.nn.Module")
        _check_no_arguments(target_name, value, "write a function that makes it with its arguments")
        value = value()
    elif not isinstance(value, torch.nn.Module):
        if not callable(value):
            raise ExportError(
                f"{target_name} is of type {type(value).__name__}, neither a function nor a module"
            )
        _check_no_arguments(target_name, value, "it returns " + _FORMS)
        value = value()
    if isinstance(value, torch.nn.Module):
        return _make_module_target(value.eval())
    return _make_result_target(target_name, value)


def _format_type(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _check_no_arguments(target_name: str, function: Callable[..., Any], advice: str) -> None:
    names = required_parameters(function)
    if names:
        listed = ", ".join(names)
        raise ExportError(
            f"{target_name} is called without arguments, and needs {listed}: {advice}"
        )


def _make_result_target(target_name: str, result: Any) -> Target:
    from torch.export import ExportedProgram

    if isinstance(result, ExportedProgram):
        return Target(result)
    if not isinstance(result, tuple):
        raise ExportError(
            f"{target_name} must return {_FORMS}; it returned {_format_type(result)}."
        )
    if len(result) not in (2, 3, 4) or not isinstance(result[1], tuple):
        kinds = ", ".join(type(item).__name__ for item in result)
        raise ExportError(f"{target_name} must return {_FORMS}; it returned ({kinds}).")
    model, args, kwargs, shapes = (*result, None, None)[:4]
    if not callable(model):
        raise ExportError(f"{target_name} returned a {type(model).__name__} instead of a model")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ExportError(f"{target_name}: kwargs is a dict, not a {type(kwargs).__name__}")
    return Target(model, args, dict(kwargs or {}), shapes)


def _make_module_target(model: Any) -> Target:
    """Make the target of a module whose attribute ``example_inputs``, if any, has the inputs.

    The attribute, or its result if it is a method, is a dict of inputs by name, a tuple or list of
    inputs, or the only input.
    """
    inputs = getattr(model, "example_inputs", None)
    if callable(inputs):
        inputs = inputs()
    if isinstance(inputs, Mapping):
        return Target(model, (), dict(inputs))
    if isinstance(inputs, (tuple, list)):
        return Target(model, tuple(inputs))
    return Target(model, () if inputs is None else (inputs,))
