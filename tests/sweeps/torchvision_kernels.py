"""torchvision where the kernels of its wheel do not load beside this torch: its operators are
defined here first, with kernels in Python, and its folder is put on the path."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import sys
from pathlib import Path
from typing import Any

import torch

# A folder beside the environment's packages, see the Makefile.
FOLDER = Path(sys.prefix) / "vision"

_POOLED = (
    "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_POOLED}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_POOLED}) -> (Tensor, Tensor)",
    # no kernels: their entries refuse every call
    f"ps_roi_align({_POOLED}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_POOLED}) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
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
    library.impl("roi_align", roi_align, "CPU")
    library.impl("roi_pool", roi_pool, "CPU")
    library.impl("deform_conv2d", deform_conv2d, "CPU")
    for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
        torch.library.register_fake(f"torchvision::{name}", getattr(metas, f"meta_{name}"))
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
        # torchvision's kernel compares with the threshold in float64
        covered |= (shared / (areas + areas[index] - shared)).double() > iou_threshold
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """The mean of each bin of each region, of pixels that are interpolated at a grid of places:
    beside the picture by more than a pixel they are 0. (torchvision's function in Python reads the
    border's pixels there, its kernels do not.)"""
    size = (len(rois), input.shape[1], pooled_height, pooled_width)
    found = input.new_zeros(size)
    height, width = input.shape[2:]
    offset, least = (0.5, -math.inf) if aligned else (0.0, 1.0)
    for region in range(len(rois)):
        left, top, right, low = rois[region, 1:] * spatial_scale - offset
        picture = input[int(rois[region, 0])]
        rows = _axis(top, (low - top).clamp(min=least), pooled_height, sampling_ratio, height)
        columns = _axis(left, (right - left).clamp(min=least), pooled_width, sampling_ratio, width)
        if rows and columns:
            read = torch.stack([
                picture[:, y][:, :, x] * (by[:, None] * bx)
                for (y, by), (x, bx) in itertools.product(rows, columns)
            ]).sum(0)  # fmt: skip
            bins = read.unflatten(2, (pooled_width, -1)).unflatten(1, (pooled_height, -1))
            found[region] = bins.mean((2, 4))
    return found


def _axis(
    first: torch.Tensor, length: torch.Tensor, bins: int, sampling_ratio: int, size: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The two pixels beside each place along an axis, and their weights; none where a bin has no
    places."""
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(length / bins)
    if grid <= 0:
        return []
    step = length / bins
    part = (torch.arange(grid, dtype=first.dtype) + 0.5) * step / grid
    at = (first + torch.arange(bins)[:, None] * step + part).flatten()
    inside = ((at >= -1) & (at <= size)).to(at.dtype)
    at = at.clamp(0, size - 1)
    low = at.floor()
    high = (low + 1).clamp(max=size - 1)
    upper = at - low
    return [(low.long(), (1 - upper) * inside), (high.long(), upper * inside)]


def roi_pool(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum of each bin of each region, and where in the picture it is: 0 and -1 in bins
    without pixels. Corners are rounded away from zero, as C's `round` does, and a region has at
    least one pixel."""
    height, width = input.shape[2:]
    size = (len(rois), input.shape[1], pooled_height, pooled_width)
    values, found = input.new_zeros(size), torch.full(size, -1, dtype=torch.int32)
    for region, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(c * spatial_scale) + 0.5), c))
                          for c in corners)  # fmt: skip
        rows = _bins(y1, y2, pooled_height, height)
        columns = _bins(x1, x2, pooled_width, width)
        for (i, (top, low)), (j, (left, right)) in itertools.product(
            enumerate(rows), enumerate(columns)
        ):
            part = input[int(image), :, top:low, left:right]
            if part.numel():
                values[region, :, i, j], at = part.flatten(1).max(1)
                place = (at // (right - left) + top) * width + at % (right - left) + left
                found[region, :, i, j] = place.to(torch.int32)
    return values, found


def _bins(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    step = max(last - first + 1, 1) / count
    ends = [(math.floor(k * step) + first, math.ceil((k + 1) * step) + first) for k in range(count)]
    return [(min(max(low, 0), size), min(max(high, 0), size)) for low, high in ends]


def deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    """A convolution that reads each pixel of its kernel beside its place, by an offset (y, x) of
    each output pixel; between pixels it interpolates, and outside of the picture it reads 0."""
    batch, channels = input.shape[:2]
    kernel_h, kernel_w = weight.shape[2:]
    out_h, out_w = offset.shape[-2:]
    count = kernel_h * kernel_w
    shift = offset.view(batch, offset_groups, count, 2, out_h, out_w)
    tap = torch.arange(count)
    rows = torch.arange(out_h) * stride_h - pad_h + (tap // kernel_w * dilation_h)[:, None]
    columns = torch.arange(out_w) * stride_w - pad_w + (tap % kernel_w * dilation_w)[:, None]
    y = shift[:, :, :, 0] + rows[:, :, None]
    x = shift[:, :, :, 1] + columns[:, None, :]
    pictures = input.view(batch, offset_groups, channels // offset_groups, *input.shape[2:])
    read = _interpolated(pictures, y, x)
    if use_mask:
        read = read * mask.view(batch, offset_groups, 1, count, out_h, out_w)
    read = read.reshape(batch, groups, channels // groups * count, out_h * out_w)
    kernels = weight.view(groups, len(weight) // groups, -1)
    done = torch.einsum("bgkp,gok->bgop", read, kernels)
    return done.reshape(batch, -1, out_h, out_w) + bias[:, None, None]


def _interpolated(pictures: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Pixels `[batch, group, channel, tap, row, column]` of `[batch, group, channel, H, W]`, at
    places `[batch, group, tap, row, column]`."""
    height, width = pictures.shape[-2:]
    flat = pictures.flatten(3)
    total = flat.new_zeros(())
    for down, right in itertools.product((0, 1), (0, 1)):
        row, column = y.floor() + down, x.floor() + right
        weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
        index = place.flatten(2)[:, :, None].expand(-1, -1, flat.shape[2], -1)
        pixels = flat.gather(3, index).unflatten(3, y.shape[2:])
        total = total + pixels * (weight * inside)[:, :, None]
    return total
