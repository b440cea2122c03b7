"""Size and age limits of the `cache_dir` folder, and `torch.compiler.save_cache_artifacts`."""

from __future__ import annotations

import os
import time
import warnings

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from ortable.backend import store as store
from ortable.backend.cache import conversion
from ortable.backend.options import OrtOptions
from ortable.backend.store import Limits
from ortable.compat.torch import CacheArtifactManager, loaded_cache_artifacts
from ortable.errors import OptionError

from .test_cache_disk import cached, capture, entries, forget
from .test_cache_disk import own_folders as own_folders  # an autouse fixture


@pytest.fixture(autouse=True)
def clear_folder_sizes(monkeypatch):
    monkeypatch.setattr(store, "_folder_sizes", {})


def compile_all(folder, functions, **options):
    for function in functions:
        forget()
        capture(function, torch.ones(3), cache_dir=str(folder), **options)


def entry_names(folder):
    return {path.name for path in entries(folder)}


def age(path, days):
    timestamp = time.time() - days * 86400
    os.utime(path, (timestamp, timestamp))


def test_files_that_nobody_reads_go(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp, torch.sin])
    old, young = sorted(entries(folder))
    (folder / "notes.txt").write_text("of the user")
    (folder / ".new-1-abc").write_text("of a process that is gone")
    age(old, 91), age(young, 89), age(folder / "notes.txt", 500), age(folder / ".new-1-abc", 1)
    store._folder_sizes.clear()
    compile_all(folder, [torch.cos])
    remaining = entry_names(folder)
    assert old.name not in remaining and young.name in remaining and len(remaining) == 2
    assert {path.name for path in folder.iterdir()} == {*remaining, "notes.txt"}


def test_a_file_that_is_read_stays(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp, torch.sin])
    for path in entries(folder):
        age(path, 89)
    graphs, _ = capture(torch.sin, torch.ones(3), cache_dir=str(folder))
    forget()
    graphs, _ = capture(torch.sin, torch.ones(3), cache_dir=str(folder))
    assert cached(graphs) == ["disk"]
    ages = sorted(time.time() - path.stat().st_mtime for path in entries(folder))
    assert ages[0] < 3600 and ages[1] > 80 * 86400


def test_the_least_recently_used_go_where_the_folder_is_full(tmp_path, monkeypatch):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp, torch.sin, torch.cos])
    sizes = [path.stat().st_size for path in entries(folder)]
    for index, path in enumerate(sorted(entries(folder))):
        age(path, 3 - index)
    first, second, third = sorted(entries(folder))
    limits = Limits(size=int(2.5 * max(sizes)))
    monkeypatch.setattr(conversion, "limits_of", lambda options: limits)
    compile_all(folder, [torch.tanh])
    remaining = entry_names(folder)
    assert first.name not in remaining and second.name not in remaining and third.name in remaining
    assert len(remaining) == 2
    # The entry just written stays, whatever its size.
    monkeypatch.setattr(conversion, "limits_of", lambda options: Limits(size=1))
    compile_all(folder, [torch.abs])
    assert len(entry_names(folder)) == 1


def test_no_limit(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp], cache_days=0, cache_megabytes=0)
    (path,) = entries(folder)
    age(path, 5000)
    store._folder_sizes.clear()
    compile_all(folder, [torch.sin], cache_days=0, cache_megabytes=0)
    assert len(entries(folder)) == 2


def test_decisions_and_settings_go_like_conversions(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp])
    for suffix in (store.DECISION, store.SETTINGS):
        store.write_file(folder / f"abc{suffix}", b"{}")
        age(folder / f"abc{suffix}", 91)
    store._folder_sizes.clear()
    compile_all(folder, [torch.sin])
    assert len(entry_names(folder)) == len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("value", [-1, 0.5, True, "1"])
@pytest.mark.parametrize("name", ["cache_megabytes", "cache_days"])
def test_limits_are_whole_numbers(name, value):
    with pytest.raises(OptionError, match=name):
        OrtOptions(**{name: value})


# -- torch.compiler.save_cache_artifacts


@pytest.fixture
def artifacts():
    with CacheArtifactManager.with_fresh_cache():
        yield


def load_on_another_machine(monkeypatch, tmp_path, blob):
    forget()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch of another"))
    assert torch.compiler.load_cache_artifacts(blob) is not None


def test_one_blob_warms_another_machine(tmp_path, monkeypatch, artifacts):
    model = nn.Linear(3, 2)
    capture(model, torch.ones(2, 3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    load_on_another_machine(monkeypatch, tmp_path, saved[0])
    target = tmp_path / "there"
    graphs, _ = capture(model, torch.ones(2, 3), cache_dir=str(target))
    assert cached(graphs) == ["disk", "disk"]
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert entry_names(target) == entry_names(tmp_path / "here") and len(entry_names(target)) == 2
    remaining = loaded_cache_artifacts("").rglob("*")
    assert not [path for path in remaining if "ortable-" in str(path) and path.is_file()]
    # Loaded artifacts are part of the next blob, too.
    saved_again = torch.compiler.save_cache_artifacts()
    assert saved_again is not None and saved_again[1].artifacts.keys() == saved[1].artifacts.keys()


def test_what_was_read_goes_into_the_blob(tmp_path, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
    forget()
    CacheArtifactManager.clear()
    graphs, _ = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
    saved = torch.compiler.save_cache_artifacts()
    assert cached(graphs) == ["disk"] and saved is not None
    assert sum("ortable-" in key for key in saved[1].aot_autograd_artifacts) == 1


def test_a_damaged_artifact_is_a_warning_and_compiled_again(tmp_path, monkeypatch, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    load_on_another_machine(monkeypatch, tmp_path, saved[0])
    (name,) = entry_names(tmp_path / "here")
    (path,) = loaded_cache_artifacts(f"ortable-{name.removesuffix('.ortable')}").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"#" + content[201:])
    with pytest.warns(RuntimeWarning, match="its checksum does not match"):
        graphs, got = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "there"))
    assert cached(graphs) == ["miss"] and not path.exists()
    torch.testing.assert_close(got, torch.ones(3).exp())


def test_a_blob_that_is_cut_off_loads_nothing(tmp_path, monkeypatch, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    forget()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch of another"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compiler.load_cache_artifacts(saved[0][: len(saved[0]) // 2])  # torch logs the error
    graphs, _ = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "there"))
    assert cached(graphs) == ["miss"]
