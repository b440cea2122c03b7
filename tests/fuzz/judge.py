"""Whether a difference from eager is one of rounding. The program runs again in eager with every
result moved by a few units in the last place, and in float64: what eager itself gives under such
noise is accepted, so a cancellation, or a step function at its edge, is no find. Asked by `oracle`
for what is not close at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from .program import Program, Step, compiled, leaves, results_of, run_steps

RUNS = 6
# relative and absolute, by dtype: what is close without a judge
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 2e-5),
    torch.float64: (1e-7, 1e-9),
}
# how far a result is moved, relative to itself: units in the last place of its dtype
UNITS = 8
WIDENED = 1.5  # how much further than the noise a result may be
# parts of the names of operators whose error is relative to a norm: small numbers beside large ones
# have no digit
BY_NORM = ("fft_", "svd", "eigh", "eigvalsh", "pinv", "qr", "lstsq", "linalg_inv", "linalg_solve")
_NARROW = (torch.float16, torch.bfloat16)


def close(got: torch.Tensor, wanted: torch.Tensor, tolerance: float = 0.0) -> bool:
    """Whether two tensors are equal but for the tolerance of their dtype."""
    if wanted.dtype not in TOLERANCES:
        return torch.equal(got, wanted)
    relative, absolute = (max(each, tolerance) for each in TOLERANCES[wanted.dtype])
    return torch.allclose(
        got.double(), wanted.double(), rtol=relative, atol=absolute, equal_nan=True
    )


class Judge:
    """What noise does to the results of a program, computed at the first question.

    ``shapes``: the sizes of the inputs; ``cotangents``: of a program whose gradients count, too.
    The results are those of `oracle.reference`: outputs, inputs after the call, gradients.
    """

    def __init__(self, program: Program, shapes: Sequence[tuple[int, ...]] | None, gradient: bool):
        self.program = program
        self.shapes = shapes
        self.gradient = gradient
        self._runs: list[list[Any]] | None = None
        self._overflows: bool | None = None

    def accepts(self, place: int, got: torch.Tensor, wanted: torch.Tensor) -> bool:
        """Whether ``got`` could be the result at ``place``, all rounding considered."""
        runs = [run[place] for run in self.runs() if place < len(run)]
        runs = [each for each in runs if isinstance(each, torch.Tensor)]
        if not got.is_complex():
            runs = [
                torch.view_as_real(each.resolve_conj()) if each.is_complex() else each
                for each in runs
            ]
        if any(each.shape != wanted.shape for each in runs):
            return True  # the numbers decide the shape, and noise another one
        if wanted.is_floating_point() and not wanted.isfinite().all() and self.overflows():
            # what overflows first depends on the order of a kernel's sums
            got = torch.where(wanted.isfinite(), got, wanted)
        tolerance = self.program.tolerance
        if self.gradient:  # the gradients of results of few digits have few digits
            tolerance = max(tolerance, self._coarsest())
        return within([wanted, *runs], got, tolerance)

    def _coarsest(self) -> float:
        """The tolerance of the narrowest dtype of the program."""
        watched = _Seen()
        self._run(0, wide=False, noise=watched)
        return max((TOLERANCES[each][0] for each in watched.dtypes & set(_NARROW)), default=0.0)

    def overflows(self) -> bool:
        """Whether a step makes infinities or NaN of large finite numbers."""
        if self._overflows is None:
            watched = _Overflow()
            self._run(0, wide=False, noise=watched)
            self._overflows = watched.seen
        return self._overflows

    def runs(self) -> list[list[Any]]:
        """The results under noise."""
        if self._runs is None:
            self._runs = []
            for number in range(RUNS):
                found = self._run(number, wide=number >= RUNS - 1)
                if found is not None:
                    self._runs.append(found)
            others = [self._run(0, wide=False, noise=each) for each in (_EVEN, _UNSIGNED)]
            self._runs += [each for each in others if each is not None]
        return self._runs

    def _run(self, number: int, wide: bool, noise: Any = None) -> list[Any] | None:
        from .oracle import reference

        generator = torch.Generator().manual_seed(number)
        noise = noise or _Noise(generator)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = reference(
                    self.program, self.shapes, self.gradient, noise=None if wide else noise,
                    wide=wide,
                )  # fmt: skip
        except Exception:
            return None
        return found


class _Noise:
    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __call__(self, step: Step, before: list[Any], made: list[Any]) -> list[Any]:
        if any(part in step.key for part in BY_NORM):
            return [self.transformed(each) for each in made]
        taken = {each.untyped_storage().data_ptr() for each in before if each.numel()}
        return [
            each
            if not each.is_floating_point() or each.untyped_storage().data_ptr() in taken
            else self.moved(each, step.tolerance)
            for each in made
        ]

    def transformed(self, value: torch.Tensor) -> torch.Tensor:
        """A result whose error is relative to its largest number."""
        if value.is_complex():
            return torch.view_as_complex(
                self.transformed(torch.view_as_real(value.resolve_conj()).clone())
            )
        if not value.is_floating_point() or not value.numel():
            return value
        largest = value.abs().nan_to_num(0, 0, 0).max()
        drawn = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return (value + largest * drawn * UNITS * torch.finfo(value.dtype).eps).to(value.dtype)

    def moved(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """The value, each number a little larger or smaller."""
        units = 2 if value.dtype in _NARROW else UNITS
        step = max(units * torch.finfo(value.dtype).eps, tolerance)
        drawn = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return (value * (1 + drawn * step)).to(value.dtype) if value.numel() else value


class _Even:
    """No noise, but everything is contiguous: some of eager's kernels are wrong where it is not."""

    def __call__(self, step: Step, before: list[Any], made: list[Any]) -> list[Any]:
        taken = {each.untyped_storage().data_ptr() for each in before if each.numel()}
        return [
            each if each.untyped_storage().data_ptr() in taken else each.contiguous()
            for each in made
        ]

    def moved(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """The value, with plain strides."""
        return value.contiguous()


class _Unsigned:
    """No noise, but no result is -0.0: ONNX Runtime's Where loses the sign of a zero that it takes
    from its first choice, and many lowerings end in one. Zeros that are fed keep theirs."""

    def __call__(self, step: Step, before: list[Any], made: list[Any]) -> list[Any]:
        taken = {each.untyped_storage().data_ptr() for each in before if each.numel()}
        return [
            each
            if not each.is_floating_point() or each.untyped_storage().data_ptr() in taken
            else each + 0.0
            for each in made
        ]

    def moved(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """The value as it is."""
        return value


class _Seen:
    """No noise, but it notes the dtypes of all results."""

    def __init__(self) -> None:
        self.dtypes: set[torch.dtype] = set()

    def __call__(self, step: Step, before: list[Any], made: list[Any]) -> list[Any]:
        self.dtypes |= {each.dtype for each in made}
        return made

    def moved(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """The value as it is."""
        return value


class _Overflow:
    """No noise, but it looks for infinities and NaN that come of large finite numbers."""

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, step: Step, before: list[Any], made: list[Any]) -> list[Any]:
        given = [before[place] for place in step.operands if place < len(before)]
        floats = [e for e in given if isinstance(e, torch.Tensor) and e.is_floating_point()]
        large = any(
            bool((each.abs() > torch.finfo(each.dtype).max ** 0.5 / 8).any()) for each in floats
        )
        if large and all(bool(each.isfinite().all()) for each in floats):
            self.seen |= not all(bool(each.isfinite().all()) for each in made)
        return made

    def moved(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """The value as it is."""
        return value


_EVEN = _Even()
_UNSIGNED = _Unsigned()


def within(runs: Sequence[torch.Tensor], got: torch.Tensor, tolerance: float) -> bool:
    """Whether each number of ``got`` lies where the runs lie, or near it."""
    if not got.numel():
        return True
    if got.is_complex():
        got = torch.view_as_real(got.resolve_conj())
        runs = [torch.view_as_real(each.resolve_conj()) for each in runs]
    stack = torch.stack([each.detach().double() for each in runs])
    ours = got.detach().double()
    same = ((stack == ours) | (stack.isnan() & ours.isnan())).any(0)
    if not got.is_floating_point():
        finite = torch.where(stack.isnan(), torch.zeros_like(stack), stack)
        low, high = finite.amin(0), finite.amax(0)
        return bool((same | ((ours >= low) & (ours <= high) & (low < high))).all())
    relative, absolute = (max(each, tolerance) for each in TOLERANCES[got.dtype])
    infinite = float("inf")
    low = torch.where(stack.isfinite(), stack, torch.full_like(stack, infinite)).amin(0)
    high = torch.where(stack.isfinite(), stack, torch.full_like(stack, -infinite)).amax(0)
    reach = (high - low) * WIDENED + absolute + relative * torch.maximum(low.abs(), high.abs())
    near = (ours >= low - reach) & (ours <= high + reach) & ours.isfinite()
    # what overflows under some noise may do so or not
    largest = torch.finfo(got.dtype).max
    brink = (stack.abs() > largest / 4).any(0) & (ours.abs() > largest / 8)
    return bool((same | near | brink).all())


__all__ = [
    "TOLERANCES",
    "Judge",
    "close",
    "compiled",
    "leaves",
    "results_of",
    "run_steps",
    "within",
]
