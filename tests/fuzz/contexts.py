"""Calls that surround the samples in a program; `strategies` skips a call where eager raises."""

from __future__ import annotations

VIEWS = (
    "{0}.t()", "{0}.transpose(0, -1)", "{0}[..., ::2]",
    "{0}[1:]", "{0}.unsqueeze(1)", "{0}.squeeze()",
    "{0}.reshape(-1)", "{0}.flatten()", "{0}.view(-1)", "{0}.expand(2, *{0}.shape)", "{0}[0]",
    "{0}.select(-1, -1)", "{0}.narrow(0, 0, 1)",
    "{0}[None]", "{0}.movedim(0, -1)", "{0}.diagonal()",
    "{0}.chunk(2, -1)[0]", "{0}.chunk(2, 0)[-1]", "{0}.unfold(-1, 2, 1)", "{0}.contiguous()",
    "{0}.detach()", "{0}.clone()", "{0}[:0]", "{0}[..., :1]", "{0}[..., -1:]", "{0}.mT",
    "{0}.permute(*range({0}.dim())[::-1])",
    "{0}.reshape({0}.shape[0], -1)", "{0}.unflatten(-1, (-1, 1))",
    "{0}.swapaxes(0, 1)", "{0}.view_as({0})", "{0}.expand_as({0})", "{0}.unbind(0)[0]",
    "{0}.tensor_split(2)[1]", "{0}[..., None]", "{0}.flip(0)", "{0}.roll(1, -1)", "{0}.tile(2)",
    "torch.atleast_2d({0})", "torch.broadcast_to({0}, (2, *{0}.shape))", "{0}.split(1)[-1]",
)  # fmt: skip

ARITHMETIC = (
    "{0} + 1", "{0} * 0.5", "2 - {0}", "{0} / 2", "-{0}", "{0} > 0", "{0} * {0}.shape[0]",
    "{0} + {0}.numel()", "{0} * {0}.sum()", "{0} + {0}[..., :1]", "{0} * {0}.unsqueeze(0)",
    "{0}.to(torch.float32)", "{0}.to(torch.float16)", "{0}.to(torch.float64)",
    "{0}.to(torch.bfloat16)", "{0}.to(torch.bool)", "{0}.clamp(-100, 100).to(torch.int32)",
    "{0}.clamp(-9, 9).to(torch.int64)", "{0}.clamp(0, 9).to(torch.uint8)",
    "torch.where({0} > 0, {0}, 0)", "torch.where({0} > 0, 1.5, {0})", "{0}.sum(-1, keepdim=True)",
    "{0} - {0}.mean()", "{0}.relu()", "{0}.sigmoid()", "{0} // 2", "{0} % 3", "{0} ** 2",
    "{0}.cumsum(0)", "{0}.abs().max()", "torch.ones_like({0})", "torch.full_like({0}, 2)",
    "torch.arange({0}.shape[0]) + {0}", "{0}.new_zeros({0}.shape) + {0}", "{0}.amax(0)",
    "{0}.softmax(-1)", "{0}.tanh()", "torch.zeros({0}.shape[-1]) + {0}", "{0} == {0}[0]",
)  # fmt: skip

PAIRS = (
    "{0} + {1}", "{0} * {1}",
    "{0} - {1}", "torch.where({0} > 0, {1}, {0})", "torch.maximum({0}, {1})",
    "torch.cat([{0}, {1}], 0)", "torch.cat([{0}, {1}], -1)", "torch.stack([{0}, {1}])", "{0} @ {1}",
    "{0} == {1}", "{0}.unsqueeze(0) + {1}.unsqueeze(1)", "{0} + {1}.sum()", "{0}[..., :1] * {1}",
    "torch.where({1} > {0}, {0}, {1})", "{0}.expand_as({1})", "torch.min({0}, {1})",
    "{0}.to({1}.dtype)", "{0}.reshape({1}.shape)",
)  # fmt: skip

WRITES = (
    "{0}.add_(1)", "{0}.mul_(2)", "{0}.zero_()", "{0}[0].fill_(1)", "{0}[..., :1].mul_(2)",
    "{0}.t().add_(1)", "{0}.clamp_(-1, 1)", "{0}.neg_()", "{0}.view(-1)[1:].sub_(1)", "{0}.relu_()",
    "{0}.masked_fill_({0} > 0, 2)",
    "{0}[1:].copy_({0}[:-1].clone())", "{0}.transpose(0, -1).mul_(3)",
    "{0}.diagonal().zero_()", "{0}[::2].add_(1)", "{0}.squeeze().add_(1)", "{0}.tanh_()",
    "{0}.unsqueeze(0).add_({0}.clone())", "{0}.flatten().add_(1)", "{0}.select(-1, 0).fill_(0)",
)  # fmt: skip

# calls whose results are not read
SILENT_WRITES = (
    "operator.setitem({0}, 0, 1)", "operator.setitem({0}, {0} > 0, 0)",
    "operator.setitem({0}, (slice(None), 0), 2)", "operator.setitem({0}, slice(1, None), 3)",
    "operator.setitem({0}, (Ellipsis, slice(None, None, 2)), {0}[..., ::2] + 1)",
)  # fmt: skip

PAIR_WRITES = (
    "{0}.add_({1})", "{0}.copy_({1})", "{0}.mul_({1})", "{0}[..., :1].copy_({1}[..., :1])",
    "{0}[0].add_({1})", "{0}.sub_({1}.sum())",
)  # fmt: skip

# {f} and {g} stand for calls of a shape-preserving sample on `a`
BRANCHES = (
    "cond({0}.sum() > 0, lambda a: {f}, lambda a: {g}, ({0},))",
    "cond(({0} > 0).any(), lambda a: ({f}) + 0 * a, lambda a: ({g}) * 1, ({0},))",
)  # fmt: skip
LOOPS = (
    "while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, {f}), "
    "(torch.zeros((), dtype=torch.int64), {0}))",
    "scan(lambda c, a: (c + a, {f}), torch.zeros_like({0}[0]), {0})",
)  # fmt: skip
