"""Model files: writes are atomic, and external data is read only from the model's folder."""

from __future__ import annotations

import os
import resource
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from ortable import GraphBuilder, LargeModel, to_onnx
from ortable.errors import BuilderError, ExportError
from ortable.exporter import conversion as export_files
from ortable.ir.proto import atomic_files

from .helpers import assert_close, assert_same, eager, run_onnx
from .test_large_models import Stack, X, external_entries, initializer_name, list_files


def test_saving_again_replaces_model_and_data(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    first, second = Stack(), Stack(1.0)
    to_onnx(first, X, large_model=True).save(path, max_shard_bytes=5000)
    (tmp_path / "model.onnx.notes").write_text("mine")
    (tmp_path / "model.onnx.notes.data").write_text("mine too")
    (tmp_path / "other.onnx.data").write_text("of another model")
    to_onnx(second, X, large_model=True).save(path)
    unrelated = ["model.onnx.notes", "model.onnx.notes.data", "other.onnx.data"]
    assert list_files(tmp_path) == sorted(["model.onnx", "model.onnx.data", *unrelated])
    for _ in range(2):
        to_onnx(second, X, large_model=True, filename=path)
        assert list_files(tmp_path) == sorted(["model.onnx", "model.onnx.data", *unrelated])
        assert external_entries(path)["first.weight"]["location"] == "model.onnx.data"
        assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(second, X))
    loaded = LargeModel.load(path)
    loaded.save(path)  # overwrites the file that holds its weights
    assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(second, X))


@pytest.mark.skipif(os.name == "nt", reason="files of Windows have no such permissions")
def test_new_files_get_the_permissions_of_the_process_and_leave_them(tmp_path, monkeypatch) -> None:
    def reject_umask(mask: int) -> int:
        raise AssertionError("os.umask also affects files of other threads")

    path = tmp_path / "model.onnx"
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", reject_umask)
            to_onnx(Stack(), X, large_model=True).save(path, max_shard_bytes=5000)
            to_onnx(Stack(), X, large_model=True).save(path, max_shard_bytes=5000)
    finally:
        os.umask(before)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    assert len(modes) > 2 and set(modes.values()) == {"0o640"}


@pytest.mark.parametrize("fails_at", range(6))
def test_at_every_step_the_model_is_the_old_or_the_new_one(tmp_path, monkeypatch, fails_at) -> None:
    path = tmp_path / "model.onnx"
    old, new = Stack(), Stack(1.0)
    to_onnx(old, X, large_model=True, filename=path)
    large = to_onnx(new, X, large_model=True)
    calls = iter(range(100))

    class SimulatedCrash(BaseException):
        """Simulates the end of the process: no file is cleaned up."""

    def fail_at_call(function: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == fails_at:
                raise SimulatedCrash
            return function(*args, **kwargs)

        return wrapper

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "_remove_files", lambda paths: None)
        for name in ("replace", "link"):
            patch.setattr(atomic_files.os, name, fail_at_call(getattr(os, name)))
        try:
            large.save(path)
            assert fails_at >= 5
        except SimulatedCrash:
            assert fails_at < 5
    results = run_onnx(path, {"x": X[0].numpy()})
    assert_close(results, eager(old if fails_at <= 1 else new, X))
    large.save(path)  # leftover files are replaced
    assert external_entries(path)["first.weight"]["location"] == "model.onnx.data"
    onnx.checker.check_model(path)


def test_without_hard_links_the_data_keeps_its_other_name(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model.onnx"
    to_onnx(Stack(), X, large_model=True, filename=path)

    def raise_permission_error(*args: Any) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(atomic_files.os, "link", raise_permission_error)
    module = Stack()
    for name in ("model.onnx.1.data", "model.onnx.data"):
        to_onnx(module, X, large_model=True, filename=path)
        assert list_files(tmp_path) == sorted(["model.onnx", name])
        assert_close(run_onnx(path, {"x": X[0].numpy()}), eager(module, X))


@pytest.mark.parametrize("large", [True, False])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, large) -> None:
    path = tmp_path / "model.onnx"
    old = Stack()
    to_onnx(old, X, large_model=True, filename=path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, hard))
    try:
        with pytest.raises(
            ExportError, match=r"could not be written to '.*No partial file is left"
        ):
            to_onnx(Stack(), X, large_model=large, filename=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_room_on_the_disk_is_asked_for_first(tmp_path, monkeypatch) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ExportError, match=r"weights take 0.00 GB, but the disk has 0.00 GB left"):
        to_onnx(Stack(), X, large_model=True, filename=tmp_path / "m.onnx")
    assert list_files(tmp_path) == []


def test_places_that_cannot_be_written_are_named(tmp_path) -> None:
    for large in (False, True):
        with pytest.raises(ExportError, match=r"folder '.*nowhere' of the ONNX file to write"):
            to_onnx(Stack(), X, large_model=large, filename=tmp_path / "nowhere" / "m.onnx")
        with pytest.raises(ExportError, match=r"is a folder; filename is the ONNX file to write"):
            to_onnx(Stack(), X, large_model=large, filename=tmp_path)
        with pytest.raises(ExportError, match=r"could not be written to '/proc/m.onnx'"):
            to_onnx(Stack(), X, large_model=large, filename="/proc/m.onnx")


def test_strings_and_lost_files_are_refused(tmp_path) -> None:
    path = tmp_path / "m.onnx"
    to_onnx(Stack(), X, large_model=True, filename=path)
    builder = GraphBuilder(onnx.load(path, load_external_data=False))
    reexported = builder.to_onnx(large_model=True)
    reexported.save(tmp_path / "other.onnx")  # its data file is in this folder
    assert_close(
        run_onnx(tmp_path / "other.onnx", {"x": X[0].numpy()}),
        run_onnx(path, {"x": X[0].numpy()}),
    )
    (tmp_path / "sub").mkdir()
    with pytest.raises(BuilderError, match=r"is in '.*m.onnx.data', which is not a file"):
        reexported.save(tmp_path / "sub" / "other.onnx")
    large = to_onnx(Stack(), X, large_model=True)
    large.tensors[initializer_name(large.proto, "first.weight")] = np.array(["a"], dtype=object)
    with pytest.raises(BuilderError, match="holds strings"):
        large.save(tmp_path / "sub" / "other.onnx")
    assert list_files(tmp_path / "sub") == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.data", "not in the folder of the model"),
        ("sub/../../w.data", "not in the folder of the model"),
        ("..\\w.data", "not in the folder of the model"),
        ("/etc/passwd", "not in the folder of the model"),
        ("C:\\w.data", "not in the folder of the model"),
        ("", "not in the folder of the model"),
        ("link.data", "not in the folder of the model"),
        ("missing.data", "is not a file"),
        ("short.data", r"has 4096 bytes, but its file 'short.data' has 7 of 4096 at 0"),
    ],
)
def test_files_outside_of_the_folder_are_not_read(tmp_path, location, message) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.data").write_bytes(bytes(4096))
    (folder / "short.data").write_bytes(bytes(7))
    (folder / "link.data").symlink_to(tmp_path / "w.data")
    path = folder / "m.onnx"
    to_onnx(torch.nn.Linear(32, 32), (torch.rand(2, 32),), large_model=True, filename=path)
    model = onnx.load(path, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if t.doc_string == "weight")
    next(e for e in tensor.external_data if e.key == "location").value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BuilderError, match=message):
        LargeModel.load(path)


def test_a_fake_tensor_cannot_be_written(tmp_path) -> None:
    large = to_onnx(Stack(), X, large_model=True)
    large.tensors[initializer_name(large.proto, "first.weight")] = torch.empty(
        32, 32, device="meta"
    )
    with pytest.raises(BuilderError, match="give the real tensor"):
        large.save(tmp_path / "m.onnx")
    assert list_files(tmp_path) == []


def test_progress_is_reported(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(export_files, "MIN_PROGRESS_BYTES", 1000)
    module = torch.nn.Sequential(*(torch.nn.Linear(50, 50) for _ in range(20)))
    to_onnx(module, (torch.rand(1, 50),), large_model=True, filename=tmp_path / "m", verbose=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "MB of weights" in line]
    assert len(lines) == 10
    assert lines[-1].startswith("[to_onnx] write; 0 of 0 MB")
    progress: list[tuple[int, int, str]] = []
    large = to_onnx(module, (torch.rand(1, 50),), large_model=True)
    large.save(tmp_path / "m", progress=lambda *step: progress.append(step))
    assert progress[0][0] == 0
    assert progress[-1][0] >= progress[-1][1] == large.nbytes
    assert {name for _, _, name in progress} == {*large.tensors, ""}


def test_a_loaded_model_is_mapped_not_read(tmp_path) -> None:
    module, path = Stack(), tmp_path / "m.onnx"
    to_onnx(module, X, large_model=True, filename=path)
    large = LargeModel.load(path)
    weight = large.numpy_tensors()[initializer_name(large.proto, "first.weight")]
    assert isinstance(weight.base, np.memmap) or isinstance(weight, np.memmap)
    assert not weight.flags.writeable
    assert_close([torch.tensor(weight)], [module.first.weight.detach()])
    assert_same(large.to_proto(), module, X)


@pytest.mark.parametrize("layer", [torch.nn.Conv2d, torch.nn.ConvTranspose2d])
def test_the_window_of_a_convolution_is_an_attribute(layer: type[torch.nn.Module]) -> None:
    """Importers of some runtimes read ``kernel_shape``, which ONNX lets a file leave out."""
    model = to_onnx(layer(3, 4, (2, 3)), (torch.randn(1, 3, 8, 8),))
    (node,) = model.graph.node
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["kernel_shape"] == [2, 3]
