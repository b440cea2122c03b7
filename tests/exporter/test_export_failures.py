"""Errors of a failed torch.export name the model's line, the kind of failure and a remedy."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from ortable import ExportOptions, to_onnx
from ortable.errors import ExportError
from ortable.exporter.capture.export_failures import FAILURE_KINDS, is_user_file
from ortable.exporter.frontend.export_request import UserLine

X = torch.rand(4, 6)


def find_marked_line(text: str) -> int:
    """Return the number of the only line of this file that holds ``text`` and a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    numbers = [number for number, line in enumerate(lines, 1) if f"{text}  # <-" in line]
    assert len(numbers) == 1, numbers
    return numbers[0]


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # <- branch
            return x
        return -x


class Loop(torch.nn.Module):
    def forward(self, x, n):
        for _ in range(n.item()):  # <- loop
            x = x + 1
        return x


class FloatScale(torch.nn.Module):
    def forward(self, x):
        return x * float(x.max())  # <- float


class NonzeroRows(torch.nn.Module):
    def forward(self, x):
        index = x.nonzero()
        if index.shape[0] > 2:  # <- size
            return index[:2]
        return index


class NumPy(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() + 1)  # <- numpy


class RaisingModule(torch.nn.Module):
    def forward(self, x):
        raise KeyError("no such thing")  # <- raise


class Point:
    def __init__(self, x):
        self.x = x


class ObjectResult(torch.nn.Module):
    def forward(self, x):
        return Point(x)


class FixedView(torch.nn.Module):
    def forward(self, x):
        return x.view(4, 6) if x.shape[0] == 4 else x  # <- fixed


class SeededNoise(torch.nn.Module):
    def forward(self, x):
        torch.manual_seed(0)  # <- python
        return x + torch.rand(4, 6)


class Nested(torch.nn.Module):
    """A module whose submodule fails, so that the error names the submodule's line."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Branch()

    def forward(self, x):
        return self.inner(torch.relu(x))


def export_failure(module, *args, dynamic_shapes=None, **options) -> ExportError:
    with pytest.raises(ExportError) as raised:
        to_onnx(
            module,
            args,
            dynamic_shapes=dynamic_shapes,
            export_options=ExportOptions(**options),
        )
    return raised.value


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("module", "args", "mark", "kind", "advice"),
    [
        (Branch(), (X,), "if x.sum() > 0:", "a branch depends on the values", "torch.cond"),
        (
            Loop(),
            (X, torch.tensor(3)),
            "for _ in range(n.item()):",
            "a tensor becomes a Python number",
            "torch.while_loop",
        ),
        (
            NonzeroRows(),
            (X,),
            "if index.shape[0] > 2:",
            "a branch depends on a size that depends on data",
            "torch._check",
        ),
    ],
    ids=["branch", "loop", "size"],
)
def test_the_line_the_kind_and_the_advice(module, args, mark, kind, advice, strict) -> None:
    error = export_failure(module, *args, strict=strict)
    text = str(error)
    assert f"could not trace {type(module).__name__}: {kind}" in text
    assert f"{__file__}:{find_marked_line(mark)}, in forward\n    {mark}" in text
    assert advice in text.partition("What may help:")[2]
    assert error.__cause__ is not None
    assert not isinstance(error.__cause__, ExportError)


@pytest.mark.parametrize(
    ("module", "mark", "kind", "advice"),
    [
        (FloatScale(), "return x * float(x.max())", "a tensor becomes a Python number", "x * t"),
        (
            NumPy(),
            "return torch.from_numpy(x.numpy() + 1)",
            "the values of a tensor leave torch",
            "strict=True",
        ),
        (
            RaisingModule(),
            'raise KeyError("no such thing")',
            "raises on the example inputs, without torch.export too",
            "no such thing",
        ),
    ],
    ids=["float", "numpy", "raise"],
)
def test_failures_of_the_python_code_that_runs(module, mark, kind, advice) -> None:
    text = str(export_failure(module, X, strict=False))
    assert kind in text and advice in text
    assert f"{__file__}:{find_marked_line(mark)}, in forward" in text


def test_the_line_is_in_the_innermost_module() -> None:
    assert f":{find_marked_line('if x.sum() > 0:')}, in forward" in str(export_failure(Nested(), X))


@pytest.mark.parametrize("strict", [False, True])
def test_a_dimension_that_cannot_vary_names_the_line_that_fixes_it(strict) -> None:
    error = export_failure(FixedView(), X, dynamic_shapes={"x": {0: Dim("n")}}, strict=strict)
    text = str(error)
    assert "input 'x', dimension 0 (n), size 4" in text
    assert "The code that decides on a size:" in text
    number = find_marked_line("return x.view(4, 6) if x.shape[0] == 4 else x")
    assert f"test_export_failures.py:{number}, in forward" in text
    assert "return x.view(4, 6)" in text


def test_an_unknown_class_among_the_results() -> None:
    text = str(export_failure(ObjectResult(), X))
    assert "Point" in text and "register_pytree_node" in text


def test_a_cache_among_the_results_names_the_region_that_helps() -> None:
    class SomeCache:
        pass

    class CacheResult(torch.nn.Module):
        def forward(self, x):
            return x, SomeCache()

    assert "bypass_export_some_errors" in str(export_failure(CacheResult(), X))


def test_python_that_dynamo_does_not_read() -> None:
    text = str(export_failure(SeededNoise(), X, strict=True))
    assert f":{find_marked_line('torch.manual_seed(0)')}, in forward" in text
    assert "ExportOptions(strict=False)" in text


def test_an_operator_without_a_shape_function() -> None:
    @torch.library.custom_op("ortable_help::no_shapes", mutates_args=())
    def no_shapes(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    class CustomOp(torch.nn.Module):
        def forward(self, x):
            return no_shapes(x)

    text = str(export_failure(CustomOp(), X))
    assert "an operator without a shape function in torch" in text
    assert "torch.library.register_fake" in text


def test_torchs_words_are_kept_without_its_own_log_hints() -> None:
    text = str(export_failure(Branch(), X))
    assert "GuardOnDataDependentSymNode" in text
    for hint in ("TORCH_LOGS", "TORCHDYNAMO", "draft_export()"):
        assert hint not in text


def test_every_kind_says_what_may_help_and_the_last_fits_everything() -> None:
    assert all(kind.advice for kind in FAILURE_KINDS)
    assert FAILURE_KINDS[-1].pattern.search("builtins.RuntimeError: whatever")


def test_lines_of_torch_and_of_python_are_not_the_users() -> None:
    assert is_user_file(__file__)
    assert not is_user_file(torch.__file__)
    assert not is_user_file(random.__file__)
    assert str(UserLine("nowhere.py", 3, "forward")) == "nowhere.py:3, in forward"
