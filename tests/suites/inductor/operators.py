"""Operators of aten called by their names: backward formulas, copies of views, functional forms."""

from __future__ import annotations

import torch
from torch import tensor

from . import cube, dynamic, matrix, static, train, two_matrices

aten = torch.ops.aten
prims = torch.ops.prims


def _image(n):
    return (torch.randn(2, 3, n + 2, 6),)


def _pooled(size, step=None, pad=0, dilation=1, ceil=False):
    """Return a program of the gradient of max_pool2d."""

    def run(x):
        y, places = aten.max_pool2d_with_indices(x, size, step or size, pad, dilation, ceil)
        gradient = torch.arange(y.numel(), dtype=x.dtype).reshape(y.shape)
        return aten.max_pool2d_with_indices_backward(
            gradient, x, size, step or size, pad, dilation, ceil, places
        )

    return static(run, _image)


def _averaged(size, step, pad=0, ceil=False, counted=True, divisor=None):
    """Return a program of the gradient of avg_pool2d."""

    def run(x):
        y = aten.avg_pool2d(x, size, step, pad, ceil, counted, divisor)
        gradient = torch.arange(y.numel(), dtype=x.dtype).reshape(y.shape)
        return aten.avg_pool2d_backward(gradient, x, size, step, pad, ceil, counted, divisor)

    return static(run, _image)


def _convolved(mask, step=1, pad=0, dilation=1, transposed=False, groups=1, rank=2):
    """Return a program of the gradient of a convolution."""
    geometry = [step] * rank, [pad] * rank, [dilation] * rank, transposed, [0] * rank, groups

    def run(x, w):
        y = aten.convolution(x, w, None, *geometry)
        return aten.convolution_backward(y * 0.1, x, w, [y.shape[1]], *geometry, mask)

    return static(
        run, lambda n: (torch.randn(2, 4, *[7] * rank), torch.randn(4, 4 // groups, *[3] * rank))
    )


def _resized(name, *more):
    """Return a program of a resize and of its gradient."""
    forward, backward = getattr(aten, name), getattr(aten, f"{name}_backward")

    def run(x):
        y = forward(x, [9, 5], *more)
        return y, backward(y, [9, 5], list(x.shape), *more)

    return static(run, _image)


def _padded(name, pad):
    forward, backward = getattr(aten, name), getattr(aten, f"{name}_backward")
    return static(lambda x: (y := forward(x, pad), backward(y, x, pad)), _image)


def _quantized(x):
    ops = torch.ops.quantized_decomposed
    codes = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
    scales, zeros = torch.full((3,), 0.04), tensor([0, 1, 200])
    columns = ops.quantize_per_channel(x, scales, zeros, 1, 0, 255, torch.uint8)
    return (
        codes,
        ops.dequantize_per_tensor(codes, 0.05, 3, -128, 127, torch.int8),
        ops.dequantize_per_channel(columns, scales, zeros, 1, 0, 255, torch.uint8),
    )


PROGRAMS = {
    # gradients
    "max_pool2d backward": _pooled([2, 2]),
    "max_pool2d backward of overlapping windows": _pooled([3, 3], [1, 1], [1, 1]),
    "max_pool2d backward in ceil mode": _pooled([3, 2], [2, 2], [1, 1], 1, True),
    "max_pool2d backward of dilated windows": _pooled([2, 2], [1, 1], [0, 0], [2, 1]),
    "max_pool2d backward of large windows": _pooled([6, 6], [1, 1], [2, 2]),
    "max_pool2d backward of single elements": _pooled([1, 1], [2, 2]),
    "avg_pool2d backward": _averaged([2, 2], [2, 2]),
    "avg_pool2d backward of overlapping windows": _averaged([3, 3], [1, 1], [1, 1]),
    "avg_pool2d backward that counts no pads": _averaged([3, 3], [2, 2], [1, 1], True, False),
    "avg_pool2d backward with a divisor": _averaged([2, 3], [2, 1], [0, 1], False, True, 5),
    "avg_pool2d backward of single elements": _averaged([1, 1], [2, 2]),
    "avg_pool3d backward": static(
        lambda g, x: aten.avg_pool3d_backward(
            g, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], True, False, None
        ),
        lambda n: (torch.randn(1, 2, 2, 2, 2), torch.randn(1, 2, 4, 4, 4)),
    ),
    "adaptive pools backward": static(
        lambda x: (
            aten._adaptive_avg_pool2d_backward(aten._adaptive_avg_pool2d(x, [2, 4]), x),
            aten.adaptive_max_pool2d_backward(
                (y := aten.adaptive_max_pool2d(x, [3, 2]))[0], x, y[1]
            ),
        ),
        _image,
    ),
    "convolution backward": _convolved([True, True, True]),
    "convolution backward of the weight": _convolved([False, True, False], step=2, pad=1),
    "convolution backward of the input": _convolved([True, False, False], pad=2, dilation=2),
    "convolution backward of groups": _convolved([True, True, False], groups=2, pad=1),
    "convolution backward of channels": _convolved([True, True, True], groups=4, step=2),
    "convolution backward, transposed": _convolved(
        [True, True, True], transposed=True, step=2, pad=1
    ),
    "convolution backward of one axis": _convolved([True, True, True], rank=1, pad=1),
    "convolution backward of three axes": _convolved([True, True, True], rank=3),
    "layer norm backward": static(
        lambda x, w: (
            y := aten.native_layer_norm(x, [4], w, w, 1e-5),
            aten.native_layer_norm_backward(x, x, [4], y[1], y[2], w, w, [True] * 3),
        ),
        lambda n: (torch.randn(n, 3, 4), torch.randn(4)),
    ),
    "layer norm backward of some": static(
        lambda x: (
            y := aten.native_layer_norm(x, [3, 4], None, None, 1e-5),
            aten.native_layer_norm_backward(
                x, x, [3, 4], y[1], y[2], None, None, [True, False, False]
            ),
        ),
        cube,
    ),
    "group norm backward": static(
        lambda x, w: (
            y := aten.native_group_norm(x, w, w, 2, 4, 9, 2, 1e-5),
            aten.native_group_norm_backward(y[0], x, y[1], y[2], w, 2, 4, 9, 2, [True] * 3),
        ),
        lambda n: (torch.randn(2, 4, 3, 3), torch.randn(4)),
    ),
    "batch norm backward": static(
        lambda x, w, m, v: aten.native_batch_norm_backward(
            x * 2, x, w, m, v, m, v, True, 1e-5, [True] * 3
        ),
        lambda n: (torch.randn(n, 3, 2), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5),
    ),
    "batch norm backward in eval": static(
        lambda x, w, m, v: aten.native_batch_norm_backward(
            x * 2, x, w, m, v, None, None, False, 1e-5, [True] * 3
        ),
        lambda n: (torch.randn(n, 3, 2), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5),
    ),
    "batch norm, functional": static(
        lambda x, w, m, v: aten._native_batch_norm_legit_functional(x, w, w, m, v, True, 0.1, 1e-5),
        lambda n: (torch.randn(n, 3, 2), torch.randn(3), torch.randn(3), torch.rand(3) + 0.5),
    ),
    "batch norm of one row": static(
        lambda x, m, v: aten.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5),
        lambda n: (torch.randn(1, 3), torch.zeros(3), torch.ones(3)),
    ),
    "softmax backward": static(
        lambda g, x: (
            aten._softmax_backward_data(g, x.softmax(1), 1, torch.float32),
            aten._log_softmax_backward_data(g, x.log_softmax(0), 0, torch.float32),
        ),
        two_matrices,
    ),
    "softmax of half to float": static(
        lambda x: (aten._softmax(x, 1, False), aten._log_softmax(x, -1, False)), matrix
    ),
    "activations backward": static(
        lambda g, x: (
            aten.gelu_backward(g, x),
            aten.gelu_backward(g, x, approximate="tanh"),
            aten.silu_backward(g, x),
            aten.elu_backward(g, 1.0, 1, 1, False, x),
            aten.threshold_backward(g, x, 0),
            aten.hardtanh_backward(g, x, -0.5, 0.5),
            aten.hardsigmoid_backward(g, x),
            aten.hardswish_backward(g, x),
            aten.leaky_relu_backward(g, x, 0.1, False),
            aten.softplus_backward(g, x, 2.0, 20.0),
            aten.mish_backward(g, x),
            aten.softshrink_backward(g, x, 0.3),
        ),
        two_matrices,
    ),
    "activations backward from results": static(
        lambda g, y: (
            aten.tanh_backward(g, y),
            aten.sigmoid_backward(g, y),
            aten.elu_backward(g, 1.0, 1, 1, True, y),
            aten.leaky_relu_backward(g, y, 0.1, True),
            aten.logit_backward(g, y.sigmoid()),
            aten.glu_backward(g[:, :1], y[:, :2], 1),
        ),
        two_matrices,
    ),
    "threshold at its bound": static(
        lambda x: (
            aten.threshold_backward(x, x, 0),
            aten.threshold(x, 0, 5),
            aten.hardtanh_backward(x, x, 0, 1),
        ),
        lambda n: (tensor([0.0, -0.0, 1.0, float("nan")]),),
    ),
    "losses backward": static(
        lambda x, t: (
            aten.nll_loss_backward(tensor(1.0), x, t, None, 1, -100, tensor(4.0)),
            aten.mse_loss_backward(x, x, x * 2, 0),
            aten.smooth_l1_loss_backward(x, x, x * 2, 0, 1.0),
            aten.huber_loss_backward(x, x, x * 2, 0, 0.5),
            aten.binary_cross_entropy_backward(x, x.sigmoid(), (x > 0).float(), None, 0),
        ),
        lambda n: (torch.randn(4, 3), tensor([0, 2, 1, 1])),
    ),
    "nll_loss with all arguments": static(
        lambda x, t, w: (
            aten.nll_loss_forward(x, t, w, 1, -100),
            aten.nll_loss_forward(x, t, None, 0, 1),
            aten.nll_loss2d_forward(x[:, :, None, None], t[:, None, None], w, 2, -100),
        ),
        lambda n: (torch.randn(4, 3), tensor([0, 2, 1, 1]), torch.rand(3)),
    ),
    "views backward": static(
        lambda g: (
            aten.slice_backward(g, [9, 3], 0, 1, 9, 2),
            aten.select_backward(g, [4, 5, 3], 1, -1),
            aten.diagonal_backward(g[:, 0], [4, 6], 0, 0, 1),
            aten.unfold_backward(g[:, :, None].expand(4, 3, 2), [4, 4], 1, 2, 1),
        ),
        lambda n: (torch.randn(4, 3),),
    ),
    "embedding backward": static(
        lambda g, i: (
            aten.embedding_dense_backward(g, i, 5, -1, False),
            aten.embedding_dense_backward(g, i, 5, 1, True),
        ),
        lambda n: (torch.randn(4, 3), tensor([1, 0, 1, 4])),
    ),
    "reflection_pad2d backward": _padded("reflection_pad2d", [1, 2, 2, 1]),
    "replication_pad2d backward": _padded("replication_pad2d", [2, 1, 0, 3]),
    "reflection_pad1d backward": static(
        lambda x: aten.reflection_pad1d_backward(aten.reflection_pad1d(x, [2, 1]), x, [2, 1]), cube
    ),
    "nearest resize backward": _resized("upsample_nearest2d", None, None),
    "exact nearest resize backward": _resized("_upsample_nearest_exact2d", None, None),
    "bilinear resize backward": _resized("upsample_bilinear2d", False, None, None),
    "bilinear resize with aligned corners backward": _resized(
        "upsample_bilinear2d", True, None, None
    ),
    "bicubic resize backward": _resized("upsample_bicubic2d", False, None, None),
    "grid_sampler backward": static(
        lambda x, g: aten.grid_sampler_2d_backward(
            aten.grid_sampler_2d(x, g, 0, 0, False), x, g, 0, 0, False, [True, True]
        ),
        lambda n: (torch.randn(1, 2, 4, 5), torch.rand(1, 3, 3, 2) * 2 - 1),
    ),
    "col2im and im2col": static(
        lambda x: aten.col2im(
            aten.im2col(x, [2, 2], [1, 1], [0, 1], [1, 1]), [6, 6], [2, 2], [1, 1], [0, 1], [1, 1]
        ),
        lambda n: (torch.randn(2, 3, 6, 6),),
    ),
    "cumulative gradients": train(
        lambda x: (aten.cumsum(x, 0), aten.cumprod(x, 1), aten.logcumsumexp(x, 0)), matrix
    ),
    # copies of views and unsafe forms
    "copies of views": dynamic(
        lambda x: (
            aten.view_copy(x, [-1]),
            aten.t_copy(x),
            aten.slice_copy(x, 0, 1, 3),
            aten.select_copy.int(x, 0, -1),
            aten.permute_copy(x, [1, 0]),
            aten.unsqueeze_copy(x, 1),
            aten.expand_copy(x[None], [2, -1, 3]),
            aten.diagonal_copy(x),
            aten.transpose_copy.int(x, 0, 1),
            aten.squeeze_copy(x),
        ),
        matrix,
    ),
    "copies of splits": static(
        lambda x: (
            aten.split_copy.Tensor(x, 2),
            aten.unbind_copy.int(x, 1),
            aten.split_with_sizes_copy(x, [1, 3]),
            aten.unfold_copy(x, 0, 2, 1),
        ),
        matrix,
    ),
    "unsafe forms": static(
        lambda x, i: (
            aten._unsafe_view(x * 2, [3, 4]),
            aten._unsafe_index(x, [i]),
            aten._unsafe_index_put(x, [i], tensor(1.0)),
            aten.unsafe_split(x * 2, 2)[1] + 1,
            aten.unsafe_chunk(x * 2, 2)[0] + 1,
        ),
        lambda n: (torch.randn(4, 3), tensor([0, 2])),
    ),
    "masked unsafe indices": static(
        lambda x, m, i: (
            aten._unsafe_masked_index(x, m, [i], 0),
            aten._unsafe_masked_index_put_accumulate(x, m, [i], x[:2]),
        ),
        lambda n: (torch.randn(4, 3), tensor([[True], [False]]), tensor([0, 2])),
    ),
    "functional writes": static(
        lambda x, y: (
            aten.copy(x, y[0]),
            aten.fill(x, 2),
            aten.fill(x, tensor(3.0)),
            aten.zero(x),
            aten.index_fill(x, 0, tensor([1]), 5),
            aten.lift_fresh_copy(x),
        ),
        two_matrices,
    ),
    "in place by name": static(
        lambda x, y: (aten.add_(x, y), aten.mul_(x, 2), aten.copy_(y, x[0]), aten.zero_(y[1:]))[:2],
        two_matrices,
    ),
    "out by name": static(
        lambda x, y: (
            aten.add.out(x, y, out=torch.empty(4, 3)),
            aten.mm.out(x, y.t(), out=torch.empty(4, 4)),
        ),
        two_matrices,
    ),
    # conversions and factories
    "_to_copy": static(
        lambda x: (
            aten._to_copy(x),
            aten._to_copy(x, dtype=torch.float64),
            aten._to_copy(x.t(), dtype=torch.int32, memory_format=torch.contiguous_format),
        ),
        matrix,
    ),
    "prims": static(
        lambda x: (
            prims.convert_element_type(x, torch.float64),
            prims.iota(5, start=2, step=3, dtype=torch.int64, device=x.device, requires_grad=False),
            prims.fmax(x, x * 2),
        ),
        matrix,
    ),
    "factories by name": dynamic(
        lambda x: (
            aten.full([2, 2], 3),
            aten.scalar_tensor(2.5),
            aten.arange.start_step(0, 9, 4),
            aten.new_ones(x, [2], dtype=torch.int32),
            aten.zeros_like(x),
            aten.eye(3),
            aten.new_full(x, [], 7),
            aten.ones_like(x, dtype=torch.bool),
            aten.linspace(0, 1, 3),
            aten.tril_indices(3, 3),
            aten.empty_strided([2, 3], [1, 2]).fill_(1),
        ),
        matrix,
    ),
    "scalars by name": static(
        lambda x: (
            aten.add.Scalar(x, 2),
            aten.sub.Scalar(x, 1, 3),
            aten.pow.Scalar(2, x),
            aten.remainder.Scalar_Tensor(5, x),
            aten.rsub.Scalar(x, 1, 2),
            aten.bitwise_and.Scalar(x.int(), 3),
            aten.eq.Scalar(x, 0),
        ),
        matrix,
    ),
    "rounding modes by name": static(
        lambda x, y: (
            aten.div.Tensor_mode(x, y, rounding_mode="floor"),
            aten.div.Scalar_mode(x, 0.3, rounding_mode="trunc"),
            aten.floor_divide(x, y),
            aten.round.decimals(x, decimals=1),
        ),
        two_matrices,
    ),
    "sums by name": static(
        lambda x: (
            aten.sum.dim_IntList(x, None),
            aten.mean.dim(x, []),
            aten.sum.dim_IntList(x, [-1, 0], True),
            aten.any.dims(x > 0, [0]),
            aten.std.correction(x, [1], correction=0),
            aten.prod.dim_int(x, 0),
        ),
        matrix,
    ),
    "norms by name": static(
        lambda x: (
            aten.linalg_vector_norm(x, 2, [0]),
            aten.norm.ScalarOpt_dim(x, None, [1], True),
            aten._weight_norm_interface(x, x[:, :1].clone(), 0),
        ),
        matrix,
    ),
    "products by name": static(
        lambda x, y: (
            aten.mm(x, y.t()),
            aten.addmm(x[:, :1], x, y.t(), beta=2, alpha=3),
            aten.bmm(x[None], y.t()[None]),
            aten._addmm_activation(x[0, :1].expand(4), x, y.t()),
            aten.linear(x, y),
            aten.dot(x[0], y[0]),
        ),
        two_matrices,
    ),
    "attention by name": static(
        lambda q, k, v: (
            aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0],
            aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=True)[1],
            aten._scaled_dot_product_attention_math(q, k, v)[1],
        ),
        lambda n: tuple(torch.randn(1, 2, n, 4) for _ in range(3)),
    ),
    "dropout by name in eval": static(lambda x: aten.native_dropout(x, 0.5, False), matrix),
    "searches by name": static(
        lambda x: (
            aten.sort.stable(x, stable=True, dim=0),
            aten.topk(x, 2, 1, False, True),
            aten.aminmax(x, dim=0),
            aten.argsort.stable(x, stable=True),
        ),
        matrix,
    ),
    "scans by name": static(
        lambda x: (aten.cummax(x, 0), aten.cumsum(x, 1, dtype=torch.float64), aten.cummin(x, -1)),
        matrix,
    ),
    "pads by name": static(
        lambda x: (
            aten.constant_pad_nd(x, [1, 1], 2.0),
            aten.constant_pad_nd(x, [-1, 0, 1, -1]),
            aten.pad(x, [1, 0], "constant", 3.0),
        ),
        matrix,
    ),
    "positions by name": static(
        lambda x: (
            aten.index.Tensor(x, [None, tensor([0, 2])]),
            aten.gather(x, 1, tensor([[0], [2]])),
            aten.take(x, tensor([5])),
            aten.index_put(x, [tensor([1])], x[0]),
        ),
        matrix,
    ),
    "special values by name": static(
        lambda x: (
            aten.special_entr(x.abs()),
            aten.special_i1(x),
            aten.special_log_ndtr(x),
            aten.special_ndtri(x.sigmoid()),
            aten.special_erfcx(x),
            aten.special_chebyshev_polynomial_t(x, 3),
        ),
        matrix,
    ),
    "bits by name": static(
        lambda x: (
            aten.bitwise_left_shift.Tensor_Scalar(x, 2),
            aten.__rshift__.Scalar(x, 1),
            aten.__and__.Scalar(x, 6),
            aten.bitwise_not(x),
            aten.__lshift__.Tensor(x, x % 3),
        ),
        lambda n: (torch.arange(9),),
    ),
    "complex by name": static(
        lambda x: (
            aten.view_as_real(x),
            aten._conj_physical(x),
            aten.real(x),
            aten.angle(x),
            aten.complex(x.real, x.imag),
            aten.polar(x.abs(), x.angle()),
        ),
        lambda n: (torch.randn(n, dtype=torch.complex64),),
    ),
    "fake quantization by name": static(
        lambda x: (
            aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, -8, 7),
            aten.fake_quantize_per_channel_affine_cachemask(
                x, torch.ones(3) / 9, torch.zeros(3), 1, 0, 15
            ),
        ),
        matrix,
    ),
    "quantized_decomposed": static(lambda x: _quantized(x), matrix),
    "weights of 4 and 8 bits": static(
        lambda x, w, s: aten._weight_int8pack_mm(x, w, s),
        lambda n: (
            torch.randn(n, 64).bfloat16(),
            torch.randint(-128, 128, (32, 64), dtype=torch.int8),
            torch.rand(32).bfloat16(),
        ),
    ),
    "int matmul": static(
        torch._int_mm,
        lambda n: (
            torch.randint(-128, 128, (32, 16), dtype=torch.int8),
            torch.randint(-128, 128, (16, 8), dtype=torch.int8),
        ),
    ),
}
