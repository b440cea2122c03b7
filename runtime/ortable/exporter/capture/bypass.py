"""bypass_export_some_errors: a region of code in which known failures of torch.export are worked
around by patches of torch and transformers, and in which to_onnx tries its other strategies
before it gives up. Nothing else in ortable patches torch. Called by users."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager

from ortable.errors import OptionError
from ortable.exporter.request.bypass_state import ACTIVE, Undo


class _Installed:
    """The patches that are installed, how often they were asked for, and how to remove them.

    torch is one for all threads: a patch is installed by the first region that wants it and removed
    by the last. Patched functions look at ``active_patches`` and behave as torch's in
    threads without a region.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.counts: dict[str, int] = {}
        self.undo: dict[str, Undo] = {}

    def put(self, name: str, apply: Callable[[], Undo | None]) -> None:
        with self.lock:
            if self.counts.get(name, 0) == 0:
                undo = apply()
                if undo is not None:
                    self.undo[name] = undo
            self.counts[name] = self.counts.get(name, 0) + 1

    def take(self, name: str) -> None:
        with self.lock:
            self.counts[name] -= 1
            if self.counts[name] == 0:
                undo = self.undo.pop(name, None)
                if undo is not None:
                    undo()


_INSTALLED = _Installed()


@contextmanager
def bypass_export_some_errors(
    patch_torch: bool = True,
    patch_transformers: bool = True,
    patch_torchvision: bool = True,
    without: Collection[str] = (),
    verbose: int = 0,
) -> Iterator[tuple[str, ...]]:
    """Work around known failures of torch.export inside, and let to_onnx fall back.

    Everything is put back at the end, after an error too. Regions may be nested, and in several
    threads at once: the last one to end puts things back. Models and ``torch.export.export`` called
    inside see the patches; ``to_onnx`` also works as with ``ExportOptions(fallback=True)``, and the
    model's metadata (``ortable.steps``) list the patches.

    Args:
        patch_torch, patch_transformers, patch_torchvision: which library's patches to take, see
            docs/export-failures.md; those of a library that is not installed are left out, those of
            torchvision when it is not imported before.
        without: names of patches to leave out.
        verbose: 1 prints the patches.

    Yields:
        The names of the patches.

    Raises:
        OptionError: a flag is not True or False, ``without`` is no collection of names, or it names
            a patch that does not exist.
    """
    from .patches import PATCHES  # imports the compiler, which an export may do without

    if isinstance(without, str) or not isinstance(without, Collection):
        raise OptionError(f"without is a collection of names of patches, not {without!r}")
    libraries = {
        "torch": patch_torch,
        "transformers": patch_transformers,
        "torchvision": patch_torchvision,
    }
    for library, value in libraries.items():
        if not isinstance(value, bool):
            raise OptionError(f"patch_{library} is True or False, not {value!r}")
    unknown = sorted(set(without) - {patch.name for patch in PATCHES})
    if unknown:
        raise OptionError(
            f"there is no patch {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(repr(patch.name) for patch in PATCHES)}"
        )
    chosen = [
        patch
        for patch in PATCHES
        if libraries[patch.library] and patch.name not in without and patch.available()
    ]
    names = tuple(patch.name for patch in chosen)
    if verbose:
        print(f"[bypass_export_some_errors] {', '.join(names)}")
    with ExitStack() as stack:
        for patch in chosen:
            _INSTALLED.put(patch.name, patch.apply)
            stack.callback(_INSTALLED.take, patch.name)
        outer = ACTIVE.get() or ()
        token = ACTIVE.set((*outer, *(name for name in names if name not in outer)))
        stack.callback(ACTIVE.reset, token)
        yield names
