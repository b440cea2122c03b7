"""Explain failures of torch.export: the line of the user's model, the kind of failure, and advice.

`FAILURE_KINDS` is a table of patterns of torch's messages, the most specific first. sources.py
formats its errors with this module; guards.py and tracing.py use it to find the user's line.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ortable.exporter.frontend.export_request import UserLine

TORCH = os.path.dirname(torch.__file__) + os.sep
_ORTABLE = str(Path(__file__).resolve().parents[2]) + os.sep
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep
_SITE_PACKAGES = os.sep + "site-packages" + os.sep
# Prefixes of code names that are neither files nor the user's: graphs of torch.fx, Python's own
# modules. "<stdin>", "<string>" and a notebook's "<ipython-input-1>" are the user's.
_NON_USER_CODE = ("<eval_with_key>", "<frozen ", "<ortable ", "<__array_function__")
# Files of torch's Python functions whose conditions test arguments of the caller, and
# torch.export's replacement of ``min`` and ``max``.
_INTERFACES = ("_tensor.py", "functional.py", "nn/functional.py")
_MIN_MAX = "_tensor_min_max"
_DISPATCH = "_ops.py"  # torch's file that calls kernels

# Formats in which torch's messages give lines of Python.
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_LOCATION = re.compile(r"(?P<code>.*)# (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)", re.DOTALL)
# Lines of torch's messages that do not describe the model.
_NOISE = (
    "For more information, run with",
    "For extended logs",
    "For more debugging help",
    "For C++ stack trace",
    "If you suspect the guard",
    "The error above occurred when calling",
    "Set TORCHDYNAMO_VERBOSE",
    "For more details about this graph break",
    "consider using data-dependent friendly APIs",
    "Caused by:",
)
# torch's message quotes lines of code after this header; the report has these lines already.
_CODE_HEADER = "The following call raised this error:"

LOOPS_ADVICE = "ExportOptions(loops=True) captures a Python loop over a dynamic size as one scan"
COND = "write the branch with torch.cond(pred, true_fn, false_fn, operands), or with torch.where"
TRACING = "ExportOptions(tracing=True) captures both sides of a branch on a 0-d tensor, as an If"
CHECK = (
    "state what torch may assume before that line: torch._check(n > 0), "
    "torch._check(n <= x.shape[0])"
)
EAGER_ADVICE = "does the model run on these inputs, without torch.export?"
STRICT_ADVICE = "ExportOptions(strict=True): dynamo analyzes the Python code instead of running it"
NON_STRICT = "ExportOptions(strict=False): the Python code runs with fake tensors"
# Advice in place of advice that the user followed.
_NEXT_ADVICE = {
    TRACING: "tracing follows branches on a tensor: write if k > 3, not if k.item() > 3"
}
FALLBACK = "ExportOptions(fallback=True) tries the documented strategies in turn"
BYPASS_ADVICE = (
    "with ortable.bypass_export_some_errors(): works around known failures (caches of "
    "transformers, checks in torch.distributions...)"
)


@dataclass(frozen=True)
class FailureKind:
    """One kind of failure: ``pattern`` is searched in ``"<type of the error>: <message>"``.

    ``useful_approaches`` has the `Strategy.approach` values that may succeed after such a failure:
    ``"capture"`` (torch.export in its other mode), ``"autograd"`` (below autograd),
    ``"loops"``, ``"tracing"``, ``"draft"``.
    """

    name: str
    pattern: re.Pattern[str]
    advice: tuple[str, ...]
    useful_approaches: frozenset[str]


def _make_kind(
    name: str, pattern: str, *advice: str, useful_approaches: str = "capture"
) -> FailureKind:
    return FailureKind(
        name, re.compile(pattern, re.DOTALL), advice, frozenset(useful_approaches.split())
    )


# Failures about arguments, whose dimensions signature/dynamic_shapes.py adds to the report.
ARGUMENT_FAILURES: tuple[FailureKind, ...] = (
    _make_kind(
        "a dynamic dimension cannot vary as requested",
        r"Constraints violated|marked .* as dynamic but|conflicts between user-specified ranges",
        "take torch's suggestion, or leave the dimension out of dynamic_shapes",
        "an example size of 0 or 1 is taken for a constant: give 2 or more in args",
        LOOPS_ADVICE,
        useful_approaches="capture loops",
    ),
    _make_kind(
        "dynamic_shapes does not have the structure of the arguments",
        r"When `dynamic_shapes` is specified|Detected mismatch between the structure of `inputs`",
        "dynamic_shapes has one entry for each argument of the call, None for static ones",
        useful_approaches="",
    ),
    _make_kind(
        "a class that torch cannot flatten",
        r"Unsupported input type|not supported or pytree-flattenable|not a known type"
        r"|unrecognized type (?:UserDefined|\w*DataClass)|is not a valid output type|in the output"
        r"|export\(\) outputs",
        "torch.export.register_dataclass(C) for a dataclass, or "
        "torch.utils._pytree.register_pytree_node(C, flatten, unflatten)",
        BYPASS_ADVICE,
        useful_approaches="",
    ),
)

FAILURE_KINDS: tuple[FailureKind, ...] = (
    *ARGUMENT_FAILURES,
    _make_kind(
        "a tensor becomes a Python number",
        r"Could not extract specialized integer|data-dependent expression zuf?\d+"
        r"|Tensor\.(item|tolist)|aten\._local_scalar_dense",
        "keep the value in a tensor: x * t instead of x * float(t)",
        "a number of iterations that depends on data is a torch.while_loop or a torch scan",
        CHECK,
        useful_approaches="capture tracing",
    ),
    _make_kind(
        "a branch depends on a size that depends on data",
        r"data-dependent expression (?!Eq\(u\d+, 1\) \(unhinted: Eq\(u\d+, 1\)\)).*"
        r"\(Size-like symbols: (?!none)",
        CHECK,
        COND,
        BYPASS_ADVICE,
        # tracing succeeds if constants and sizes determine the size
        useful_approaches="loops tracing",
    ),
    _make_kind(
        "a branch depends on the values of a tensor",
        r"Could not guard on data-dependent expression|Data-dependent branching"
        r"|DataDependentOutput|data-dependent operator",
        COND,
        TRACING,
        CHECK,
        BYPASS_ADVICE,
        useful_approaches="tracing",
    ),
    _make_kind(
        "a size depends on data",
        r"DynamicOutputShape|dynamic shape operator|unbacked symbol|PendingUnbackedSymbol",
        CHECK,
        useful_approaches="capture loops",
    ),
    _make_kind(
        "the values of a tensor leave torch",
        r"\.numpy\(\) is not supported|Cannot access data pointer|Data pointer"
        r"|can't convert FakeTensor|Tensor\.numpy|__array__",
        "use torch functions instead of NumPy, or wrap that part into a torch.library.custom_op",
        STRICT_ADVICE,
    ),
    _make_kind(
        "a module with packed weights",
        r"PackedParamsBase",
        "modules of torch.ao.nn.quantized hold weights that torch.export cannot read: quantize "
        "with PT2E (torchao.quantization.pt2e) or with torchao's quantize_",
        useful_approaches="",
    ),
    _make_kind(
        "a compiled TorchScript module",
        r"torch\.jit\.|RecursiveScriptModule|positional arguments? but \d+ were given"
        r".*|ScriptModule",
        "put the original torch.nn.Module in the place of the torch.jit.script one",
        BYPASS_ADVICE,
    ),
    _make_kind(
        "an operator without a shape function in torch",
        r"UnsupportedOperator|no fake impl|fake impl|register_fake|has no kernel for.*Meta"
        r"|not implemented for the.*Meta",
        "register the shape function of the operator: torch.library.register_fake",
        "ExportOptions(fallback=True) lets torch's draft export guess it from the example",
        useful_approaches="draft",
    ),
    _make_kind(
        "the sides of a branch do not fit together",
        r"merging two branches|true_fn and false_fn|same output structure|torch\.cond",
        "return tensors of one dtype and rank from both sides",
    ),
    _make_kind(
        "the module changes its own attributes",
        r"Mutating module attribute|assigned during export|attribute mutation|"
        r"AttributeMutation|side effect",
        "make the attribute a buffer (register_buffer) and write it with copy_, or return it",
        NON_STRICT,
    ),
    _make_kind(
        "an input that needs a gradient is written in place",
        r"a leaf Variable that requires grad",
        "call to_onnx under torch.no_grad(), or use the form of the operation that returns",
        useful_approaches="",
    ),
    _make_kind(
        "gradients inside of forward",
        r"object has no attribute 'constant'|functorch tensor|fake tensor in the exported program",
        FALLBACK,
        useful_approaches="autograd capture",
    ),
    _make_kind(
        "an error raised by the model itself",
        r"Observed exception",
        EAGER_ADVICE,
    ),
    _make_kind(
        "Python that dynamo does not support",
        r"torch\._dynamo\.exc\.|Unsupported:|InternalTorchDynamoError",
        NON_STRICT,
        FALLBACK,
        useful_approaches="capture tracing",
    ),
    _make_kind(
        "an error raised by the model itself",
        r"",
        EAGER_ADVICE,
        FALLBACK,
    ),
)


def classify_failure(error: BaseException) -> FailureKind:
    """Return the first kind that describes ``error``; the last one matches everything."""
    cls = type(error)
    text = f"{cls.__module__}.{cls.__qualname__}: {error}"
    return next(kind for kind in FAILURE_KINDS if kind.pattern.search(text))


def find_user_line(error: BaseException) -> UserLine | None:
    """Find the user's innermost line where ``error`` happened; None if it is not recorded.

    The function searches the stack that dynamo attaches to its errors, then the traceback, then
    the text of the message.
    """
    stack = getattr(error, "real_stack", None) or ()
    for lines in (
        map(_line_of_frame, stack),
        _frames_below_export(error),
        _lines_in_message(str(error)),
    ):
        user_lines = [line for line in lines if is_user_file(line.file)]
        if user_lines:
            return user_lines[-1]
    return None


def find_guard_lines(error: BaseException) -> list[UserLine]:
    """Return the model's lines that constrain a size, after an error about a dynamic dimension.

    torch's message does not contain them; the function reads the guards of the shape environment
    that the frames of the traceback still hold.
    """
    lines: dict[UserLine, None] = {}
    for environment in _shape_environments(error):
        for guard in list(getattr(environment, "guards", ())):
            for location in (
                getattr(guard.sloc, "maybe_user_loc", None),
                getattr(guard.sloc, "framework_loc", None),
            ):
                line = line_from_location(location)
                if line is not None and is_user_file(line.file):
                    lines[line] = None
                    break
    return list(lines)


def describe_failure(
    error: BaseException, lines: list[UserLine] | None = None, tried: Collection[str] = ()
) -> str:
    """Format the failure on several lines: kind, location, torch's message, and advice.

    ``lines`` are the locations to print, by default the line of the error. ``tried`` is advice that
    the user already followed.
    """
    kind = classify_failure(error)
    if lines is None:
        line = find_user_line(error)
        lines = [] if line is None else [line]
    location = f", at {Path(lines[0].file).name}:{lines[0].line}" if lines else ""
    parts = [f"{kind.name}{location}", *(f"  at {line}" for line in lines)]
    parts.append(f"  torch says: {type(error).__name__}: {torch_message(error)}")
    remaining = [_NEXT_ADVICE.get(text, "") if text in tried else text for text in kind.advice]
    remaining = list(filter(None, remaining))
    parts += ["  What may help:"] * bool(remaining)
    parts += [f"  - {text}" for text in remaining]
    return "\n".join(parts)


def torch_message(error: BaseException, max_lines: int = 5) -> str:
    """Return the first lines of the message of ``error``, without torch's hints about its logs."""
    text = str(error).partition("\nThe error above occurred when calling torch.export")[0]
    text = text.partition(_CODE_HEADER)[0]
    lines = [
        line.rstrip()
        for line in text.strip().splitlines()
        if line.strip() and not line.strip().startswith(_NOISE)
    ]
    if len(lines) > max_lines:
        lines = [
            *lines[:max_lines],
            f"... ({len(lines) - max_lines} more lines in the cause of this error)",
        ]
    return "\n    ".join(lines)


def error_headline(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def is_user_file(file: str) -> bool:
    """Whether a file is the user's or a model library's, not torch's, ortable's or Python's."""
    if file.startswith((*_NON_USER_CODE, TORCH, _ORTABLE)):
        return False
    return not file.startswith(_PYTHON) or _SITE_PACKAGES in file


def is_condition_of_caller(line: UserLine) -> bool:
    """Whether a condition in this library code tests an argument of the library's caller.

    This holds in Python's standard library (``statistics.median``), and in torch's functions that
    pass on their arguments.
    """
    if line.file.startswith(TORCH):
        return _path_in_torch(line) in _INTERFACES or line.function == _MIN_MAX
    return line.file.startswith(_PYTHON) and _SITE_PACKAGES not in line.file


def is_dispatch(line: UserLine) -> bool:
    """Whether the line is where torch calls kernels, so that a kernel evaluated the condition."""
    return _path_in_torch(line) == _DISPATCH


def _path_in_torch(line: UserLine) -> str:
    return Path(line.file.removeprefix(TORCH)).as_posix() if line.file.startswith(TORCH) else ""


def find_calling_line(depth: int = 1, outside: bool = False) -> UserLine | None:
    """Return the line of the model that runs; None if no frame is the model's.

    The search skips this function's frame and the ``depth`` frames that called it. With ``outside``
    the result is also None if the search meets a frame of torch first.
    """
    frame: types.FrameType | None = sys._getframe(depth + 1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if outside and frame.f_code.co_filename.startswith(TORCH):
            return None
        frame = frame.f_back
    if frame is None:
        return None
    return UserLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def is_ortable_file(file: str) -> bool:
    """Whether the file belongs to ortable."""
    return file.startswith(_ORTABLE)


def _line_of_frame(frame: Any) -> UserLine:
    return UserLine(frame.filename, frame.lineno or 0, frame.name)


def _frames_below_export(error: BaseException) -> list[UserLine]:
    """Return the frames of the traceback from the first one in torch to the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    torch_frames = [i for i, frame in enumerate(frames) if frame.filename.startswith(TORCH)]
    frames_below = frames[torch_frames[0] :] if torch_frames else []
    return [_line_of_frame(frame) for frame in frames_below]


def parse_user_lines(text: str) -> list[UserLine]:
    """Return the model's lines in a stack trace of torch, the innermost last."""
    return [line for line in _lines_in_message(text) if is_user_file(line.file)]


def _lines_in_message(text: str) -> list[UserLine]:
    return [
        UserLine(match["file"], int(match["line"]), match["function"].rstrip(","))
        for match in _FRAME.finditer(text)
    ]


def line_from_location(location: Any) -> UserLine | None:
    """Parse a guard's location: a frame, or dynamo's text ``code # file:line in function``."""
    if isinstance(location, traceback.FrameSummary):
        return _line_of_frame(location)
    match = _LOCATION.match(location) if isinstance(location, str) else None
    if match is None:
        return None
    return UserLine(match["file"], int(match["line"]), match["function"], match["code"].strip())


def _shape_environments(error: BaseException) -> Iterator[Any]:
    from ortable.compat.torch import ShapeEnv

    seen: set[int] = set()
    for exception in (error, error.__context__):
        frame = None if exception is None else exception.__traceback__
        while frame is not None:
            for value in list(frame.tb_frame.f_locals.values()):
                environment = getattr(value, "shape_env", value)
                if isinstance(environment, ShapeEnv) and id(environment) not in seen:
                    seen.add(id(environment))
                    yield environment
            frame = frame.tb_next
