"""Measure the second moments of the inputs of linear layers on the user's calls.

The error of a layer y = x W^T whose weight is off by E is E M E^T summed over its rows, where M is
the sum of x^T x over the inputs x of the calls. So M says which numbers of a weight matter, and
which errors cancel. Called by `quantization_report.py`, for ``calibration=``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ortable.builder import GraphBuilder
from ortable.errors import InputError
from ortable.exporter.reporting.sessions import make_session, run_session
from ortable.ir import initializers
from ortable.ir.node import Node
from ortable.ir.proto.large_model import LargeModel

_MAX_BYTES = 1 << 30  # moments that are in memory at the same time
_PREFIX = "moment:"


class Calibration:
    """Second moments of the inputs of products with constant matrices, measured on request.

    A batch of moments is measured in one run over all calls, and forgotten when another batch is.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        model: LargeModel,
        calls: Sequence[Mapping[str, Any]],
        tables: bool,
    ) -> None:
        """``model`` is the model of ``builder``; ``calls`` are its inputs by name.

        ``tables`` is whether embedding tables are quantized, too.
        """
        self._model, self._calls, self._builder = model, calls, builder
        self._tables = tables and builder.target == "onnxruntime"
        self._sources: dict[str, dict[str, None]] = {}  # by weight
        self._sizes: dict[str, int] = {}  # sizes of sources, in the order of the graph
        for name in builder.initializers_dict:
            for source, size in _find_sources(builder, name):
                self._sources.setdefault(name, {})[source] = None
                self._sizes[source] = size
        order = {out: n for n, node in enumerate(builder.nodes) for out in node.outputs}
        self._order = sorted(self._sizes, key=lambda source: order.get(source, -1))
        self._moments: dict[str, tuple[np.ndarray, int]] = {}

    def check_calls(self) -> None:
        """Run the model on each call; raise InputError for a call that fails.

        Moments are measured while rules run, and an error is there the reason to skip a weight.
        """
        session = make_session(self._model)
        for number, call in enumerate(self._calls):
            try:
                run_session(session, dict(call))
            except Exception as error:  # onnxruntime's classes derive from Exception only
                message = f"ONNX Runtime cannot run call {number} of calibration: {error}"
                raise InputError(message) from error

    def moment_of(self, weight: str) -> np.ndarray | None:
        """Return the second moment [K, K] of all inputs of a weight [N, K], or None.

        It is None for a weight that no product of the main graph reads, and for inputs with NaN or
        infinities. For an embedding table that is also the weight of a product, the relative errors
        of its rows and of the product count alike.
        """
        sources = self._sources.get(weight)
        if not sources:
            return None
        moments, counts = zip(*(self._measure(source) for source in sources), strict=True)
        total = moments[0] if len(moments) == 1 else np.sum(moments, axis=0)
        if not np.isfinite(total).all():
            return None
        total = _shrink_moment(total, sum(counts))
        if self._tables and any(node.op_type == "Gather" for node in self._builder.uses(weight)):
            value = self._builder.initializers_dict[weight]
            rows = initializers.to_torch(value, weight).detach().float().numpy()
            total = total + _row_share(rows, total) * np.eye(len(total), dtype=np.float32)
        return total

    def _measure(self, source: str) -> tuple[np.ndarray, int]:
        """Return the second moment of a value, and of how many rows it is the sum."""
        if source not in self._moments:
            begin, total = self._order.index(source), 0
            batch: list[str] = []
            for name in self._order[begin:]:
                total += 4 * self._sizes[name] ** 2
                if batch and total > _MAX_BYTES:
                    break
                batch.append(name)
            self._moments = dict(zip(batch, self._sum_moments(batch), strict=True))
        return self._moments[source]

    def _sum_moments(self, sources: Sequence[str]) -> list[tuple[np.ndarray, int]]:
        """Return the second moments of values, summed over the calls, and the numbers of rows."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self._model.session_proto())
        del proto.graph.output[:]
        for number, source in enumerate(sources):
            cast, rows, shape, moment, count = (f"{_PREFIX}{role}{number}" for role in "xrsmn")
            size = self._sizes[source]
            proto.graph.initializer.append(
                onnx.numpy_helper.from_array(np.array([-1, size]), shape)
            )
            proto.graph.node.extend(
                (
                    helper.make_node("Cast", [source], [cast], to=TensorProto.FLOAT),
                    helper.make_node("Reshape", [cast, shape], [rows]),
                    helper.make_node("Gemm", [rows, rows], [moment], transA=1),
                    helper.make_node("Shape", [rows], [count]),
                )
            )
            make_info = helper.make_tensor_value_info
            proto.graph.output.append(make_info(moment, TensorProto.FLOAT, [size, size]))
            proto.graph.output.append(make_info(count, TensorProto.INT64, [2]))
        session = make_session(LargeModel(proto, self._model.tensors))
        sums: list[np.ndarray] = []
        for call in self._calls:
            results = [result.numpy() for result in run_session(session, dict(call))]
            sums = [a + b for a, b in zip(sums, results, strict=True)] if sums else results
        counts = [int(shape[0]) for shape in sums[1::2]]
        return list(zip(sums[::2], counts, strict=True))


def _shrink_moment(moment: np.ndarray, count: int) -> np.ndarray:
    """Return the moment with a part of its mean diagonal in place of what few rows cannot say.

    Without that, codes of few calls fit these calls only. The part is that of Chen et al. 2010
    (oracle approximating shrinkage).
    """
    size, mean = len(moment), moment.diagonal().mean(dtype=np.float64)
    if not mean:
        return moment
    moment = moment / np.float32(mean)
    square = float(np.vdot(moment, moment))
    deviation = (count + 1 - 2 / size) * (square - size)
    share = ((1 - 2 / size) * square + size**2) / deviation if deviation > 0 else 1.0
    share = min(share, 1.0)
    return moment * np.float32(1 - share) + np.float32(share) * np.eye(size, dtype=np.float32)


def _row_share(rows: np.ndarray, moment: np.ndarray) -> np.floating[Any]:
    """Return the factor of the identity whose errors of rows count like those of the product."""
    with np.errstate(all="ignore"):
        share = np.vdot(rows @ moment, rows) / np.vdot(rows, rows)
    return share if np.isfinite(share) else np.float32(0)


# Products with a matrix as the second input, and the axis of its values that is summed over.
_SUM_AXES: Mapping[str, Callable[[Node], int]] = {
    "MatMul": lambda node: 0,
    "Gemm": lambda node: int(node.attrs.get("transB", 0)),
}


def _find_sources(builder: GraphBuilder, weight: str) -> Iterator[tuple[str, int]]:
    """Yield the other factor of each product of the main graph with a matrix, and its last size.

    The product may read the matrix through nodes of one input, such as a transposition.
    """
    shape = builder.get_shape(weight) if builder.has_shape(weight) else ()
    for node in builder.uses(weight) if len(shape) == 2 else ():
        sum_axis = _SUM_AXES.get(node.op_type)
        if sum_axis is not None and node.inputs[1] == weight:
            size = shape[sum_axis(node)]
            if isinstance(size, int):
                yield node.inputs[0], size
        elif len(node.inputs) == len(node.outputs) == 1:
            yield from _find_sources(builder, node.outputs[0])
