"""Lower-case words of the spec language that draw random numbers with ONNX's operators. The numbers
are others than torch's: only shape, dtype and distribution are the same."""

from __future__ import annotations

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import (
    Dtype,
    Float,
    Result,
    Results,
    Scalar,
    SymInt,
    SymInts,
    is_static,
    shape_of,
    static,
)
from ortable.prelude.promotion import opmath_dtype
from ortable.prelude.values import cast, const, filled, reshape_to

__all__ = [
    "random_bernoulli",
    "random_choices",
    "random_dropout",
    "random_exponential",
    "random_integers",
    "random_normal",
    "random_uniform",
]


# Numbers in [0, 1) that a 16 bit float can hold: with more bits some would be rounded to 1.
_STEPS = {dtypes.float16: 2**11, dtypes.bfloat16: 2**8}


def check_random(graph: Graph) -> None:
    """Random numbers may be drawn by the model.

    Raises:
        UnsupportedCase: the graph is built for ONNX Runtime inside torch, where only torch's own
            generator gives the numbers of eager; or ONNX Runtime has no kernel at this opset.
    """
    if graph.target == "onnxruntime":
        raise UnsupportedCase(
            "ONNX Runtime would draw numbers of its own and ignore torch.manual_seed"
        )
    if graph.opset >= 22:
        raise UnsupportedCase(
            "ONNX Runtime has no kernel for the random operators of opset 22 and newer; "
            "export with target_opset=21 or below"
        )


def random_uniform(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Numbers in [0, 1) of a float dtype."""
    result = _drawn(graph, "RandomUniform", shape, opmath_dtype(dtype))
    if dtype not in _STEPS:
        return result
    steps = const(graph, _STEPS[dtype], dtypes.float32)
    whole = graph.make_node("Floor", [graph.make_node("Mul", [result, steps])])
    return cast(graph, graph.make_node("Div", [whole, steps]), dtype)


def random_normal(graph: Graph, shape: SymInts, mean: Float, std: Float, dtype: Dtype) -> Result:
    """Normally distributed numbers of a float dtype."""
    compute_dtype = opmath_dtype(dtype)
    result = _drawn(graph, "RandomNormal", shape, compute_dtype)
    if std != 1:
        # not the attribute: ONNX Runtime aborts the process for a deviation of 0
        result = graph.make_node("Mul", [result, const(graph, std, compute_dtype)])
    if mean != 0:
        result = graph.make_node("Add", [result, const(graph, mean, compute_dtype)])
    return cast(graph, result, dtype)


def random_integers(
    graph: Graph, shape: SymInts, low: Scalar, high: Scalar, dtype: Dtype
) -> Result:
    """Integers from ``low`` to ``high - 1`` in any dtype."""
    make, compute_dtype = graph.make_node, dtypes.float64
    span = const(graph, high - low, compute_dtype)
    whole = make("Floor", [make("Mul", [random_uniform(graph, shape, compute_dtype), span])])
    # a product may be rounded up to the span
    whole = make("Min", [whole, make("Sub", [span, const(graph, 1, compute_dtype)])])
    places = cast(graph, whole, dtypes.int64)
    return cast(graph, make("Add", [places, const(graph, low, dtypes.int64)]), dtype)


def random_exponential(graph: Graph, shape: SymInts, dtype: Dtype) -> Result:
    """Exponentially distributed numbers, rate 1, of a float dtype; none is 0 or infinite."""
    compute_dtype = opmath_dtype(dtype)
    uniform = random_uniform(graph, shape, compute_dtype)
    tiny = const(graph, 2.0**-24, compute_dtype)
    left = graph.make_node(
        "Max", [graph.make_node("Sub", [const(graph, 1, compute_dtype), uniform]), tiny]
    )
    result = graph.make_node("Neg", [graph.make_node("Log", [left])])
    return cast(graph, graph.make_node("Max", [result, tiny]), dtype)


def random_bernoulli(graph: Graph, chances: Result, dtype: Dtype) -> Result:
    """1 with the chance that each element says, else 0.

    Not ONNX's Bernoulli: the function by which it is defined, and run, compares the wrong way
    round and gives 1 with the chance of 0.
    """
    compute_dtype = opmath_dtype(graph.get_type(chances))
    draws = random_uniform(graph, shape_of(graph, chances), compute_dtype)
    return cast(graph, graph.make_node("Less", [draws, cast(graph, chances, compute_dtype)]), dtype)


def random_choices(graph: Graph, weights: Result, count: SymInt) -> Result:
    """``count`` places of the last axis, each drawn anew with the chances that the weights give."""
    check_random(graph)
    shape = shape_of(graph, weights)
    rows = reshape_to(graph, cast(graph, weights, dtypes.float32), [-1, shape[-1]])
    probs = graph.make_node("Log", [rows])
    sizes = {"sample_size": static(count), "dtype": dtypes.int64}
    result = graph.make_node("Multinomial", [probs], **sizes)
    return reshape_to(graph, result, [*shape[:-1], count])


def _drawn(graph: Graph, word: str, shape: SymInts, dtype: int) -> str:
    check_random(graph)
    if len(shape) == 0:
        return reshape_to(graph, _drawn(graph, word, [1], dtype), [])
    if is_static(shape):
        return graph.make_node(word, [], shape=list(shape), dtype=dtype)
    like = filled(graph, shape, 0, dtype)
    return graph.make_node(f"{word}Like", [like], dtype=dtype)


# -- random -------------------------------------------------------------------------------------


def random_dropout(graph: Graph, x: Result, p: Float) -> Results:
    """Dropout in training: [output, mask], drawn by ONNX's operator.

    The output is made of the mask: ONNX Runtime's EliminateDropout drops a Dropout whose mask
    nobody reads, also in training.

    Raises:
        UnsupportedCase: the graph is built for ONNX Runtime inside torch, where only torch's own
            generator gives the numbers of eager.
    """
    if graph.target == "onnxruntime":
        raise UnsupportedCase(
            "dropout: ONNX Runtime would draw numbers of its own and ignore torch.manual_seed"
        )
    ratio, training = const(graph, p, dtypes.float32), const(graph, True, dtypes.boolean)
    mask = graph.make_node("Dropout", [x, ratio, training], 2)[1]
    dtype = graph.get_type(x)
    compute_dtype = opmath_dtype(dtype)
    kept = cast(graph, const(graph, 1 / (1 - p), dtype), compute_dtype)
    factor = graph.make_node("Where", [mask, kept, const(graph, 0, compute_dtype)])
    return [
        cast(graph, graph.make_node("Mul", [cast(graph, x, compute_dtype), factor]), dtype),
        mask,
    ]
