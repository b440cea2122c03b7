"""Forged cache files are cache misses and never run code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import ModelProto

from ortable.backend import store as folders
from ortable.backend import trusted_folder
from ortable.backend.autotune.decisions import Decisions
from ortable.backend.cache import codec
from ortable.backend.cache.envelope import seal_bytes, unseal_bytes
from ortable.backend.cache.keys import dependency_versions
from ortable.backend.cache.memory import conversions
from ortable.backend.roles import (
    CompiledGraph,
    Fetch,
    InputRole,
    InputRoleKind,
    OutputRole,
    OutputRoleKind,
)
from ortable.backend.sessions import tune
from ortable.dims import make_symbol
from ortable.errors import PrecompileError

from . import models

CODE = "0 if __import__('os').system('false') else 0"
KEY = "a" * 64


def _make_graph() -> CompiledGraph:
    role = InputRole(0, InputRoleKind.TENSOR, "x", 1, (2, make_symbol("n")), permutation=(0, 1))
    out = OutputRole(0, OutputRoleKind.TENSOR, "y", 0, elem_type=1, shape=(2,))
    model = models.model([models.node("Relu", ["x"])])
    return CompiledGraph(
        model, "inference", (role,), (out,), 1, (Fetch("y", permutation=(0,)),), (), {},
        frozenset({"x"}),
    )  # fmt: skip


def _write_entry(
    folder: Path, change: Callable[[Any], object], model: ModelProto | None = None
) -> Path:
    """Write an entry with a valid checksum and a changed header."""
    graph = _make_graph()
    header = {"key": KEY, "versions": dependency_versions(), "graph": codec.encode_graph(graph)}
    change(header)
    path = conversions.path(str(folder), KEY)
    path.write_bytes(seal_bytes("conversion", header, (model or graph.model).SerializeToString()))
    return path


def test_an_entry_that_is_sound_is_read(tmp_path: Path) -> None:
    _write_entry(tmp_path, lambda header: None)
    entry = conversions.load(str(tmp_path), KEY)
    assert entry is not None
    assert entry.inputs == _make_graph().inputs
    assert entry.fetches == _make_graph().fetches


def _list_number_fields() -> list[tuple[str, str]]:
    """Return every field of the roles that contains numbers: they become source text."""
    records = {"inputs": InputRole, "outputs": OutputRole, "fetches": Fetch}
    return [
        (section, field.name)
        for section, record in records.items()
        for field in dataclasses.fields(record)
        if "int" in str(field.type) or "Dim" in str(field.type)
    ]


@pytest.mark.parametrize(("section", "name"), _list_number_fields())
@pytest.mark.parametrize(
    "value", [CODE, [CODE], {"list": [CODE]}, {"dict": []}, {"view": "getitem"}]
)
def test_text_is_no_number(section: str, name: str, value: Any, tmp_path: Path) -> None:
    def change(header: Any) -> None:
        ((_, record),) = header["graph"][section][0].items()
        record[name] = value

    _write_entry(tmp_path, change)
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert conversions.load(str(tmp_path), KEY) is None


HEADER_CHANGES: dict[str, Callable[[Any], object]] = {
    "number of results": lambda header: header["graph"].update(n_results=CODE),
    "unknown field": lambda header: header["graph"].update(evil=1),
    "a field that was left out": lambda header: header["graph"].update(model=1),
    "unknown record": lambda header: header["graph"].update(inputs=[{"os.system": {}}]),
    "unknown view": lambda header: header["graph"].update(inputs=[{"view": "os.system"}]),
    "an operator that is no view": lambda header: header["graph"].update(
        inputs=[{"view": "aten::from_file"}]
    ),
    "a list for a graph": lambda header: header.update(graph=[]),
    "another key": lambda header: header.update(key="b"),
    "other versions": lambda header: header.update(versions={}),
    "deep": lambda header: header.update(graph=_nest_lists(400)),
    "a dimension that is a number": lambda header: header["graph"].update(n_results={"dim": 3}),
    "a dimension without end": lambda header: header["graph"].update(
        n_results={"dim": [[1, [["evil", "x", []]]]]}
    ),
}


def _nest_lists(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = {"list": [value]}
    return value


@pytest.mark.parametrize("name", HEADER_CHANGES)
def test_forged_entries(name: str, tmp_path: Path) -> None:
    _write_entry(tmp_path, HEADER_CHANGES[name])
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert conversions.load(str(tmp_path), KEY) is None


@pytest.mark.parametrize("place", ["weight", *models.EXTERNAL_PLACES])
def test_an_entry_reads_no_other_file(place: str, tmp_path: Path) -> None:
    model = models.external("../secret")
    if place != "weight":
        tensor = model.graph.initializer.pop()
        models.EXTERNAL_PLACES[place](model).CopyFrom(tensor)
    _write_entry(tmp_path, lambda header: None, model)
    with pytest.warns(RuntimeWarning, match="its model reads other files"):
        assert conversions.load(str(tmp_path), KEY) is None


@pytest.mark.parametrize("content", [b"", b"ortable precompiled 1\n", b"\x80\x04.", b"\0" * 99])
def test_entries_of_other_bytes(content: bytes, tmp_path: Path) -> None:
    conversions.path(str(tmp_path), KEY).write_bytes(content)
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert conversions.load(str(tmp_path), KEY) is None


# -- folders that other users may write


def _decision_path(decisions: Decisions, folder: Path) -> Path:
    return folder / f"{decisions.make_keys((1,))[1]}{folders.DECISION}"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders of Windows have no such mode")
def test_a_folder_that_everybody_may_write_is_not_read(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    _write_entry(shared, lambda header: None)
    shared.chmod(0o1777)  # also with the sticky bit, which keeps others from removing files
    with pytest.warns(RuntimeWarning, match="it is world-writable"):
        assert conversions.load(str(shared), KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning appears once
        assert conversions.load(str(shared), KEY) is None
        assert tune.STORE.load(str(shared), KEY) is None
        decisions = Decisions(["part"], str(shared))
        path = _decision_path(decisions, shared)
        stored = {"kept": "torch", "seconds": {"onnxruntime": 1, "torch": 1}}
        path.write_text(json.dumps(stored))
        assert decisions.find_decision((1,)) is None
        shared.chmod(0o755)
        decision = decisions.find_decision((1,))
        assert decision is not None
        assert decision.kept == "torch"
    assert conversions.load(str(shared), KEY) is not None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders of Windows have no owner")
def test_a_folder_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    if tmp_path.stat().st_uid == 0:  # folders of root are trusted
        assert folders.is_trusted_folder(tmp_path)
        os.chown(tmp_path, 12345, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert not folders.is_trusted_folder(tmp_path)


def test_a_folder_that_is_made_is_read(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        folders.write_file(tmp_path / "new" / "x.ortable", b"x")
    finally:
        os.umask(mask)
    assert folders.is_trusted_folder(tmp_path / "new")
    assert folders.is_trusted_folder(tmp_path / "absent")


# -- files that other users put into a folder, and races with them


def _link_out(path: Path) -> None:
    path.symlink_to(path.parent.parent / "victim")


def _link_back(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _swap(path: Path) -> None:
    path.write_bytes(path.with_name("b" * 64 + path.suffix).read_bytes())


PREPARED_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link to a sound entry": (_link_back, "symbolic links"),
    "a world-writable entry": (lambda path: path.chmod(0o666), "it is world-writable"),
    "a truncated entry": (_truncate, "checksum does not match"),
    "the entry of another graph": (_swap, "it belongs to another graph"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "it is not a regular file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "it is not a regular file"),
}


@pytest.mark.parametrize("name", PREPARED_FILES)
def test_prepared_files(name: str, tmp_path: Path) -> None:
    prepare, reason = PREPARED_FILES[name]
    path = _write_entry(tmp_path, lambda header: None)
    other = _write_entry(tmp_path, lambda header: header.update(key="b" * 64))
    other.rename(path.with_name("b" * 64 + path.suffix))
    _write_entry(tmp_path, lambda header: None)
    prepare(path)
    with pytest.warns(RuntimeWarning, match=f"is not used .*{reason}"):
        assert conversions.load(str(tmp_path), KEY) is None


@pytest.mark.parametrize("mode", [0o755, 0o775])
def test_a_file_of_another_user(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write a folder may put files there: nobody else, or its group."""
    _write_entry(tmp_path, lambda header: None)
    tmp_path.chmod(mode)
    monkeypatch.setattr(trusted_folder, "_is_own", lambda state: stat.S_ISDIR(state.st_mode))
    if mode == 0o775:
        assert conversions.load(str(tmp_path), KEY) is not None
        return
    with pytest.warns(RuntimeWarning, match="another user has written it"):
        assert conversions.load(str(tmp_path), KEY) is None


@pytest.mark.parametrize("shared", [False, True], ids=["of one user", "of everybody"])
def test_a_prepared_link_is_not_written_through(shared: bool, tmp_path: Path) -> None:
    """A link at the name of an entry is replaced, or, where anybody may write, left alone."""
    victim, folder = tmp_path / "victim", tmp_path / "cache"
    victim.write_text("precious")
    folder.mkdir()
    _link_out(conversions.path(str(folder), KEY))
    folder.chmod(0o1777 if shared else 0o755)
    if shared:
        with pytest.warns(RuntimeWarning, match="or written to it: it is world-writable"):
            assert not conversions.save(str(folder), KEY, _make_graph())
    else:
        assert conversions.save(str(folder), KEY, _make_graph())
        assert conversions.load(str(folder), KEY) is not None
    assert victim.read_text() == "precious"
    assert len(list(folder.iterdir())) == 1


def test_a_link_is_not_touched(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "cache"
    victim.write_text("precious")
    os.utime(victim, (1, 1))
    folder.mkdir()
    _link_out(conversions.path(str(folder), KEY))
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert conversions.load(str(folder), KEY) is None
    assert victim.stat().st_mtime == 1


def test_a_folder_that_is_exchanged_after_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are opened in the folder that was checked, not in one of its name."""
    folder, evil = tmp_path / "cache", tmp_path / "evil"
    folder.mkdir()
    evil.mkdir()
    _write_entry(folder, lambda header: None)
    conversions.path(str(evil), KEY).write_bytes(b"forged")
    check = trusted_folder._is_own

    def exchange(state: os.stat_result) -> bool:
        if not (tmp_path / "old").exists():
            folder.rename(tmp_path / "old")
            evil.rename(folder)
        return check(state)

    content = conversions.path(str(folder), KEY).read_bytes()
    monkeypatch.setattr(trusted_folder, "_is_own", exchange)
    assert trusted_folder.read_file(conversions.path(str(folder), KEY)) == content


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "a" * 64 + "/../x"])
def test_names_with_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the name of a file"):
        conversions.load(str(tmp_path), name)
    with pytest.raises(ValueError, match="is not the name of a file"):
        conversions.save(str(tmp_path), name, _make_graph())


def test_artifacts_of_a_folder_of_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of torch's artifacts, in the folder for temporary files, is checked, too."""
    folder, artifacts = tmp_path / "cache", tmp_path / "artifacts"
    folder.mkdir()
    artifacts.mkdir()
    _write_entry(artifacts, lambda header: None)
    monkeypatch.setattr(folders, "loaded_cache_artifacts", lambda name: artifacts)
    artifacts.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="it is world-writable"):
        assert conversions.load(str(folder), KEY) is None
    artifacts.chmod(0o755)
    assert conversions.load(str(folder), KEY) is not None


# -- settings and decisions


@pytest.mark.parametrize(
    "content",
    [
        b"\xff", b"[]", b"{}", b"1", b"[" * 100_000,
        b'{"settings": {"os.system": 1}, "ratio": 1, "tried": 1}',
        b'{"settings": {"intra_op_num_threads": 1000000000}, "ratio": 1, "tried": 1}',
        b'{"settings": {"intra_op_num_threads": 1}, "ratio": "x", "tried": 1}',
        b'{"settings": {"intra_op_num_threads": ' + b"9" * 5000 + b'}, "ratio": 1, "tried": 1}',
    ],
)  # fmt: skip
def test_settings_that_are_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{KEY}{folders.SETTINGS}").write_bytes(content)
    with pytest.warns(RuntimeWarning, match="measured again"):
        assert tune.STORE.load(str(tmp_path), KEY) is None


@pytest.mark.parametrize(
    "content", [b"\xff", b"[]", b"{}", b'{"kept": "os.system"}', b"[" * 100_000]
)
def test_decisions_that_are_none(content: bytes, tmp_path: Path) -> None:
    decisions = Decisions(["part"], str(tmp_path))
    path = _decision_path(decisions, tmp_path)
    path.write_bytes(content)
    with pytest.warns(RuntimeWarning, match="measured again"):
        assert decisions.find_decision((1,)) is None


# -- packed graphs


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04cos\nsystem\n.",
        b"ortable precompiled 1\n",
        b"ortable precompiled 1\n" + b"x" * 99,
    ],
)
def test_packed_bytes_of_others(content: bytes) -> None:
    with pytest.raises(PrecompileError):
        unseal_bytes(None, content)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"{", b"\xff", b"[" * 100_000])
def test_packed_headers_of_others(text: bytes) -> None:
    payload = len(text).to_bytes(8, "big") + text
    sealed = b"ortable precompiled 1\n" + hashlib.sha256(payload).digest() + payload
    with pytest.raises(PrecompileError, match="damaged"):
        unseal_bytes(None, sealed)


def test_source_text_of_a_sound_graph_names_no_text() -> None:
    """Decoded and compiled roles have the same types, so the check of types protects the source."""
    encoded = json.loads(json.dumps(codec.encode_graph(_make_graph())))
    assert codec.decode_graph(encoded, model=_make_graph().model).outputs == _make_graph().outputs
    assert torch.ops.aten.view.default == codec.decode_value({"view": "aten::view"})
