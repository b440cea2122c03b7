"""Profile the time of a call by module, source line, operator and kernel: `ortable.profile`.

`call.py` runs the others: `record.py` (torch.compile) and `models.py` (ONNX models) record calls,
`time_attribution.py` attributes the time to nodes, whose modules, operators and lines `join.py`
finds, and `report.py` formats the result.
"""
