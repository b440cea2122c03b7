"""`ortable.watch_modules` sees every change that the guards it replaces would have seen."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import ortable
from ortable.backend.aot import watch_modules as watched
from ortable.compat.python import stamp_of, writes_are_counted

needs_counts = pytest.mark.skipif(
    not writes_are_counted(), reason="Python 3.13.0 does not count what is assigned to attributes"
)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 4, bias=False)
        self.scale, self.mode, self.shape = 2.0, "plain", (1, 4)

    def forward(self, x):
        y = self.linear(self.norm(x.reshape(-1, 4))) * self.scale
        if self.linear.bias is not None:
            y = y + self.linear.bias
        if self.mode == "twice":
            y = y * 2
        if self.linear.weight.requires_grad:
            y = y + 1
        if hasattr(self, "shift"):
            y = y + self.shift
        return y.reshape(-1, *self.shape)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.last = torch.nn.Linear(4, 4)
        self.depth = 2

    def forward(self, x):
        for _ in range(self.depth):
            x = self.blocks(x.reshape(-1, 4)).reshape(-1, 4)
        return self.last(x)


class Doubled(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


def make_model():
    torch.manual_seed(0)
    return Model().eval()


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def compile_watched(model, **options):
    options = {"guard_filter_fn": ortable.watch_modules, **options}
    return torch.compile(model, backend="ortable", options=options)


def check(compiled, model, x=X):
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def set_double(model):
    model.double()


def new_shapes(model):
    model.last = torch.nn.Linear(4, 6)


CHANGES = {
    "plain attribute": lambda m: setattr(m.blocks[1], "scale", 3.0),
    "attribute of the model": lambda m: setattr(m, "depth", 1),
    "text": lambda m: setattr(m.blocks[0], "mode", "twice"),
    "tuple": lambda m: setattr(m.blocks[0], "shape", (4, 1)),
    "new attribute": lambda m: setattr(m.blocks[0], "shift", 5.0),
    "dict": lambda m: m.blocks[1].__dict__.update(scale=7.0),
    "another dict": lambda m: setattr(
        m.blocks[1], "__dict__", {**m.blocks[1].__dict__, "scale": 9.0}
    ),
    "training": lambda m: m.train(),
    "training of one": lambda m: setattr(m.blocks[0].norm, "training", True),
    "eps": lambda m: setattr(m.blocks[0].norm, "eps", 0.5),
    "parameter assigned": lambda m: setattr(m.last, "weight", torch.nn.Parameter(torch.ones(4, 4))),
    "parameter written": lambda m: m.last.weight.data.mul_(2),
    "parameter's data": lambda m: setattr(m.last.weight, "data", torch.ones(4, 4)),
    "parameter transposed": lambda m: setattr(m.last.weight, "data", m.last.weight.data.t()),
    "parameter to None": lambda m: setattr(m.last, "bias", None),
    "parameter in place of None": lambda m: setattr(
        m.blocks[0].linear, "bias", torch.nn.Parameter(torch.ones(4))
    ),
    "parameter of another shape": new_shapes,
    "requires_grad": lambda m: m.blocks[0].linear.weight.requires_grad_(False),
    "buffer assigned": lambda m: setattr(m.blocks[0].norm, "running_mean", torch.ones(4)),
    "buffer written": lambda m: m.blocks[0].norm.running_mean.add_(1),
    "submodule assigned": lambda m: setattr(m, "last", torch.nn.Linear(4, 4)),
    "submodule of another class": lambda m: setattr(m, "last", Doubled(4, 4)),
    "class": lambda m: setattr(m.last, "__class__", Doubled),
    "submodule in a container": lambda m: m.blocks.__setitem__(0, torch.nn.Tanh()),
    "submodule removed": lambda m: m.blocks.__delitem__(0),
    "submodule appended": lambda m: m.blocks.append(torch.nn.Tanh()),
    "submodules swapped": lambda m: m.blocks._modules.update(
        {"0": m.blocks[1], "1": torch.nn.Identity()}
    ),
    "_modules": lambda m: setattr(m.blocks, "_modules", {"0": m.blocks[0]}),
    "state": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "state assigned": lambda m: m.load_state_dict(
        {k: v + 1 for k, v in m.state_dict().items()}, assign=True
    ),
    "forward of an instance": lambda m: setattr(m.last, "forward", lambda x: x * 3),
}


# Without our check torch does not see what is assigned in place of a tensor in the graph.
@pytest.mark.parametrize("free", [False, pytest.param(True, marks=needs_counts)])
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen(name, free):
    with torch._dynamo.config.patch(install_free_tensors=free):
        see_change(name)


def see_change(name):
    model = make_model()
    compiled = compile_watched(model)
    for _ in range(3):
        check(compiled, model)
    CHANGES[name](model)
    if name == "training" or name == "training of one":
        import copy

        expected = copy.deepcopy(model)  # statistics move at each call
        with torch.no_grad():
            torch.testing.assert_close(compiled(X), expected(X), rtol=1e-5, atol=1e-5)
        return
    for _ in range(3):
        check(compiled, model)


def test_another_dtype_is_seen():
    model = make_model()
    compiled = compile_watched(model)
    check(compiled, model)
    model.double()
    check(compiled, model, X.double())


def counting(model, **kwargs):
    counter = CompileCounter()
    options = {"guard_filter_fn": ortable.watch_modules}
    compiled = torch.compile(model, backend=counter, options=options, **kwargs)
    return compiled, counter


def test_what_comes_back_is_not_compiled_again():
    model = make_model()
    compiled, counter = counting(model)
    with torch.no_grad():
        compiled(X)
        for _ in range(12):
            model.train()
            model.eval()
            model.other = 3  # nothing asks for it
            compiled(X)
            compiled(X)
        model.last = torch.nn.Linear(4, 4).eval()
        compiled(X)
        model.load_state_dict(make_model().state_dict(), assign=True)
        compiled(X)
    assert counter.frame_count == 1


@needs_counts
def test_guards_on_modules_go_and_others_stay():
    found = {}

    def noted(guards):
        kept = ortable.watch_modules(guards)
        for entry, keep in zip(guards, kept, strict=True):
            found.setdefault((entry.guard_type, keep), []).append(entry.name)
        return kept

    model = make_model()
    compiled = torch.compile(model, backend="eager", options={"guard_filter_fn": noted})
    check(compiled, model)
    assert found["TENSOR_MATCH", True] == ["x"]
    assert len(found["TENSOR_MATCH", False]) > 4
    assert "self" in found["TYPE_MATCH", True]
    assert len(found["TYPE_MATCH", False]) > 10
    assert ("GLOBAL_STATE", False) not in found
    assert ("SHAPE_ENV", False) not in found


def test_arguments_and_modes_are_guarded_as_before():
    model = make_model()
    compiled, counter = counting(model, dynamic=False)
    with torch.no_grad():
        compiled(X)
        compiled(X[:2])
        compiled(X)
    compiled(X)
    assert counter.frame_count == 3
    with torch.inference_mode():
        compiled(X.clone())
    with torch.no_grad():
        compiled(X)
    assert counter.frame_count <= 4


@needs_counts
def test_a_module_that_changes_at_each_call_is_left_to_dynamo():
    model = make_model()
    compiled, counter = counting(model)
    with torch.no_grad():
        for number in range(3 * watched._RESTLESS):
            model.blocks[0].mark = number  # nothing asks for it
            torch.testing.assert_close(compiled(X), model(X))
    assert model in watched._restless
    assert counter.frame_count == 2


@torch._dynamo.config.patch(skip_nnmodule_hook_guards=False)
def test_hooks_are_seen_where_dynamo_is_asked_to():
    model = make_model()
    compiled = compile_watched(model)
    check(compiled, model)
    model.last.register_forward_hook(lambda module, args, result: result * 2)
    check(compiled, model)


def test_two_modules_of_one_class():
    one, two = make_model(), make_model()
    two.blocks[0].scale = 5.0
    first, second = compile_watched(one), compile_watched(two)
    for _ in range(3):
        check(first, one)
        check(second, two)


def test_a_module_used_by_a_function():
    model = make_model()

    def function(x):
        return model(x) + 1

    compiled = compile_watched(function)
    check(compiled, function)
    model.blocks[0].scale = 4.0
    check(compiled, function)
    model = make_model().double()
    check(compiled, function, X.double())


def test_modules_and_their_weights_go():
    model = make_model()
    compiled = compile_watched(model)
    check(compiled, model)
    gone = [weakref.ref(model), weakref.ref(model.blocks[0]), weakref.ref(model.last.weight)]
    del model, compiled
    gc.collect()
    assert [each() for each in gone[:2]] == [None, None]
    gc.collect()
    assert gone[2]() is None


@needs_counts
def test_a_module_that_knows_its_parent_keeps_its_guards():
    model = make_model()
    model.blocks[0].__dict__["parent"] = model
    kept = []

    def noted(guards):
        kept.append(ortable.watch_modules(guards))
        return kept[-1]

    compiled = torch.compile(model, backend="eager", options={"guard_filter_fn": noted})
    check(compiled, model)
    assert all(kept[0])
    gone = weakref.ref(model)
    del model, compiled
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None


def test_a_stamp_changes_with_dicts_and_classes():
    class One:
        pass

    class Two:
        pass

    inside, thing = {"a": 1}, One()
    if not writes_are_counted():
        return
    read = stamp_of([inside, thing.__dict__], [thing])
    seen = [read(), read()]
    assert seen[0] == seen[1]
    for write in (
        lambda: inside.update(a=2),
        lambda: setattr(thing, "b", 1),
        lambda: delattr(thing, "b"),
        lambda: setattr(thing, "__class__", Two),
        lambda: setattr(thing, "__dict__", {}),
    ):
        before = read()
        write()
        assert read() != before


@needs_counts
def test_what_watches_modules_is_not_saved():
    from types import SimpleNamespace

    watch = watched._Watch(make_model(), watched._Place())
    with pytest.raises(ortable.OptionError, match="guard_filter_fn"):
        watched._create(SimpleNamespace(save_guards=True), None, create=None, watch=watch)
