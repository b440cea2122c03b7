"""Make torchvision importable where the kernels of its wheel do not load with this torch.

This module adds its folder to the path and defines its operators, with kernels in Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import sys
from pathlib import Path
from typing import Any

import torch

# The Makefile installs torchvision into this folder.
FOLDER = Path(sys.prefix) / "vision"

_ROI_ARGUMENTS = (
    "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROI_ARGUMENTS}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROI_ARGUMENTS}) -> (Tensor, Tensor)",
    # no kernels: the entries of these operators reject every call
    f"ps_roi_align({_ROI_ARGUMENTS}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_ROI_ARGUMENTS}) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
)


def provide() -> None:
    """Make ``import torchvision`` and ``import timm`` work in this process."""
    if _load_kernels():
        return
    library: Any = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", nms, "CPU")
    # importing these modules does not load torchvision's kernels
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
    _LIBRARIES.append(library)


_LIBRARIES: list[Any] = []  # an operator exists as long as its library


def _load_kernels() -> bool:
    """Add torchvision's folder to the path, and return whether its kernels load."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    kernels = Path(spec.origin).parent / "_C.so"
    try:
        torch.ops.load_library(str(kernels))
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Return the indices of the boxes that no better box covers, in order of decreasing score."""
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    covered = torch.zeros(len(dets), dtype=torch.bool)
    selected = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if covered[index]:
            continue
        selected.append(index)
        corners = torch.minimum(dets[index, 2:], dets[:, 2:])
        sides = (corners - torch.maximum(dets[index, :2], dets[:, :2])).clamp(min=0)
        shared = sides[:, 0] * sides[:, 1]
        # torchvision's kernel compares with the threshold in float64
        covered |= (shared / (areas + areas[index] - shared)).double() > iou_threshold
    return torch.tensor(selected, dtype=torch.int64)


def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """Return the mean of each bin of each region, over pixels interpolated at a grid of points.

    Points outside of the image by more than a pixel count as 0, as in torchvision's kernels.
    torchvision's Python function reads the pixels of the border there.
    """
    size = (len(rois), input.shape[1], pooled_height, pooled_width)
    result = input.new_zeros(size)
    height, width = input.shape[2:]
    offset, floor = (0.5, -math.inf) if aligned else (0.0, 1.0)
    for region in range(len(rois)):
        left, top, right, bottom = rois[region, 1:] * spatial_scale - offset
        image = input[int(rois[region, 0])]
        rows = _taps(top, (bottom - top).clamp(min=floor), pooled_height, sampling_ratio, height)
        columns = _taps(left, (right - left).clamp(min=floor), pooled_width, sampling_ratio, width)
        if rows and columns:
            samples = torch.stack([
                image[:, y][:, :, x] * (by[:, None] * bx)
                for (y, by), (x, bx) in itertools.product(rows, columns)
            ]).sum(0)  # fmt: skip
            bins = samples.unflatten(2, (pooled_width, -1)).unflatten(1, (pooled_height, -1))
            result[region] = bins.mean((2, 4))
    return result


def _taps(
    first: torch.Tensor, length: torch.Tensor, bins: int, sampling_ratio: int, size: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the two pixels next to each sample along an axis, and their weights.

    The list is empty if the bins have no samples.
    """
    grid = sampling_ratio if sampling_ratio > 0 else math.ceil(length / bins)
    if grid <= 0:
        return []
    step = length / bins
    offsets = (torch.arange(grid, dtype=first.dtype) + 0.5) * step / grid
    position = (first + torch.arange(bins)[:, None] * step + offsets).flatten()
    inside = ((position >= -1) & (position <= size)).to(position.dtype)
    position = position.clamp(0, size - 1)
    low = position.floor()
    high = (low + 1).clamp(max=size - 1)
    upper_weight = position - low
    return [(low.long(), (1 - upper_weight) * inside), (high.long(), upper_weight * inside)]


def roi_pool(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum of each bin of each region and its index: 0 and -1 in empty bins.

    Corners are rounded as by C's `round`, half away from zero. A region has at least one pixel.
    """
    height, width = input.shape[2:]
    size = (len(rois), input.shape[1], pooled_height, pooled_width)
    values, indices = input.new_zeros(size), torch.full(size, -1, dtype=torch.int32)
    for region, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(c * spatial_scale) + 0.5), c))
                          for c in corners)  # fmt: skip
        rows = _bin_bounds(y1, y2, pooled_height, height)
        columns = _bin_bounds(x1, x2, pooled_width, width)
        for (i, (top, bottom)), (j, (left, right)) in itertools.product(
            enumerate(rows), enumerate(columns)
        ):
            pixels = input[int(image), :, top:bottom, left:right]
            if pixels.numel():
                values[region, :, i, j], argmax = pixels.flatten(1).max(1)
                index = (argmax // (right - left) + top) * width + argmax % (right - left) + left
                indices[region, :, i, j] = index.to(torch.int32)
    return values, indices


def _bin_bounds(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
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
    """Convolve with an offset (y, x) for each kernel tap and output pixel.

    Samples between pixels are interpolated, and samples outside of the image are 0.
    """
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
    images = input.view(batch, offset_groups, channels // offset_groups, *input.shape[2:])
    samples = _interpolate(images, y, x)
    if use_mask:
        samples = samples * mask.view(batch, offset_groups, 1, count, out_h, out_w)
    samples = samples.reshape(batch, groups, channels // groups * count, out_h * out_w)
    kernels = weight.view(groups, len(weight) // groups, -1)
    result = torch.einsum("bgkp,gok->bgop", samples, kernels)
    return result.reshape(batch, -1, out_h, out_w) + bias[:, None, None]


def _interpolate(images: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Sample `[batch, group, channel, H, W]` at `y` and `x` of `[batch, group, tap, row, column]`.

    The result has shape `[batch, group, channel, tap, row, column]`.
    """
    height, width = images.shape[-2:]
    flat = images.flatten(3)
    total = flat.new_zeros(())
    for down, right in itertools.product((0, 1), (0, 1)):
        row, column = y.floor() + down, x.floor() + right
        weight = (1 - (y - row).abs()) * (1 - (x - column).abs())
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        flat_index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
        index = flat_index.flatten(2)[:, :, None].expand(-1, -1, flat.shape[2], -1)
        pixels = flat.gather(3, index).unflatten(3, y.shape[2:])
        total = total + pixels * (weight * inside)[:, :, None]
    return total
