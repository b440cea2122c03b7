"""Conditions on sizes that Python code decided for the example: found, told, kept with the model,
and met by the sizes of validation."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch.export import Dim

import ortable
from ortable import ExportOptions, bypass_export_some_errors, to_onnx
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.capture import guards
from ortable.exporter.capture.guard_proofs import is_implied
from ortable.exporter.frontend.export_request import Guard, Program
from ortable.exporter.reporting import example_sizes
from tests.modules import FunctionOfX

THIS = Path(__file__).name


class Residue(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] % 8 == 7:
            return x * 2
        return x + 1


class Short(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] < 10 else x


class Surplus(torch.nn.Module):
    def forward(self, whole, past, new):
        if whole.shape[0] - past.shape[0] - new.shape[0] > 0:
            return whole * 2
        return torch.cat([past, new]) * 3


class Equal(torch.nn.Module):
    def forward(self, x, y):
        return x.sum() + y if x.shape[0] == y.shape[0] else x.sum() - y


class Longer(torch.nn.Module):
    def forward(self, x, y):
        return x.sum() + y if x.shape[0] > y.shape[0] + 1 else x.sum() - y


class Chunks(torch.nn.Module):
    """As Mamba2 computes: in chunks of 8 steps, the last one filled up."""

    def forward(self, x):
        steps = x.shape[1]
        pad = (8 - steps % 8) % 8
        y = torch.nn.functional.pad(x, (0, 0, 0, pad)).reshape(x.shape[0], -1, 8, x.shape[-1])
        y = y.cumsum(1).reshape(x.shape[0], -1, x.shape[-1])
        if pad > 0:
            y = y[:, :steps]
        return y


class Cut(torch.nn.Module):
    """A slice that has every row of the example."""

    def forward(self, x):
        y = x[:10]
        return y.reshape(y.shape[0] * 3)


class MoreThanTwo(torch.nn.Module):
    """A branch that the smallest size alone takes."""

    def forward(self, x):
        return x * 2 if x.shape[0] > 2 else x


class NoThousand(torch.nn.Module):
    """A branch that one size alone takes."""

    def forward(self, x):
        return x * 2 if x.shape[0] != 1000 else x


class Head(torch.nn.Module):
    def forward(self, x):
        y = x[:5]
        return y.reshape(y.shape[0] * 3)


class Last(torch.nn.Module):
    def forward(self, x):
        y = x[-10:]
        return y.reshape(y.shape[0] * 3)


class Always(torch.nn.Module):
    """Branches that no size takes."""

    def forward(self, x):
        n = x.shape[0]
        pad = -n % 4
        if (n + pad) // 4 == 0 or (n + pad) % 4 != 0 or n * n < n:
            return x
        return x.reshape(x.shape[0], -1, 3) + 1


def export(module: Any, args: Any, shapes: Any, **options: Any) -> Any:
    """The model, the record, and what was told."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model, builder = to_onnx(
            module,
            args,
            dynamic_shapes=shapes,
            export_options=ExportOptions(**options),
            return_builder=True,
            validate=True,
        )
    texts = [str(each.message) for each in told if each.filename == __file__]
    return model, builder.record, "\n".join(texts)


def metadata(model: Any) -> str:
    return next((p.value for p in model.metadata_props if p.key == "ortable.guards"), "")


def line_of(code: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == code)


X = torch.rand(7, 3)
LONG, SHORT = torch.rand(9), torch.rand(5)
ROWS = {"x": {0: "rows"}}
BOTH = {"x": {0: "a"}, "y": {0: "b"}}


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    ("module", "args", "shapes", "expected", "strict"),
    [
        (Residue(), (X,), ROWS, "rows % 8 == 7", False),
        (Residue(), (X,), {"x": {0: Dim.AUTO}}, "x.shape[0] % 8 == 7", False),
        (Short(), (X,), ROWS, "rows < 10", False),
        (MoreThanTwo(), (X,), ROWS, "rows > 2", False),
        (Longer(), (LONG, SHORT), BOTH, "a > 1 + b", False),
        (Equal(), (SHORT, SHORT), BOTH, "a == b", False),
        (Equal(), (SHORT, SHORT), BOTH, "a == b", True),
        (Chunks(), (torch.rand(2, 13, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 > 0", True),
        (Chunks(), (torch.rand(2, 13, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 > 0", False),
        (Chunks(), (torch.rand(2, 16, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 <= 0", False),
    ],
)
def test_a_branch_on_a_size_is_told(module, args, shapes, expected, strict) -> None:
    model, record, told = export(module, args, shapes, strict=strict)
    assert [guard.text for guard in record.guards] == [expected]
    assert record.guards[0].line is not None and THIS in record.guards[0].line.file
    assert f"the model holds only for sizes with\n  {expected}\n    at " in told
    assert metadata(model).startswith(f"{expected} ({THIS}:")
    assert len(record.comparisons) >= 2
    assert not any(comparison.problem for comparison in record.comparisons)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    ("module", "code", "expected"),
    [
        (Cut(), "y = x[:10]", "rows < 10"),
        (Head(), "y = x[:5]", "rows >= 5"),
        (Last(), "y = x[-10:]", "rows < 10"),
    ],
)
def test_the_end_of_a_slice_is_told(module, code, expected) -> None:
    """torch asks by itself, and eager raises at no size; dynamo keeps the line that it read."""
    for strict in (False, True):
        model, record, told = export(module, (X,), ROWS, strict=strict)
        assert [guard.text for guard in record.guards] == [expected]
        assert f"the model holds only for sizes with\n  {expected}\n" in told
        place = f" ({THIS}:{line_of(code)})" if strict else ""
        assert metadata(model) == expected + place
        assert not any(comparison.failed for comparison in record.comparisons)
    shapes = {"x": {0: Dim.DYNAMIC(min=5, max=9)}}
    assert export(module, (X,), shapes)[1].guards == []


def test_the_message_quotes_the_line() -> None:
    _, record, told = export(Residue(), (X,), ROWS)
    code = "if x.shape[0] % 8 == 7:"
    assert f"{__file__}:{line_of(code)}, in forward\n    {code}" in told
    assert [comparison.inputs for comparison in record.comparisons] == ["example", "rows=15"]


@pytest.mark.parametrize(
    ("module", "args", "shapes"),
    [
        (Always(), (torch.rand(5, 6),), ROWS),
        (Short(), (X,), {"x": {0: Dim("rows", max=9)}}),
        (Short(), (X,), {"x": {0: Dim.DYNAMIC(max=9)}}),
        (Short(), (X,), None),
        (Equal(), (SHORT, SHORT), {"x": {0: "n"}, "y": {0: "n"}}),
        (Longer(), (LONG, SHORT), {"x": {0: Dim("a", min=8)}, "y": {0: Dim("b", max=6)}}),
        (
            Surplus(),
            (torch.rand(9), torch.rand(5), torch.rand(4)),
            {"whole": {0: "past + new"}, "past": {0: "past"}, "new": {0: "new"}},
        ),
    ],
)
def test_what_the_dynamic_shapes_imply_is_not_told(module, args, shapes) -> None:
    model, record, told = export(module, args, shapes)
    assert record.guards == [] and told == "" and metadata(model) == ""


def test_a_size_that_torch_takes_for_one_is_told() -> None:
    """One chunk: the program has no second, and torch's own code decided it."""
    _, record, _ = export(Chunks(), (torch.rand(2, 5, 3),), {"x": {1: "n"}})
    texts = [guard.text for guard in record.guards]
    assert "(n + (8 - (n % 8)) % 8) // 8 == 1" in texts
    outside = [c.problem for c in record.comparisons if c.problem]
    assert all(problem.startswith("not compared: the model holds only") for problem in outside)


def test_an_error_or_nothing_instead_of_a_warning() -> None:
    with pytest.raises(ExportError, match=r"holds only for sizes with\n  rows % 8 == 7\n    at "):
        export(Residue(), (X,), ROWS, guards="error")
    model, _, told = export(Residue(), (X,), ROWS, guards="ignore")
    assert told == "" and metadata(model).startswith("rows % 8 == 7")
    with pytest.raises(OptionError, match="guards is one of"):
        ExportOptions(guards="no")


def test_guards_of_programs_and_of_saved_ones(tmp_path: Path) -> None:
    program = torch.export.export(Longer(), (LONG, SHORT), dynamic_shapes=[{0: Dim.AUTO}] * 2)
    expected = "x.shape[0] > 1 + y.shape[0]"
    for given, places in ((program, f" ({THIS}:{record_line()})"), (_saved(program), "")):
        model, record, told = export(given, (), None)
        assert metadata(model) == expected + places and expected in told
        assert {c.inputs for c in record.comparisons[1:]} == {"s0=10, s1=7", "s0=4, s1=1"}
    quiet = torch.export.export(Always(), (torch.rand(5, 6),), dynamic_shapes=[{0: Dim.AUTO}])
    for given in (quiet, _saved(quiet)):
        assert export(given, (), None)[2] == ""


class Below(torch.nn.Module):
    """A branch far from the sizes of the example."""

    def __init__(self, bound: int, step: int = 1) -> None:
        super().__init__()
        self.bound, self.step = bound, step

    def forward(self, x):
        return x * 2 if x.shape[0] // self.step < self.bound else x


@pytest.mark.parametrize(("bound", "step"), [(300, 1), (1_000_000, 1), (200, 8)])
def test_a_saved_guard_is_tried_around_its_own_numbers(bound: int, step: int) -> None:
    program = torch.export.export(Below(bound, step), (X,), dynamic_shapes=[{0: Dim.AUTO}])
    expected = f"x.shape[0]{f' // {step}' * (step > 1)} < {bound}"
    model, _, told = export(_saved(program), (), None)
    assert metadata(model) == expected and expected in told


def test_a_saved_guard_that_one_size_does_not_meet_is_told() -> None:
    program = torch.export.export(NoThousand(), (X,), dynamic_shapes=[{0: Dim.AUTO}])
    model, _, told = export(_saved(program), (), None)
    assert metadata(model) == "x.shape[0] != 1000" and "x.shape[0] != 1000" in told


def record_line() -> int:
    return line_of("return x.sum() + y if x.shape[0] > y.shape[0] + 1 else x.sum() - y")


def _saved(program: Any) -> Any:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("L['args'][0]._base.size()[1] > 11", "args[0]._base.shape[1] > 11"),
        ("12 <= 4*L['x'].size()[0]", "12 <= 4 * x.shape[0]"),
        ("L['flat_args'][1]._base.size()[1] > 11", "second._base.shape[1] > 11"),
        ("L['kwargs']['k'][2].size()[1] > 11", "kwargs['k'][2].shape[1] > 11"),
    ],
)
def test_a_saved_guard_names_what_it_reads(code: str, text: str) -> None:
    """`_base` is that of an argument which is a view when the program is captured."""
    guard = guards._from_code(code, {"flat_args[0]": "first", "flat_args[1]": "second"}, [])
    assert guard is not None and guard.text == text


class Scaled(torch.nn.Module):
    """A condition on a rounded size of a tensor inside of an argument."""

    def forward(self, held):
        y = torch.nn.functional.interpolate(held["the input"], scale_factor=1.5)
        return y * 2 if y.shape[2] > 7 else y


@pytest.mark.parametrize("strict", [True, False])
def test_a_saved_program_refuses_sizes_of_what_is_inside_an_argument(
    strict: bool, tmp_path: Path
) -> None:
    """Guards are texts there; those of torch.sym_float are arithmetic, and a key is any text."""
    call, path = ({"the input": torch.rand(1, 2, 6)},), tmp_path / "scaled.pt2"
    shapes = ({"the input": {2: Dim.AUTO}},)
    torch.export.save(
        torch.export.export(Scaled(), call, dynamic_shapes=shapes, strict=strict), path
    )
    with pytest.warns(UserWarning, match=r"sym_float\(held_the_input.shape\[2\]\)\) > 7"):
        program = ortable.export(path)
    longer, shorter = (({"the input": torch.rand(1, 2, size)},) for size in (8, 4))
    torch.testing.assert_close(program(*longer), Scaled()(*longer))
    with pytest.raises(InputError, match=r"holds only for sizes with math\.trunc"):
        program(*shorter)


def test_the_report_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    options = ExportOptions(guards="ignore")
    to_onnx(Short(), (X,), dynamic_shapes=ROWS, export_options=options, report=path)
    assert f"## Sizes that the model holds for\n\n- rows < 10 ({THIS}:" in path.read_text()


def test_sizes_that_meet_a_guard_are_looked_for_in_bounds() -> None:
    """Twenty dimensions have a million combinations; the nearest are tried, in this order."""
    seen: list[dict[str, int]] = []

    def holds(values: Any) -> bool:
        assert len(seen) < 2000
        seen.append(dict(values))
        return False

    symbols = [sympy.Symbol(f"s{index}") for index in range(20)]
    names = {symbol: str(symbol) for symbol in symbols}
    program = Program(torch.fx.GraphModule({}, torch.fx.Graph()))
    program.guards = [Guard("never", None, holds)]
    assert example_sizes._satisfy_guards(dict.fromkeys(symbols, 3), names, program, {}) is None
    assert 100 < len(seen) <= 1000
    sums = [sum(trial.values()) for trial in seen]
    assert sums == sorted(sums) and len({tuple(trial.values()) for trial in seen}) == len(seen)
    every = sorted(itertools.product(range(4), repeat=3), key=sum)
    assert list(example_sizes._by_sum(3, 4)) == every


def test_proofs() -> None:
    n, m = sympy.Symbol("n", integer=True, positive=True), sympy.Symbol("m", integer=True)
    from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

    def proved(relation: Any, least: int = 2, most: int | None = None) -> bool:
        return is_implied(relation, {n: (least, most), m: (2, None)})

    assert proved(n > 1) and not proved(n > 2) and proved(n > 2, least=3)
    assert proved(sympy.Ne(n, 1)) and not proved(sympy.Ne(n, 1), least=1)
    assert proved(n < 10, most=9) and not proved(n < 10, most=10)
    assert proved(n + m > n) and not proved(n > m)
    assert proved(sympy.Ne(FloorDiv(n + PythonMod(-n, 4), 4), 0))
    assert proved(sympy.Eq(Mod(n + PythonMod(-n, 4), 4), 0))
    assert not proved(sympy.Eq(Mod(n, 4), 0)) and not proved(sympy.Ne(Mod(n, 4), 3))
    assert proved(sympy.Or(n > 100, n > 1)) and not proved(sympy.And(n > 100, n > 1))
    assert proved(Mod(n, 7) < 7) and not proved(sympy.Ne(5 - n, 0))
    assert proved(sympy.Ne(5 - n, 0), least=6)


def test_a_region_of_patches_changes_nothing_of_who_asked() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x + 1

    options = ExportOptions(guards="error", strict=False, fallback=False)
    texts = []
    for region in (contextlib.nullcontext(), bypass_export_some_errors()):
        with region, pytest.raises(ExportError) as caught:
            program = torch.export.export(
                Branch(), (torch.rand(5, 2),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
            )
            to_onnx(program, export_options=options)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and "in forward" in texts[0]


# -- sizes that operators take as plain numbers ---------------------------------------------------


def attention(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=1 / x.shape[2])


BAKED = {
    "scale of attention": (attention, "1 / n == 0.125"),
    "eps": (
        lambda x: torch.nn.functional.layer_norm(x[..., :4], (4,), eps=x.shape[2] * 0.5),
        "0.5 * n == 4.0",
    ),
    "bins": (lambda x: torch.histc(x, bins=x.shape[2] // 2), "n // 2 == 4"),
    "groups": (
        lambda x: torch.nn.functional.group_norm(x.transpose(1, 2), x.shape[2] // 4),
        "n // 4 == 2",
    ),
    "diagonal": (lambda x: x.diagonal(x.shape[2] // 3, 1, 2), "n // 3 == 2"),
    "scale of sizes": (
        lambda x: torch.nn.functional.interpolate(x, scale_factor=24 / x.shape[2]),
        "24 / n == 3.0",
    ),
    "classes": (
        lambda x: torch.nn.functional.one_hot(x[0, 0, :4].gt(0).long(), x.shape[2] // 2),
        "n // 2 == 4",
    ),
    "quantile": (lambda x: x.quantile(1 / x.shape[2], dim=2), "1 / n == 0.125"),
    "beta": (lambda x: torch.nn.functional.smooth_l1_loss(x, -x, beta=1 / x.shape[2]), "1 / n"),
}


def _told(model) -> str:
    """The guards in the metadata of a model."""
    return {each.key: each.value for each in model.metadata_props}.get("ortable.guards", "")


@pytest.mark.parametrize(("function", "text"), BAKED.values(), ids=BAKED)
def test_a_size_that_became_a_number_of_an_operator_is_a_guard(function, text, tmp_path) -> None:
    """torch puts the number of the example in, which was silently that of every call."""
    module, x = FunctionOfX(function), torch.randn(2, 3, 8)
    with pytest.warns(UserWarning, match="holds only for sizes with"):
        program = ortable.export(module, (x,), dynamic_shapes={"x": {2: "n"}})
    assert text in _told(program.model_proto)
    torch.testing.assert_close(program(x), module(x))
    saved = torch.export.export(module, (x,), dynamic_shapes=({2: Dim.AUTO},))
    torch.export.save(saved, tmp_path / "saved.pt2")
    with pytest.warns(UserWarning, match="holds only for sizes with"):
        again = ortable.export(tmp_path / "saved.pt2")
    for call in (program, again):
        for size in (12, 15):
            with pytest.raises(InputError, match="the model holds only for sizes with"):
                call(torch.randn(2, 3, size))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.chunk(2, dim=2)[0],
        lambda x: torch.nn.functional.glu(x, 2),
        lambda x: x.view(2, 3, 2, x.shape[2] // 2),
        lambda x: torch.roll(x, x.shape[2] // 2, 2),
        lambda x: x.abs().pow(x.shape[2] // 4),
        lambda x: x.clamp(max=1 / x.shape[2]),
        # instead of scale=1 / x.shape[2]
        lambda x: torch.nn.functional.scaled_dot_product_attention(x / x.shape[2], x, x, scale=1.0),
    ],
)
def test_a_size_that_the_graph_computes_with_is_none(function) -> None:
    module, x = FunctionOfX(function), torch.randn(2, 3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = ortable.export(module, (x,), dynamic_shapes={"x": {2: "n"}})
    assert not _told(program.model_proto)
    for size in (4, 10, 12, 100):
        y = torch.randn(2, 3, size)
        torch.testing.assert_close(program(y), module(y))
