"""Implement `bypass_export_some_errors`, a ``with`` block that avoids failures of torch.export.

In the block (a region), patches of torch, transformers and torchvision work around known failures,
and to_onnx falls back to its other strategies. patches.py defines the patches.
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

    All threads share torch: the first region that needs a patch installs it, and the last removes
    it. Patched functions read ``active_patches`` and behave like torch's in threads without a
    region. Patches do not change while another thread exports or compiles, because dynamo would
    read the changing tables.
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
    """Work around known failures of torch.export in the block, and let to_onnx fall back.

    Everything is restored at the end, also after an error. Regions may be nested, and run in
    several threads at once: the last one to end restores torch. The patches apply to models and
    ``torch.export.export`` calls inside; ``to_onnx`` also works as with
    ``ExportOptions(fallback=True)``, and lists the patches in the model's metadata
    (``ortable.steps``).

    Args:
        patch_torch: whether to apply the patches of torch, see docs/export-failures.md.
        patch_transformers: the same for transformers; its patches are skipped if it is missing.
        patch_torchvision: the same for torchvision, unless it is missing or not imported yet.
        without: names of patches to skip.
        verbose: 1 prints the patches.

    Yields:
        The names of the patches.

    Raises:
        OptionError: a flag is not True or False, ``without`` is not a collection of names, or a
            patch that it names does not exist.
    """
    from .patches import PATCHES  # imports the compiler, which other exports may not need

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
    shared = [patch for patch in selected if not patch.is_thread_local]
    thread_patches = [patch for patch in selected if patch.is_thread_local]
    region = object()
    outer = ACTIVE_PATCHES.get() or ()
    active = (*outer, *(name for name in names if name not in outer))
    with restore_on_exit(partial(_REGISTRY.remove_patches, region, shared)):
        _REGISTRY.install_patches(region, shared)
        with _apply_in_thread(thread_patches), set_context_var(ACTIVE_PATCHES, active):
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
