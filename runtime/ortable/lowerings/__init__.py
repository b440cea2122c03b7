"""Lowerings by operator family: the family's own words (``__all__``) and the functions that
specs name with ``python:``. In come a graph, the expected result and the arguments of the
operator; out go names of results. Called by generated converters;
bits, complex.parts, control_flow, indexing and pointwise also by `interpreter`."""
