"""Corrected standard operators that onnx's reference evaluator computes wrongly or rejects.

The docstring of each class says what works here and not in onnx.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ortable.compat.onnx import OnnxConvTranspose, OnnxLoop, OpRun, run_loop_body


class ConvTranspose(OnnxConvTranspose):
    """ConvTranspose with groups and any rank; with `output_shape` or `auto_pad`, onnx's own."""

    op_domain = ""

    def _run(
        self,
        X: np.ndarray,
        W: np.ndarray,
        B: np.ndarray | None = None,
        auto_pad: str | None = None,
        dilations: Sequence[int] | None = None,
        group: int | None = None,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[np.ndarray]:
        if output_shape is not None or auto_pad not in (None, "NOTSET"):
            result = super()._run(
                X, W, B, auto_pad, dilations, group, kernel_shape, output_padding, output_shape,
                pads, strides,
            )  # fmt: skip
            return (result[0],)
        rank, groups = X.ndim - 2, group or 1
        stride, dilation = strides or [1] * rank, dilations or [1] * rank
        cropping, extra = pads or [0] * (2 * rank), output_padding or [0] * rank
        size, kernel = X.shape[2:], W.shape[2:]
        full = [
            (n - 1) * s + (k - 1) * d + 1 + p
            for n, s, k, d, p in zip(size, stride, kernel, dilation, extra, strict=True)
        ]
        dtype = np.float64 if X.dtype == np.float64 else np.float32
        x: Any = X.astype(dtype).reshape(X.shape[0], groups, -1, *size)
        w: Any = W.astype(dtype).reshape(groups, x.shape[2], W.shape[1], *kernel)
        output: Any = np.zeros((X.shape[0], groups, W.shape[1], *full), dtype=dtype)
        for offset in itertools.product(*(range(k) for k in kernel)):
            part = np.einsum("ngc...,gcm->ngm...", x, w[(..., *offset)])
            window: list[Any] = [
                slice(start * d, start * d + (n - 1) * s + 1, s)
                for start, d, n, s in zip(offset, dilation, size, stride, strict=True)
            ]
            output[(..., *window)] += part
        cropped: list[Any] = [slice(cropping[i], full[i] - cropping[rank + i]) for i in range(rank)]
        result = output[(..., *cropped)].reshape(
            X.shape[0], -1, *(s.stop - s.start for s in cropped)
        )
        if B is not None:
            result = result + B.reshape(1, -1, *[1] * rank)
        return (result.astype(X.dtype),)


class Loop(OnnxLoop):
    """Loop with an optional condition, and with scan outputs stacked along a new axis."""

    op_domain = ""

    def _run(  # type: ignore[override]
        self,
        M: np.ndarray | None,
        cond: np.ndarray | None,
        *args: Any,
        context: Mapping[str, Any] | None = None,
        body: Any = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        node: Any = self  # untyped: the base class sets `body` by the name of the attribute
        names = node.body.input_names
        states = list(args[: self.N])
        scanned: list[list[Any]] = [[] for _ in range(self.K)]
        condition = True if cond is None else bool(np.asarray(cond))
        iteration = 0
        while condition and (M is None or iteration < int(np.asarray(M))):
            inputs = dict(context or {})
            values = [np.array(iteration, np.int64), np.array(True), *states]
            inputs.update(zip(names, values, strict=True))
            outputs = run_loop_body(node, inputs, attributes=attributes, bindings=bindings)
            condition = bool(np.asarray(outputs[0]))
            states = list(outputs[1 : 1 + self.N])
            for rows, row in zip(scanned, outputs[1 + self.N :], strict=True):
                rows.append(row)
            iteration += 1
        stacked = [np.stack(rows) if rows else np.empty((0,)) for rows in scanned]
        return (*states, *stacked)


class Pad(OpRun):
    """Pad with negative pads, which crop."""

    op_domain = ""

    def _run(
        self,
        data: np.ndarray,
        pads: np.ndarray,
        constant_value: np.ndarray | None = None,
        axes: np.ndarray | None = None,
        mode: str | None = None,
    ) -> tuple[np.ndarray]:
        pad_axes = [int(a) % data.ndim for a in axes] if axes is not None else range(data.ndim)
        before, after = [0] * data.ndim, [0] * data.ndim
        for index, axis in enumerate(pad_axes):
            before[axis], after[axis] = int(pads[index]), int(pads[len(pad_axes) + index])
        cropped = tuple(
            slice(max(0, -b), n - max(0, -a))
            for b, a, n in zip(before, after, data.shape, strict=True)
        )
        width = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
        pad_mode: Any = mode or "constant"
        if pad_mode == "constant":
            value = data.dtype.type(0) if constant_value is None else np.ravel(constant_value)[0]
            return (np.pad(data[cropped], width, mode=pad_mode, constant_values=value),)
        return (np.pad(data[cropped], width, mode=pad_mode),)


class ReduceLogSumExp(OpRun):
    """ReduceLogSumExp for infinities: -inf if all values are -inf, inf if a value is inf."""

    op_domain = ""

    def _run(
        self,
        data: np.ndarray,
        axes: Any = None,
        keepdims: int | None = 1,
        noop_with_empty_axes: int | None = 0,
    ) -> tuple[np.ndarray]:
        reduced_axes = tuple(int(a) for a in np.ravel(axes)) if axes is not None else ()
        if not reduced_axes and noop_with_empty_axes:
            return (data,)
        maximum = np.max(data, axis=reduced_axes or None, keepdims=True, initial=-np.inf)
        with np.errstate(divide="ignore"):
            shifted = np.exp(data - np.where(np.isfinite(maximum), maximum, 0))
            total = np.log(np.sum(shifted, axis=reduced_axes or None, keepdims=True))
        result = total + np.where(np.isfinite(maximum), maximum, 0)
        if not keepdims:
            result = np.squeeze(result, axis=reduced_axes or None)
        return (result.astype(data.dtype),)
