"""Profile the time of a call by module, source line, operator and kernel: `ortable.profile`.

`record.py` and `models.py` record calls, `join.py` joins the events with the metadata of nodes,
`time_attribution.py` attributes the time to nodes, and `report.py` formats the result.
"""
