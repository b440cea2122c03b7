"""A model in a process of its own, for calls whose failure may end the process. In come a way to
save the model and feeds, out go its outputs, or an error in words. Called by runners.py; child.py
is what runs there."""

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

_SECONDS = 300.0  # that a call has, before its process is ended
_CHILD = Path(__file__).with_name("subprocess_main.py")


class NotStarted(RuntimeError):
    """The process did not start, or does not load the model: nothing is known of the call."""


class Apart:
    """The process; started at the first call, and again after one that ended it. ``save`` writes
    the model to a path."""

    def __init__(self, save: Callable[[str], None]) -> None:
        self._save = save
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._count = 0

    def close(self) -> None:
        """End it, and remove its files."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
        """The outputs of the model, in its order.

        Raises RuntimeError: ONNX Runtime fails, or ends the process; NotStarted: it did not begin.
        """
        process = self._started()
        assert self._folder is not None and process.stdin is not None
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}.npz"
        arrays: dict[str, Any] = {f"feed{index}": each for index, each in enumerate(feeds.values())}
        np.savez(path, names=np.array(list(feeds), dtype=str), **arrays)
        answer = self._asked(f"{path}\n")
        if answer is None:
            status = process.wait()
            self._end()
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise RuntimeError(f"ONNX Runtime ends the process ({how})")
        word, _, said = answer.strip().partition(" ")
        if word != "done":
            raise RuntimeError(said)
        with np.load(f"{path}.out.npz") as found:
            values = [found[f"value{index}"] for index in range(len(found.files))]
        return [torch.from_numpy(np.array(value)) for value in values]

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None:
            return self._process
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
            self._save(self._model)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_CHILD), self._model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        if self._asked("") != "ready\n":
            self._end()
            raise NotStarted("ONNX Runtime does not load the model in a process of its own")
        return self._process

    @property
    def _model(self) -> str:
        assert self._folder is not None
        return str(Path(self._folder.name) / "model.onnx")

    def _asked(self, line: str) -> str | None:
        """The child's next answer; None when it ended."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        timer = threading.Timer(_SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline() or None
        except BrokenPipeError:
            return None
        finally:
            timer.cancel()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None
