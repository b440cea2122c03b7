"""Errors, said without a traceback: ours with what to do, those of files, an exception in a user's
code, or a bug here. In comes an exception, out go text and exit status; called by `main`."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ortable.errors import OrtableError

DIFFERS, ERROR = 1, 2
_COMPILE = ("explain", "bench", "tune", "profile")

_TALKATIVE = ("torch._subclasses.fake_tensor", "torch.export._trace")
_LIBRARIES = f"{os.sep}site-packages{os.sep}"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@contextmanager
def quiet_torch(debug: bool) -> Iterator[None]:
    """torch logs the traceback of an error that it raises then, and that `said` says."""
    loggers = [] if debug else [logging.getLogger(name) for name in _TALKATIVE]
    try:
        for logger in loggers:
            logger.addFilter(_nothing)  # torch sets the levels anew when it is imported
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def status_of(error: BaseException) -> int:
    """1 where a comparison failed and nothing else, 2 for other errors."""
    return DIFFERS if isinstance(error, OrtableError) and error.differs else ERROR


def said(error: BaseException, command: str = "export", verbose: int = 0) -> str:
    """What is printed of an error: ours say what to do, the others where they were raised."""
    if isinstance(error, OrtableError):
        from ortable.interpreter.diagnostics.advice import advise, in_words_of_the_shell

        if command in _COMPILE:  # these take options by their names
            advise(error, "shell compile", verbose)
            return f"error: {error}"
        advise(error, "shell", verbose)
        return f"error: {in_words_of_the_shell(str(error))}"
    frame = _frame(error)
    if isinstance(error, OSError) and (frame is None or not _own(frame)):
        return f"error: {_of_file(error)}"
    if isinstance(error, SystemExit):
        lines = [f"error: your code left Python with exit status {error.code!r}"]
    else:
        text = str(error).strip() or "no message"
        lines = [f"error: {type(error).__name__}: {text}"]
    if isinstance(error, SyntaxError):  # its place is in the file, not in a frame
        lines[0] = f"error: {type(error).__name__}: {error.msg}"
        if error.filename is not None:
            lines.append(f"  at {os.path.basename(error.filename)}:{error.lineno}")
            lines.append(f"    {(error.text or '').strip()}")
    elif frame is not None:
        lines.append(f"  at {os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    lines.append("With --debug the whole traceback is printed.")
    return "\n".join(lines)


def _of_file(error: OSError) -> str:
    """``No space left on device: 'model.onnx'``; the message itself where there is no number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    names = [repr(each) for each in (error.filename, error.filename2) if each is not None]
    return ": ".join([error.strerror, *names])


def _frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame in files of the user, else the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if _own(each)]
    found = own or list(frames)
    return found[-1] if found else None


def _own(frame: traceback.FrameSummary) -> bool:
    return (
        _LIBRARIES not in frame.filename
        and not os.path.abspath(frame.filename).startswith(_HERE)
        and not frame.filename.startswith("<frozen ")
        and not frame.filename.startswith(os.path.dirname(os.__file__))
    )
