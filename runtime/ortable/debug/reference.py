"""Extend onnx's reference evaluator with operators of ONNX Runtime and fixed standard operators.

The evaluator runs each node in numpy: it is slow, and easy to inspect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator

from ortable.compat.onnx import OpRun
from ortable.ir.constants import GatherElements

from . import reference_fixes as fixes


def _transpose_operand(x: np.ndarray, trans: int, trans_batch: int) -> np.ndarray:
    if trans_batch and x.ndim > 2:
        x = np.moveaxis(x, 0, -2)
    return np.swapaxes(x, -1, -2) if trans and x.ndim > 1 else x


def _compute_erf(x: np.ndarray) -> np.ndarray:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


class FusedMatMul(OpRun):
    """com.microsoft.FusedMatMul: alpha * op(A) @ op(B), with transpositions as attributes."""

    op_domain = "com.microsoft"

    def _run(
        self,
        a: np.ndarray,
        b: np.ndarray,
        alpha: float | None = None,
        transA: int | None = None,
        transB: int | None = None,
        transBatchA: int | None = None,
        transBatchB: int | None = None,
    ) -> tuple[np.ndarray]:
        left = _transpose_operand(a, transA or 0, transBatchA or 0)
        right = _transpose_operand(b, transB or 0, transBatchB or 0)
        scale = np.array(1.0 if alpha is None else alpha, dtype=a.dtype)
        return ((np.matmul(left, right) * scale).astype(a.dtype),)


class Gelu(OpRun):
    """com.microsoft.Gelu: x * (1 + erf(x / sqrt(2))) / 2."""

    op_domain = "com.microsoft"

    def _run(self, x: np.ndarray, approximate: str | None = None) -> tuple[np.ndarray]:
        # `approximate` is unused: onnx passes the default of ai.onnx.Gelu's attribute
        return ((x * 0.5 * (1.0 + _compute_erf(x / np.sqrt(2.0)))).astype(x.dtype),)


class BiasGelu(OpRun):
    """com.microsoft.BiasGelu: Gelu(x + bias)."""

    op_domain = "com.microsoft"

    def _run(self, x: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray]:
        y = x + bias
        return ((y * 0.5 * (1.0 + _compute_erf(y / np.sqrt(2.0)))).astype(x.dtype),)


class FastGelu(OpRun):
    """com.microsoft.FastGelu: the tanh approximation of Gelu, with an optional bias."""

    op_domain = "com.microsoft"

    def _run(self, x: np.ndarray, bias: np.ndarray | None = None) -> tuple[np.ndarray]:
        y = x if bias is None else x + bias
        inner = np.sqrt(2.0 / np.pi) * (y + 0.044715 * y * y * y)
        return ((y * 0.5 * (1.0 + np.tanh(inner))).astype(x.dtype),)


class QuickGelu(OpRun):
    """com.microsoft.QuickGelu: x * sigmoid(alpha * x)."""

    op_domain = "com.microsoft"

    def _run(self, x: np.ndarray, alpha: float | None = None) -> tuple[np.ndarray]:
        scale = 1.702 if alpha is None else alpha
        return ((x / (1.0 + np.exp(-scale * x))).astype(x.dtype),)


class ExtendedReferenceEvaluator(ReferenceEvaluator):
    """Run ONNX models in numpy, with operators of com.microsoft and corrected standard operators.

    Args:
        proto: a model, a graph, a function, a node, a path, or bytes.
        opsets: opset versions by domain, for a proto without opset imports.
        functions: local functions that nodes call.
        verbose: onnx's levels: 0 nothing, 2 every node, 3 every result as well.
        new_ops: more operators, as `OpRun` classes; they override the ones added here.
        kwargs: further arguments of onnx's evaluator.
    """

    extra_ops: tuple[type[OpRun], ...] = (
        FusedMatMul,
        Gelu,
        BiasGelu,
        FastGelu,
        QuickGelu,
        GatherElements,
        fixes.Loop,
        fixes.Pad,
        fixes.ReduceLogSumExp,
        fixes.ConvTranspose,
    )

    def __init__(
        self,
        proto: ModelProto | GraphProto | FunctionProto | NodeProto | str | bytes,
        opsets: dict[str, int] | None = None,
        functions: Sequence[ReferenceEvaluator | FunctionProto] | None = None,
        verbose: int = 0,
        new_ops: Sequence[type[OpRun]] | None = None,
        **kwargs: Any,
    ) -> None:
        ops = list(new_ops or ())
        overridden = {(op.op_domain, op.__name__) for op in ops}
        ops += [op for op in self.extra_ops if (op.op_domain, op.__name__) not in overridden]
        super().__init__(
            proto,
            opsets=opsets,
            functions=list(functions) if functions is not None else None,
            verbose=verbose,
            new_ops=ops,
            **kwargs,
        )

    def steps(self, feeds: Mapping[str, Any]) -> Iterator[tuple[NodeProto, dict[str, Any]]]:
        """Run the graph node by node; yield each node and all values so far, by name.

        The values include the results of the node. An exception of a node is not caught.

        Args:
            feeds: numpy arrays by the names of the inputs.
        """
        values: dict[str, Any] = {"": None, **self.rt_inits_, **feeds}
        for node in self.rt_nodes_:
            inputs = [values[name] for name in node.input]
            context = {"context": values} if node.need_context() else {}
            with np.errstate(all="ignore"):  # infinities and NaN are valid results
                results = node.run(*inputs, **context)
            values.update(zip(node.output, results, strict=False))
            yield node.onnx_node, values
