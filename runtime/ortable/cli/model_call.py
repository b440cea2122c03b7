"""Call a model in eager mode or compiled, with inputs from the command line.

Inputs are written ``f32[2,10]``, ``x=f32[batch=2,10]``, ``"i64[4] in 0..100"``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ortable.errors import InputError, OptionError

if TYPE_CHECKING:
    from ortablegen.language.samples import TensorSample


@dataclass(frozen=True)
class Target:
    """A model and the arguments of one call.

    ``dynamic_shapes`` is the argument of torch.export. ``free`` has the dimensions that --dynamic
    makes dynamic, ``{"input_ids": {0: "batch", 1: "sequence"}}``. Only a model of transformers has
    ``free`` (unless --inputs is used), ``task`` and ``tokenizer``.
    """

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    free: Mapping[str, Any] | None = None
    task: str = ""
    tokenizer: Any = None


class ModelCall:
    """A model in inference or training mode, with the arguments of one call.

    Args:
        target: the model and the arguments.
        train: run forward and backward, and begin backward with gradients of ones.
    """

    def __init__(self, target: Target, train: bool = False) -> None:
        import torch
        from torch.export import ExportedProgram

        self.model, self.args, self.train = target.model, target.args, train
        self.kwargs, self.dynamic_shapes = dict(target.kwargs), target.dynamic_shapes
        if isinstance(self.model, ExportedProgram):
            self._use_program(self.model)
        elif isinstance(self.model, torch.nn.Module):
            self.model.train(train)

    def _use_program(self, program: Any) -> None:
        if self.train:
            raise InputError("a saved program runs in the mode of its export: leave out --train")
        if program.example_inputs is None:
            raise InputError("the saved program has no example inputs to call it with")
        args, kwargs = program.example_inputs
        self.model, self.args, self.kwargs = program.module(), tuple(args), dict(kwargs)

    def __call__(self, function: Callable[..., Any]) -> None:
        """Call `function`, which is the model or its compiled form, and drop the gradients.

        An error of ortable that dynamo wraps is raised unwrapped.
        """
        import torch

        from ortable.debug.explain_state import run_call

        with torch.set_grad_enabled(self.train):
            backward_ran = run_call(function, (self.args, self.kwargs), self.train)
        if self.train and not backward_ran:
            raise InputError("no result of the model requires gradients: nothing runs backward")
        if self.train and isinstance(self.model, torch.nn.Module):
            self.model.zero_grad(set_to_none=True)

    def compile_model(self, backend: Callable[..., Any], dynamic: bool) -> Any:
        """Return `torch.compile(model)`, which compiles at its first call; reset torch's compiler.

        Without `dynamic`, torch decides which sizes are dynamic.
        """
        import torch

        torch.compiler.reset()
        return torch.compile(self.model, backend=backend, dynamic=True if dynamic else None)


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a default; none if there is no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in variadic
    ]


def check_has_inputs(target_name: str, target: Target) -> None:
    """Raise InputError if a module needs inputs and the target has none."""
    if target.args or target.kwargs or not hasattr(target.model, "forward"):
        return
    needed = required_parameters(target.model.forward)
    if needed:
        example = " ".join(f'"{name}=f32[2,3]"' for name in needed)
        raise InputError(
            f"{target_name}: the inputs of {type(target.model).__name__} are unknown. Give "
            f"--inputs {example}, with your sizes; or an attribute example_inputs of the model"
        )


_INPUT_SYNTAX = 'an input is written "f32[2,10]", "x=f32[batch=2,10]" or "i64[4] in 0..100"'
_NAME = re.compile(r"(\w+)\s*=(?!=)\s*(.+)", re.DOTALL)


def make_inputs(words: Sequence[str]) -> Target:
    """Make the values of ``--inputs``: tensors of a fixed seed, or literals (``scale=2.0``).

    A named dimension, ``batch=2``, is dynamic, and has the same size in all inputs. Integers
    without a range are 0 or 1, which are valid indices of any embedding with two rows.

    Returns:
        A target without a model.

    Raises:
        OptionError: a word is not an input, a dimension has two sizes, or names are inconsistent.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    sizes: dict[str, int] = {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    dims: dict[Any, Any] = {}
    for word in words:
        name, text = _split_name(word)
        value, dim_names = _make_value(word, text, sizes, generator)
        if not name and kwargs:
            raise OptionError(f"--inputs: {word!r} has no name, but follows an input with a name")
        if name in kwargs:
            raise OptionError(f"--inputs: {name!r} is given twice")
        dims[name or len(args)] = dim_names
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    return Target(None, tuple(args), kwargs, _dynamic_shapes(args, kwargs, dims))


def _dynamic_shapes(args: Sequence[Any], kwargs: Mapping[str, Any], dims: Mapping[Any, Any]) -> Any:
    """Make dynamic shapes for torch.export: ``{"x": {0: "batch"}, "y": None}``, or a tuple."""
    if not any(dims.values()):
        return None
    if args and kwargs:  # torch.export needs the parameter names, which positional inputs lack
        raise OptionError("--inputs: give all inputs a name, or none, where dimensions have names")
    return {name: dims[name] for name in kwargs} if kwargs else tuple(dims[key] for key in dims)


def _split_name(word: str) -> tuple[str, str]:
    match = _NAME.fullmatch(word)
    return (match[1], match[2]) if match else ("", word)


def _make_value(word: str, text: str, sizes: dict[str, int], generator: Any) -> tuple[Any, Any]:
    """Make a tensor and its dynamic dimensions, such as ``{0: "batch"}``; or a literal and None.

    New names are added to `sizes`.
    """
    from ortable.testing.values import draw_tensor
    from ortablegen.language.samples import SampleProblem, tensor_sample

    try:
        sample = tensor_sample(text.strip())
    except SampleProblem as problem:
        raise OptionError(f"--inputs: {problem}") from None
    if sample is None:
        return _parse_literal(word, text), None
    dim_names = {}
    for axis, (size, name) in enumerate(sample.dims):
        if not name:
            continue
        if not name.isidentifier():
            raise OptionError(f"--inputs: {name!r} in {word!r} is not a valid dimension name")
        if sizes.setdefault(name, size) != size:
            raise OptionError(f"--inputs: {name} is {sizes[name]}, and in {word!r} {size}")
        dim_names[axis] = name
    try:
        return draw_tensor(_bound_integers(sample), sample.shape, generator), dim_names or None
    except (RuntimeError, ValueError, MemoryError) as error:  # the tensor is too large, for example
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(f"--inputs: no tensor can be made for {word!r}: {reason}") from error


def _bound_integers(sample: TensorSample) -> TensorSample:
    """Limit integers without a range to 0 and 1 (`high` is excluded)."""
    is_integer = sample.dtype.startswith(("int", "uint"))
    is_unbounded = sample.low is None and sample.values is None
    return replace(sample, low=0, high=2) if is_integer and is_unbounded else sample


def _parse_literal(word: str, text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError):
        raise OptionError(f"--inputs: cannot read {word!r}; {_INPUT_SYNTAX}") from None
