"""Implement `bypass_export_some_errors`: a region in which patches of torch and transformers work
around known failures of torch.export, and in which to_onnx falls back to its other strategies.
Nothing else in ortable patches torch; patches.py has the patches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ortable.compat.scoped_patch import restore_on_exit, set_context_var
from ortable.errors import OptionError
from ortable.exporter.frontend.export_request import ACTIVE_PATCHES, Undo
from ortable.exporter.frontend.module_state import exclusive_export

if TYPE_CHECKING:
    from .patches import Patch


class _PatchRegistry:
    """The installed patches, the regions that requested them, and how to remove them.

    torch is one for all threads: the first region that needs a patch installs it and the last one
    removes it. Patched functions look at ``active_patches`` and behave as torch's in threads
    without a region. Nothing changes while another thread exports or compiles: dynamo would see
    tables change that it reads.
    """

    def __init__(self) -> None:
        self.regions: dict[str, set[object]] = {}
        self.undo: dict[str, Undo | None] = {}

    @exclusive_export()
    def install_patches(self, region: object, patches: Sequence[Patch]) -> None:
        for patch in patches:
            regions = self.regions.setdefault(patch.name, set())
            regions.add(region)
            if patch.name not in self.undo:
                self.undo[patch.name] = patch.apply()

    @exclusive_export()
    def remove_patches(self, region: object, patches: Sequence[Patch]) -> None:
        for patch in reversed(patches):
            regions = self.regions.get(patch.name, set())
            if regions == {region}:
                undo = self.undo.get(patch.name)
                if undo is not None:
                    undo()
                self.undo.pop(patch.name, None)
            regions.discard(region)


_REGISTRY = _PatchRegistry()


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
    selected = [
        patch
        for patch in PATCHES
        if libraries[patch.library] and patch.name not in without and patch.is_available()
    ]
    names = tuple(patch.name for patch in selected)
    if verbose:
        print(f"[bypass_export_some_errors] {', '.join(names)}")
    shared = [patch for patch in selected if not patch.of_thread]
    thread_patches = [patch for patch in selected if patch.of_thread]
    region = object()
    outer = ACTIVE_PATCHES.get() or ()
    inside = (*outer, *(name for name in names if name not in outer))
    with restore_on_exit(partial(_REGISTRY.remove_patches, region, shared)):
        _REGISTRY.install_patches(region, shared)
        with _apply_in_thread(thread_patches), set_context_var(ACTIVE_PATCHES, inside):
            yield names


@contextmanager
def _apply_in_thread(patches: Sequence[Patch]) -> Iterator[None]:
    """Apply thread-local patches in the block."""
    undo_by_name: dict[str, Undo | None] = {}

    def undo() -> None:
        for restore in undo_by_name.values():
            if restore is not None:
                restore()

    with restore_on_exit(undo):
        for patch in patches:
            undo_by_name[patch.name] = patch.apply()
        yield
