"""docs/errors.md has a section for each error class, with a text that ortable really prints."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

import ortable
from ortable import errors
from ortable.backend.aot import hints
from ortable.compat import versions
from tests.packaging.files import ROOT

PAGE = ROOT / "docs" / "errors.md"
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception)
}
INPUT = torch.ones(2, 3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cosh(x) + 1


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Eigenvalues(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x)


class Subtract(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def call_backend() -> None:
    ortable.onnx_custom_backend(torch.fx.symbolic_trace(Model()), [INPUT])


def pass_unknown_argument() -> None:
    ortable.to_onnx(Model(), (INPUT,), dynamic_axis={})  # type: ignore[call-overload]


def use_unknown_input() -> None:
    builder = ortable.GraphBuilder(18)
    builder.make_tensor_input("x", 1, (2, 3))
    builder.make_node("Add", ["x", "y"])


def return_wrong_dtype() -> None:
    def cosh(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node("Cast", [x], res.name, to=7)

    ortable.to_onnx(Model(), (INPUT,), dispatcher={"aten::cosh": cosh})


def export_branch() -> None:
    ortable.to_onnx(Branch(), (INPUT,))


def compile_with_gradients() -> None:
    warnings.simplefilter("error", errors.GradientsOnWarning)
    hints._grad_warned = False  # the warning appears once in a process
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    torch.compile(model, backend="ortable")(INPUT)


class DoubleInput(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.shop.twice(x)


def export_without_converter() -> None:
    with torch.library._scoped_library("shop", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        ortable.to_onnx(DoubleInput(), (INPUT,))


def compile_fallback() -> None:
    warnings.simplefilter("error", errors.FallbackWarning)
    with torch.library._scoped_library("shop", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("shop::twice", torch.empty_like, lib=library)
        torch.compile(DoubleInput(), backend="ortable")(INPUT)


def omit_input() -> None:
    ortable.match_input_parameters(torch.nn.Linear(3, 4), ["weight", "x"], [])


def build_without_kernel() -> None:
    builder = ortable.GraphBuilder(18, target="onnxruntime")
    builder.make_tensor_input("x", 14, (2, 3))
    builder.make_node("Reshape", ["x", builder.make_initializer("", [3, 2])])


def compile_wrong_model() -> None:
    def to_sub(proto: Any) -> None:
        for node in proto.graph.node:
            if node.op_type == "Add":
                node.op_type = "Sub"

    backend = partial(
        ortable.onnx_debug_backend, compare=True, optimize=False, pre_ort_model_transforms=to_sub
    )
    torch.compile(Model(), backend=backend)(INPUT)


def pass_wrong_option() -> None:
    ortable.ExportOptions(guards="never")  # type: ignore[arg-type]


def request_missing_provider() -> None:
    options: Any = {"providers": ["NoSuchExecutionProvider"]}
    torch.compile(Model(), backend="ortable", options=options)(INPUT)


def load_foreign_artifact() -> None:
    from ortable.backend.precompile.artifact import Precompiled

    Precompiled.deserialize_compile_artifacts(b"of another backend")


RULE = """- rewrite: {name}
  stage: fuse
  why: to try it
  pattern: return {before}
  when: is_float32(x)
  replace: return {after}
  samples:
    - {{x: "f32[2,3]", y: "f32[2,3]", expect: "{nodes}"}}
    - {{x: "f64[2,3]", y: "f64[2,3]", unchanged: "is_float32(x)"}}
"""


def apply_endless_rules() -> None:
    sub, add = "Sub(x, y)", "Add(x, Neg(y))"
    Path("there.yaml").write_text(RULE.format(name="there", before=sub, after=add, nodes="Neg Add"))
    Path("back.yaml").write_text(RULE.format(name="back", before=add, after=sub, nodes="Sub"))
    ortable.to_onnx(Subtract(), (INPUT, INPUT), rewrites=["there.yaml", "back.yaml"])


def load_wrong_spec() -> None:
    rows = ["- op: aten::cosh(Tensor self) -> Tensor"]
    rows += ["  out: {shape: same(self), dtype: same(self)}", "  lower: return Kosh(self)"]
    Path("bad.yaml").write_text("\n".join([*rows, '  samples: [{self: "f32[2]"}]', ""]))
    ortable.load_specs("bad.yaml", override=True)


def export_unsupported_case() -> None:
    ortable.to_onnx(Eigenvalues(), (torch.ones(2, 2),))


def use_unsupported_dtype() -> None:
    ortable.GraphBuilder(18).make_initializer("w", torch.zeros(2, dtype=torch.complex32))


def export_with_torch(version: str) -> None:
    checked = patch.object(versions, "_checked", set())
    with checked, patch.object(torch, "__version__", version), warnings.catch_warnings():
        warnings.simplefilter("error", errors.UntestedVersionWarning)
        ortable.to_onnx(Model(), (INPUT,))


RAISERS: dict[str, Callable[[], None]] = {
    "ArgumentError": pass_unknown_argument,
    "BuilderError": use_unknown_input,
    "ConversionError": return_wrong_dtype,
    "ExportError": export_branch,
    "FallbackWarning": compile_fallback,
    "FunctionNotFoundError": export_without_converter,
    "GradientsOnWarning": compile_with_gradients,
    "InputError": omit_input,
    "KernelError": build_without_kernel,
    "MismatchError": compile_wrong_model,
    "OptionError": pass_wrong_option,
    "OrtableError": call_backend,
    "PrecompileError": load_foreign_artifact,
    "ProviderError": request_missing_provider,
    "RewriteError": apply_endless_rules,
    "SpecError": load_wrong_spec,
    "UnsupportedCase": export_unsupported_case,
    "UnsupportedDtype": use_unsupported_dtype,
    "UntestedVersionWarning": partial(export_with_torch, "2.99.0"),
    "VersionError": partial(export_with_torch, "2.12.1"),
}


def sections() -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def normalize_line(line: str) -> str:
    """Return a line without locations, builder and module names, versions and a final "..."."""
    line = re.sub(r"\S*\.py:\d+", "FILE", line)
    line = re.sub(r" \([A-Z]{3}\)|\s\(module \w+\)|(?<=onnxruntime )[\w.+]+", "", line)
    return line.removesuffix(" ...").rstrip()


def test_each_class_has_a_section_in_order() -> None:
    names = list(sections())
    assert set(CLASSES) == set(errors.__all__)
    assert names == ["OrtableError", *sorted(set(CLASSES) - {"OrtableError"})]
    assert set(RAISERS) == set(CLASSES)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_section_says_when_what_and_what_to_do(name: str) -> None:
    text = sections()[name]
    assert "hat to do: " in text
    assert name == "OrtableError" or "When: " in text
    for base in CLASSES[name].__bases__:
        if base not in (errors.OrtableError, Exception):
            assert f"`{base.__name__}`" in text, "the section does not name a base class"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_the_text_of_a_section_is_what_one_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    with pytest.raises(Exception) as caught, warnings.catch_warnings():
        RAISERS[name]()
    error = getattr(caught.value, "inner_exception", caught.value)
    assert isinstance(error, CLASSES[name])
    (shown,) = re.findall(r"^```\n(.*?)^```$", sections()[name], re.MULTILINE | re.DOTALL)
    lines = [normalize_line(line) for line in str(error).splitlines()]
    for line in shown.splitlines():
        if normalize_line(line.strip()) not in ("...", ""):
            assert any(text.startswith(normalize_line(line)) for text in lines), (line, lines)
