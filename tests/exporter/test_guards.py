"""Guards on sizes: they are found, reported, and stored with the model."""

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

FILE = Path(__file__).name


class ResidueBranch(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] % 8 == 7:
            return x * 2
        return x + 1


class ShortBranch(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] < 10 else x


class SurplusBranch(torch.nn.Module):
    def forward(self, whole, past, new):
        if whole.shape[0] - past.shape[0] - new.shape[0] > 0:
            return whole * 2
        return torch.cat([past, new]) * 3


class EqualBranch(torch.nn.Module):
    def forward(self, x, y):
        return x.sum() + y if x.shape[0] == y.shape[0] else x.sum() - y


class LongerBranch(torch.nn.Module):
    def forward(self, x, y):
        return x.sum() + y if x.shape[0] > y.shape[0] + 1 else x.sum() - y


class Chunks(torch.nn.Module):
    """A computation in chunks of 8 steps with padding, as in Mamba2."""

    def forward(self, x):
        steps = x.shape[1]
        pad = (8 - steps % 8) % 8
        y = torch.nn.functional.pad(x, (0, 0, 0, pad)).reshape(x.shape[0], -1, 8, x.shape[-1])
        y = y.cumsum(1).reshape(x.shape[0], -1, x.shape[-1])
        if pad > 0:
            y = y[:, :steps]
        return y


class FullSlice(torch.nn.Module):
    """A slice that contains every row of the example."""

    def forward(self, x):
        y = x[:10]
        return y.reshape(y.shape[0] * 3)


class MoreThanTwo(torch.nn.Module):
    """A branch that only the smallest size takes."""

    def forward(self, x):
        return x * 2 if x.shape[0] > 2 else x


class NotThousand(torch.nn.Module):
    """A branch that only one size takes."""

    def forward(self, x):
        return x * 2 if x.shape[0] != 1000 else x


class HeadSlice(torch.nn.Module):
    def forward(self, x):
        y = x[:5]
        return y.reshape(y.shape[0] * 3)


class TailSlice(torch.nn.Module):
    def forward(self, x):
        y = x[-10:]
        return y.reshape(y.shape[0] * 3)


class NoBranch(torch.nn.Module):
    """Branches that no size takes."""

    def forward(self, x):
        n = x.shape[0]
        pad = -n % 4
        if (n + pad) // 4 == 0 or (n + pad) % 4 != 0 or n * n < n:
            return x
        return x.reshape(x.shape[0], -1, 3) + 1


def export(module: Any, args: Any, shapes: Any, **options: Any) -> Any:
    """Return the model, the record, and the text of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, builder = to_onnx(
            module,
            args,
            dynamic_shapes=shapes,
            export_options=ExportOptions(**options),
            return_builder=True,
            validate=True,
        )
    texts = [str(warning.message) for warning in caught if warning.filename == __file__]
    return model, builder.record, "\n".join(texts)


def metadata(model: Any) -> str:
    return next((p.value for p in model.metadata_props if p.key == "ortable.guards"), "")


def find_line(code: str) -> int:
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
        (ResidueBranch(), (X,), ROWS, "rows % 8 == 7", False),
        (ResidueBranch(), (X,), {"x": {0: Dim.AUTO}}, "x.shape[0] % 8 == 7", False),
        (ShortBranch(), (X,), ROWS, "rows < 10", False),
        (MoreThanTwo(), (X,), ROWS, "rows > 2", False),
        (LongerBranch(), (LONG, SHORT), BOTH, "a > 1 + b", False),
        (EqualBranch(), (SHORT, SHORT), BOTH, "a == b", False),
        (EqualBranch(), (SHORT, SHORT), BOTH, "a == b", True),
        (Chunks(), (torch.rand(2, 13, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 > 0", True),
        (Chunks(), (torch.rand(2, 13, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 > 0", False),
        (Chunks(), (torch.rand(2, 16, 3),), {"x": {1: "n"}}, "(8 - (n % 8)) % 8 <= 0", False),
    ],
)
def test_a_branch_on_a_size_is_told(module, args, shapes, expected, strict) -> None:
    model, record, warned = export(module, args, shapes, strict=strict)
    assert [guard.text for guard in record.guards] == [expected]
    assert record.guards[0].line is not None and FILE in record.guards[0].line.file
    assert f"the model holds only for sizes with\n  {expected}\n    at " in warned
    assert metadata(model).startswith(f"{expected} ({FILE}:")
    assert len(record.comparisons) >= 2
    assert not any(comparison.problem for comparison in record.comparisons)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    ("module", "code", "expected"),
    [
        (FullSlice(), "y = x[:10]", "rows < 10"),
        (HeadSlice(), "y = x[:5]", "rows >= 5"),
        (TailSlice(), "y = x[-10:]", "rows < 10"),
    ],
)
def test_the_end_of_a_slice_is_told(module, code, expected) -> None:
    """The guard comes from torch's slice; only dynamo records the line, and eager never raises."""
    for strict in (False, True):
        model, record, warned = export(module, (X,), ROWS, strict=strict)
        assert [guard.text for guard in record.guards] == [expected]
        assert f"the model holds only for sizes with\n  {expected}\n" in warned
        location = f" ({FILE}:{find_line(code)})" if strict else ""
        assert metadata(model) == expected + location
        assert not any(comparison.failed for comparison in record.comparisons)
    shapes = {"x": {0: Dim.DYNAMIC(min=5, max=9)}}
    assert export(module, (X,), shapes)[1].guards == []


def test_the_message_quotes_the_line() -> None:
    _, record, warned = export(ResidueBranch(), (X,), ROWS)
    code = "if x.shape[0] % 8 == 7:"
    assert f"{__file__}:{find_line(code)}, in forward\n    {code}" in warned
    assert [comparison.inputs for comparison in record.comparisons] == ["example", "rows=15"]


@pytest.mark.parametrize(
    ("module", "args", "shapes"),
    [
        (NoBranch(), (torch.rand(5, 6),), ROWS),
        (ShortBranch(), (X,), {"x": {0: Dim("rows", max=9)}}),
        (ShortBranch(), (X,), {"x": {0: Dim.DYNAMIC(max=9)}}),
        (ShortBranch(), (X,), None),
        (EqualBranch(), (SHORT, SHORT), {"x": {0: "n"}, "y": {0: "n"}}),
        (LongerBranch(), (LONG, SHORT), {"x": {0: Dim("a", min=8)}, "y": {0: Dim("b", max=6)}}),
        (
            SurplusBranch(),
            (torch.rand(9), torch.rand(5), torch.rand(4)),
            {"whole": {0: "past + new"}, "past": {0: "past"}, "new": {0: "new"}},
        ),
    ],
)
def test_what_the_dynamic_shapes_imply_is_not_told(module, args, shapes) -> None:
    model, record, warned = export(module, args, shapes)
    assert record.guards == [] and warned == "" and metadata(model) == ""


def test_a_size_that_torch_takes_for_one_is_told() -> None:
    """With one chunk the program has no second chunk, because torch's own code specialized it."""
    _, record, _ = export(Chunks(), (torch.rand(2, 5, 3),), {"x": {1: "n"}})
    texts = [guard.text for guard in record.guards]
    assert "(n + (8 - (n % 8)) % 8) // 8 == 1" in texts
    problems = [c.problem for c in record.comparisons if c.problem]
    assert all(problem.startswith("not compared: the model holds only") for problem in problems)


def test_an_error_or_nothing_instead_of_a_warning() -> None:
    with pytest.raises(ExportError, match=r"holds only for sizes with\n  rows % 8 == 7\n    at "):
        export(ResidueBranch(), (X,), ROWS, guards="error")
    model, _, warned = export(ResidueBranch(), (X,), ROWS, guards="ignore")
    assert warned == "" and metadata(model).startswith("rows % 8 == 7")
    with pytest.raises(OptionError, match="guards is one of"):
        ExportOptions(guards="no")


def test_guards_of_programs_and_of_saved_ones(tmp_path: Path) -> None:
    program = torch.export.export(LongerBranch(), (LONG, SHORT), dynamic_shapes=[{0: Dim.AUTO}] * 2)
    expected = "x.shape[0] > 1 + y.shape[0]"
    for source, suffix in ((program, f" ({FILE}:{branch_line()})"), (_reload(program), "")):
        model, record, warned = export(source, (), None)
        assert metadata(model) == expected + suffix and expected in warned
        assert {c.inputs for c in record.comparisons[1:]} == {"s0=10, s1=7", "s0=4, s1=1"}
    plain = torch.export.export(NoBranch(), (torch.rand(5, 6),), dynamic_shapes=[{0: Dim.AUTO}])
    for source in (plain, _reload(plain)):
        assert export(source, (), None)[2] == ""


class BoundBranch(torch.nn.Module):
    """A branch at a bound far from the sizes of the example."""

    def __init__(self, bound: int, step: int = 1) -> None:
        super().__init__()
        self.bound, self.step = bound, step

    def forward(self, x):
        return x * 2 if x.shape[0] // self.step < self.bound else x


@pytest.mark.parametrize(("bound", "step"), [(300, 1), (1_000_000, 1), (200, 8)])
def test_a_saved_guard_is_tried_around_its_own_numbers(bound: int, step: int) -> None:
    program = torch.export.export(BoundBranch(bound, step), (X,), dynamic_shapes=[{0: Dim.AUTO}])
    expected = f"x.shape[0]{f' // {step}' * (step > 1)} < {bound}"
    model, _, warned = export(_reload(program), (), None)
    assert metadata(model) == expected and expected in warned


def test_a_saved_guard_that_one_size_does_not_meet_is_told() -> None:
    program = torch.export.export(NotThousand(), (X,), dynamic_shapes=[{0: Dim.AUTO}])
    model, _, warned = export(_reload(program), (), None)
    assert metadata(model) == "x.shape[0] != 1000" and "x.shape[0] != 1000" in warned


def branch_line() -> int:
    return find_line("return x.sum() + y if x.shape[0] > y.shape[0] + 1 else x.sum() - y")


def _reload(program: Any) -> Any:
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
    """`_base` belongs to an argument that is a view when the program is captured."""
    guard = guards._from_code(code, {"flat_args[0]": "first", "flat_args[1]": "second"}, [])
    assert guard is not None and guard.text == text


class InterpolatedBranch(torch.nn.Module):
    """A condition on a rounded size of a tensor inside an argument."""

    def forward(self, held):
        y = torch.nn.functional.interpolate(held["the input"], scale_factor=1.5)
        return y * 2 if y.shape[2] > 7 else y


@pytest.mark.parametrize("strict", [True, False])
def test_a_saved_program_refuses_sizes_of_what_is_inside_an_argument(
    strict: bool, tmp_path: Path
) -> None:
    """Guards of saved programs are parsed from text, with torch.sym_float and any dict key."""
    call, path = ({"the input": torch.rand(1, 2, 6)},), tmp_path / "scaled.pt2"
    shapes = ({"the input": {2: Dim.AUTO}},)
    torch.export.save(
        torch.export.export(InterpolatedBranch(), call, dynamic_shapes=shapes, strict=strict), path
    )
    with pytest.warns(UserWarning, match=r"sym_float\(held_the_input.shape\[2\]\)\) > 7"):
        program = ortable.export(path)
    longer, shorter = (({"the input": torch.rand(1, 2, size)},) for size in (8, 4))
    torch.testing.assert_close(program(*longer), InterpolatedBranch()(*longer))
    with pytest.raises(InputError, match=r"holds only for sizes with math\.trunc"):
        program(*shorter)


def test_the_report_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    options = ExportOptions(guards="ignore")
    to_onnx(ShortBranch(), (X,), dynamic_shapes=ROWS, export_options=options, report=path)
    assert f"## Sizes that the model holds for\n\n- rows < 10 ({FILE}:" in path.read_text()


def test_sizes_that_meet_a_guard_are_looked_for_in_bounds() -> None:
    """Of a million combinations of twenty dimensions, the search tries only the nearest."""
    trials: list[dict[str, int]] = []

    def never_holds(values: Any) -> bool:
        assert len(trials) < 2000
        trials.append(dict(values))
        return False

    symbols = [sympy.Symbol(f"s{index}") for index in range(20)]
    names = {symbol: str(symbol) for symbol in symbols}
    program = Program(torch.fx.GraphModule({}, torch.fx.Graph()))
    program.guards = [Guard("never", None, never_holds)]
    assert example_sizes._satisfy_guards(dict.fromkeys(symbols, 3), names, program, {}) is None
    assert 100 < len(trials) <= 1000
    sums = [sum(trial.values()) for trial in trials]
    assert sums == sorted(sums) and len({tuple(trial.values()) for trial in trials}) == len(trials)
    expected = sorted(itertools.product(range(4), repeat=3), key=sum)
    assert list(example_sizes._by_sum(3, 4)) == expected


def test_proofs() -> None:
    n, m = sympy.Symbol("n", integer=True, positive=True), sympy.Symbol("m", integer=True)
    from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

    def is_proved(relation: Any, minimum: int = 2, maximum: int | None = None) -> bool:
        return is_implied(relation, {n: (minimum, maximum), m: (2, None)})

    assert is_proved(n > 1) and not is_proved(n > 2) and is_proved(n > 2, minimum=3)
    assert is_proved(sympy.Ne(n, 1)) and not is_proved(sympy.Ne(n, 1), minimum=1)
    assert is_proved(n < 10, maximum=9) and not is_proved(n < 10, maximum=10)
    assert is_proved(n + m > n) and not is_proved(n > m)
    assert is_proved(sympy.Ne(FloorDiv(n + PythonMod(-n, 4), 4), 0))
    assert is_proved(sympy.Eq(Mod(n + PythonMod(-n, 4), 4), 0))
    assert not is_proved(sympy.Eq(Mod(n, 4), 0)) and not is_proved(sympy.Ne(Mod(n, 4), 3))
    assert is_proved(sympy.Or(n > 100, n > 1)) and not is_proved(sympy.And(n > 100, n > 1))
    assert is_proved(Mod(n, 7) < 7) and not is_proved(sympy.Ne(5 - n, 0))
    assert is_proved(sympy.Ne(5 - n, 0), minimum=6)


def test_a_region_of_patches_changes_nothing_of_who_asked() -> None:
    """The error names the same line inside bypass_export_some_errors."""

    class Branch(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x + 1

    options = ExportOptions(guards="error", strict=False, fallback=False)
    texts = []
    for region in (contextlib.nullcontext(), bypass_export_some_errors()):
        with region, pytest.raises(ExportError) as raised:
            program = torch.export.export(
                Branch(), (torch.rand(5, 2),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
            )
            to_onnx(program, export_options=options)
        texts.append(str(raised.value))
    assert texts[0] == texts[1] and "in forward" in texts[0]


# -- sizes that become constant arguments of operators --------------------------------------------


def attention(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=1 / x.shape[2])


SPECIALIZED = {
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


def _stored_guards(model) -> str:
    """Return the guards in the metadata of a model."""
    return {entry.key: entry.value for entry in model.metadata_props}.get("ortable.guards", "")


@pytest.mark.parametrize(("function", "text"), SPECIALIZED.values(), ids=SPECIALIZED)
def test_a_size_that_became_a_number_of_an_operator_is_a_guard(function, text, tmp_path) -> None:
    """torch stores the example's number in the graph, so the model holds only for that size."""
    module, x = FunctionOfX(function), torch.randn(2, 3, 8)
    with pytest.warns(UserWarning, match="holds only for sizes with"):
        program = ortable.export(module, (x,), dynamic_shapes={"x": {2: "n"}})
    assert text in _stored_guards(program.model_proto)
    torch.testing.assert_close(program(x), module(x))
    saved = torch.export.export(module, (x,), dynamic_shapes=({2: Dim.AUTO},))
    torch.export.save(saved, tmp_path / "saved.pt2")
    with pytest.warns(UserWarning, match="holds only for sizes with"):
        reloaded = ortable.export(tmp_path / "saved.pt2")
    for call in (program, reloaded):
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
        # This replaces scale=1 / x.shape[2].
        lambda x: torch.nn.functional.scaled_dot_product_attention(x / x.shape[2], x, x, scale=1.0),
    ],
)
def test_a_size_that_the_graph_computes_with_is_none(function) -> None:
    """A size that the graph computes with adds no guard."""
    module, x = FunctionOfX(function), torch.randn(2, 3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = ortable.export(module, (x,), dynamic_shapes={"x": {2: "n"}})
    assert not _stored_guards(program.model_proto)
    for size in (4, 10, 12, 100):
        y = torch.randn(2, 3, size)
        torch.testing.assert_close(program(y), module(y))
