"""`ortable.profile`: where the time of a call goes, by module, source line, operator and kernel.

A call is recorded (`record`, `models`), its events are joined with the nodes' metadata (`join`) and
attributed (`time_attribution`); `report` formats the result.
"""
