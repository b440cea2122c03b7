"""Compile records have attributes, read like dicts and print in one line."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from ortable.backend.aot.records import CompileRecord
from ortable.backend.lower import aot_graph


def compile_to_records(fn, *args, grad=False, **options):
    storage = {}
    compiled = torch.compile(fn, backend="ortable", options={"storage": storage, **options})
    with torch.set_grad_enabled(grad):
        result = compiled(*args)
    if grad:
        result.sum().backward()
    return storage["instance"]


def test_a_record_has_attributes_and_reads_like_a_dict():
    (record,) = compile_to_records(lambda x: torch.relu(x) + 1, torch.ones(2))
    assert isinstance(record, CompileRecord)
    names = [field.name for field in dataclasses.fields(record)]
    assert list(record) == names and len(record) == len(names)
    assert all(record[name] is getattr(record, name) for name in names)
    assert dict(record)["onnx"] is record.onnx
    assert record.get("nothing") is None and "__len__" not in record
    with pytest.raises(KeyError):
        record["__dict__"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.kind = "other"


def test_records_and_compiled_graphs_print_in_one_line(backends):
    (record,) = compile_to_records(lambda x: torch.relu(x) + 1, torch.ones(2))
    assert repr(record) == (
        "CompileRecord(inference: 2 ONNX nodes, 1 inputs, 1 outputs, cache='miss')"
    )
    assert repr(backends[0].compiled) == repr(record).replace("CompileRecord", "CompiledGraph")


def test_the_record_of_a_graph_that_torch_runs_says_so():
    options = {"fallback": "eager", "raise_on": ["aten::relu"], "hints": False}
    (record,) = compile_to_records(torch.relu, torch.ones(2), **options)
    assert record.onnx is None and record["inputs"] == []
    assert (
        repr(record) == "CompileRecord(inference: all in torch, 0 inputs, 0 outputs, cache='miss')"
    )


@pytest.mark.parametrize("fallback", ["error", "eager"])
def test_a_graph_is_analysed_once(monkeypatch, fallback):
    modules = []

    class RecordingPlan(aot_graph.InputPlan):
        def __init__(self, module):
            modules.append(module)
            super().__init__(module)

    monkeypatch.setattr(aot_graph, "InputPlan", RecordingPlan)
    (_,) = compile_to_records(lambda x: torch.relu(x) + 1, torch.ones(2), fallback=fallback)
    assert len(modules) == 1
    modules.clear()
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    forward, backward = compile_to_records(model, torch.ones(2, 4), grad=True, fallback=fallback)
    assert (forward.kind, backward.kind) == ("forward", "backward")
    # forward graph, forward graph with decomposed random operators, its partition, backward graph
    assert len(modules) == len(set(map(id, modules))) == 4
