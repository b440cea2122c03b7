"""Complex numbers as pairs of real results: arithmetic, functions, the real parts of real
operators. In come `ComplexValue` pairs, out go pairs. Called by generated converters and
`interpreter`."""
