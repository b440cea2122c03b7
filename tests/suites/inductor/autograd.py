"""Gradients: custom functions, checkpoints, hooks, detached values, gradients of gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from . import every, matrix, static, train, two_matrices


def _leaf(n):
    return (torch.randn(n, 3, requires_grad=True),)


def _leaf_and_constant(n):
    return torch.randn(n, 3, requires_grad=True), torch.randn(n, 3)


class _Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3  # unlike the derivative


class _Cube(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x**3 * y, x + y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        return first * 3 * x**2 * y + second, first * x**3 + second


class _Constant(Function):
    @staticmethod
    def forward(ctx, x, factor, name):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None, None


class _Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


class _Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class _NoGradient(Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort(-1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, gradient, _):
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(-1, indices, gradient)


class _NewStyle(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def _no_grad(x, y):
    with torch.no_grad():
        scale = x.norm()
    return x * scale + y


def _enable_grad(x):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    return y, z


def _inference(x):
    with torch.inference_mode():
        y = x * 2
    return y + 1


def _hooked(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 10)
    return y.sin()


def _gradient_inside(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        loss = (y**3).sum()
        return torch.autograd.grad(loss, y)[0] + x


def _second_order(x):
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return second


def _backward_inside(x):
    (x * x).sum().backward()
    return x.grad + 1


def _two_losses(x, y):
    return (x * y).sum(), (x - y).square().mean()


def _block(x, w):
    return F.relu(x @ w) @ w.t()


def _loop(x):
    for i in range(5):
        x = x + x.tanh() / (i + 1)
    return x


def _selected(x, m):
    return m(x), m(x.detach()), m.weight.detach().sum()


def _penalty(m, x):
    y = m(x)
    return y.square().mean() + 0.1 * sum(p.square().sum() for p in m.parameters())


def _linear(n):
    return nn.Linear(3, 3), torch.randn(n, 3)


PROGRAMS = {
    # graphs of gradients
    "one value used twice": every(lambda x: x * x + x, matrix),
    "one value used in many ways": every(
        lambda x: (x.sum(), x.exp() * x, x[0] - x, x.t() @ x), matrix
    ),
    "unused input": train(lambda x, y: x * 2, two_matrices),
    "unused part": train(lambda x: x[:2] * 3, matrix),
    "constant result beside others": train(
        lambda x: (x * 2, torch.ones(3), x.detach().sum()), matrix
    ),
    "detached": train(lambda x: (x.detach() * x, (x * 2).detach(), x.detach().exp() + x), matrix),
    "detached in the middle": train(lambda x: (x.sin().detach() * x.cos()).sum(), matrix),
    "straight through": train(lambda x: x + (x.round() - x).detach(), matrix),
    "no_grad": train(_no_grad, two_matrices),
    "no_grad everywhere": train(torch.no_grad()(lambda x: x * 2 + 1), matrix),
    "enable_grad inside": train(_enable_grad, matrix),
    "inference_mode inside": static(_inference, matrix),
    "set_grad_enabled": train(
        lambda x: (torch.set_grad_enabled(False), x * 2, torch.set_grad_enabled(True), x * 3)[1::2],
        matrix,
    ),
    "one leaf of two": train(lambda x, y: (x * y, x + 1, y * 2), _leaf_and_constant),
    "integer results": train(lambda x: (x * 2, x.argmax(1), (x > 0).sum(), x.long()), matrix),
    "integer inputs": train(
        lambda x, i: x[i] * i[:, None], lambda n: (torch.randn(n, 3), torch.randint(0, n, (5,)))
    ),
    "two losses": train(_two_losses, two_matrices),
    "0-d results": train(
        lambda x: (x.mean(), x.norm(), x.logsumexp((0, 1)), x.max(), x[0, 0]), matrix
    ),
    "input returned beside results": train(lambda x: (x, x * 2), matrix),
    "view returned": train(lambda x: (x[0], x.t(), (x * 2).view(-1), (x * 3)[1:]), matrix),
    "expand reduces its gradient": every(
        lambda x: (x[:1].expand(4, 3) * 2, x.sum(0, keepdim=True).expand(2, 5, 3)), matrix
    ),
    "broadcasts reduce gradients": every(
        lambda x, y, s: (x * y + s, x / s, torch.maximum(x, y)),
        lambda n: (torch.randn(n, 1, 3), torch.randn(2, 1), torch.tensor(1.5)),
    ),
    "gradient of strided inputs": train(
        lambda x, y: (x @ y, x.t() * 2), lambda n: (torch.randn(3, n).t(), torch.randn(6, 3)[::2])
    ),
    "gradient of a channels_last input": train(
        lambda x: (x * 2).mean((2, 3)) + x.amax((2, 3)),
        lambda n: (torch.randn(2, 3, n, 2).to(memory_format=torch.channels_last),),
    ),
    "gradients of many inputs": train(
        lambda *xs: torch.stack(xs).prod(0), lambda n: tuple(torch.randn(n) for _ in range(12))
    ),
    "gradients at kinks": train(
        lambda x: (
            x.relu(),
            x.abs(),
            x.clamp(-1, 1),
            x.sign(),
            x.maximum(torch.zeros(())),
            F.relu6(x),
            F.hardtanh(x),
            x.norm(),
        ),
        lambda n: (tensor([0.0, -0.0, 1.0, -1.0, 6.0]),),
    ),
    "gradients that are infinite or nan": train(
        lambda x: (x.sqrt(), x.log(), 1 / x, x.abs() ** 0.5, torch.where(x > 0, x.log(), 0.0)),
        lambda n: (tensor([0.0, 1.0, 4.0]),),
    ),
    "gradients of powers at zero": train(
        lambda x: (x**2, x**1.5, x**0, x**1, torch.pow(x, tensor([0.0, 1.0, 2.0]))),
        lambda n: (torch.zeros(3),),
    ),
    "gradient of amax with ties": train(
        lambda x: (x.amax(1), x.max(), x.max(1).values, x.amin(0)), lambda n: (torch.ones(n, 3),)
    ),
    "gradient of a sort and of ranks": train(
        lambda x: (x.sort(0).values * torch.arange(4.0)[:, None], x.topk(2)[0]), matrix
    ),
    "gradient of an index used twice": train(lambda x: x[[0, 0, 1]] * torch.arange(3.0), matrix),
    "gradient of functions of products": train(
        lambda x, y: ((x @ y.t()).softmax(1) @ y, F.cosine_similarity(x, y)), two_matrices
    ),
    "gradient of a determinant and inverse": train(
        lambda x: (torch.linalg.det(x), torch.linalg.inv(x), torch.linalg.solve(x, x[:, 0])),
        lambda n: (torch.randn(3, 3) + 3 * torch.eye(3),),
    ),
    "gradient of a cholesky factor": train(
        lambda x: torch.linalg.cholesky(x @ x.t() + 3 * torch.eye(4)), matrix
    ),
    "gradient of half": train(lambda x: (x.half() * 2).float().sum() + x.half().sum(), matrix),
    "gradient in another dtype": train(
        lambda x, y: x * y, lambda n: (torch.randn(n, 3).double(), torch.randn(n, 3))
    ),
    "loop": every(_loop, matrix),
    "deep chain": train(lambda x: [x := (x * 1.01).sin() for _ in range(30)][-1], matrix),
    "scaled gradients": train(
        lambda x: (x * 1e-30).sum() * 1e30 + (x / 1e-20).sum() * 1e-20, matrix
    ),
    "layer and penalty": train(_penalty, _linear),
    "layer on detached inputs": train(lambda m, x: _selected(x, m), _linear),
    "frozen parameter": train(
        lambda m, x: m(x),
        lambda n: (
            (lambda m: (m.weight.requires_grad_(False), m)[1])(nn.Linear(3, 2)),
            torch.randn(n, 3),
        ),
    ),
    "requires_grad_ inside": train(lambda x: (x.detach().requires_grad_() * 2, x * 2)[1], matrix),
    "result that requires no gradient": train(lambda x: (x > 0).float() * 2, matrix),
    "is_leaf and requires_grad": train(
        lambda x: (
            x.requires_grad,
            x.is_leaf,
            (x * 2).requires_grad,
            torch.is_grad_enabled(),
            x * 2,
        ),
        _leaf,
    ),
    # custom functions
    "custom function": train(_Double.apply, matrix),
    "custom function in a chain": train(
        lambda x: _Double.apply(x.sin()).exp() + _Double.apply(x), matrix
    ),
    "custom function of two": train(_Cube.apply, two_matrices),
    "custom function with one result used": train(
        lambda x, y: _Cube.apply(x, y)[1] * 2, two_matrices
    ),
    "custom function with constants": train(
        lambda x: _Constant.apply(x, 2.5, "name") + _Constant.apply(x, 3, None), matrix
    ),
    "custom function that rounds": train(lambda x: _Rounded.apply(x * 5) / 5, matrix),
    "custom function that reverses gradients": train(lambda x: (_Reversed.apply(x) * 2, x), matrix),
    "custom function with an integer result": train(_NoGradient.apply, matrix),
    "custom function of the new style": train(lambda x: _NewStyle.apply(x) * 2, matrix),
    "custom function without gradients": static(lambda x: _Cube.apply(x, x), matrix),
    # checkpoints
    "checkpoint": train(
        lambda x, w: checkpoint(_block, x, w, use_reentrant=False),
        lambda n: (torch.randn(n, 3), torch.randn(3, 5)),
    ),
    "checkpoints in a chain": train(
        lambda x: checkpoint(
            torch.sin,
            checkpoint(lambda y: y.exp() * y, x, use_reentrant=False),
            use_reentrant=False,
        ),
        matrix,
    ),
    "checkpoint of a layer": train(
        lambda m, x: checkpoint(lambda y: m(y).relu(), x, use_reentrant=False) + x, _linear
    ),
    "checkpoint without gradients": static(
        lambda x: checkpoint(lambda y: y * 2, x, use_reentrant=False), matrix
    ),
    # hooks
    "hook of an intermediate": train(_hooked, matrix),
    "hook of a leaf": train(lambda x: (x.register_hook(lambda g: g + 1), x * 2)[1], _leaf),
    "forward hook of a module": train(
        lambda m, x: m(x),
        lambda n: (
            (lambda m: (m.register_forward_hook(lambda m, a, y: y * 2), m)[1])(nn.Linear(3, 2)),
            torch.randn(n, 3),
        ),
    ),
    "forward pre-hook of a module": train(
        lambda m, x: m(x),
        lambda n: (
            (lambda m: (m.register_forward_pre_hook(lambda m, a: (a[0] + 1,)), m)[1])(
                nn.Linear(3, 2)
            ),
            torch.randn(n, 3),
        ),
    ),
    "backward hook of a module": train(
        lambda m, x: m(x),
        lambda n: (
            (lambda m: (m.register_full_backward_hook(lambda m, a, b: (a[0] * 2,)), m)[1])(
                nn.Linear(3, 2)
            ),
            torch.randn(n, 3),
        ),
    ),
    # gradients inside of the program
    "gradient inside": static(_gradient_inside, matrix),
    "gradient inside by functions": static(
        lambda x: torch.func.grad(lambda y: (y**3).sum())(x), matrix
    ),
    "value and gradient": train(
        lambda x: torch.func.grad_and_value(lambda y: y.exp().sum())(x), matrix
    ),
    "second order by functions": static(
        torch.func.grad(lambda x: torch.func.grad(lambda y: (y**3).sum())(x).sum()), matrix
    ),
    "second order": static(_second_order, _leaf),
    "backward inside": static(_backward_inside, _leaf),
    "jacobian": static(
        lambda x: torch.func.jacrev(lambda y: y.sin() * y.sum())(x), lambda n: (torch.randn(n),)
    ),
    "forward jacobian": static(
        lambda x: torch.func.jacfwd(lambda y: y.sin() * y.sum())(x), lambda n: (torch.randn(n),)
    ),
    "hessian": static(
        lambda x: torch.func.hessian(lambda y: (y**3).sum())(x), lambda n: (torch.randn(n),)
    ),
    "vjp": static(
        lambda x, v: (lambda p: (p[0], p[1](v)))(torch.func.vjp(torch.sin, x)), two_matrices
    ),
    "jvp": static(lambda x, v: torch.func.jvp(torch.sin, (x,), (v,)), two_matrices),
    "gradients per sample": static(
        lambda w, x: torch.func.vmap(torch.func.grad(lambda w, x: (x @ w).tanh().sum()), (None, 0))(
            w, x
        ),
        lambda n: (torch.randn(3, 2), torch.randn(n, 3)),
    ),
    "functional_call": train(
        lambda m, x: torch.func.functional_call(
            m, {"weight": m.weight * 2, "bias": torch.zeros(3)}, (x,)
        ),
        _linear,
    ),
    "gradient accumulates": train(
        lambda x: (x * 2, x * 3),
        lambda n: (
            (lambda x: (setattr(x, "grad", torch.ones(n, 3)), x)[1])(
                torch.randn(n, 3, requires_grad=True)
            ),
        ),
    ),
    "graph break in training": train(
        lambda x: (y := x.sin(), torch._dynamo.graph_break(), (y * 2).cos() + x)[2], matrix
    ),
    "data dependent branch in training": train(lambda x: x * 2 if x.sum() > 0 else x.exp(), matrix),
    "nested functions in training": train(
        lambda x: (lambda f: f(f(x)))(lambda y: y.tanh() * x), matrix
    ),
}
