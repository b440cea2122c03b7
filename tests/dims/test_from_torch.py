"""torch.SymInt and sympy expressions become dimensions that evaluate to the same numbers."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import sympy
import torch

from ortable import dims
from ortable.errors import BuilderError
from tests.child import python

S0, S1 = sympy.symbols("s0 s1", positive=True, integer=True)


def export(function, *args, dynamic):
    class Model(torch.nn.Module):
        def forward(self, *inputs):
            return function(*inputs)

    return torch.export.export(Model(), args, dynamic_shapes=dynamic)


def test_ints_of_every_kind():
    assert dims.from_torch(3) == 3
    assert dims.from_torch(np.int64(3)) == 3
    assert dims.from_torch(sympy.Integer(3)) == 3
    assert dims.from_torch(dims.make_symbol("x")) is dims.make_symbol("x")


def test_sympy_polynomials_and_functions_of_torch():
    from torch.utils._sympy.functions import FloorDiv, Max, Mod, PythonMod

    x, y = dims.make_symbol("s0"), dims.make_symbol("s1")
    assert dims.from_torch(2 * S0 + S0 * S1 - 3) is 2 * x + x * y - 3
    assert dims.from_torch(S0**2) is x * x
    assert dims.from_torch(FloorDiv(S0, 2) * 2) is 2 * (x // 2)
    assert dims.from_torch(PythonMod(S0, 3)) is x % 3
    assert dims.from_torch(Mod(S0, 3)) is x % 3
    assert dims.from_torch(Max(S0, S1)) is dims.max_of(x, y)


def test_renaming_keeps_the_expression():
    dim = dims.from_torch(2 * S0 + S1, {"s0": "batch"})
    assert dim is 2 * dims.make_symbol("batch") + dims.make_symbol("s1")
    assert dims.from_torch(2 * S0 + S1) is 2 * dims.make_symbol("s0") + dims.make_symbol("s1")


def test_an_unknown_function_is_opaque_and_interned():
    unknown = sympy.Function("strange", integer=True)(S0)
    dim = dims.from_torch(unknown)
    assert str(dim) == "strange(s0)"
    assert dims.from_torch(unknown) is dim
    assert dims.free_symbols(dim) == {"s0"}
    with pytest.raises(BuilderError, match="no known value"):
        dims.evaluate_dim(dim, {"s0": 1})


def test_an_integer_through_floats_has_the_value_that_torch_computes():
    from torch.utils._sympy import functions as f

    lengths = {
        f.CeilToInt(f.FloatTrueDiv(f.ToFloat(S0), sympy.Float(0.3))): lambda n: math.ceil(n / 0.3),
        f.TruncToInt(f.ToFloat(S0) * sympy.Float(1.5)): lambda n: int(n * 1.5),
        f.RoundToInt(f.IntTrueDiv(S0, S1)): lambda n: round(n / 3),
        f.FloorToInt(f.ToFloat(S0) * sympy.Float(-0.7)): lambda n: math.floor(n * -0.7),
    }
    for expression, expected in lengths.items():
        dim = dims.from_torch(expression, {"s0": "batch"})
        for size in range(2, 40):
            assert dims.evaluate_dim(dim, {"batch": size, "s1": 3}) == expected(size), expression


def test_what_is_not_an_integer_is_refused():
    with pytest.raises(BuilderError, match="is not an integer"):
        dims.from_torch(sympy.Float(1.5))
    with pytest.raises(BuilderError, match="is not an integer"):
        dims.from_torch(S0 / 2)


def test_shapes_of_an_exported_program():
    program = export(
        lambda x: x.new_zeros(x.shape[0] // 2, 3) + x[0],
        torch.zeros(6, 3),
        dynamic=(({0: torch.export.Dim("batch", min=4, max=100)},),),
    )
    node = next(n for n in program.graph.nodes if n.op == "output").args[0][0]
    shape = node.meta["val"].shape
    symbol = next(iter(dims.free_symbols(dims.from_torch(shape[0]))))
    half = dims.from_torch(shape[0], {symbol: "batch"})
    assert half is dims.make_symbol("batch") // 2
    assert dims.from_torch(shape[1]) == 3


def test_a_size_is_nonnegative_and_a_number_read_from_a_tensor_is_not():
    program = export(
        lambda x: (x + 1) * x.sum().item(), torch.zeros(4, dtype=torch.int64), dynamic=None
    )
    item = next(n for n in program.graph.nodes if "item" in str(n.target))
    assert not dims.from_torch(item.meta["val"]) >= 0


def test_floats_that_differ_after_15_digits_are_two_dimensions():
    from torch.utils._sympy.functions import CeilToInt, ToFloat

    results = [dims.from_torch(CeilToInt(ToFloat(S0) * factor)) for factor in (0.3, 0.1 + 0.2)]
    assert str(results[0]) == "CeilToInt(0.3*ToFloat(s0))"
    assert str(results[1]) == "CeilToInt(0.30000000000000004*ToFloat(s0))"
    for size in (10, 100, 1000):
        expected = [math.ceil(size * factor) for factor in (0.3, 0.1 + 0.2)]
        assert [dims.evaluate_dim(dim, {"s0": size}) for dim in results] == expected
    assert dims.evaluate_dim(results[1] - results[0], {"s0": 10}) == 1


def test_what_is_pickled_says_how_it_is_computed():
    from torch.utils._sympy.functions import CeilToInt, FloatTrueDiv, ToFloat

    dim = dims.from_torch(CeilToInt(FloatTrueDiv(ToFloat(S0), sympy.Float(0.7))))
    code = (
        f"import pickle, sys; from ortable import dims; dim = pickle.loads({pickle.dumps(dim)!r}); "
        "print(dims.evaluate_dim(dim, {'s0': 5}), 'sympy' in sys.modules)"
    )
    assert python("-c", code).stdout.split() == ["8", "False"]


@pytest.mark.parametrize(("size", "reason"), [(0, "division by zero"), (10**308, "infinity")])
def test_what_a_float_cannot_tell_is_an_error_that_names_the_expression(size, reason):
    from torch.utils._sympy.functions import CeilToInt, FloatTrueDiv, ToFloat

    numerator = ToFloat(S0) * sympy.Float(1e300) if size else 1 / sympy.Float(0.5)
    dim = dims.from_torch(CeilToInt(FloatTrueDiv(numerator, ToFloat(S0) if not size else S0)))
    with pytest.raises(BuilderError, match=rf"CeilToInt.* has no value for s0={size}: .*{reason}"):
        dims.evaluate_dim(dim, {"s0": size})
