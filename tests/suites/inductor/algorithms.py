"""Small algorithms of models and of their training: optimizers, losses, searches, signals."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, every, matrix, static, train, two_matrices


def _linear(n):
    return nn.Linear(3, 2), torch.randn(n, 3)


def _boxes(n):
    return torch.rand(n, 4).sort(1)[0], torch.rand(3, 4).sort(1)[0]


class _Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1))


def _optimize(make, steps=3):
    """Return a program that trains a layer."""

    def run(m, x):
        optimizer = make(m.parameters())
        for _ in range(steps):
            optimizer.zero_grad()
            m(x).square().mean().backward()
            optimizer.step()
        return [p.detach().clone() for p in m.parameters()]

    return run


def _write_cache(cache, new, place):
    cache[:, place] = new
    return cache[:, : place + 1].sum(1)


def _beam(x):
    scores, places = x.log_softmax(-1).flatten().topk(3)
    return scores, places // x.shape[-1], places % x.shape[-1]


def _sinkhorn(x):
    for _ in range(5):
        x = x - x.logsumexp(1, keepdim=True)
        x = x - x.logsumexp(0, keepdim=True)
    return x.exp()


def _overlaps(a, b):
    first, last = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    common = (last - first).clamp(min=0).prod(-1)
    areas = [(x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b)]
    return common / (areas[0][:, None] + areas[1] - common)


def _viterbi(emissions, transitions):
    scores, back = emissions[0], []
    for row in emissions[1:]:
        scores, places = (scores[:, None] + transitions).max(0)
        scores = scores + row
        back.append(places)
    return scores, torch.stack(back)


def _filter(x):
    y = x.clone()
    for i in range(1, x.shape[0]):
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


def _windows(x):
    batch, height, width, channels = x.shape
    shape = batch, height // 2, 2, width // 2, 2, channels
    x = x.roll((-1, -1), (1, 2)).view(shape).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, channels)
    x = (x @ x.mT).softmax(-1) @ x
    shape = batch, height // 2, width // 2, 2, 2, channels
    return x.view(shape).permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)


def _relative(x, table):
    places = torch.arange(x.shape[0])
    distance = (places[:, None] - places).clamp(-2, 2) + 2
    return (x @ x.t() + table[distance]).softmax(-1) @ x


def _states(x, a, b):
    h, found = torch.zeros(3), []
    for row in x:
        h = a * h + b * row
        found.append(h)
    return torch.stack(found)


def _codebook(x, codes):
    places = torch.cdist(x, codes).argmin(1)
    nearest = codes[places]
    return x + (nearest - x).detach(), places, (nearest - x.detach()).square().mean()


def _hard_gumbel(x, noise):
    soft = (x + noise).softmax(-1)
    hard = (soft.argmax(-1, keepdim=True) == torch.arange(3)).float()
    return hard - soft.detach() + soft


def _focal(x, t):
    loss = F.cross_entropy(x, t, reduction="none")
    return ((1 - (-loss).exp()) ** 2 * loss).mean()


def _edge_softmax(scores, edges):
    top = torch.full((4,), -1e9).scatter_reduce(0, edges, scores, "amax")
    weights = (scores - top[edges]).exp()
    return weights / torch.zeros(4).index_add(0, edges, weights)[edges]


def _sample(image, points):
    low = points.floor().long()
    high = (low + 1).clamp(max=3)
    s, t = (points - low).unbind(1)
    (a, b), (c, d) = low.unbind(1), high.unbind(1)
    upper = image[a, b] * (1 - t) + image[a, d] * t
    return upper * (1 - s) + (image[c, b] * (1 - t) + image[c, d] * t) * s


def _ode(x, w):
    for _ in range(8):
        x = x + 0.1 * torch.tanh(x @ w)
    return x


def _largest_eigenvalue(w, v):
    for _ in range(5):
        v = F.normalize(w @ v, dim=0)
    return v @ w @ v


def _nucleus(x, share=0.8):
    values, places = x.sort(1, descending=True)
    weights = values.softmax(1)
    removed = weights.cumsum(1) - weights > share
    return x.masked_fill(torch.zeros_like(removed).scatter(1, places, removed), -torch.inf)


def _penalty(x, used):
    values = x.gather(1, used)
    return x.scatter(1, used, torch.where(values < 0, values * 1.2, values / 1.2))


def _suppress(boxes, scores):
    """Suppress boxes that overlap a better one, in a loop over all."""
    order = scores.argsort(descending=True)
    overlaps = _overlaps(boxes[order], boxes[order])
    kept = torch.ones_like(scores, dtype=torch.bool)
    for i in range(boxes.shape[0]):
        kept = kept & ~((overlaps[i] > 0.3) & (torch.arange(boxes.shape[0]) > i) & kept[i])
    return order, kept


def _edit_distance(a, b):
    row = torch.arange(b.shape[0] + 1)
    for i in range(a.shape[0]):
        cells = [tensor(i + 1)]
        for j in range(b.shape[0]):
            other = row[j] + (a[i] != b[j]).long()
            cells.append(torch.minimum(torch.minimum(cells[-1] + 1, row[j + 1] + 1), other))
        row = torch.stack(cells)
    return row[-1]


def _life(x):
    kernel = torch.ones(1, 1, 3, 3)
    for _ in range(3):
        count = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), kernel) - x
        x = ((count == 3) | ((count == 2) & (x > 0))).float()
    return x


def _sieve(x):
    size = x.shape[0]
    numbers = torch.arange(size)
    divides = (numbers[2:, None] < numbers) & (numbers % numbers[2:, None] == 0)
    return (~divides.any(0) & (numbers > 1)).long() + x.long() * 0


def _hash(x):
    for _ in range(4):
        x = (x ^ (x >> 15)) * 0x2C1B3C6D
        x = (x ^ (x << 7)) & 0xFFFFFFFF
    return x


def _bits_to_numbers(x):
    bits = (x[:, None] >> torch.arange(8)) & 1
    return bits, (bits << torch.arange(8)).sum(1), bits.flip(1).bool()


PROGRAMS = {
    # training
    "classifier": train(lambda m, x: m(x), lambda n: (_Classifier(), torch.randn(n, 3, 6, 6))),
    "classifier of channels_last": train(
        lambda m, x: m(x),
        lambda n: (_Classifier(), torch.randn(n, 3, 6, 6).to(memory_format=torch.channels_last)),
    ),
    "steps of SGD": static(_optimize(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)), _linear),
    "steps of AdamW": static(_optimize(lambda p: torch.optim.AdamW(p, 0.1)), _linear),
    "steps of RMSprop": static(_optimize(lambda p: torch.optim.RMSprop(p, 0.1)), _linear),
    "low-rank update": train(
        lambda m, x, a, b: m(x) + (x @ a) @ b * 2,
        lambda n: (nn.Linear(3, 4), torch.randn(n, 3), torch.randn(3, 2), torch.randn(2, 4)),
    ),
    # losses
    "focal loss": train(_focal, lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n,)))),
    "contrastive loss": train(
        lambda x, y: F.cross_entropy(
            F.normalize(x) @ F.normalize(y).t() / 0.1, torch.arange(x.shape[0])
        ),
        two_matrices,
    ),
    "dice loss": every(
        lambda x, y: 1 - (2 * (x.sigmoid() * y.sigmoid()).sum(1) + 1) / (x + y).sigmoid().sum(1),
        two_matrices,
    ),
    "codebook": train(_codebook, lambda n: (torch.randn(n, 3), torch.randn(5, 3))),
    "hard choice with soft gradients": train(_hard_gumbel, two_matrices),
    "mixed samples": every(lambda x, y: x * 0.3 + x.flip(0) * 0.7 + y.roll(1, 0), two_matrices),
    # sequences
    "cache of a given place": dynamic(
        _write_cache, lambda n: (torch.zeros(2, 8, 3), torch.randn(2, 3), n - 3)
    ),
    "beam": every(_beam, lambda n: (torch.randn(3, n),)),
    "viterbi": train(_viterbi, lambda n: (torch.randn(n, 3), torch.randn(3, 3))),
    "edit distance": static(_edit_distance, lambda n: (tensor([1, 2, 3, 2]), tensor([2, 3, 3]))),
    "states": train(_states, lambda n: (torch.randn(n, 3), torch.rand(3), torch.randn(3))),
    "windows of attention": every(_windows, lambda n: (torch.randn(1, 2 * n, 4, 3),)),
    "relative places": every(_relative, lambda n: (torch.randn(n, 3), torch.randn(5))),
    "pool by attention": every(
        lambda x, w: ((x @ w).softmax(0)[:, None] * x).sum(0),
        lambda n: (torch.randn(n, 3), torch.randn(3)),
    ),
    "nucleus": static(_nucleus, lambda n: (torch.randn(n, 6),)),
    "cumulative probabilities": every(lambda x: (x / 0.7).log_softmax(-1).exp().cumsum(-1), matrix),
    "penalty of repeats": static(
        _penalty, lambda n: (torch.randn(n, 6), torch.stack([torch.randperm(6)[:2]] * n))
    ),
    # graphs, boxes, matrices
    "graph convolution": train(
        lambda x, e, w: torch.zeros_like(x).index_add(0, e[1], x[e[0]]) @ w,
        lambda n: (torch.randn(n, 3), torch.randint(0, n, (2, 6)), torch.randn(3, 2)),
    ),
    "softmax of edges": train(_edge_softmax, lambda n: (torch.randn(6), torch.randint(0, 4, (6,)))),
    "overlaps of boxes": every(_overlaps, _boxes),
    "boxes suppressed": dynamic(_suppress, lambda n: (_boxes(n)[0], torch.rand(n))),
    "rows and columns normalised": every(_sinkhorn, lambda n: (torch.randn(n, n),)),
    "largest eigenvalue": train(_largest_eigenvalue, lambda n: (torch.randn(3, 3), torch.randn(3))),
    "ordinary differential equation": train(_ode, lambda n: (torch.randn(n, 3), torch.randn(3, 3))),
    # signals and images
    "recursive filter": train(_filter, matrix),
    "median filter": train(
        lambda x: F.pad(x, (1, 1), mode="replicate").unfold(-1, 3, 1).median(-1).values,
        lambda n: (torch.randn(1, n, 6),),
    ),
    "closing of an image": train(
        lambda x: -F.max_pool2d(-F.max_pool2d(x, 3, 1, 1), 3, 1, 1),
        lambda n: (torch.randn(1, 1, n, 6),),
    ),
    "edges of an image": every(
        lambda x: F.conv2d(
            F.pad(x, (1, 1, 1, 1), mode="replicate"),
            tensor([[[[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]]]]),
        ),
        lambda n: (torch.randn(1, 1, n, 6),),
    ),
    "points of an image": train(_sample, lambda n: (torch.randn(4, 4), torch.rand(5, 2) * 3)),
    "shares of brightness": static(
        lambda x: torch.bincount((x * 3).clamp(0, 5).long().flatten(), minlength=6).cumsum(0) / 12,
        matrix,
    ),
    # integers
    "game of life": dynamic(_life, lambda n: ((torch.rand(1, 1, n, 6) > 0.5).float(),)),
    "sieve": dynamic(_sieve, lambda n: (torch.zeros(5 * n),)),
    "hash": static(_hash, lambda n: (torch.randint(0, 2**32, (n,)),)),
    "bits of numbers": static(_bits_to_numbers, lambda n: (torch.randint(0, 256, (n,)),)),
}
