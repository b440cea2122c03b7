"""Two keys differ if a single property of the graph or of the setup differs."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import nn

from ortable.backend.cache import graph_key
from ortable.backend.cache.graph_key import constant_text, conversion_key, digest_of, graph_text
from ortable.backend.cache.keys import session_key
from ortable.backend.cache.memory import Sessions, new_conversions
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.argument_marks import mark_untracked_writes
from ortable.backend.options import OrtOptions
from ortable.backend.store import Uncacheable

RULES = """
- rewrite: twice_the_same
  stage: simplify
  why: a test
  pattern: return Neg(Neg(x))
  replace: return x
  samples:
    - {x: "f32[2,3]", expect: ""}
    - {x: "f32[2,3]", graph: "return Neg(Abs(x))", unchanged: the pattern does not fit}
"""


def make_graph(value: torch.Tensor, name: str = "x", position: int = 0) -> torch.fx.GraphModule:
    """Return a graph that returns its argument, whose FX metadata is `value`."""
    graph = torch.fx.Graph()
    argument = graph.placeholder(name)
    argument.meta = {"val": value, "desc": SimpleNamespace(idx=position)}
    graph.output((argument,))
    return torch.fx.GraphModule(nn.Module(), graph)


def make_key(name: str = "x", **options: Any) -> str:
    value = torch.ones(2, dtype=torch.float32)
    return conversion_key(AotGraph(make_graph(value, name)), OrtOptions(**options), frozenset())


def test_the_default_dtype_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    original = make_key()
    monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)
    assert make_key() != original


def test_what_new_memory_holds_is_in_the_key() -> None:
    keys = [make_key()]
    torch.use_deterministic_algorithms(True)
    fill_setting = torch.utils.deterministic.fill_uninitialized_memory
    try:
        keys.append(make_key())
        torch.utils.deterministic.fill_uninitialized_memory = not fill_setting
        keys.append(make_key())
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fill_setting
        torch.use_deterministic_algorithms(False)
    assert len(set(keys)) == 3 and make_key() == keys[0]


def test_the_specs_of_the_user_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    original = make_key()
    monkeypatch.setattr(
        graph_key, "LOADED_SPECS", [*graph_key.LOADED_SPECS, SimpleNamespace(source="a file")]
    )
    assert make_key() != original


def test_rewrites_are_in_the_key_by_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    keys = [make_key(), make_key(rewrites="none"), make_key(rewrites=["default", str(path)])]
    path.write_text(RULES.replace("a test", "another test"))
    keys.append(make_key(rewrites=["default", str(path)]))
    assert len(set(keys)) == 4


def test_forward_and_inference_are_two_keys() -> None:
    """The graph's text leaves out argument names, which distinguish forward from inference."""
    assert make_key("primals_1") != make_key("x") == make_key("y")


BASE = torch.arange(12.0).reshape(3, 4)
COMPLEX = torch.complex(BASE, BASE + 1)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        pytest.param(BASE[:2], BASE[1:], id="offset"),
        pytest.param(BASE.t(), torch.ones(4, 3), id="strides"),
        pytest.param(BASE, BASE.double(), id="dtype"),
        pytest.param(COMPLEX, COMPLEX.conj(), id="conjugate"),
        pytest.param(COMPLEX.imag, COMPLEX.conj().imag, id="negated"),
        pytest.param(BASE, BASE.to_sparse(), id="layout"),
    ],
)
def test_graphs_differ_by_what_fx_knows_of_a_tensor(
    value: torch.Tensor, other: torch.Tensor
) -> None:
    assert graph_text(make_graph(value)) != graph_text(make_graph(other))
    assert graph_text(make_graph(value)) == graph_text(make_graph(value))


def test_weights_that_somebody_writes_past_torch_are_others() -> None:
    plain, marked = make_graph(BASE, position=3), make_graph(BASE, position=3)
    mark_untracked_writes(marked, frozenset({3}))
    assert graph_text(marked) != graph_text(plain)
    mark_untracked_writes(plain, frozenset({2}))
    assert graph_text(marked) != graph_text(plain)


def test_numbers_that_differ_in_the_sixteenth_digit_are_others() -> None:
    texts = {
        graph_key._GraphWriter().expression_text(sympy.Float(number), None)
        for number in (0.1, 0.10000000000000002)
    }
    assert len(texts) == 2


def test_the_content_of_a_constant_is_what_it_says_not_what_lies_in_memory() -> None:
    conjugate = COMPLEX.conj()
    assert digest_of(conjugate) == digest_of(conjugate.resolve_conj()) != digest_of(COMPLEX)
    negated = conjugate.imag
    assert negated.is_neg()
    assert digest_of(negated) == digest_of(negated.resolve_neg()) != digest_of(-negated)
    assert constant_text(conjugate) != constant_text(conjugate.resolve_conj())


class TensorSubclass(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        (torch.ones(2).to_sparse(), "a constant is a Tensor of layout torch.sparse_coo"),
        (torch.ones(2).as_subclass(TensorSubclass), "a constant is a TensorSubclass of layout"),
        (torch.ones(2, device="meta"), "a constant is a tensor of torch.float32 on meta"),
        (torch.ones(3), "constants of more than 2 GB"),
        (lambda x: x, "has no content to compare"),
    ],
)
def test_constants_that_have_no_key(
    constant: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_key, "MAX_CONSTANT_BYTES", 8)
    graph = torch.fx.Graph()
    graph.output((graph.get_attr("constant"),))
    module = nn.Module()
    module.constant = constant
    with pytest.raises(Uncacheable, match=message):
        graph_text(torch.fx.GraphModule(module, graph))


def test_a_graph_that_calls_a_module_has_no_key() -> None:
    with pytest.raises(Uncacheable, match="_0 calls a module"):
        graph_text(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))))


def _make_compiled(*input_names: str) -> Any:
    return SimpleNamespace(key="k", inputs=[SimpleNamespace(name=name) for name in input_names])


def test_sessions_differ_by_names_options_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    options = OrtOptions()
    keys = [
        session_key(_make_compiled("x"), options),
        session_key(_make_compiled("y"), options),
        session_key(_make_compiled("x"), options, "frozen"),
        session_key(_make_compiled("x"), OrtOptions(session_options={"log_severity_level": 1})),
    ]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    keys.append(session_key(_make_compiled("x"), options))
    assert len(set(keys)) == 5


class _Session:
    """A stand-in for a session that supports weak references."""


def test_the_memory_of_weights_lives_as_long_as_their_session() -> None:
    """A weight's memory lives as long as its session, so that its address is not reused."""
    array = np.ones(64, np.float32)
    memory = weakref.ref(array)
    weight = torch.from_numpy(array)
    sessions = Sessions()
    session = sessions.get_or_make("k", [weight], _Session)
    assert sessions.get_or_make("k", [weight], _Session) is session
    del array, weight
    gc.collect()
    assert memory() is not None
    del session
    gc.collect()
    assert memory() is None and len(sessions) == 0


def test_the_conversion_that_was_not_used_for_longest_goes_first() -> None:
    model = SimpleNamespace(model=SimpleNamespace(ByteSize=lambda: 10))
    cache = new_conversions(count=2, size=25)
    cache.put("a", model)  # type: ignore[arg-type]
    cache.put("b", model)  # type: ignore[arg-type]
    assert cache.get("a") is model
    cache.put("c", model)  # type: ignore[arg-type]
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (model, None, model)
    for _ in range(5):  # dropped and overwritten entries no longer count
        cache.put("a", model)  # type: ignore[arg-type]
    assert len(cache) == 2
