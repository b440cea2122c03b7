# Generated from specs/aten/random_draws.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dispatch import DataCheck, RngCall
from ortable.dtypes import float32, float64, int32, int64
from ortable.errors import UnsupportedCase
from ortable.inference import broadcast
from ortable.lowerings.sampling import random_choices, random_exponential, random_integers, random_normal, random_uniform
from ortable.prelude.complex_arithmetic import complex_of, part_dtype
from ortable.prelude.facts import dtype_of, is_complex, shape_of
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.pointwise import expanded_like, in_interval
from ortable.prelude.promotion import opmath, opmath_dtype, scalar_dtype
from ortable.prelude.values import as_vec, cast, const, filled

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Result, SymInt, SymInts


def aten__sample_dirichlet(graph: Graph, res: ResultSpec, self: Result, generator: Any = None) -> Result:
    """aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor"""
    raise UnsupportedCase('aten::_sample_dirichlet: no ONNX operator draws from this distribution')


def aten__standard_gamma(graph: Graph, res: ResultSpec, self: Result, generator: Any = None) -> Result:
    """aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor"""
    raise UnsupportedCase('aten::_standard_gamma: no ONNX operator draws from this distribution')


def aten_bernoulli(graph: Graph, res: ResultSpec, self: Result, *, generator: Any = None) -> Result:
    """aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    draws = random_uniform(graph, shape_of(graph, self), opmath_dtype(dtype_of(graph, self)))
    return cast(graph, graph.make_node('Less', [draws, opmath(graph, self)]), dtype_of(graph, self))


def aten_bernoulli_Tensor(graph: Graph, res: ResultSpec, self: Result, p: Result, *, generator: Any = None) -> Result:
    """aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    draws = random_uniform(graph, shape_of(graph, self), opmath_dtype(dtype_of(graph, p)))
    return cast(graph, graph.make_node('Less', [draws, opmath(graph, expanded_like(graph, p, self))]), dtype_of(graph, self))


def aten_bernoulli_p(graph: Graph, res: ResultSpec, self: Result, p: Float, *, generator: Any = None) -> Result:
    """aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    draws = random_uniform(graph, shape_of(graph, self), float32)
    return cast(graph, graph.make_node('Less', [draws, filled(graph, shape_of(graph, self), p, float32)]), dtype_of(graph, self))


def aten_binomial(graph: Graph, res: ResultSpec, count: Result, prob: Result, generator: Any = None) -> Result:
    """aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"""
    raise UnsupportedCase('aten::binomial: no ONNX operator draws from this distribution')


def aten_cauchy(graph: Graph, res: ResultSpec, self: Result, median: Float = 0.0, sigma: Float = 1.0, *, generator: Any = None) -> Result:
    """aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, self))
    turn = graph.make_node('Sub', [random_uniform(graph, shape_of(graph, self), compute_dtype), const(graph, 0.5, compute_dtype)])
    angle = graph.make_node('Mul', [turn, const(graph, 3.141592653589793, compute_dtype)])
    scaled_draws = graph.make_node('Mul', [graph.make_node('Div', [graph.make_node('Sin', [angle]), graph.make_node('Cos', [angle])]), const(graph, sigma, compute_dtype)])
    return cast(graph, graph.make_node('Add', [scaled_draws, const(graph, median, compute_dtype)]), dtype_of(graph, self))


def aten_exponential(graph: Graph, res: ResultSpec, self: Result, lambd: Float = 1.0, *, generator: Any = None) -> Result:
    """aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    draws = random_exponential(graph, shape_of(graph, self), dtype_of(graph, self))
    return graph.make_node('Div', [draws, const(graph, lambd, dtype_of(graph, self))], res.outputs)


def aten_geometric(graph: Graph, res: ResultSpec, self: Result, p: Float, *, generator: Any = None) -> Result:
    """aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    rate = graph.make_node('Neg', [graph.make_node('Log', [const(graph, 1.0 - p, float64)])])
    trials = graph.make_node('Ceil', [graph.make_node('Div', [random_exponential(graph, shape_of(graph, self), float64), rate])])
    return cast(graph, graph.make_node('Max', [trials, const(graph, 1, float64)]), dtype_of(graph, self))


def aten_log_normal(graph: Graph, res: ResultSpec, self: Result, mean: Float = 1.0, std: Float = 2.0, *, generator: Any = None) -> Result:
    """aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor"""
    compute_dtype = opmath_dtype(dtype_of(graph, self))
    return cast(graph, graph.make_node('Exp', [random_normal(graph, shape_of(graph, self), mean, std, compute_dtype)]), dtype_of(graph, self))


def aten_multinomial(graph: Graph, res: ResultSpec, self: Result, num_samples: SymInt, replacement: Bool = False, *, generator: Any = None) -> Result:
    """aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    if replacement:
        graph.case = 1
        return random_choices(graph, self, num_samples)
    # the largest of weights over exponential numbers, which is a draw without replacement
    graph.case = 2
    draws = random_exponential(graph, shape_of(graph, self), float64)
    _, indices = graph.make_node('TopK', [graph.make_node('Div', [cast(graph, self, float64), draws]), as_vec(graph, num_samples)], 2)
    return indices


def aten_normal_Tensor_Tensor(graph: Graph, res: ResultSpec, mean: Result, std: Result, *, generator: Any = None, drawn: Result | None = None) -> Result:
    """aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    new = drawn if drawn is not None else random_normal(graph, shape_of(graph, res), 0.0, 1.0, dtype_of(graph, mean))
    return graph.make_node('Add', [graph.make_node('Mul', [new, cast(graph, std, dtype_of(graph, mean))]), mean], res.outputs)


def aten_normal_Tensor_float(graph: Graph, res: ResultSpec, mean: Result, std: Float = 1.0, *, generator: Any = None, drawn: Result | None = None) -> Result:
    """aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor"""
    new = drawn if drawn is not None else random_normal(graph, shape_of(graph, mean), 0.0, std, dtype_of(graph, mean))
    return graph.make_node('Add', [new, mean], res.outputs)


def aten_normal_float_Tensor(graph: Graph, res: ResultSpec, mean: Float, std: Result, *, generator: Any = None, drawn: Result | None = None) -> Result:
    """aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    new = drawn if drawn is not None else random_normal(graph, shape_of(graph, std), 0.0, 1.0, dtype_of(graph, std))
    return graph.make_node('Add', [graph.make_node('Mul', [new, std]), const(graph, mean, dtype_of(graph, std))], res.outputs)


def aten_normal_float_float(graph: Graph, res: ResultSpec, mean: Float, std: Float, size: SymInts, *, generator: Any = None, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return random_normal(graph, size, mean, std, dtype_of(graph, res))


def aten_normal_functional(graph: Graph, res: ResultSpec, self: Result, mean: Float = 0.0, std: Float = 1.0, *, generator: Any = None) -> Result:
    """aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return random_normal(graph, shape_of(graph, self), mean, std, dtype_of(graph, self))


def aten_poisson(graph: Graph, res: ResultSpec, self: Result, generator: Any = None) -> Result:
    """aten::poisson(Tensor self, Generator? generator=None) -> Tensor"""
    raise UnsupportedCase('aten::poisson: no ONNX operator draws from this distribution')


def aten_rand(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return random_uniform(graph, size, dtype_of(graph, res))


def aten_rand_generator(graph: Graph, res: ResultSpec, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_rand(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_rand_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 1
    return random_uniform(graph, shape_of(graph, self), dtype_of(graph, res))


def aten_rand_like_generator(graph: Graph, res: ResultSpec, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_rand_like(graph, res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_randint(graph: Graph, res: ResultSpec, high: SymInt, size: SymInts, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_randint_low(graph, res, low=0, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_randint_generator(graph: Graph, res: ResultSpec, high: SymInt, size: SymInts, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_randint_low(graph, res, low=0, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_randint_like(graph: Graph, res: ResultSpec, self: Result, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_randint_like_low_dtype(graph, res, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_randint_like_generator(graph: Graph, res: ResultSpec, self: Result, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_randint_like_low_dtype(graph, res, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_randint_like_low_dtype(graph: Graph, res: ResultSpec, self: Result, low: SymInt, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return random_integers(graph, shape_of(graph, self), low, high, dtype_of(graph, res))


def aten_randint_like_low_generator_dtype(graph: Graph, res: ResultSpec, self: Result, low: SymInt, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_randint_like_low_dtype(graph, res, self=self, low=low, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_randint_low(graph: Graph, res: ResultSpec, low: SymInt, high: SymInt, size: SymInts, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return random_integers(graph, size, low, high, dtype_of(graph, res))


def aten_randint_low_generator(graph: Graph, res: ResultSpec, low: SymInt, high: SymInt, size: SymInts, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_randint_low(graph, res, low=low, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_randn(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return random_normal(graph, size, 0.0, 1.0, dtype_of(graph, res))


def aten_randn_generator(graph: Graph, res: ResultSpec, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_randn(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_randn_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 1
    return random_normal(graph, shape_of(graph, self), 0.0, 1.0, dtype_of(graph, res))


def aten_randn_like_generator(graph: Graph, res: ResultSpec, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_randn_like(graph, res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_random_to(graph: Graph, res: ResultSpec, self: Result, to: Int, *, generator: Any = None) -> Result:
    """aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor"""
    return random_integers(graph, shape_of(graph, self), 0, to, dtype_of(graph, self))


def aten_randperm(graph: Graph, res: ResultSpec, n: SymInt, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    keys = random_uniform(graph, [n], float64)
    _, indices = graph.make_node('TopK', [keys, as_vec(graph, n)], 2)
    return cast(graph, indices, dtype_of(graph, res))


def aten_randperm_generator(graph: Graph, res: ResultSpec, n: SymInt, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_randperm(graph, res, n=n, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_uniform(graph: Graph, res: ResultSpec, self: Result, from_: Float = 0.0, to: Float = 1.0, *, generator: Any = None) -> Result:
    """aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    low, span = (const(graph, from_, dtype_of(graph, self)), const(graph, to - from_, dtype_of(graph, self)))
    return graph.make_node('Add', [graph.make_node('Mul', [random_uniform(graph, shape_of(graph, self), dtype_of(graph, self)), span]), low], res.outputs)


def check_aten_bernoulli(graph: Graph, self: Result, *, generator: Any = None) -> list[DataCheck]:
    return [
        DataCheck(cast(graph, in_interval(graph, self, 0, 1), int32), 1, None, 'RuntimeError', 'Expected p_in >= 0 && p_in <= 1 to be true, but got false.', None),
    ]


def check_aten_bernoulli_Tensor(graph: Graph, self: Result, p: Result, *, generator: Any = None) -> list[DataCheck]:
    return [
        DataCheck(cast(graph, in_interval(graph, p, 0, 1), int32), 1, None, 'RuntimeError', 'Expected p_in >= 0 && p_in <= 1 to be true, but got false.', None),
    ]


def check_aten_normal_Tensor_Tensor(graph: Graph, mean: Result, std: Result, *, generator: Any = None, drawn: Result | None = None) -> list[DataCheck]:
    return [
        DataCheck(cast(graph, graph.make_node('GreaterOrEqual', [std, const(graph, 0, dtype_of(graph, std))]), int32), 1, None, 'RuntimeError', 'normal expects all elements of std >= 0.0', None),
    ]


def check_aten_normal_float_Tensor(graph: Graph, mean: Float, std: Result, *, generator: Any = None, drawn: Result | None = None) -> list[DataCheck]:
    return [
        DataCheck(cast(graph, graph.make_node('GreaterOrEqual', [std, const(graph, 0, dtype_of(graph, std))]), int32), 1, None, 'RuntimeError', 'normal expects all elements of std >= 0.0', None),
    ]


def complex_aten_rand(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    kind = part_dtype(dtype_of(graph, res))
    return complex_of(graph, random_uniform(graph, size, kind), random_uniform(graph, size, kind))


def complex_aten_rand_generator(graph: Graph, res: ResultSpec, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_rand(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_rand_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    if not is_complex(graph, res):
        graph.case = 2
        return random_uniform(graph, shape_of(graph, self), dtype_of(graph, res))
    graph.case = 3
    kind = part_dtype(dtype_of(graph, res))
    first = random_uniform(graph, shape_of(graph, self), kind)
    return complex_of(graph, first, random_uniform(graph, shape_of(graph, self), kind))


def complex_aten_rand_like_generator(graph: Graph, res: ResultSpec, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return complex_aten_rand_like(graph, res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def complex_aten_randn(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    kind = part_dtype(dtype_of(graph, res))
    first = random_normal(graph, size, 0.0, 0.5 ** 0.5, kind)
    return complex_of(graph, first, random_normal(graph, size, 0.0, 0.5 ** 0.5, kind))


def complex_aten_randn_generator(graph: Graph, res: ResultSpec, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_randn(graph, res, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_randn_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    if not is_complex(graph, res):
        graph.case = 2
        return random_normal(graph, shape_of(graph, self), 0.0, 1.0, dtype_of(graph, res))
    graph.case = 3
    kind = part_dtype(dtype_of(graph, res))
    first = random_normal(graph, shape_of(graph, self), 0.0, 0.5 ** 0.5, kind)
    return complex_of(graph, first, random_normal(graph, shape_of(graph, self), 0.0, 0.5 ** 0.5, kind))


def complex_aten_randn_like_generator(graph: Graph, res: ResultSpec, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return complex_aten_randn_like(graph, res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_bernoulli_p(res: Any, self: Result, p: Float, *, generator: Any = None) -> RngCall | None:
    return RngCall('bernoulli_.float', self, None, (p,), True)


def draw_aten_cauchy(res: Any, self: Result, median: Float = 0.0, sigma: Float = 1.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('cauchy_', self, None, (median, sigma,), True)


def draw_aten_exponential(res: Any, self: Result, lambd: Float = 1.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('exponential_', self, None, (lambd,), True)


def draw_aten_geometric(res: Any, self: Result, p: Float, *, generator: Any = None) -> RngCall | None:
    return RngCall('geometric_', self, None, (p,), True)


def draw_aten_log_normal(res: Any, self: Result, mean: Float = 1.0, std: Float = 2.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('log_normal_', self, None, (mean, std,), True)


def draw_aten_normal_Tensor_Tensor(res: Any, mean: Result, std: Result, *, generator: Any = None) -> RngCall | None:
    return RngCall('normal_', res, None, (0.0, 1.0,), False)


def draw_aten_normal_Tensor_float(res: Any, mean: Result, std: Float = 1.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('normal_', mean, None, (0.0, std,), False)


def draw_aten_normal_float_Tensor(res: Any, mean: Float, std: Result, *, generator: Any = None) -> RngCall | None:
    return RngCall('normal_', std, None, (0.0, 1.0,), False)


def draw_aten_normal_functional(res: Any, self: Result, mean: Float = 0.0, std: Float = 1.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('normal_', self, None, (mean, std,), True)


def draw_aten_rand_like(res: Any, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return RngCall('uniform_', self, None, (0.0, 1.0,), True)


def draw_aten_rand_like_generator(res: Any, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return draw_aten_rand_like(res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_randint_like(res: Any, self: Result, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return draw_aten_randint_like_low_dtype(res, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_randint_like_generator(res: Any, self: Result, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return draw_aten_randint_like_low_dtype(res, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_randint_like_low_dtype(res: Any, self: Result, low: SymInt, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return RngCall('random_.from', self, None, (low, high,), True)


def draw_aten_randint_like_low_generator_dtype(res: Any, self: Result, low: SymInt, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return draw_aten_randint_like_low_dtype(res, self=self, low=low, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_randn_like(res: Any, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return RngCall('normal_', self, None, (0.0, 1.0,), True)


def draw_aten_randn_like_generator(res: Any, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> RngCall | None:
    return draw_aten_randn_like(res, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def draw_aten_random_to(res: Any, self: Result, to: Int, *, generator: Any = None) -> RngCall | None:
    return RngCall('random_.to', self, None, (to,), True)


def draw_aten_uniform(res: Any, self: Result, from_: Float = 0.0, to: Float = 1.0, *, generator: Any = None) -> RngCall | None:
    return RngCall('uniform_', self, None, (from_, to,), True)


def rule_aten__sample_dirichlet(graph: Graph, self: Result, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__standard_gamma(graph: Graph, self: Result, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_bernoulli(graph: Graph, self: Result, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_bernoulli_Tensor(graph: Graph, self: Result, p: Result, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_bernoulli_p(graph: Graph, self: Result, p: Float, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_binomial(graph: Graph, count: Result, prob: Result, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, count), shape_or_none(graph, count)),)


def rule_aten_cauchy(graph: Graph, self: Result, median: Float = 0.0, sigma: Float = 1.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_exponential(graph: Graph, self: Result, lambd: Float = 1.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_geometric(graph: Graph, self: Result, p: Float, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_log_normal(graph: Graph, self: Result, mean: Float = 1.0, std: Float = 2.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_multinomial(graph: Graph, self: Result, num_samples: SymInt, replacement: Bool = False, *, generator: Any = None) -> Rules:
    return ((int64, None),)


def rule_aten_normal_Tensor_Tensor(graph: Graph, mean: Result, std: Result, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, mean), broadcast(shape_or_none(graph, mean), shape_or_none(graph, std))),)


def rule_aten_normal_Tensor_float(graph: Graph, mean: Result, std: Float = 1.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, mean), shape_or_none(graph, mean)),)


def rule_aten_normal_float_Tensor(graph: Graph, mean: Float, std: Result, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, std), shape_or_none(graph, std)),)


def rule_aten_normal_float_float(graph: Graph, mean: Float, std: Float, size: SymInts, *, generator: Any = None, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_normal_functional(graph: Graph, self: Result, mean: Float = 0.0, std: Float = 1.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_poisson(graph: Graph, self: Result, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_rand(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_rand_generator(graph: Graph, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_rand(graph, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_rand_like(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_rand_like_generator(graph: Graph, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_rand_like(graph, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_randint(graph: Graph, high: SymInt, size: SymInts, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_randint_low(graph, low=0, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_randint_generator(graph: Graph, high: SymInt, size: SymInts, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_randint_low(graph, low=0, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_randint_like(graph: Graph, self: Result, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_randint_like_low_dtype(graph, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_randint_like_generator(graph: Graph, self: Result, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_randint_like_low_dtype(graph, self=self, low=0, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_randint_like_low_dtype(graph: Graph, self: Result, low: SymInt, high: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_randint_like_low_generator_dtype(graph: Graph, self: Result, low: SymInt, high: SymInt, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_randint_like_low_dtype(graph, self=self, low=low, high=high, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_randint_low(graph: Graph, low: SymInt, high: SymInt, size: SymInts, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((int64 if dtype is None else dtype, given_shape(size)),)


def rule_aten_randint_low_generator(graph: Graph, low: SymInt, high: SymInt, size: SymInts, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_randint_low(graph, low=low, high=high, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_randn(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_randn_generator(graph: Graph, size: SymInts, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_randn(graph, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_randn_like(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_randn_like_generator(graph: Graph, self: Result, *, generator: Any, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_randn_like(graph, self=self, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_random_to(graph: Graph, self: Result, to: Int, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_randperm(graph: Graph, n: SymInt, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((int64 if dtype is None else dtype, given_shape(n)),)


def rule_aten_randperm_generator(graph: Graph, n: SymInt, *, generator: Any, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_randperm(graph, n=n, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_uniform(graph: Graph, self: Result, from_: Float = 0.0, to: Float = 1.0, *, generator: Any = None) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)
