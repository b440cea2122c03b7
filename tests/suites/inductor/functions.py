"""Functions that are used rarely: linear algebra, losses, signals, special functions, sets."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn, tensor

from . import dynamic, every, matrix, static, train, two_matrices

linalg, special = torch.linalg, torch.special


def _square(n):
    return (torch.randn(3, 3) + 3 * torch.eye(3),)


def _batch(n):
    return (torch.randn(2, 3, 3) + 3 * torch.eye(3),)


def _positive(n):
    x = torch.randn(3, 3)
    return (x @ x.t() + torch.eye(3),)


def _unit(n):
    return (torch.rand(n, 3) * 0.8 + 0.1,)


def _signal(n):
    return (torch.randn(2, 8 * n),)


def _rows_and_signs(n):
    return torch.randn(n, 3), torch.randn(n, 3), torch.ones(n).copysign(torch.randn(n))


def _losses(*functions):
    return lambda x, y: tuple(function(x, y) for function in functions)


def _ctc(x, targets):
    sizes = torch.full((2,), x.shape[0]), tensor([3, 2])
    return F.ctc_loss(x.log_softmax(2), targets, *sizes)


PROGRAMS = {
    # linear algebra
    "determinants": train(
        lambda x: (linalg.det(x), x.det() * 2, linalg.slogdet(x), x.logdet()), _positive
    ),
    "determinants of a batch": train(lambda x: (linalg.det(x), linalg.slogdet(x)[1]), _batch),
    "determinants of nothing and of one": static(
        lambda x: (linalg.det(x[:0, :0]), linalg.det(x[:1, :1]), linalg.det(x[:2, :2])), _square
    ),
    "determinant of a singular matrix": static(
        lambda x: (linalg.det(x), linalg.slogdet(x)), lambda n: (torch.ones(3, 3),)
    ),
    "inverses": train(lambda x: (linalg.inv(x), x.inverse() @ x), _batch),
    "inverse of a singular matrix error": static(linalg.inv, lambda n: (torch.zeros(3, 3),)),
    "solutions": train(
        lambda x: (
            linalg.solve(x, x[..., :1]),
            linalg.solve(x, x.mT),
            linalg.solve(x, x, left=False),
        ),
        _batch,
    ),
    "triangular solutions": train(
        lambda x: (
            linalg.solve_triangular(x.tril(), x, upper=False),
            linalg.solve_triangular(x, x[:, :1], upper=True, unitriangular=True),
        ),
        _square,
    ),
    "cholesky": train(
        lambda x: (
            linalg.cholesky(x),
            linalg.cholesky(x, upper=True),
            torch.cholesky_solve(x, linalg.cholesky(x)),
        ),
        _positive,
    ),
    "cholesky of an indefinite matrix error": static(lambda x: linalg.cholesky(-x), _positive),
    "qr": static(
        lambda x: (
            linalg.qr(x)[1].abs(),
            (linalg.qr(x)[0] @ linalg.qr(x)[1]),
            linalg.qr(x, mode="r")[1].abs(),
        ),
        matrix,
    ),
    "singular values": train(
        lambda x: (
            linalg.svdvals(x),
            linalg.matrix_norm(x, "nuc"),
            linalg.matrix_norm(x, 2),
            linalg.cond(x[:3]),
        ),
        matrix,
    ),
    "eigenvalues": train(lambda x: (linalg.eigvalsh(x), linalg.eigh(x)[0]), _positive),
    "general eigenvalues": static(lambda x: linalg.eigvals(x).abs().sort()[0], _square),
    "pseudo-inverse and rank": static(lambda x: (linalg.pinv(x), linalg.matrix_rank(x)), matrix),
    "least squares": static(lambda x, y: linalg.lstsq(x, y).solution, two_matrices),
    "lu": static(
        lambda x: (
            linalg.lu_factor(x)[0],
            linalg.lu(x)[1:],
            linalg.lu_solve(*linalg.lu_factor(x), x),
        ),
        _square,
    ),
    "matrix exponential and powers": train(
        lambda x: (linalg.matrix_exp(x / 5), linalg.matrix_power(x, 4), linalg.matrix_power(x, 0)),
        _square,
    ),
    "negative powers of matrices": static(lambda x: linalg.matrix_power(x, -2), _square),
    "matrix norms": train(
        lambda x: [linalg.matrix_norm(x, p) for p in ("fro", 1, math.inf, -1)], _batch
    ),
    "vecdot and cross": train(
        lambda x, y: (
            linalg.vecdot(x, y),
            linalg.cross(x, y),
            torch.linalg.multi_dot([x.t(), y, x.t()]),
        ),
        two_matrices,
    ),
    "vander": static(lambda x: (linalg.vander(x), torch.vander(x[0], 4, increasing=True)), matrix),
    # losses
    "margins": train(
        lambda x, y, s: (
            F.margin_ranking_loss(x[:, 0], y[:, 0], s, 0.1),
            F.hinge_embedding_loss(x[:, 0], s),
            F.soft_margin_loss(x[:, 0], s.detach()),
            F.cosine_embedding_loss(x, y, s.detach(), 0.2),
        ),
        _rows_and_signs,
    ),
    "triplets": train(
        lambda x, y: (
            F.triplet_margin_loss(x, y, x.roll(1, 0)),
            F.triplet_margin_with_distance_loss(x, y, x.flip(0)),
            F.triplet_margin_loss(x, y, y.flip(0), swap=True, p=1.0),
        ),
        two_matrices,
    ),
    "margins of classes": train(
        lambda x, t: (
            F.multi_margin_loss(x, t),
            F.multi_margin_loss(x, t, p=2, reduction="none"),
            F.multilabel_soft_margin_loss(x, F.one_hot(t, 3).float()),
        ),
        lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n,))),
    ),
    "margins of labels": static(
        F.multilabel_margin_loss,
        lambda n: (torch.randn(2, 4), tensor([[3, 0, -1, 1], [1, -1, 0, 2]])),
    ),
    "likelihoods": train(
        lambda x, y: (
            F.poisson_nll_loss(x, y.exp()),
            F.poisson_nll_loss(x.exp(), y.exp(), log_input=False, full=True),
            F.gaussian_nll_loss(x, y, x.exp()),
        ),
        two_matrices,
    ),
    "divergences": train(
        lambda x, y: (
            F.kl_div(x.log_softmax(1), y.softmax(1), reduction="sum"),
            F.kl_div(x.log_softmax(1), y.log_softmax(1), log_target=True, reduction="none"),
            F.mse_loss(x, y, reduction="none"),
            F.l1_loss(x, x),
            F.smooth_l1_loss(x, y, beta=0.0),
            F.huber_loss(x, y, delta=0.3),
        ),
        two_matrices,
    ),
    "mean squared error with weights": train(
        lambda x, y: F.mse_loss(x, y, weight=y.detach().abs()), two_matrices
    ),
    "loss of a broadcast target": train(
        lambda x, y: (
            F.mse_loss(x, y[:1]),
            F.l1_loss(x, y[0]),
            F.binary_cross_entropy_with_logits(x, y.sigmoid(), y[0].sigmoid().detach()),
        ),
        two_matrices,
    ),
    "ctc": train(_ctc, lambda n: (torch.randn(6, 2, 5), tensor([[1, 2, 3], [2, 2, 0]]))),
    "classes by probabilities": train(
        lambda x, y: (
            F.cross_entropy(x, y.softmax(1), label_smoothing=0.2),
            F.cross_entropy(x, y.softmax(1), reduction="none"),
            F.cross_entropy(x[0], y[0].softmax(0)),
        ),
        two_matrices,
    ),
    "classes in double and half": static(
        lambda x, t: (
            F.cross_entropy(x.double(), t),
            F.cross_entropy(x.half(), t),
            F.cross_entropy(x.bfloat16(), t, reduction="none"),
        ),
        lambda n: (torch.randn(n, 3), torch.randint(0, 3, (n,))),
    ),
    "one sample": train(
        lambda x, t: (
            F.cross_entropy(x, t),
            F.nll_loss(x.log_softmax(0), t),
            F.multi_margin_loss(x, t),
        ),
        lambda n: (torch.randn(3), tensor(1)),
    ),
    "no samples": static(
        lambda x, t: (
            F.cross_entropy(x, t),
            F.cross_entropy(x, t, reduction="sum"),
            F.mse_loss(x, x),
        ),
        lambda n: (torch.randn(0, 3), torch.empty(0, dtype=torch.int64)),
    ),
    "adaptive softmax": static(
        lambda m, x, t: m(x, t),
        lambda n: (
            nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2]),
            torch.randn(n, 4),
            torch.randint(0, 6, (n,)),
        ),
    ),
    # signals
    "spectra": train(
        lambda x: (
            torch.fft.rfft(x).abs(),
            torch.fft.fft(x, n=5).real,
            torch.fft.hfft(x),
            torch.fft.ihfft(x).imag,
        ),
        _signal,
    ),
    "spectra of two axes": static(
        lambda x: (
            torch.fft.rfft2(x),
            torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape),
            torch.fft.fftn(x, norm="ortho"),
            torch.fft.fft(x, dim=0),
        ),
        _signal,
    ),
    "frequencies and shifts": static(
        lambda x: (
            torch.fft.fftfreq(5),
            torch.fft.rfftfreq(4, 0.1),
            torch.fft.fftshift(x, 1),
            torch.fft.ifftshift(x),
        ),
        _signal,
    ),
    "norms of spectra": static(
        lambda x: [torch.fft.fft(x, norm=norm) for norm in ("forward", "backward", "ortho")],
        _signal,
    ),
    "stft": static(
        lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(),
        _signal,
    ),
    "istft": static(
        lambda x: torch.istft(
            torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True),
            8,
            4,
            window=torch.hann_window(8),
        ),
        _signal,
    ),
    "windows": static(
        lambda x: (
            torch.hann_window(5),
            torch.hamming_window(4),
            torch.blackman_window(5),
            torch.bartlett_window(4, periodic=False),
            torch.kaiser_window(4) + x[0, 0],
        ),
        _signal,
    ),
    "convolution of spectra": train(
        lambda x: torch.fft.irfft(torch.fft.rfft(x, 40) * torch.fft.rfft(x.flip(1), 40), 40),
        _signal,
    ),
    "gradient of samples": static(
        lambda x: (torch.gradient(x), torch.gradient(x, spacing=0.5, dim=1)), _signal
    ),
    # special functions
    "bessel": static(
        lambda x: (
            special.i0(x),
            special.i0e(x),
            special.i1(x),
            special.i1e(x),
            special.bessel_j0(x),
            special.bessel_j1(x),
            special.bessel_y0(x),
            special.bessel_y1(x),
        ),
        _unit,
    ),
    "modified bessel": static(
        lambda x: (
            special.modified_bessel_i0(x),
            special.modified_bessel_k0(x),
            special.scaled_modified_bessel_k1(x),
            special.spherical_bessel_j0(x),
        ),
        _unit,
    ),
    "polynomials": static(
        lambda x: (
            special.chebyshev_polynomial_t(x, 3),
            special.chebyshev_polynomial_u(x, 2),
            special.hermite_polynomial_h(x, 3),
            special.laguerre_polynomial_l(x, 2),
            special.legendre_polynomial_p(x, 4),
        ),
        _unit,
    ),
    "incomplete gamma": static(
        lambda x, y: (
            special.gammainc(x.abs(), y.abs()),
            special.gammaincc(x.abs(), y.abs()),
            torch.igamma(y.abs(), x.abs()),
        ),
        two_matrices,
    ),
    "gamma in several variables": train(
        lambda x: (
            special.multigammaln(x + 3, 3),
            special.gammaln(x),
            special.psi(x),
            special.polygamma(2, x),
        ),
        _unit,
    ),
    "logits and entropies": train(
        lambda x: (
            special.logit(x),
            special.entr(x),
            special.expit(x),
            special.xlog1py(x, x),
            special.logsumexp(x, 1),
        ),
        _unit,
    ),
    "quantiles of the normal distribution": train(
        lambda x: (special.ndtri(x), special.ndtr(x), special.erfinv(x), special.log_ndtr(x - 5)),
        _unit,
    ),
    "zeta": static(lambda x: (special.zeta(x + 2, x), special.zeta(x + 2, 3.0)), _unit),
    "round to even": static(
        lambda x: (
            special.round(x * 10, decimals=1),
            special.exp2(x),
            special.expm1(x),
            special.log1p(x),
            special.sinc(x),
        ),
        _unit,
    ),
    "airy": static(lambda x: special.airy_ai(x), _unit),
    # statistics and sets
    "histograms": static(
        lambda x: (torch.histc(x, 5), torch.histc(x, 3, -1, 1), torch.histogram(x, 4)[0]), matrix
    ),
    "quantiles": train(
        lambda x: (x.quantile(0.4), x.quantile(0.5, 0, True), x.nanquantile(0.25, 1)), matrix
    ),
    "quantiles by each rule": static(
        lambda x: [
            x.quantile(0.37, 0, interpolation=rule)
            for rule in ("linear", "lower", "higher", "midpoint", "nearest")
        ],
        matrix,
    ),
    "distances": train(
        lambda x, y: [torch.cdist(x, y, p) for p in (1.0, 2.0, math.inf, 3.0)], two_matrices
    ),
    "distances of many rows": static(
        lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")),
        lambda n: (torch.randn(30, 3), torch.randn(40, 3)),
    ),
    "distance to itself": train(
        lambda x: (torch.cdist(x, x), F.pairwise_distance(x, x + 1, p=1.0, keepdim=True)), matrix
    ),
    "similarities": every(
        lambda x, y: (
            F.cosine_similarity(x, y),
            F.cosine_similarity(x[:, None], y[None], dim=-1),
            F.normalize(x) @ F.normalize(y).t(),
        ),
        two_matrices,
    ),
    "covariances": train(
        lambda x: (x.cov(), x.t().corrcoef(), x[0].cov(), x.cov(fweights=tensor([1, 2, 1]))), matrix
    ),
    "segments": static(
        lambda x, s: torch.segment_reduce(x, "sum", lengths=s),
        lambda n: (torch.randn(5), tensor([2, 0, 3])),
    ),
    "masked reductions": static(
        lambda x: (torch.masked.sum(x, 1, mask=x > 0), torch.masked.mean(x, 0, mask=x > 0)), matrix
    ),
    "renorm": train(lambda x: (x.renorm(2, 0, 0.5), x.renorm(1, 1, 1.0)), matrix),
    "embedding with a largest norm": static(
        lambda i, w: (F.embedding(i, w, max_norm=0.5), w * 2),
        lambda n: (tensor([0, 2]), torch.randn(4, 3)),
    ),
    "products of sequences": static(
        lambda x, y: (
            torch.kron(x[:2], y[:2]),
            torch.outer(x[0], y[0]),
            torch.chain_matmul(x, y.t(), x),
            torch.cartesian_prod(x[0], y[0], x[1]),
        ),
        two_matrices,
    ),
    "combinations": static(
        lambda x: (
            torch.combinations(x[0], 2, True),
            torch.triu_indices(3, 4, 1),
            torch.tril_indices(3, 3),
        ),
        matrix,
    ),
    "broadcast shapes": static(
        lambda x, y: (torch.broadcast_shapes(x.shape, (2, 1, 3)), torch.broadcast_tensors(x, y[0])),
        two_matrices,
    ),
    "results of comparisons": static(
        lambda x, y: (
            torch.equal(x, y),
            torch.allclose(x, x),
            x.equal(x),
            torch.is_tensor(x),
            x.is_nonzero() if x.numel() == 1 else 0,
        ),
        two_matrices,
    ),
    "sums of products": train(
        lambda x, y: (
            torch.addr(x[:3], x[0], y[0]),
            torch.addmv(x[:, 0], y, x[0]),
            torch.addbmm(x[:, :3], y[None], x[None, :3]),
            torch.einsum("i,j->ij", x[0], y[0]),
        ),
        two_matrices,
    ),
    "einsum of three": train(
        lambda x, y: (
            torch.einsum("ij,kj,lj->ikl", x, y, x),
            torch.einsum("ij,ij,j->", x, y, x[0]),
            torch.einsum("ij->", x),
            torch.einsum("ij,k->kji", x, y[0]),
        ),
        two_matrices,
    ),
    "einsum with repeated axes": static(
        lambda x: (
            torch.einsum("ii->i", x),
            torch.einsum("ii", x),
            torch.einsum("ij,jj->i", x, x),
            torch.einsum("...ij->...ji", x),
        ),
        _square,
    ),
    # layers
    "alpha dropout and rrelu in eval": static(
        lambda x: (
            F.alpha_dropout(x, 0.5, False),
            F.rrelu(x, 0.1, 0.3, False),
            F.feature_alpha_dropout(x, 0.5, False),
        ),
        matrix,
    ),
    "grid_sample of a volume": train(
        lambda x, g: F.grid_sample(x, g, align_corners=True),
        lambda n: (torch.randn(1, 2, 3, 3, 3), torch.rand(1, 2, 2, 2, 3) * 2 - 1),
    ),
    "grid_sample by cubics": static(
        lambda x, g: [
            F.grid_sample(x, g, "bicubic", mode, False)
            for mode in ("zeros", "border", "reflection")
        ],
        lambda n: (torch.randn(1, 2, 4, 4), torch.rand(1, 3, 3, 2) * 3 - 1.5),
    ),
    "max_pool and its places": train(
        lambda x: (
            F.max_pool1d(x, 2, return_indices=True),
            F.adaptive_max_pool1d(x, 3, return_indices=True),
        ),
        lambda n: (torch.randn(2, 3, 8),),
    ),
    "lp_pool1d and unpool": train(
        lambda x: (
            F.lp_pool1d(x.exp(), 3, 2),
            F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
        ),
        lambda n: (torch.randn(2, 3, 8),),
    ),
    "pixel shuffles and channels": static(
        lambda x: (
            F.pixel_unshuffle(x, 2),
            F.channel_shuffle(x, 2),
            F.native_channel_shuffle(x, 4),
        ),
        lambda n: (torch.randn(1, 4, n, n),),
    ),
    "nested lists of padded rows": dynamic(
        lambda xs: nn.utils.rnn.pad_sequence(xs, batch_first=True, padding_value=-1.0),
        lambda n: ([torch.randn(n, 2), torch.randn(2, 2), torch.randn(1, 2)],),
    ),
    "parameters as one vector": train(
        lambda m, x: m(x).sum() + nn.utils.parameters_to_vector(m.parameters()).square().sum(),
        lambda n: (nn.Linear(3, 2), torch.randn(n, 3)),
    ),
    "clipped gradients": static(
        lambda x, y: (setattr(x, "grad", y), nn.utils.clip_grad_norm_([x], 0.5))[1], two_matrices
    ),
    "spectral norm in eval": static(
        lambda m, x: m(x),
        lambda n: (
            nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).eval(),
            torch.randn(n, 3),
        ),
    ),
    "orthogonal weights": static(
        lambda m, x: m(x),
        lambda n: (nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)), torch.randn(n, 3)),
    ),
    "fused layers": static(
        lambda m, x: m(x),
        lambda n: (
            nn.utils.fusion.fuse_linear_bn_eval(nn.Linear(3, 3).eval(), nn.BatchNorm1d(3).eval()),
            torch.randn(n, 3),
        ),
    ),
}
