"""Never slower by measurement: a graph that both ONNX Runtime and torch can run is timed in its
first calls, and the faster one is kept. In come two callables that do the same, out comes one;
called by `aot` where option `autotune` asks for it."""
