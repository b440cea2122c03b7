"""Errors that are not ours, said without a traceback: an exception in a user's code, or a bug here.
In comes an exception, out goes text; called by `main`."""

from __future__ import annotations

import os
import traceback

_LIBRARIES = f"{os.sep}site-packages{os.sep}"
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def said(error: BaseException) -> str:
    """What was raised and where: the innermost frame in files of the user, else the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if _LIBRARIES not in frame.filename
        and not os.path.abspath(frame.filename).startswith(_HERE)
        and not frame.filename.startswith("<frozen ")
        and not frame.filename.startswith(os.path.dirname(os.__file__))
    ]
    text = str(error).strip() or "no message"
    lines = [f"error: {type(error).__name__}: {text}"]
    if own or frames:
        frame = (own or frames)[-1]
        lines.append(f"  at {os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    lines.append("With --debug, before the command, the whole traceback is printed.")
    return "\n".join(lines)
