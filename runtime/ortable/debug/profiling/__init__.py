"""`ortable.profile`: where the time of a call goes, by module, source line, operator and kernel.
A call is recorded (`record`, `models`), its events are joined with the nodes' metadata (`join`,
`metadata`, `inline`) and accounted for (`events`, `account`, `times`); `report`, `tables`, `trace`
and `page` show it."""
