"""Decide whether a difference from eager is a rounding error.

The program runs again in eager with every result perturbed by a few units in the last place, and in
float64. A result within the spread of these runs is accepted, so that a cancellation, or a step
function at its edge, is no find.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from .program import Program, Step, compiled, leaves, results_of, run_steps

RUNS = 6
# (relative, absolute), by dtype: differences that need no judge
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 2e-5),
    torch.float64: (1e-7, 1e-9),
}
# the relative perturbation of a result, in units in the last place of its dtype
UNITS = 8
SPREAD = 1.5  # the accepted distance, relative to the spread under noise
# parts of the names of operators whose error is relative to the largest number of a result
NORM_KEYS = ("fft_", "svd", "eigh", "eigvalsh", "pinv", "qr", "lstsq", "linalg_inv", "linalg_solve")
_NARROW = (torch.float16, torch.bfloat16)


def close(result: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0) -> bool:
    """Return whether two tensors are equal within the tolerance of their dtype."""
    if expected.dtype not in TOLERANCES:
        return torch.equal(result, expected)
    relative, absolute = (max(limit, tolerance) for limit in TOLERANCES[expected.dtype])
    return torch.allclose(
        result.double(), expected.double(), rtol=relative, atol=absolute, equal_nan=True
    )


class Judge:
    """The spread of a program's results under noise, computed at first use.

    ``shapes``: the sizes of the inputs; ``gradient``: whether gradients are compared, too. The
    results are those of `oracle.reference`: outputs, inputs after the call, gradients.
    """

    def __init__(self, program: Program, shapes: Sequence[tuple[int, ...]] | None, gradient: bool):
        self.program = program
        self.shapes = shapes
        self.gradient = gradient
        self._runs: list[list[Any]] | None = None
        self._overflows: bool | None = None

    def accepts(self, index: int, result: torch.Tensor, expected: torch.Tensor) -> bool:
        """Return whether rounding can yield ``result`` as the result at ``index``."""
        runs = [run[index] for run in self.runs() if index < len(run)]
        runs = [tensor for tensor in runs if isinstance(tensor, torch.Tensor)]
        if not result.is_complex():
            runs = [
                torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
                for tensor in runs
            ]
        if any(tensor.shape != expected.shape for tensor in runs):
            return True  # the shape depends on the numbers, and noise changes it
        if expected.is_floating_point() and not expected.isfinite().all() and self.overflows():
            # which sum overflows depends on the order of a kernel
            result = torch.where(expected.isfinite(), result, expected)
        tolerance = self.program.tolerance
        if self.gradient:  # gradients have no more digits than their results
            tolerance = max(tolerance, self._largest_tolerance())
        return within([expected, *runs], result, tolerance)

    def _largest_tolerance(self) -> float:
        """Return the tolerance of the narrowest dtype of the program."""
        recorder = _DtypeRecorder()
        self._run(0, wide=False, noise=recorder)
        return max((TOLERANCES[dtype][0] for dtype in recorder.dtypes & set(_NARROW)), default=0.0)

    def overflows(self) -> bool:
        """Return whether a step yields infinities or NaN from large finite numbers."""
        if self._overflows is None:
            detector = _OverflowDetector()
            self._run(0, wide=False, noise=detector)
            self._overflows = detector.overflowed
        return self._overflows

    def runs(self) -> list[list[Any]]:
        """Return the results under noise."""
        if self._runs is None:
            self._runs = []
            for number in range(RUNS):
                results = self._run(number, wide=number >= RUNS - 1)
                if results is not None:
                    self._runs.append(results)
            others = [self._run(0, wide=False, noise=n) for n in (_CONTIGUOUS, _POSITIVE_ZEROS)]
            self._runs += [run for run in others if run is not None]
        return self._runs

    def _run(self, number: int, wide: bool, noise: Any = None) -> list[Any] | None:
        from .oracle import reference

        generator = torch.Generator().manual_seed(number)
        noise = noise or _Noise(generator)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = reference(
                    self.program, self.shapes, self.gradient, noise=None if wide else noise,
                    wide=wide,
                )  # fmt: skip
        except Exception:
            return None
        return results


def _storages(values: list[Any]) -> set[int]:
    """Return the addresses of the memory of values, which a view among the results shares."""
    return {value.untyped_storage().data_ptr() for value in values if value.numel()}


class _Unperturbed:
    """A base of those that change no inputs."""

    def perturb(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """Return the value unchanged."""
        return value


class _Noise:
    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __call__(self, step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        if any(part in step.key for part in NORM_KEYS):
            return [self.perturb_by_norm(result) for result in results]
        storages = _storages(values)
        return [
            result
            if not result.is_floating_point() or result.untyped_storage().data_ptr() in storages
            else self.perturb(result, step.tolerance)
            for result in results
        ]

    def perturb_by_norm(self, value: torch.Tensor) -> torch.Tensor:
        """Perturb a result whose error is relative to its largest number."""
        if value.is_complex():
            return torch.view_as_complex(
                self.perturb_by_norm(torch.view_as_real(value.resolve_conj()).clone())
            )
        if not value.is_floating_point() or not value.numel():
            return value
        largest = value.abs().nan_to_num(0, 0, 0).max()
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return (value + largest * noise * UNITS * torch.finfo(value.dtype).eps).to(value.dtype)

    def perturb(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """Make each number a little larger or smaller."""
        units = 2 if value.dtype in _NARROW else UNITS
        step = max(units * torch.finfo(value.dtype).eps, tolerance)
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        noisy = (value * (1 + noise * step)).to(value.dtype) if value.numel() else value
        # a probability stays one, and a cosine too: operators refuse others
        return torch.where(value.abs() <= 1, noisy.clamp(-1, 1), noisy)


class _Contiguous:
    """Makes all results contiguous; some of eager's kernels are wrong for other strides."""

    def __call__(self, step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        storages = _storages(values)
        return [
            result if result.untyped_storage().data_ptr() in storages else result.contiguous()
            for result in results
        ]

    def perturb(self, value: torch.Tensor, tolerance: float = 0.0) -> torch.Tensor:
        """Return the value with contiguous strides."""
        return value.contiguous()


class _PositiveZeros(_Unperturbed):
    """Makes zeros of results positive; ONNX Runtime's Where loses the sign of its first choice."""

    def __call__(self, step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        storages = _storages(values)
        return [
            result
            if not result.is_floating_point() or result.untyped_storage().data_ptr() in storages
            else result + 0.0
            for result in results
        ]


class _DtypeRecorder(_Unperturbed):
    """Records the dtypes of all results, without noise."""

    def __init__(self) -> None:
        self.dtypes: set[torch.dtype] = set()

    def __call__(self, step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        self.dtypes |= {result.dtype for result in results}
        return results


class _OverflowDetector(_Unperturbed):
    """Detects infinities and NaN that result from large finite numbers, without noise."""

    def __init__(self) -> None:
        self.overflowed = False

    def __call__(self, step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        operands = [values[index] for index in step.operands if index < len(values)]
        floats = [
            item for item in operands if isinstance(item, torch.Tensor) and item.is_floating_point()
        ]
        is_large = any(bool((x.abs() > torch.finfo(x.dtype).max ** 0.5 / 8).any()) for x in floats)
        if is_large and all(bool(x.isfinite().all()) for x in floats):
            self.overflowed |= not all(bool(x.isfinite().all()) for x in results)
        return results


_CONTIGUOUS = _Contiguous()
_POSITIVE_ZEROS = _PositiveZeros()


def within(runs: Sequence[torch.Tensor], result: torch.Tensor, tolerance: float) -> bool:
    """Return whether each number of ``result`` lies in the range of the runs, or near it."""
    if not result.numel():
        return True
    if result.is_complex():
        result = torch.view_as_real(result.resolve_conj())
        runs = [torch.view_as_real(run.resolve_conj()) for run in runs]
    stack = torch.stack([run.detach().double() for run in runs])
    numbers = result.detach().double()
    same = ((stack == numbers) | (stack.isnan() & numbers.isnan())).any(0)
    if not result.is_floating_point():
        finite = torch.where(stack.isnan(), torch.zeros_like(stack), stack)
        low, high = finite.amin(0), finite.amax(0)
        return bool((same | ((numbers >= low) & (numbers <= high) & (low < high))).all())
    relative, absolute = (max(limit, tolerance) for limit in TOLERANCES[result.dtype])
    infinite = float("inf")
    low = torch.where(stack.isfinite(), stack, torch.full_like(stack, infinite)).amin(0)
    high = torch.where(stack.isfinite(), stack, torch.full_like(stack, -infinite)).amax(0)
    slack = (high - low) * SPREAD + absolute + relative * torch.maximum(low.abs(), high.abs())
    near = (numbers >= low - slack) & (numbers <= high + slack) & numbers.isfinite()
    # near the largest number, noise decides whether a result overflows
    largest = torch.finfo(result.dtype).max
    near_overflow = (stack.abs() > largest / 4).any(0) & (numbers.abs() > largest / 8)
    return bool((same | near | near_overflow).all())


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
