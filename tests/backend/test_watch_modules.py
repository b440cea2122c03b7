"""The watch over modules sees every change that the guards it replaces would have seen: as the
backend's default, and as `guard_filter_fn`."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.testing import CompileCounter

import ortable
from ortable.backend.aot import module_watch, watch_modules
from ortable.backend.aot.module_guards import Place, Seen, Unwatched, holds, note
from ortable.compat import torch_guards
from ortable.compat.python import stamp_of, writes_are_counted, writes_are_counted_in_memory

needs_counts = pytest.mark.skipif(
    not writes_are_counted(), reason="Python 3.13.0 does not count what is assigned to attributes"
)

needs_memory = pytest.mark.skipif(
    not writes_are_counted_in_memory(), reason="guards stay as dynamo makes them by default"
)


@pytest.fixture(autouse=True)
def small_models_are_watched(monkeypatch):
    monkeypatch.setattr(watch_modules, "_FEWEST", 1)


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


WATCHES = {"default": {}, "filter": {"guard_filter_fn": ortable.watch_modules}}


def compile_watched(model, watch="default", **options):
    options = {**WATCHES[watch], **options}
    return torch.compile(model, backend="ortable", options=options)


def entries(code=None):
    """What dynamo has compiled of a function."""
    return _debug_get_cache_entry_list(code or Model.forward.__code__)


def guards_text(entry):
    return str(entry.guard_manager)


def is_watched(entry):
    return "the modules are as they were" in guards_text(entry)


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
    "shape of a parameter": lambda m: m.blocks[0].linear.weight.data.resize_(4, 4).zero_(),
    "strides of a parameter": lambda m: m.last.weight.data.t_(),
    "parameter's dict": lambda m: setattr(m.last.weight, "__dict__", {"mine": 1}),
    "property of a class": lambda m: setattr(m.last, "__class__", type("Other", (Doubled,), {})),
    "mark of a size": lambda m: torch._dynamo.mark_static(m.last.weight, 0),
    "parameters' dict": lambda m: setattr(
        m.last, "_parameters", {"weight": torch.nn.Parameter(torch.ones(4, 4)), "bias": None}
    ),
    "buffers' dict": lambda m: setattr(
        m.blocks[0].norm, "_buffers", {k: v + 1 for k, v in m.blocks[0].norm._buffers.items()}
    ),
    "attribute deleted": lambda m: (
        setattr(m.blocks[0], "shift", 5.0),
        delattr(m, "last"),
        setattr(m, "last", torch.nn.Linear(4, 4)),
    ),
}


# Without our check torch does not see what is assigned in place of a tensor in the graph.
@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("free", [False, pytest.param(True, marks=needs_counts)])
@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_seen(name, watch, free):
    with torch._dynamo.config.patch(install_free_tensors=free):
        see_change(name, watch)


def see_change(name, watch):
    model = make_model()
    compiled = compile_watched(model, watch)
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


@needs_counts
@pytest.mark.parametrize("name", ["parameter assigned", "buffer assigned", "submodule assigned"])
def test_weights_in_the_graph_of_a_small_model_are_watched(name, monkeypatch):
    """dynamo has no guard that would see another parameter, however few guards there are."""
    monkeypatch.setattr(watch_modules, "_FEWEST", 400)
    with torch._dynamo.config.patch(install_free_tensors=True):
        see_change(name, "default")


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
def test_a_module_that_changes_at_each_call_is_left_to_dynamo(monkeypatch):
    looks, look = [], module_watch._look_at
    monkeypatch.setattr(module_watch, "_look_at", lambda *a: looks.append(a) or look(*a))
    model = make_model()
    compiled, counter = counting(model)
    with torch.no_grad():
        for number in range(64):
            model.blocks[0].mark = number  # nothing asks for it
            torch.testing.assert_close(compiled(X), model(X))
    assert 0 < len(looks) < 8
    assert counter.frame_count == 1


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


@needs_memory
def test_a_module_that_hooks_of_its_parameters_know_is_left_to_dynamo(monkeypatch):
    looks, look = [], module_watch._look_at
    monkeypatch.setattr(module_watch, "_look_at", lambda *a: looks.append(look(*a)) or looks[-1])
    model = make_model()
    model.last.weight.register_hook(lambda grad, model=model: None)
    compiled = compile_watched(model)
    for _ in range(4):
        check(compiled, model)
    assert looks and set(looks) == {None}


@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("late", [False, True])
def test_a_module_that_knows_its_parent_goes(watch, late):
    model = make_model()
    compiled = compile_watched(model, watch)
    if late:
        check(compiled, model)
    model.blocks[0].__dict__["parent"] = model
    for _ in range(4):
        check(compiled, model)
    gone = weakref.ref(model)
    del model, compiled
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

    builder = SimpleNamespace(save_guards=True)
    with pytest.raises(ortable.OptionError, match="guard_filter_fn"):
        watch_modules._create_filtered(builder, None, create=None, place=Place(), behind=[])


@needs_memory
def test_watching_is_the_default_and_an_option():
    model = make_model()
    check(compile_watched(model), model)
    (entry,) = entries()
    assert is_watched(entry)
    text = guards_text(entry)
    assert "check_tensor(L['x']" in text
    assert "check_tensor(L['self']" not in text
    torch._dynamo.reset()
    check(compile_watched(model, watch_modules=False), model)
    (entry,) = entries()
    assert not is_watched(entry)
    assert "check_tensor(L['self']" in guards_text(entry)


@pytest.mark.parametrize(
    "filter_",
    [
        torch.compiler.skip_guard_on_all_nn_modules_unsafe,
        torch.compiler.keep_tensor_guards_unsafe,
        lambda guards: [True for _ in guards],
    ],
)
def test_a_filter_of_the_user_decides(filter_):
    """It sees the guards that dynamo has made, and those that it keeps are dynamo's."""
    kept = {}

    def noting(where):
        def noted(guards):
            chosen = filter_(guards)
            kept[where] = sorted(
                (each.guard_type, each.derived_guard_types, re.sub(r"___\d+", "", each.name), keep)
                for each, keep in zip(guards, chosen, strict=True)
            )
            return chosen

        return noted

    texts = {}
    for where, watch in (("plain", False), ("watched", True)):
        torch._dynamo.reset()
        model = make_model()
        options = {"guard_filter_fn": noting(where), "watch_modules": watch}
        check(torch.compile(model, backend="ortable", options=options), model)
        (entry,) = entries()
        assert not is_watched(entry)
        texts[where] = [line.split(":")[0] for line in guards_text(entry).splitlines()]
    assert kept["plain"] == kept["watched"]
    assert texts["plain"] == texts["watched"]


@needs_memory
def test_a_compilation_says_in_dynamos_words_why():
    model = make_model()
    compiled = compile_watched(model)
    check(compiled, model)
    model.blocks[1].scale = 3.0
    refused = pytest.raises(torch._dynamo.exc.RecompileError, match=r"scale == 2\.0")
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True), refused:
        compiled(X)


# Modules that share the code of a forward, and with it what is compiled of it.


@pytest.mark.parametrize("watch", [*WATCHES, "none"])
def test_equal_modules_share_a_graph(watch):
    options = {"watch_modules": False} if watch == "none" else WATCHES[watch]
    layers = [make_model() for _ in range(12)]
    for layer in layers:
        layer.compile(backend="ortable", options=options)
    with torch.no_grad():
        for _ in range(4):
            for layer in layers:
                torch.testing.assert_close(layer(X), layer.forward(X), rtol=1e-5, atol=1e-5)
    assert len(entries()) == 1
    layers[5].blocks[0].scale = 4.0
    with torch.no_grad():
        for _ in range(4):
            for layer in layers:
                torch.testing.assert_close(layer(X), layer.forward(X), rtol=1e-5, atol=1e-5)
    assert len(entries()) == 2


@pytest.mark.parametrize("watch", WATCHES)
def test_more_modules_than_are_remembered(watch, monkeypatch):
    monkeypatch.setattr(module_watch, "_MOST_MODULES", 2)
    layers = [make_model() for _ in range(4)]
    compiled = [compile_watched(layer, watch) for layer in layers]
    for _ in range(3):
        for each, layer in zip(compiled, layers, strict=True):
            check(each, layer)
    assert len(entries()) == 1
    for layer in layers:
        layer.last.bias = None
    for each, layer in zip(compiled, layers, strict=True):
        check(each, layer)
    assert len(entries()) == 2


def test_a_module_at_the_address_of_one_that_is_gone():
    compiled = torch.compile(lambda model, x: model(x), backend="ortable")
    for number in range(12):
        model = make_model()
        model.blocks[0].scale = float(number % 3)
        for _ in range(3):
            with torch.no_grad():
                torch.testing.assert_close(compiled(model, X), model(X), rtol=1e-5, atol=1e-5)
        del model


@needs_memory
def test_regions_of_one_model_share_what_dynamo_shares():
    class Tower(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Model() for _ in range(6))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    tower = Tower().eval()
    expected = tower(X).detach()
    for layer in tower.layers:
        layer.compile(backend="ortable")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(tower(X), expected, rtol=1e-5, atol=1e-5)
    assert len(entries()) == 1


@needs_memory
def test_resumed_frames_are_watched():
    class Broken(Model):
        def forward(self, x):
            y = self.blocks(x)
            torch._dynamo.graph_break()
            return self.last(y.reshape(-1, 4)) * self.blocks[0].scale

    model = Broken().eval()
    compiled = compile_watched(model)
    for _ in range(3):
        check(compiled, model)
    model.blocks[0].scale = 3.0
    check(compiled, model)
    model.last.bias = None
    check(compiled, model)


@needs_memory
def test_training_is_watched_and_weights_move():
    model, twin = make_model().train(), make_model().train()
    compiled = compile_watched(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.001) for each in (model, twin)]
    for step in range(6):
        for run, optimizer in zip((compiled, twin), optimizers, strict=True):
            optimizer.zero_grad()
            run(X + step).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-4)
    assert any(map(is_watched, entries()))


def test_threads_call_while_another_changes():
    model = make_model()
    compiled = compile_watched(model)
    check(compiled, model)
    before = model(X).detach()
    wrong = []

    def calls():
        with torch.no_grad():
            for _ in range(200):
                got = compiled(X)
                if not any(torch.allclose(got, each, atol=1e-5) for each in (before, after)):
                    wrong.append(got)

    model.blocks[0].scale = 3.0
    check(compiled, model)
    after = model(X).detach()
    threads = [threading.Thread(target=calls) for _ in range(3)]
    for each in threads:
        each.start()
    for number in range(200):
        model.blocks[0].scale = (2.0, 3.0)[number % 2]
        model.unasked = number
    for each in threads:
        each.join()
    assert not wrong
    check(compiled, model)


# What torch does not have, or does differently.


def test_without_torchs_interfaces_guards_stay(monkeypatch):
    monkeypatch.setattr(watch_modules, "can_be_replaced", lambda: False)
    model = make_model()
    for watch in WATCHES:
        torch._dynamo.reset()
        check(compile_watched(model, watch), model)
        assert not is_watched(entries()[0])


@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("failing", ["raises", "declines"])
def test_what_cannot_be_built_apart_stays(watch, failing, monkeypatch):
    def apart(*args):
        if failing == "raises":
            raise AttributeError("another torch")

    monkeypatch.setattr(watch_modules, "ask_apart", apart)
    model = make_model()
    compiled = compile_watched(model, watch)
    check(compiled, model)
    (entry,) = entries()
    assert not is_watched(entry)
    assert "check_tensor(L['self']" in guards_text(entry)
    model.blocks[1].scale = 3.0
    check(compiled, model)


class Getting(Model):
    def __getattr__(self, name):
        return 3.0 if name == "factor" else super().__getattr__(name)


def test_classes_that_look_up_attributes_in_their_own_way():
    model = Getting().eval()
    compiled = compile_watched(model)
    for _ in range(3):
        check(compiled, model)
    model.depth = 1
    check(compiled, model)
    model.blocks[0].scale = 7.0
    check(compiled, model)


def asked(kind="EQUALS_MATCH"):
    """A guard as dynamo describes it."""
    return SimpleNamespace(guard_type=kind, orig_guard=SimpleNamespace())


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (2.0, 2), (0, False)])
def test_an_equal_number_of_another_type_is_another(before, after):
    module, place = torch.nn.Linear(1, 1), Place()
    module.factor = before
    note(module, place, [("attr", "factor")], asked())
    assert holds(place, module, Seen())
    module.factor = after
    assert not holds(place, module, Seen())


class Computed(torch.nn.Module):
    """What is read of it is no entry of its dict."""

    of_class = 3.0
    factor = property(lambda self: self.__dict__["factor"] * self.times, lambda self, value: None)


def test_a_property_that_hides_an_attribute_is_left_to_dynamo():
    module = Computed()
    module.times = 2
    module.__dict__["factor"] = 3.0
    with pytest.raises(Unwatched):
        note(module, Place(), [("attr", "factor")], asked())


@pytest.mark.parametrize("way", [("attr", "of_class"), ("attr", "nothing"), ("attr", "others")])
def test_what_is_no_entry_of_a_plain_dict_is_left_to_dynamo(way):
    module = Computed()
    module.others = [torch.nn.Linear(1, 1)]
    with pytest.raises(Unwatched):
        note(module, Place(), [way, ("item", 0)], asked())


def test_a_frame_of_few_guards_keeps_them(monkeypatch):
    monkeypatch.setattr(watch_modules, "_FEWEST", 400)
    model = make_model()
    check(compile_watched(model), model)
    assert not is_watched(entries()[0])


@needs_memory
def test_the_interfaces_are_there():
    assert torch_guards.can_be_replaced()
    assert torch_guards.guards_of_frame() == []
