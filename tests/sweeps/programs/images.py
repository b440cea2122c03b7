"""Convolutions, pooling, resampling, in one to three dimensions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import Program, normal


def _image(n, channels=3):
    return normal(2, channels, n + 4, n + 5)


def _resize(mode, **kwargs):
    return lambda x: F.interpolate(x, mode=mode, **kwargs)


PROGRAMS = {
    "conv1d": (
        lambda x, w: F.conv1d(x, w, padding=1),
        lambda n: (normal(2, 3, n + 4), normal(4, 3, 3)),
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        lambda n: (_image(n), normal(4, 3, 3, 3), normal(4)),
    ),
    "conv3d": (
        lambda x, w: F.conv3d(x, w, padding=1),
        lambda n: (normal(1, 2, 4, n + 2, 4), normal(3, 2, 3, 3, 3)),
    ),
    "conv2d batch": (
        lambda x, w: F.conv2d(x, w),
        lambda n: (normal(n, 3, 5, 5), normal(4, 3, 3, 3)),
    ),
    "conv2d depthwise": (
        lambda x, w: F.conv2d(x, w, groups=3),
        lambda n: (_image(n), normal(3, 1, 3, 3)),
    ),
    "conv2d same": (
        lambda x, w: F.conv2d(x, w, padding="same", dilation=2),
        lambda n: (_image(n), normal(4, 3, 3, 3)),
    ),
    "conv2d unbatched": (lambda x, w: F.conv2d(x, w), lambda n: (_image(n)[0], normal(4, 3, 3, 3))),
    "conv2d channels last": (
        lambda x, w: F.conv2d(x, w).relu(),
        lambda n: (_image(n).to(memory_format=torch.channels_last), normal(4, 3, 3, 3)),
    ),
    "conv2d groups by a size": (
        lambda x, w: F.conv2d(x, w, groups=x.shape[1]),
        lambda n: (normal(2, n, 5, 5), normal(n, 1, 3, 3)),
    ),
    "conv2d dilation by a size": (
        lambda x, w: F.conv2d(x, w, dilation=x.shape[0]),
        lambda n: (normal(n, 2, 12, 12), normal(3, 2, 2, 2)),
    ),
    "conv of double": (
        lambda x, w: F.conv2d(x, w),
        lambda n: (_image(n).double(), normal(4, 3, 3, 3).double()),
    ),
    "conv_transpose1d": (
        lambda x, w: F.conv_transpose1d(x, w, stride=2),
        lambda n: (normal(2, 3, n + 2), normal(3, 4, 3)),
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        lambda n: (_image(n), normal(3, 4, 3, 3)),
    ),
    "conv bn relu": (
        lambda x, w: F.batch_norm(F.conv2d(x, w), None, None, training=True).relu(),
        lambda n: (_image(n), normal(4, 3, 3, 3)),
    ),
    "residual": (
        lambda x, w: (F.conv2d(F.conv2d(x, w, padding=1).relu(), w, padding=1) + x).relu(),
        lambda n: (_image(n), normal(3, 3, 3, 3)),
    ),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), lambda n: (normal(2, 3, n + 4),)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda n: (_image(n),)),
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), lambda n: (_image(n),)),
    "max_pool2d indices": (
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda n: (_image(n),),
    ),
    "max_pool2d dilated": (lambda x: F.max_pool2d(x, 2, 1, dilation=2), lambda n: (_image(n),)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), lambda n: (normal(1, 2, 4, n + 2, 4),)),
    "max_pool2d of -inf": (
        lambda x: F.max_pool2d(x, 2),
        lambda n: (torch.full((1, 1, n + 2, 4), -torch.inf),),
    ),
    "max_unpool2d": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        lambda n: (normal(2, 3, 2 * n, 4),),
    ),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2), lambda n: (normal(2, 3, n + 4),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), lambda n: (_image(n),)),
    "avg_pool2d uneven": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda n: (_image(n),),
    ),
    "avg_pool2d divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
        lambda n: (_image(n),),
    ),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), lambda n: (normal(1, 2, 4, n + 2, 4),)),
    "adaptive_avg_pool1d": (
        lambda x: F.adaptive_avg_pool1d(x, 3),
        lambda n: (normal(2, 3, n + 4),),
    ),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), lambda n: (_image(n),)),
    "adaptive_avg_pool2d to 1": (lambda x: F.adaptive_avg_pool2d(x, 1), lambda n: (_image(n),)),
    "adaptive_avg_pool2d wider": (
        lambda x: F.adaptive_avg_pool2d(x, (9, 4)),
        lambda n: (_image(n),),
    ),
    "adaptive_avg_pool3d": (
        lambda x: F.adaptive_avg_pool3d(x, 2),
        lambda n: (normal(1, 2, 5, n + 3, 4),),
    ),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), lambda n: (_image(n),)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), lambda n: (_image(n),)),
    "fractional": Program(
        lambda x: F.fractional_max_pool2d(x, 2, output_size=(3, 3)),
        lambda n: (_image(n),),
    ),
    "nearest": (_resize("nearest", scale_factor=2.0), lambda n: (_image(n),)),
    "nearest to a size": (_resize("nearest", size=(7, 5)), lambda n: (_image(n),)),
    "nearest-exact": (_resize("nearest-exact", scale_factor=1.5), lambda n: (_image(n),)),
    "bilinear": (_resize("bilinear", scale_factor=2.0), lambda n: (_image(n),)),
    "bilinear corners": (
        _resize("bilinear", size=(7, 5), align_corners=True),
        lambda n: (_image(n),),
    ),
    "bilinear smaller": (_resize("bilinear", size=(3, 3)), lambda n: (_image(n),)),
    "bicubic": (_resize("bicubic", scale_factor=2.0), lambda n: (_image(n),)),
    "trilinear": (_resize("trilinear", scale_factor=2.0), lambda n: (normal(1, 2, 3, n + 1, 3),)),
    "linear": (_resize("linear", scale_factor=2.0), lambda n: (normal(2, 3, n + 2),)),
    "area": (_resize("area", size=(3, 4)), lambda n: (_image(n),)),
    "antialias": (_resize("bilinear", size=(3, 4), antialias=True), lambda n: (_image(n),)),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        lambda n: (_image(n), normal(2, 3, 4, 2)),
    ),
    "grid_sample border": (
        lambda x, g: F.grid_sample(
            x, g, mode="bilinear", padding_mode="border", align_corners=True
        ),
        lambda n: (_image(n), normal(2, 3, 4, 2)),
    ),
    "grid_sample nearest": (
        lambda x, g: F.grid_sample(
            x, g, mode="nearest", padding_mode="reflection", align_corners=False
        ),
        lambda n: (_image(n), normal(2, 3, 4, 2)),
    ),
    "affine_grid": (
        lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False),
        lambda n: (normal(2, 2, 3),),
    ),
    "patches": (
        lambda x, w: F.conv2d(x, w, stride=2).flatten(2).transpose(1, 2),
        lambda n: (normal(n, 3, 8, 8), normal(4, 3, 2, 2)),
    ),
    "unet": (
        lambda x, w: torch.cat(
            [x, F.interpolate(F.conv2d(F.max_pool2d(x, 2), w, padding=1), size=x.shape[2:])], 1
        ),
        lambda n: (normal(2, 3, 2 * n, 8), normal(3, 3, 3, 3)),
    ),
    "squeeze excite": (
        lambda x, w: x * F.conv2d(x.mean((2, 3), keepdim=True), w).sigmoid(),
        lambda n: (_image(n), normal(3, 3, 1, 1)),
    ),
}
