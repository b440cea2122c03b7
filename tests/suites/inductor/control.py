"""Control flow, transforms, graph breaks; structured arguments and results; layouts of inputs."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import math
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn, tensor
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as torch_map
from torch.func import vmap

from . import dynamic, every, matrix, static, train, two_matrices

Point = namedtuple("Point", "x y")


class Pair(NamedTuple):
    """Two values of any kind."""

    first: Any
    second: Any = None


@dataclasses.dataclass
class Config:
    """A tensor and settings."""

    x: torch.Tensor
    scale: float = 2.0
    names: tuple[str, ...] = ("a", "b")


class Mode(enum.Enum):
    """A choice."""

    SUM = 1
    MEAN = 2


class _Counter:
    def __init__(self, start):
        self.value = start

    def __eq__(self, other):
        return self.value == other.value

    __hash__ = None

    def step(self, x):
        self.value += 1
        return x * self.value


class _Called(nn.Module):
    scale = 3

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    @property
    def doubled(self):
        return self.linear.weight * 2

    @staticmethod
    def squared(x):
        return x * x

    def helper(self, x, *rest, **more):
        return x + sum(rest) + sum(more.values())

    def forward(self, x):
        x = self.helper(self.linear(x), 1, 2, c=self.scale)
        return self.squared(x) @ self.doubled, getattr(self, "missing", 5)


def _cond(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


def _nested_cond(x):
    def inner(x):
        return torch.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    return torch.cond(x.mean() > 0, inner, lambda x: x * 2, (x,))


def _cond_of_tuples(x, y):
    return torch.cond(
        x.max() > y.max(), lambda x, y: (x + y, x * 1), lambda x, y: (x - y, y * 2), (x, y)
    )


def _cond_closure(x, y):
    return torch.cond(x.sum() > 0, lambda: x @ y.t(), lambda: y @ x.t(), ())


def _cond_on_size(x):
    return torch.cond(x.shape[0] > 5, lambda x: x.sum(0), lambda x: x.amax(0), (x,))


def _while(x):
    return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 1.5 + i), (tensor(0), x))


def _while_on_data(x):
    return while_loop(lambda x, k: x.abs().max() > 0.1, lambda x, k: (x / 2, k + 1), (x, tensor(0)))


def _while_never(x):
    return while_loop(lambda i, x: i > 10, lambda i, x: (i + 1, x * 2), (tensor(0), x))


def _scan(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)


def _scan_reversed(x):
    return scan(
        lambda carry, row: (carry * 0.5 + row, carry.sin()), torch.zeros(3), x, reverse=True
    )


def _recurrence(x, w):
    def step(h, row):
        h = torch.tanh(row + h @ w)
        return h, h + 0

    return scan(step, torch.zeros(3), x)[1]


def _map(x, y):
    return torch_map(lambda row, y: (row * y).sin(), x, y[0])


def _break(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y.sin() + x


def _breaks_in_a_loop(x):
    for i in range(3):
        x = x + i
        torch._dynamo.graph_break()
    return x * 2


def _break_in_a_call(x):
    def inner(y):
        y = y + 1
        torch._dynamo.graph_break()
        return y * 2

    return inner(x) + inner(x.sin())


def _printed(x):
    y = x + 1
    print(end="")
    return y * 2


def _numpy(x):
    return torch.from_numpy(x.numpy() * 2) + 1


def _caught(x):
    try:
        return x.view(7, -1)
    except RuntimeError:
        return x * 2


def _raises(x):
    if x.shape[0] == 4:
        raise ValueError("four rows")
    return x


def _asserts(x):
    assert x.dim() == 3, "three axes"
    return x


def _dispatch(x, mode):
    match mode:
        case Mode.SUM:
            return x.sum(0)
        case Mode.MEAN:
            return x.mean(0)
    return x


def _generator(x):
    def rows():
        for i, row in enumerate(x):
            yield row * i

    return torch.stack(list(rows()))


def _closure(x):
    total = 0

    def add(y):
        nonlocal total
        total = total + y.sum()

    for row in x:
        add(row)
    return total


def _recursive(x, depth=3):
    return x if depth == 0 else _recursive(x.sin() + depth, depth - 1)


@contextlib.contextmanager
def _scaled(values):
    values.append(2.0)
    yield values
    values.pop()


def _with_context(x):
    with _scaled([]) as values:
        y = x * values[0]
    return y + len(values)


@functools.lru_cache
def _cached_factor(k):
    return k * 2


def _sets_and_dicts(x):
    table = {"a": x, "b": x * 2, **{str(i): x + i for i in range(2)}}
    counts = defaultdict(list)
    for key, value in sorted(table.items()):
        counts[len(key)].append(value)
    return {k: torch.stack(v) for k, v in counts.items()}, sorted({3, 1, 2}), [*table]


def _strings(x):
    name = f"{x.dim()}-{x.dtype}".upper().split("-")
    return x * len(name[1]), name, "float" in str(x.dtype)


def _strided(n):
    return torch.randn(2 * n, 6)[::2, 1:4]


def _layouts(*xs):
    """Apply functions that depend on the layout to each argument."""
    return tuple(
        (x * 2, x.sum(0), x.reshape(-1), x.contiguous(), x.flatten()[1:3], x.amax(-1)) for x in xs
    )


PROGRAMS = {
    # operators of control flow
    "cond": dynamic(_cond, matrix),
    "cond in training": train(_cond, matrix),
    "cond nested": static(_nested_cond, matrix),
    "cond of tuples": static(_cond_of_tuples, two_matrices),
    "cond with a closure": static(_cond_closure, two_matrices),
    "cond on a size": dynamic(_cond_on_size, matrix),
    "cond on a number": static(
        lambda x, b: torch.cond(b, lambda x: x * 2, lambda x: x / 2, (x,)),
        lambda n: (torch.randn(n), True),
    ),
    "cond on a tensor of one bool": static(
        lambda x, b: torch.cond(b, torch.sin, torch.cos, (x,)),
        lambda n: (torch.randn(n), tensor(False)),
    ),
    "cond then functions": static(lambda x: _cond(x).sum(0) + x[0], matrix),
    "while_loop": static(_while, matrix),
    "while_loop of a dynamic size": dynamic(_while, matrix),
    "while_loop on data": static(_while_on_data, matrix),
    "while_loop that never runs": static(_while_never, matrix),
    "scan": static(_scan, matrix),
    "scan reversed": static(_scan_reversed, matrix),
    "scan as a recurrent network": static(
        _recurrence, lambda n: (torch.randn(n, 3), torch.randn(3, 3))
    ),
    "associative_scan": static(
        lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"), matrix
    ),
    "associative_scan of products": static(
        lambda x: associative_scan(lambda a, b: a * b, x, 1, combine_mode="generic"), matrix
    ),
    "map": static(_map, two_matrices),
    # transforms
    "vmap": every(vmap(lambda x: x.sin() * x.sum()), matrix),
    "vmap of two": train(vmap(torch.dot), two_matrices),
    "vmap of other axes": train(
        vmap(lambda x, y: x.outer(y), in_dims=(1, 0), out_dims=1),
        lambda n: (torch.randn(3, n), torch.randn(n, 3)),
    ),
    "vmap of one of two": static(vmap(lambda x, y: x * y, in_dims=(0, None)), two_matrices),
    "vmap nested": static(vmap(vmap(lambda x: x.exp() + 1)), matrix),
    "vmap of an index": static(
        vmap(lambda x, i: x.index_select(0, i)),
        lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n, 2))),
    ),
    "vmap of a condition": static(vmap(lambda x: torch.where(x.sum() > 0, x, -x)), matrix),
    "vmap of a layer": static(
        lambda m, x: vmap(m)(x), lambda n: (nn.Linear(3, 2), torch.randn(n, 5, 3))
    ),
    "vmap in chunks": static(vmap(lambda x: x.softmax(0), chunk_size=2), matrix),
    "linearize": static(
        lambda x: torch.func.linearize(torch.sin, x)[1](torch.ones_like(x)), matrix
    ),
    "functionalize": static(torch.func.functionalize(lambda x: x.clone().add_(1)), matrix),
    # graph breaks and Python
    "graph break": every(_break, matrix),
    "graph breaks in a loop": static(_breaks_in_a_loop, matrix),
    "graph break in a call": static(_break_in_a_call, matrix),
    "print": static(_printed, matrix),
    "numpy": static(_numpy, matrix),
    "disabled function": static(lambda x: torch._dynamo.disable(torch.sin)(x * 2) + 1, matrix),
    "error caught": static(_caught, matrix),
    "error raised error": static(_raises, matrix),
    "assertion error": static(_asserts, matrix),
    "enum as an argument": static(_dispatch, lambda n: (torch.randn(n, 3), Mode.MEAN)),
    "generator": static(_generator, matrix),
    "closure": static(_closure, matrix),
    "recursion": train(_recursive, matrix),
    "context manager": static(_with_context, matrix),
    "cached function": static(lambda x: x * _cached_factor(3), matrix),
    "partial": static(functools.partial(torch.sum, dim=0, keepdim=True), matrix),
    "reduce and zip and map": static(
        lambda x, y: (
            functools.reduce(torch.add, [a * b for a, b in zip(x, y, strict=True)])
            + sum(map(torch.sum, x))
        ),
        two_matrices,
    ),
    "sets and dicts": static(_sets_and_dicts, matrix),
    "strings": static(_strings, matrix),
    "math functions": static(
        lambda x: x * math.pi + math.sin(1.0) + math.ceil(0.5) + math.comb(5, 2), matrix
    ),
    "unpacking": static(lambda x: (lambda first, *rest: first + sum(rest))(*x), matrix),
    "builtins on tensors": static(
        lambda x: (abs(x), -x, ~(x > 0), divmod(7, 2), max(x[0, 0], x[0, 1]) * 1, sum(x)),
        matrix,
    ),
    "operators in place": static(lambda x, y: _in_place(x, y), two_matrices),
    "object of a user": static(
        lambda x: (lambda c: (c.step(x), c.step(x), c.value))(_Counter(1)), matrix
    ),
    "object as an argument": static(
        lambda x, c: c.step(x) + c.value, lambda n: (torch.randn(n), _Counter(2))
    ),
    "methods and properties of a module": train(
        lambda m, x: m(x), lambda n: (_Called(), torch.randn(n, 3))
    ),
    "function as an argument": static(
        lambda x, f: f(x) + f(x * 2), lambda n: (torch.randn(n), torch.sin)
    ),
    "isinstance and hasattr": static(
        lambda x: (
            x * 2 if isinstance(x, torch.Tensor) and hasattr(x, "shape") and not callable(x) else x
        ),
        matrix,
    ),
    "comprehensions": static(
        lambda x: (
            {i: r for i, r in enumerate(x) if i % 2},
            [r.sum() for r in x],
            tuple(r for r in x),
        ),
        matrix,
    ),
    "early return": static(lambda x: x if x.dim() > 1 else x[None], matrix),
    "try and finally": static(lambda x: _finally(x), matrix),
    # structures
    "tuple and list results": static(lambda x: [x + 1, (x, [x * 2, None]), []], matrix),
    "dict arguments and results": every(
        lambda d: {"y": d["x"] * 2, "z": {"w": d["x"].sum(), "k": 3}},
        lambda n: ({"x": torch.randn(n, 3)},),
    ),
    "order of a dict": static(
        lambda d: {k: d[k] + i for i, k in enumerate(reversed(list(d)))},
        lambda n: ({"b": torch.ones(2), "a": torch.zeros(2)},),
    ),
    "dict of ints": static(
        lambda d: {k + 1: v * k for k, v in d.items()},
        lambda n: ({1: torch.ones(2), 5: torch.ones(3)},),
    ),
    "OrderedDict": static(
        lambda d: OrderedDict((k, v * 2) for k, v in d.items()),
        lambda n: (OrderedDict(z=torch.ones(2), a=torch.ones(3)),),
    ),
    "namedtuple": static(
        lambda p: Point(p.y, p.x + p.y), lambda n: (Point(torch.randn(n), torch.randn(n)),)
    ),
    "NamedTuple with a default": static(
        lambda p: Pair(p.first * 2), lambda n: (Pair(torch.randn(n)),)
    ),
    "dataclass": static(
        lambda c: Config(c.x * c.scale, c.scale + 1, c.names), lambda n: (Config(torch.randn(n)),)
    ),
    "dataclass replaced": static(
        lambda c: dataclasses.replace(c, x=c.x + 1), lambda n: (Config(torch.randn(n), 3.0),)
    ),
    "results of torch as structures": static(
        lambda x: (x.max(0), x.sort(1), x.topk(2), torch.linalg.qr(x)), matrix
    ),
    "fields of a result of torch": static(
        lambda x: (x.max(0).values, x.max(0).indices, x.sort(1)[0]), matrix
    ),
    "list argument": every(
        lambda xs: (torch.cat(xs), [x * 2 for x in xs]),
        lambda n: ([torch.randn(n, 3), torch.randn(2, 3)],),
    ),
    "nested arguments": train(
        lambda a: a[0]["x"] * a[1][0] + a[1][1],
        lambda n: (({"x": torch.randn(n)}, [torch.randn(n), 2.0]),),
    ),
    "empty structures": static(lambda a, b, c: (a, b, c, torch.ones(2)), lambda n: ([], {}, ())),
    "deque": static(
        lambda x: (lambda d: (d.append(x), d.popleft(), list(d))[2])(deque([x * 2, x])), matrix
    ),
    "arguments by name": static(
        lambda x, y=None, *rest, **more: x if y is None else x + y, two_matrices
    ),
    "size as an argument": static(
        lambda x, size: x.expand(size), lambda n: (torch.randn(1, 3), torch.Size([n, 3]))
    ),
    "mixed results": static(
        lambda x: (x, 1, 2.5, "a", None, True, x.shape, x.dtype, x.device, [x.sum()]), matrix
    ),
    "nothing returned": static(lambda x: None, matrix),
    "only numbers returned": static(lambda x: (x.shape[0], x.dim()), matrix),
    # layouts of inputs
    "transposed inputs": every(
        lambda x, y: _layouts(x, y),
        lambda n: (torch.randn(3, n).t(), torch.randn(2, n, 3).transpose(0, 2)),
    ),
    "expanded inputs": dynamic(
        lambda x, y: _layouts(x, y),
        lambda n: (torch.randn(n, 1).expand(n, 3), torch.randn(3).expand(n, 3)),
    ),
    "inputs with steps and offsets": every(
        lambda x, y: (*_layouts(x, y), x @ y.t()),
        lambda n: (_strided(n), torch.randn(20)[5:17].view(4, 3)),
    ),
    "channels_last inputs": every(
        lambda x: (
            F.max_pool2d(x, 2),
            x.mean((2, 3)),
            x.permute(0, 2, 3, 1),
            F.interpolate(x, scale_factor=2.0),
            F.pad(x, (1, 1)),
        ),
        lambda n: (torch.randn(2, 3, n, 4).to(memory_format=torch.channels_last),),
    ),
    "channels_last_3d input": static(
        lambda x: (x * 2, x.sum(1)),
        lambda n: (torch.randn(1, 2, 3, n, 2).to(memory_format=torch.channels_last_3d),),
    ),
    "permuted inputs of 4 axes": static(
        lambda x, y: (x + y, x @ y.mT, x.relu()),
        lambda n: (
            torch.randn(2, 3, 4, 5).permute(2, 0, 3, 1),
            torch.randn(4, 2, 5, 3),
        ),
    ),
    "inputs of another layout each call": dynamic(
        lambda x: (x * 2, x.view(x.shape), x.sum(1), x.t()),
        lambda n: (torch.randn(n, 3) if n % 2 else torch.randn(3, n).t(),),
    ),
    "inputs of another rank each call": dynamic(
        lambda x: (x * 2, x.sum(-1)), lambda n: (torch.randn((n,) * (n - 3)),)
    ),
    "inputs of another dtype each call": dynamic(
        lambda x: (x * 2, x.sum(), x.float().mean()),
        lambda n: (torch.arange(n * 3).to([torch.int32, torch.float64][n % 2]),),
    ),
    "inputs of 0 and 1 rows in some calls": dynamic(
        lambda x: (x * 2, x.sum(0), x @ x.t(), torch.cat([x, x])),
        lambda n: (torch.randn({4: 2, 7: 1, 5: 0}[n], 3),),
    ),
    "inputs that require gradients in some calls": dynamic(
        lambda x: x.sin() * 2, lambda n: (torch.randn(n, 3, requires_grad=n == 7),)
    ),
    "columns with a step of 0": static(
        lambda x: (x.sum(1), x + 1, x.flip(1)),
        lambda n: (torch.randn(n).as_strided((n, 3), (1, 0)),),
    ),
    "overlapping windows as an input": train(
        lambda x: (x * 2, x.sum(0), x @ x.t()), lambda n: (torch.randn(n + 2).unfold(0, 3, 1),)
    ),
    "subclass of a tensor": static(
        lambda x: x * 2 + 1, lambda n: (nn.Parameter(torch.randn(n, 3)),)
    ),
    "conjugate and negative views as inputs": static(
        lambda x, y: (x * 2, y * 2, x.real + y),
        lambda n: (
            torch.randn(n, dtype=torch.complex64).conj(),
            torch.randn(n, dtype=torch.complex64).conj().imag,
        ),
    ),
    "sparse input": static(
        lambda x, y: x.to_dense() + y, lambda n: (torch.eye(3).to_sparse(), torch.randn(3, 3))
    ),
    "nested calls of compiled functions": static(
        lambda x: torch.compile(torch.sin, backend="eager")(x) + x, matrix
    ),
    "no inputs": static(lambda: torch.arange(5.0).sin(), lambda n: ()),
    "unused inputs": static(lambda x, y, z: y * 2, lambda n: (torch.randn(n), torch.randn(n), 3)),
}


def _in_place(x, y):
    z = x.clone()
    z += y
    z -= 1
    z *= 2
    z /= 3
    z //= 0.5
    z **= 2
    z %= 1
    w = (x * 10).int()
    w <<= 1
    w |= 3
    w &= 62
    w ^= 5
    return z, w


def _finally(x):
    found = []
    try:
        x = x * 2
    finally:
        found.append(x.sum())
    return x, found
