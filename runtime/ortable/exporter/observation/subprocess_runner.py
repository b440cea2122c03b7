"""Run a model in a subprocess, for calls that may crash the process.

runners.py calls this module; the subprocess runs subprocess_main.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

_TIMEOUT_SECONDS = 300.0  # the process is killed if a call takes longer
_CHILD_SCRIPT = Path(__file__).with_name("subprocess_main.py")


class ModelLoadError(RuntimeError):
    """The subprocess did not load the model, so the call did not run."""


class SubprocessRunner:
    """A subprocess that starts at the first call and after a crash; ``save`` writes the model."""

    def __init__(self, save: Callable[[str], None]) -> None:
        self._save = save
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._count = 0
        self._timed_out = False

    def close(self) -> None:
        """End the process, and remove its files."""
        self._terminate()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
        """Return the outputs of the model, in the model's order.

        Raises RuntimeError if ONNX Runtime fails, crashes the process, or does not answer within
        `_TIMEOUT_SECONDS`, and ModelLoadError if the process does not load the model.
        """
        process = self._ensure_started()
        assert self._folder is not None and process.stdin is not None
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.npz"
        arrays: dict[str, Any] = {
            f"feed{index}": array for index, array in enumerate(feeds.values())
        }
        np.savez(path, names=np.array(list(feeds), dtype=str), **arrays)
        answer = self._exchange(f"{path}\n")
        if answer is None:
            status = process.wait()
            self._terminate()
            if self._timed_out:
                raise RuntimeError(f"ONNX Runtime takes longer than {_TIMEOUT_SECONDS:g} seconds")
            cause = f"signal {-status}" if status < 0 else f"status {status}"
            raise RuntimeError(f"ONNX Runtime ends the process ({cause})")
        answer_word, _, message = answer.strip().partition(" ")
        if answer_word != "done":
            raise RuntimeError(message)
        with np.load(f"{path}.out.npz") as archive:
            values = [archive[f"value{index}"] for index in range(len(archive.files))]
        return [torch.from_numpy(np.array(value)) for value in values]

    def _ensure_started(self) -> subprocess.Popen[str]:
        if self._process is not None:
            return self._process
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
            self._save(self._model_path)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD_SCRIPT), self._model_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if self._exchange() != "ready\n":
            self._terminate()
            raise ModelLoadError("ONNX Runtime cannot load the model in a separate process")
        return self._process

    @property
    def _model_path(self) -> str:
        assert self._folder is not None
        return str(Path(self._folder.name) / "model.onnx")

    def _exchange(self, request: str = "") -> str | None:
        """Write the request, if any, and read a line; None if the process ended or was killed."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None

        def kill_after_timeout() -> None:
            self._timed_out = True
            process.kill()

        self._timed_out = False
        timer = threading.Timer(_TIMEOUT_SECONDS, kill_after_timeout)
        timer.start()
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return process.stdout.readline() or None
        except BrokenPipeError:
            return None
        finally:
            timer.cancel()

    def _terminate(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None
