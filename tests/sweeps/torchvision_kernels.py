"""torchvision where the kernels of its wheel do not load beside this torch: its operators are
defined here first, with kernels in Python, and its folder is put on the path."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import torch

# A folder beside the environment's packages, see the Makefile.
FOLDER = Path(sys.prefix) / "vision"

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)


def provide() -> None:
    """Make ``import torchvision`` and ``import timm`` work in this process."""
    if _loads():
        return
    library: Any = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", nms, "CPU")
    # pure Python modules of torchvision; its own kernels are not loaded
    extension = importlib.import_module("torchvision.extension")
    regions: Any = importlib.import_module("torchvision.ops.roi_align")
    metas = importlib.import_module("torchvision._meta_registrations")
    # torchvision lets inductor compile it, whose code for AVX2 computes something else
    library.impl("roi_align", inspect.unwrap(regions._roi_align), "CPU")
    torch.library.register_fake("torchvision::roi_align", metas.meta_roi_align)
    for module in (extension, regions):
        module._has_ops = lambda: True  # type: ignore[attr-defined]
    _KEPT.append(library)


_KEPT: list[Any] = []  # an operator lives as long as its library


def _loads() -> bool:
    """True when torchvision's own kernels are there; its folder is on the path afterwards."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    found = importlib.util.find_spec("torchvision")
    assert found is not None and found.origin is not None
    kernels = Path(found.origin).parent / "_C.so"
    try:
        torch.ops.load_library(str(kernels))
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of the boxes that no better one covers, the best first."""
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    covered = torch.zeros(len(dets), dtype=torch.bool)
    kept = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if covered[index]:
            continue
        kept.append(index)
        corners = torch.minimum(dets[index, 2:], dets[:, 2:])
        sides = (corners - torch.maximum(dets[index, :2], dets[:, :2])).clamp(min=0)
        shared = sides[:, 0] * sides[:, 1]
        covered |= shared / (areas + areas[index] - shared) > iou_threshold
    return torch.tensor(kept, dtype=torch.int64)
