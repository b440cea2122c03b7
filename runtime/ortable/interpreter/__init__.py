"""Convert torch.fx graphs to the nodes of a graph of `ir`, by tables of converters. `exporter` and
`backend.lower` call `DynamoInterpreter`; errors name every missing operator.
"""
