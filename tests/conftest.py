"""Fixtures and options that every test folder shares."""

from __future__ import annotations

import gc
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import settings
from onnx.reference import ReferenceEvaluator

from ortable import GraphBuilder
from tests.process_state import changes, process_state
from tests.rotation import is_of_part, turn
from tests.skips import Skips

# Collections of the middle generation since the last full one: some 100,000 new objects each.
_MANY = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--opsets",
        choices=("few", "some", "all"),
        default="few",
        help="what the samples of the specs run at: the ends (an opset for each target), all, or a "
        "third of all, which the commit chooses",
    )

    parser.addoption(
        "--sweeps",
        action="store_true",
        help="collect tests/sweeps too: programs and models that others wrote (make sweeps)",
    )

    parser.addoption(
        "--derived",
        type=int,
        help="which part of the derived samples tests/derive runs; the commit chooses one",
    )

    parser.addoption(
        "--files-of",
        type=int,
        default=1,
        help="run the tests of one file out of so many, which the commit chooses",
    )

    parser.addoption(
        "--every-program",
        action="store_true",
        help="run what takes turns as a whole, not the part that the commit chooses",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``tests/sweeps`` has a target of its own, so that ``make test`` stays short."""
    if collection_path.name == "sweeps" and not config.getoption("--sweeps"):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked as slow run with the sweeps, and with all opsets; both leave out what
    `make test` runs in the same way. Of tests that alternate the sweeps run the next part. A test
    that the command names runs in any case."""
    sweeps = config.getoption("--sweeps")
    if config.getoption("--opsets") != "few" and not sweeps:
        left_out = {item for item in items if not _does_more_at_all_opsets(item)}
    else:
        asked = {argument.partition("::")[2] for argument in config.args}
        others = [i for i in items if asked.isdisjoint((i.name, getattr(i, "originalname", "")))]
        turns = {} if config.getoption("--every-program") else _turns(others)
        left_out = {item for item in others if not _has_its_turn(item, turns.get(item), sweeps)}
    if (files := config.getoption("--files-of")) > 1:
        number = turn()
        left_out = {*left_out, *(i for i in items if not is_of_part(i.path.name, number, files))}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _has_its_turn(item: pytest.Item, number: int | None, sweeps: bool) -> bool:
    """Whether a run takes a test: ``number`` is its turn among those that alternate."""
    if "sweeps" in item.path.parts or item.get_closest_marker("slow") is not None:
        return sweeps and number in (None, 0)
    if number is not None:
        return number == int(sweeps)
    return not sweeps or item.get_closest_marker("sweep") is not None


def _turns(items: list[pytest.Item]) -> dict[pytest.Item, int]:
    """The turns of tests marked `alternates`: 0 with this commit, 1 with its sweeps, others with
    other commits. Of the values of a parameter one is 0 with each combination of the others, or
    each second, third... where the mark says so; of all cases where it names no parameter."""
    groups: dict[tuple[Any, ...], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("alternates")
        if mark is not None and isinstance(item, pytest.Function):
            name, parts = next(iter(mark.args), None), mark.kwargs.get("parts", 0)
            given = item.callspec.params.items()
            others = tuple(sorted((n, repr(v)) for n, v in given if name not in (None, n)))
            function = item.nodeid.partition("[")[0]
            groups.setdefault((function, others, parts), []).append(item)
    turns: dict[pytest.Item, int] = {}
    number = turn() if groups else 0
    for key, found in groups.items():
        # begins elsewhere in each group, not with one mode in all, and in each process as here
        name = re.sub(r" at 0x[0-9a-f]+", "", repr(key))
        first, count = number + zlib.crc32(name.encode()), key[-1] or len(found)
        turns |= {item: (first - index) % count for index, item in enumerate(found)}
    return turns


def _does_more_at_all_opsets(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("opsets", "slow"))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Skips(), "skips-of-the-list")
    # Modules, specs and test items stay until the end: the collector, and tests that call it, need
    # not walk over them again and again (`pytest_collection_finish`). The process that only hands
    # tests out to workers (`-n 2`) collects none.
    if not getattr(config.option, "numprocesses", None):
        gc.disable()
    # One thread in torch, and so in the sessions of the backend: the tests are many small graphs
    # in parallel processes, and sums come out in the same order on every machine.
    torch.set_num_threads(1)
    settings.register_profile("ortable", deadline=None, derandomize=True, print_blob=True)
    settings.load_profile("ortable")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    # Little of a test's graphs is garbage before it ends: ten times fewer walks over all of them.
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Models that a file makes when it is imported have the same weights whatever else is run."""
    if isinstance(collector, pytest.Module):
        _seed()


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def frozen_after_each_file() -> Iterator[None]:
    """What the tests of a file have left, caches of torch and imported libraries, is left until the
    end: the walks of later tests do not go over it again. Without this a full collection takes two
    seconds late in a run, and tests of what goes away ask for many."""
    yield
    if gc.get_count()[2] >= _MANY:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same numbers, whatever ran before it."""
    _seed()


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """What belongs to the whole process is after each test as it was."""
    before = process_state()
    yield
    left = changes(before)
    assert not left, left


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """torch.compile starts without compiled code or conversions, and leaves no code behind."""
    from ortable.backend.cache.memory import clear_caches

    torch._dynamo.reset()
    clear_caches()
    yield
    torch._dynamo.reset()


@pytest.fixture
def own_specs() -> Iterator[None]:
    """Entries that a test loads are gone after it."""
    from ortable.interpreter.tables import LOADED_SPECS
    from ortable_generated.aten import dispatch

    tables = (
        dispatch.CONVERTERS, dispatch.COMPLEX_CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES
    )  # fmt: skip
    saved, loaded = [dict(table) for table in tables], list(LOADED_SPECS)
    yield
    LOADED_SPECS[:] = loaded
    for table, before in zip(tables, saved, strict=True):
        table.clear()
        table.update(before)


def run_ort(
    builder: GraphBuilder, feeds: dict[str, np.ndarray], **options: Any
) -> list[np.ndarray]:
    model = builder.to_onnx(**options)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def run_reference(builder: GraphBuilder, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ReferenceEvaluator(builder.to_onnx()).run(None, feeds)


@pytest.fixture
def ort():
    return run_ort


@pytest.fixture
def reference():
    return run_reference
