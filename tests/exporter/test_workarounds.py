"""bypass_export_some_errors: each patch enables an export, keeps its results, and is undone."""

from __future__ import annotations

import copy
import sys
import threading
import types

import pytest
import torch
import transformers
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import _ModuleStackTracer
from torch.utils import _pytree as pytree

import ortable
from ortable import ExportOptions, bypass_export_some_errors, to_onnx
from ortable.compat.torch_version import TORCH
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.capture.patches import PATCHES
from ortable.exporter.frontend.export_request import active_patches
from ortable.exporter.signature import caches

from .helpers import assert_close, assert_same, eager, run_onnx

pytestmark = pytest.mark.alternates(parts=3)

PATCHED = (
    (torch.nn.functional, "one_hot"),
    (torch, "tensor"),
    (torch.Tensor, "__deepcopy__"),
    (_ModuleStackTracer, "call_module"),
    (torch.jit, "isinstance"),
    (torch._dynamo, "mark_static_address"),
    (torch.distributions.Distribution, "__init__"),
)
ORIGINALS = [getattr(owner, name) for owner, name in PATCHED]
COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
LSTM_KERNEL = torch.ops.aten.lstm.input.py_kernels[COMPOSITE]


class OneHot(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.one_hot(x)


class TensorOfTensors(torch.nn.Module):
    def forward(self, x):
        return torch.tensor([[x.max(), 1], [x.min(), 2.5]]) + torch.tensor([1.0, 2.0])


class DividedBySize(torch.nn.Module):
    def forward(self, x):
        return x / torch._shape_as_tensor(x)[1:].max().to(x.dtype)


class DeepCopies(torch.nn.Module):
    def forward(self, x):
        y = copy.deepcopy(x)
        y.add_(1)
        return x + y


class JitIsInstance(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch.jit.isinstance(x, torch.Tensor) else x


class Scripted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.jit.script(
            torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Hardswish())
        )

    def forward(self, x):
        return self.layers(x) + self.layers(-x)


class MarksStaticAddress(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        torch._dynamo.mark_static_address(y)
        return y + 1


def steps(model) -> str:
    return next(p.value for p in model.metadata_props if p.key == "ortable.steps")


def patches_of(model) -> list[str]:
    first = steps(model).partition(";")[0]
    return first.partition("bypass_export_some_errors: ")[2].split(", ")


def check_patch(module, args, more, name, dynamic_shapes=None, strict=False, needed=True) -> None:
    """Check that only the patch ``name`` is needed for an export and works on ``more`` inputs."""
    options = ExportOptions(strict=strict)
    export_kwargs = {"dynamic_shapes": dynamic_shapes, "strict": strict}
    if needed:
        with pytest.raises(Exception):  # noqa: B017 (torch raises many types)
            torch.export.export(module, args, **export_kwargs)
    else:
        torch.export.export(module, args, **export_kwargs)
    others = [patch.name for patch in PATCHES if patch.name != name]
    with bypass_export_some_errors(without=others) as names:
        assert names == (name,)
        torch.export.export(module, args, **export_kwargs)
        model = to_onnx(module, args, dynamic_shapes=dynamic_shapes, export_options=options)
    assert patches_of(model) == [name]
    for example in (args, *more):
        assert_same(model, module, example)


def test_one_hot_without_a_number_of_classes() -> None:
    args = (torch.tensor([2, 0, 1, 2]),)
    more = [(torch.tensor([0, 0]),), (torch.tensor([5, 1, 2]),)]
    check_patch(OneHot(), args, more, "one_hot", {"x": {0: Dim("n")}})


class Likelihood(torch.nn.Module):
    def forward(self, x):
        normal = torch.distributions.Independent(torch.distributions.Normal(x, x.exp()), 1)
        categorical = torch.distributions.Categorical(logits=x)
        return normal.log_prob(x * 2) + categorical.entropy()


@pytest.fixture
def checked_distributions():
    """Enable the argument checks of torch.distributions, which dynamo disables permanently."""
    distribution = torch.distributions.Distribution
    before = distribution._validate_args
    distribution.set_default_validate_args(True)
    yield
    distribution.set_default_validate_args(before)


@pytest.mark.usefixtures("checked_distributions")
@pytest.mark.parametrize("strict", [False, True])
def test_distributions_with_their_default_checks(strict) -> None:
    x, shapes = torch.randn(4, 3), {"x": {0: Dim("n")}}
    needed = strict or TORCH < (2, 15)  # later versions trace the checks as assertions
    check_patch(Likelihood(), (x,), [(torch.randn(2, 3),)], "distributions", shapes, strict, needed)
    with bypass_export_some_errors(), pytest.raises(ValueError, match="scale"):
        torch.distributions.Normal(x, -x.exp())  # checked outside of an export


def test_a_tensor_made_of_tensors() -> None:
    x = torch.rand(4)
    check_patch(TensorOfTensors(), (x,), [(-x,)], "tensor of tensors")


def test_sizes_as_a_tensor() -> None:
    shapes = {"x": {0: Dim("rows"), 1: Dim("columns")}}
    more = [(torch.rand(2, 7, 3),)]
    check_patch(DividedBySize(), (torch.rand(5, 4, 3),), more, "shape as tensor", shapes)


def test_a_deep_copy_in_forward() -> None:
    x = torch.rand(4)
    check_patch(DeepCopies(), (x,), [(x - 3,)], "deepcopy")


def test_a_module_compiled_by_torchscript() -> None:
    check_patch(Scripted(), (torch.rand(2, 4),), [(-torch.rand(2, 4),)], "TorchScript modules")


class Recurrent(torch.nn.Module):
    def __init__(self, kind: type, **options) -> None:
        super().__init__()
        self.rnn = kind(4, 3, num_layers=2, batch_first=True, **options)

    def forward(self, x):
        return self.rnn(x)


@pytest.mark.alternates("bidirectional")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_dynamic_number_of_steps(kind, bidirectional) -> None:
    shapes = {"x": {0: Dim("batch"), 1: Dim("time")}}
    module = Recurrent(kind, bidirectional=bidirectional).eval()
    more = [(torch.randn(4, 7, 4),), (torch.randn(3, 2, 4),)]
    check_patch(module, (torch.randn(2, 5, 4),), more, "recurrent layers", shapes)


def test_recurrent_layers_are_still_decomposed_by_torch() -> None:
    module, x = Recurrent(torch.nn.GRU).eval(), torch.randn(2, 5, 4)
    options = ExportOptions(decomposition_table="default", validate=True)
    with bypass_export_some_errors():
        model = to_onnx(module, (x,), export_options=options)
        torch.testing.assert_close(module(x), Recurrent.forward(module, x))
    assert_same(model, module, (torch.randn(2, 5, 4),))


def test_torchscript_is_not_specialised() -> None:
    """The export rejects a dynamic size and a branch on data inside TorchScript."""

    class Inner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if bool(x.sum() > 0) else -x

    class Outer(torch.nn.Module):
        def __init__(self, inner) -> None:
            super().__init__()
            self.inner = torch.jit.script(inner)

        def forward(self, x):
            return self.inner(x)

    with bypass_export_some_errors(), pytest.raises(ExportError):
        to_onnx(Outer(Inner()), (torch.rand(2, 4),))
    module = Scripted()
    for _ in range(3):  # the first, profiling runs read sizes, which torch rejects
        try:
            with bypass_export_some_errors(without=["caches"]):
                model = to_onnx(module, (torch.rand(2, 4),), dynamic_shapes={"x": {0: Dim("n")}})
        except ExportError as error:
            assert "the dynamic shapes do not fit" in str(error)
        else:
            assert_same(model, module, (torch.rand(5, 4),))


def test_isinstance_of_torchscript_in_strict_mode() -> None:
    check_patch(JitIsInstance(), (torch.rand(3),), [], "jit.isinstance", strict=True)


def test_static_addresses_in_strict_mode() -> None:
    check_patch(MarksStaticAddress(), (torch.rand(3),), [], "mark_static_address", strict=True)


def test_a_dynamic_dimension_of_size_one() -> None:
    """Without the patch, torch.export rejects an example of size 1 for a dynamic dimension."""
    module, shapes = torch.nn.Linear(3, 2), {"input": {0: Dim("n")}}
    with pytest.raises(Exception, match="Constraints violated"):
        torch.export.export(module, (torch.rand(1, 3),), dynamic_shapes=shapes)
    with bypass_export_some_errors(without=["caches"]) as names:
        assert "sizes of 1" in names
        torch.export.export(module, (torch.rand(1, 3),), dynamic_shapes=shapes)
        model = to_onnx(module, (torch.rand(1, 3),), dynamic_shapes=shapes)
    for size in (1, 4):
        assert_same(model, module, (torch.rand(size, 3),))


def test_a_branch_on_a_size_of_one_stays_refused() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] == 1 else x

    with bypass_export_some_errors(), pytest.raises(ExportError):
        to_onnx(Branch(), (torch.rand(1, 3),), dynamic_shapes={"x": {0: Dim("n")}})


@pytest.fixture(scope="module")
def llama():
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(autouse=True)
def unregister_caches() -> None:
    """Unregister the caches, which to_onnx registers permanently when they are arguments."""
    caches.unregister_classes(registered_caches())


IDS = torch.tensor([[1, 5, 2, 7], [3, 3, 9, 4]])


def test_a_cache_among_the_results(llama) -> None:
    kwargs = {"input_ids": IDS}
    with pytest.raises(RuntimeError, match="DynamicCache"):
        torch.export.export(llama, (), kwargs)
    with bypass_export_some_errors():
        model = to_onnx(llama, kwargs=kwargs)
        expected = eager(llama, (), kwargs)
    assert "caches" in patches_of(model)
    assert len(model.graph.output) == 1 + 2 * 2
    assert_close(run_onnx(model, {"input_ids": IDS.numpy()}), expected)


def test_a_cache_among_the_arguments(llama) -> None:
    with torch.no_grad():
        cache = llama(input_ids=IDS).past_key_values
    next_call = {"input_ids": torch.tensor([[4], [6]]), "past_key_values": cache}
    with bypass_export_some_errors():
        model = to_onnx(llama, kwargs=next_call)
        assert_same(model, llama, (), next_call)


def test_a_static_cache(llama) -> None:
    def make_call():
        cache = transformers.StaticCache(config=llama.config, max_cache_len=8)
        with torch.no_grad():
            llama(input_ids=IDS, past_key_values=cache)
        return {"input_ids": torch.tensor([[4], [6]]), "past_key_values": cache}

    with pytest.raises(ValueError, match="StaticCache"):
        torch.export.export(llama, (), make_call())
    with bypass_export_some_errors():
        model = to_onnx(llama, kwargs=make_call())
        leaves = pytree.tree_leaves(make_call())
        feeds = dict(
            zip([v.name for v in model.graph.input], [v.numpy() for v in leaves], strict=True)
        )
        expected = eager(llama, (), make_call())
    results = run_onnx(model, feeds)
    # the new values of the cache, which is written in place, follow the results of forward
    assert_close(results[: len(expected)], expected)


def test_a_static_cache_without_tensors(llama) -> None:
    cache = transformers.StaticCache(config=llama.config, max_cache_len=8)
    call = {"input_ids": IDS, "past_key_values": cache}
    with (
        bypass_export_some_errors(),
        pytest.raises(InputError, match=r"call cache\.early_initialization\(\.\.\.\) first"),
    ):
        to_onnx(llama, kwargs=call)


def test_an_encoder_decoder_cache() -> None:
    config = transformers.T5Config(
        vocab_size=32,
        d_model=16,
        d_kv=4,
        d_ff=24,
        num_layers=1,
        num_heads=4,
        decoder_start_token_id=0,
    )
    module = transformers.T5ForConditionalGeneration(config).eval()
    kwargs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :2]}
    with pytest.raises(RuntimeError, match="EncoderDecoderCache"):
        torch.export.export(module, (), kwargs)
    with bypass_export_some_errors():
        assert_same(to_onnx(module, kwargs=kwargs), module, (), kwargs)


def registered_caches() -> set[type]:
    from transformers import DynamicCache, EncoderDecoderCache, StaticCache

    return {DynamicCache, EncoderDecoderCache, StaticCache} & set(pytree.SUPPORTED_NODES)


def is_torch_restored() -> bool:
    kernels = torch.ops.aten.lstm.input.py_kernels
    functions = [getattr(owner, name) for owner, name in PATCHED]
    return functions == ORIGINALS and kernels[COMPOSITE] is LSTM_KERNEL


def test_everything_is_put_back_after_an_error_too() -> None:
    with pytest.raises(KeyError), bypass_export_some_errors():
        assert not is_torch_restored() and len(registered_caches()) == 3
        raise KeyError("x")
    assert is_torch_restored() and registered_caches() == set() and active_patches() == ()


def test_the_replaced_nms_of_torchvision_is_put_back_in_both_modules(monkeypatch) -> None:
    def nms(*args):
        return args

    modules = [types.ModuleType(name) for name in ("torchvision.ops", "torchvision.ops.boxes")]
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(module, "batched_nms", nms, raising=False)
    with bypass_export_some_errors() as names:
        assert "batched_nms" in names and nms not in [m.batched_nms for m in modules]
        boxes = torch.rand(3, 4)
        assert modules[0].batched_nms(boxes, 1, 2, 3)[0] is boxes  # outside of an export
    assert [module.batched_nms for module in modules] == [nms, nms]


def test_regions_may_be_nested() -> None:
    with bypass_export_some_errors(patch_transformers=False) as outer:
        with bypass_export_some_errors() as inner:
            assert set(inner) == {*outer, "caches"}
            assert active_patches() == (*outer, "caches")
        assert active_patches() == outer and not is_torch_restored()
    assert is_torch_restored()


def test_another_thread_sees_torch_as_it_is() -> None:
    inside, done, observations = threading.Event(), threading.Event(), []

    def run_in_thread() -> None:
        inside.wait(10)
        observations.append(active_patches())
        observations.append(torch.nn.functional.one_hot(torch.tensor([1])).tolist())
        with bypass_export_some_errors():
            done.wait(10)
            observations.append(len(active_patches()) > 0 and not is_torch_restored())

    thread = threading.Thread(target=run_in_thread)
    thread.start()
    with bypass_export_some_errors():
        inside.set()
    # the other thread's region may be active still, and keeps its patches until it ends
    done.set()
    thread.join(10)
    assert observations[0] == () and observations[1] == [[0, 1]] and observations[2] is True
    assert is_torch_restored()


def test_patches_may_be_left_out_by_library_and_by_name() -> None:
    with bypass_export_some_errors(patch_torch=False) as names:
        assert names == ("caches",) and is_torch_restored()
    with bypass_export_some_errors(without=["caches", "one_hot"]) as names:
        assert "caches" not in names and torch.nn.functional.one_hot is ORIGINALS[0]
    with (
        pytest.raises(OptionError, match=r"no patch 'nothing'; there are 'sizes of 1', 'one_hot'"),
        bypass_export_some_errors(without=["nothing"]),
    ):
        pass


def test_the_patches_are_printed_on_request(capsys) -> None:
    with bypass_export_some_errors(verbose=1):
        pass
    assert "[bypass_export_some_errors] sizes of 1, one_hot" in capsys.readouterr().out


def test_every_patch_is_in_the_documentation() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "export-failures.md").read_text(encoding="utf-8")
    for patch in PATCHES:
        assert f"| `{patch.name}` | {patch.library} | {patch.description} |" in text


def test_the_region_is_public() -> None:
    assert ortable.bypass_export_some_errors is bypass_export_some_errors
    assert "bypass_export_some_errors" in ortable.__all__


@pytest.mark.parametrize("data", [[1, 2.5], [[True], [False]], [torch.tensor(3), 2]])
def test_a_patched_torch_tensor_gives_what_torch_gives(data) -> None:
    expected = torch.tensor(data)
    with bypass_export_some_errors():
        result = torch.tensor(data)
    assert result.dtype == expected.dtype and torch.equal(result, expected)
