"""The folder of `cache_dir`: within a size and an age; its entries on their way to other machines
by `torch.compiler.save_cache_artifacts`."""

from __future__ import annotations

import os
import time
import warnings

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from ortable.backend import store as room
from ortable.backend.cache import conversion
from ortable.backend.options import OrtOptions
from ortable.backend.store import Limits
from ortable.compat.torch import CacheArtifactManager, loaded_cache_artifacts
from ortable.errors import OptionError

from .test_cache_disk import cached, capture, entries, forget
from .test_cache_disk import own_folders as own_folders  # a fixture of every test here


@pytest.fixture(autouse=True)
def nothing_counted(monkeypatch):
    monkeypatch.setattr(room, "_folder_sizes", {})


def compile_all(folder, functions, **options):
    for function in functions:
        forget()
        capture(function, torch.ones(3), cache_dir=str(folder), **options)


def names(folder):
    return {path.name for path in entries(folder)}


def age(path, days):
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_files_that_nobody_reads_go(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp, torch.sin])
    old, young = sorted(entries(folder))
    (folder / "notes.txt").write_text("of the user")
    (folder / ".new-1-abc").write_text("of a process that is gone")
    age(old, 91), age(young, 89), age(folder / "notes.txt", 500), age(folder / ".new-1-abc", 1)
    room._folder_sizes.clear()
    compile_all(folder, [torch.cos])
    left = names(folder)
    assert old.name not in left and young.name in left and len(left) == 2
    assert {path.name for path in folder.iterdir()} == {*left, "notes.txt"}


def test_a_file_that_is_read_stays(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp, torch.sin])
    for path in entries(folder):
        age(path, 89)
    found, _ = capture(torch.sin, torch.ones(3), cache_dir=str(folder))
    forget()
    found, _ = capture(torch.sin, torch.ones(3), cache_dir=str(folder))
    assert cached(found) == ["disk"]
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
    left = names(folder)
    assert first.name not in left and second.name not in left and third.name in left
    assert len(left) == 2
    # what was just written stays, whatever its size
    monkeypatch.setattr(conversion, "limits_of", lambda options: Limits(size=1))
    compile_all(folder, [torch.abs])
    assert len(names(folder)) == 1


def test_no_limit(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp], cache_days=0, cache_megabytes=0)
    (path,) = entries(folder)
    age(path, 5000)
    room._folder_sizes.clear()
    compile_all(folder, [torch.sin], cache_days=0, cache_megabytes=0)
    assert len(entries(folder)) == 2


def test_decisions_and_settings_go_like_conversions(tmp_path):
    folder = tmp_path / "c"
    compile_all(folder, [torch.exp])
    for suffix in (room.DECISION, room.SETTINGS):
        room.write_atomically(folder / f"abc{suffix}", b"{}")
        age(folder / f"abc{suffix}", 91)
    room._folder_sizes.clear()
    compile_all(folder, [torch.sin])
    assert len(names(folder)) == len(list(folder.iterdir())) == 2


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


def another_machine(monkeypatch, tmp_path, blob):
    forget()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch of another"))
    assert torch.compiler.load_cache_artifacts(blob) is not None


def test_one_blob_warms_another_machine(tmp_path, monkeypatch, artifacts):
    model = nn.Linear(3, 2)
    capture(model, torch.ones(2, 3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    another_machine(monkeypatch, tmp_path, saved[0])
    there = tmp_path / "there"
    found, _ = capture(model, torch.ones(2, 3), cache_dir=str(there))
    assert cached(found) == ["disk", "disk"]
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    assert names(there) == names(tmp_path / "here") and len(names(there)) == 2
    left = loaded_cache_artifacts("").rglob("*")
    assert not [path for path in left if "ortable-" in str(path) and path.is_file()]
    # and what came from elsewhere goes on from here
    again = torch.compiler.save_cache_artifacts()
    assert again is not None and again[1].artifacts.keys() == saved[1].artifacts.keys()


def test_what_was_read_goes_into_the_blob(tmp_path, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
    forget()
    CacheArtifactManager.clear()
    found, _ = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
    saved = torch.compiler.save_cache_artifacts()
    assert cached(found) == ["disk"] and saved is not None
    assert sum("ortable-" in key for key in saved[1].aot_autograd_artifacts) == 1


def test_a_damaged_artifact_is_a_warning_and_compiled_again(tmp_path, monkeypatch, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    another_machine(monkeypatch, tmp_path, saved[0])
    (name,) = names(tmp_path / "here")
    (path,) = loaded_cache_artifacts(f"ortable-{name.removesuffix('.ortable')}").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"#" + content[201:])
    with pytest.warns(RuntimeWarning, match="its checksum does not match"):
        found, got = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "there"))
    assert cached(found) == ["miss"] and not path.exists()
    torch.testing.assert_close(got, torch.ones(3).exp())


def test_a_blob_that_is_cut_off_loads_nothing(tmp_path, monkeypatch, artifacts):
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "here"))
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    forget()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch of another"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compiler.load_cache_artifacts(saved[0][: len(saved[0]) // 2])  # torch logs it
    found, _ = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "there"))
    assert cached(found) == ["miss"]
