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
from tests.rotation import is_of_part, rotation_seed
from tests.skips import Skips

# Middle-generation collections since the last full collection: some 100,000 new objects each.
_MIN_COLLECTIONS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--opsets",
        choices=("few", "some", "all"),
        default="few",
        help="opsets of the spec samples: few (one for each target), all, or some, a third that "
        "the commit selects",
    )

    parser.addoption(
        "--sweeps",
        action="store_true",
        help="collect tests/sweeps, too: programs and models of other projects (make sweeps)",
    )

    parser.addoption(
        "--derived",
        type=int,
        help="part of the derived samples for tests/derive (default: by the commit)",
    )

    parser.addoption(
        "--files-of",
        type=int,
        default=1,
        help="run one file out of this number, selected by the commit",
    )

    parser.addoption(
        "--every-program",
        action="store_true",
        help="run all alternating tests, not the part that the commit selects",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``tests/sweeps`` has its own target, so that ``make test`` stays short."""
    if collection_path.name == "sweeps" and not config.getoption("--sweeps"):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that another run covers.

    Slow tests run with the sweeps and with all opsets; both omit tests that `make test` runs in the
    same way. The sweeps run the next part of alternating tests. Tests named on the command line
    always run.
    """
    sweeps = config.getoption("--sweeps")
    if config.getoption("--opsets") != "few" and not sweeps:
        omitted = {item for item in items if not _depends_on_opsets(item)}
    else:
        named = {argument.partition("::")[2] for argument in config.args}
        unnamed = [i for i in items if named.isdisjoint((i.name, getattr(i, "originalname", "")))]
        turns = {} if config.getoption("--every-program") else _compute_turns(unnamed)
        omitted = {item for item in unnamed if not _is_selected(item, turns.get(item), sweeps)}
    if (files := config.getoption("--files-of")) > 1:
        number = rotation_seed()
        omitted = {*omitted, *(i for i in items if not is_of_part(i.path.name, number, files))}
    if omitted:
        config.hook.pytest_deselected(items=[item for item in items if item in omitted])
        items[:] = [item for item in items if item not in omitted]


def _is_selected(item: pytest.Item, number: int | None, sweeps: bool) -> bool:
    """Return whether a run includes a test; ``number`` is its turn among alternating tests."""
    if "sweeps" in item.path.parts or item.get_closest_marker("slow") is not None:
        return sweeps and number in (None, 0)
    if number is not None:
        return number == int(sweeps)
    return not sweeps or item.get_closest_marker("sweep") is not None


def _compute_turns(items: list[pytest.Item]) -> dict[pytest.Item, int]:
    """Return the turns of tests marked `alternates`: 0 in this run, 1 in the sweeps of this code.

    One value of the named parameter has turn 0 for each combination of the others, or every n-th
    value where the mark has ``parts=n``. Without a named parameter all cases of a test alternate.
    """
    groups: dict[tuple[Any, ...], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("alternates")
        if mark is not None and isinstance(item, pytest.Function):
            name, parts = next(iter(mark.args), None), mark.kwargs.get("parts", 0)
            params = item.callspec.params if hasattr(item, "callspec") else {}
            other_params = tuple(
                sorted((n, repr(v)) for n, v in params.items() if name not in (None, n))
            )
            function = item.nodeid.partition("[")[0]
            groups.setdefault((function, other_params, parts), []).append(item)
    turns: dict[pytest.Item, int] = {}
    number = rotation_seed() if groups else 0
    for key, members in groups.items():
        # starts elsewhere in each group, so that modes mix, and equally in every process
        name = re.sub(r" at 0x[0-9a-f]+", "", repr(key))
        first, count = number + zlib.crc32(name.encode()), key[-1] or len(members)
        turns |= {item: (first - index) % count for index, item in enumerate(members)}
    return turns


def _depends_on_opsets(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("opsets", "slow"))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Skips(), "skips-of-the-list")
    # Modules, specs and test items live until the end, so the collector need not traverse them
    # (`pytest_collection_finish`). The process that only distributes tests to workers (`-n 2`)
    # collects none.
    if not getattr(config.option, "numprocesses", None):
        gc.disable()
    # One thread in torch, and so in the sessions of the backend: tests are small graphs in parallel
    # processes, and sums have the same order on every machine.
    torch.set_num_threads(1)
    settings.register_profile("ortable", deadline=None, derandomize=True, print_blob=True)
    settings.load_profile("ortable")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    # Little of a test's graphs is garbage before its end: ten times fewer collections.
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Seed before the import of a test file, so that its models always have the same weights."""
    if isinstance(collector, pytest.Module):
        _seed()


def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def freeze_garbage() -> Iterator[None]:
    """Exclude the objects that the tests of a file leave from later garbage collections.

    Otherwise a full collection takes two seconds late in a run, and some tests need many.
    """
    yield
    if gc.get_count()[2] >= _MIN_COLLECTIONS:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def seed_test() -> None:
    """Seed every test, independently of the tests before it."""
    _seed()


@pytest.fixture(autouse=True)
def check_process_state() -> Iterator[None]:
    """Fail a test that changes the state of the process."""
    before = process_state()
    yield
    changed = changes(before)
    assert not changed, changed


@pytest.fixture
def fresh_dynamo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start torch.compile without compiled code or conversions, and leave no code behind.

    Every operator warns of its fallback again, also where an earlier test expected the warning.
    """
    from ortable.backend.aot import hints
    from ortable.backend.cache.memory import clear_caches

    torch._dynamo.reset()
    clear_caches()
    monkeypatch.setattr(hints, "_warned_operators", set())
    yield
    torch._dynamo.reset()


@pytest.fixture
def own_specs() -> Iterator[None]:
    """Remove the entries that a test loads."""
    from ortable.interpreter.tables import LOADED_SPECS
    from ortable_generated.aten import dispatch

    tables = (
        dispatch.CONVERTERS, dispatch.COMPLEX_CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES
    )  # fmt: skip
    saved, loaded = [dict(table) for table in tables], list(LOADED_SPECS)
    yield
    LOADED_SPECS[:] = loaded
    for table, entries in zip(tables, saved, strict=True):
        table.clear()
        table.update(entries)


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
