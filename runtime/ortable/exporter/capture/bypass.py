"""bypass_export_some_errors: a region of code in which known failures of torch.export are worked
around by patches of torch and transformers, and in which to_onnx tries its other strategies
before it gives up. Nothing else in ortable patches torch. Called by users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ortable.compat.undone import undone, value_set
from ortable.errors import OptionError
from ortable.exporter.request.caller_state import in_turn
from ortable.exporter.request.program import ACTIVE, Undo

if TYPE_CHECKING:
    from .patches import Patch


class _Installed:
    """The patches that are installed, the regions that asked for them, and how to remove them.

    torch is one for all threads: a patch is installed by the first region that wants it and removed
    by the last. Patched functions look at ``active_patches`` and behave as torch's in
    threads without a region. Nothing changes while another thread exports or compiles: dynamo
    would see tables change that it reads.
    """

    def __init__(self) -> None:
        self.regions: dict[str, set[object]] = {}
        self.undo: dict[str, Undo | None] = {}

    @in_turn()
    def put(self, region: object, patches: Sequence[Patch]) -> None:
        for patch in patches:
            asked = self.regions.setdefault(patch.name, set())
            asked.add(region)
            if patch.name not in self.undo:
                self.undo[patch.name] = patch.apply()

    @in_turn()
    def take(self, region: object, patches: Sequence[Patch]) -> None:
        for patch in reversed(patches):
            asked = self.regions.get(patch.name, set())
            if asked == {region}:
                undo = self.undo.get(patch.name)
                if undo is not None:
                    undo()
                self.undo.pop(patch.name, None)
            asked.discard(region)


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
    shared = [patch for patch in chosen if not patch.of_thread]
    own = [patch for patch in chosen if patch.of_thread]
    region = object()
    outer = ACTIVE.get() or ()
    inside = (*outer, *(name for name in names if name not in outer))
    with undone(partial(_INSTALLED.take, region, shared)):
        _INSTALLED.put(region, shared)
        with _applied(own), value_set(ACTIVE, inside):
            yield names


@contextmanager
def _applied(patches: Sequence[Patch]) -> Iterator[None]:
    """In the block patches of this thread alone count."""
    made: dict[str, Undo | None] = {}

    def undo() -> None:
        for each in made.values():
            if each is not None:
                each()

    with undone(undo):
        for patch in patches:
            made[patch.name] = patch.apply()
        yield
