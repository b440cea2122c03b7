"""Mistakes that type checkers must refuse: each marked line and no other; nothing runs this."""

# ruff: noqa: B018
from __future__ import annotations

import torch

import ortable

model = torch.nn.Linear(3, 4)
x = torch.zeros(2, 3)

ortable.no_such_name  # refused
ortable.errors.NoSuchError  # refused
ortable.to_onnx(model, (x,), target_opset="18")  # refused
ortable.to_onnx(model, (x,), no_such_argument=True)  # refused
ortable.to_onnx(lambda x: x, (x,))  # refused
ortable.to_onnx(model, (x,), target="tensorrt")  # refused
ortable.to_onnx(model, (x,), return_builder=True).graph  # refused
ortable.to_onnx(model, (x,), large_model=True).graph  # refused
ortable.export(model, (x,), filename="model.onnx")  # refused
ortable.export(model, (x,), target="tensorrt")  # refused
ortable.export(model, (x,)).no_such_member  # refused
ortable.export(model, (x,)).save(3)  # refused
ortable.ExportOptions(strict="yes")  # refused
ortable.ExportOptions(guards="never")  # refused
ortable.OrtOptions(freeze="always")  # refused
ortable.OrtOptions(no_such_option=1)  # refused
options: ortable.OrtOptionsDict = {"verbose": "1"}  # refused
ortable.GraphBuilder("18")  # refused
ortable.GraphBuilder(18).make_node("Add")  # refused
ortable.GraphBuilder(18).no_such_method()  # refused
ortable.Dispatcher(verbose="1")  # refused
ortable.refresh("model")  # refused
ortable.pretty_onnx(3)  # refused
ortable.load_specs("a.yaml", overrride=True)  # refused
names: list[str] = ortable.supported_ops()  # refused
