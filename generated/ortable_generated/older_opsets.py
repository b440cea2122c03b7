# Generated from specs/runtime/older_opsets.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""How operators of opset 18 are written in older opsets."""

from typing import Any

OLDER: dict[str, tuple[dict[str, Any], ...]] = {
    "Add": ({'before': 14, 'through': 'int32'},),
    "BatchNormalization": ({'before': 14, 'drop': {'training_mode': 0}},),
    "BitwiseNot": ({'before': 18, 'body': '(X) => (Y) {\n  minus_one = Constant <value_int: int = -1> ()\n  ones = Cast <to: int = $dtype> (minus_one)\n  Y = Sub (ones, X)\n}\n'},),
    "CastLike": ({'before': 15, 'lower': 'cast_like'},),
    "Div": ({'before': 14, 'through': 'int32'},),
    "GRU": ({'before': 14, 'drop': {'layout': 0}},),
    "HardSwish": ({'before': 14, 'body': '(X) => (Y) {\n  gate = HardSigmoid <alpha: float = 0.16666667, beta: float = 0.5> (X)\n  Y = Mul (X, gate)\n}\n'},),
    "LSTM": ({'before': 14, 'drop': {'layout': 0}},),
    "LayerNormalization": ({'before': 17, 'defaults': {'B': 0}, 'body': '(X, Scale, B) => (Y, Mean, InvStdDev) {\n  wide = Cast <to: int = $wide> (X)\n  Mean = ReduceMean <axes: ints = [$trailing]> (wide)\n  centered = Sub (wide, Mean)\n  squares = Mul (centered, centered)\n  variance = ReduceMean <axes: ints = [$trailing]> (squares)\n  constant = Constant <value_float: float = $epsilon> ()\n  epsilon = Cast <to: int = $wide> (constant)\n  shifted = Add (variance, epsilon)\n  deviation = Sqrt (shifted)\n  InvStdDev = Reciprocal (deviation)\n  quotient = Div (centered, deviation)\n  normalized = Cast <to: int = $dtype> (quotient)\n  scaled = Mul (normalized, Scale)\n  Y = Add (scaled, B)\n}\n'},),
    "LpPool": ({'before': 18, 'drop': {'ceil_mode': 0, 'dilations': [1, 1]}},),
    "Mish": ({'before': 18, 'body': '(X) => (Y) {\n  soft = Softplus (X)\n  gate = Tanh (soft)\n  Y = Mul (X, gate)\n}\n'},),
    "Mul": ({'before': 14, 'through': 'int32'},),
    "Pad": ({'before': 18, 'lower': 'pad'},),
    "RNN": ({'before': 14, 'drop': {'layout': 0}},),
    "ReduceL1": ({'before': 18, 'attributes': ['axes']},),
    "ReduceL2": ({'before': 18, 'attributes': ['axes']},),
    "ReduceLogSum": ({'before': 18, 'attributes': ['axes']},),
    "ReduceLogSumExp": ({'before': 18, 'attributes': ['axes']},),
    "ReduceMax": ({'before': 18, 'attributes': ['axes']},),
    "ReduceMean": ({'before': 18, 'attributes': ['axes']},),
    "ReduceMin": ({'before': 18, 'attributes': ['axes']},),
    "ReduceProd": ({'before': 18, 'attributes': ['axes']},),
    "ReduceSumSquare": ({'before': 18, 'attributes': ['axes']},),
    "Reshape": ({'before': 14, 'lower': 'reshape'},),
    "Resize": ({'before': 18, 'drop': {'antialias': 0, 'keep_aspect_ratio_policy': 'stretch'}},),
    "RoiAlign": ({'before': 16, 'drop': {'coordinate_transformation_mode': 'output_half_pixel'}},),
    "ScatterElements": ({'before': 16, 'drop': {'reduction': 'none'}}, {'before': 18, 'refuse': {'reduction': ['max', 'min']}},),
    "ScatterND": ({'before': 16, 'drop': {'reduction': 'none'}}, {'before': 18, 'refuse': {'reduction': ['max', 'min']}},),
    "Shape": ({'before': 15, 'when': {'start': 0, 'end': None}, 'drop': {'start': 0}}, {'before': 15, 'defaults': {'end': 9223372036854775807}, 'body': '(data) => (shape) {\n  sizes = Shape (data)\n  start = Constant <value_ints: ints = [$start]> ()\n  end = Constant <value_ints: ints = [$end]> ()\n  shape = Slice (sizes, start, end)\n}\n'},),
    "Split": ({'before': 18, 'lower': 'split'},),
    "Sub": ({'before': 14, 'through': 'int32'},),
    "Trilu": ({'before': 14, 'defaults': {'k': 0}, 'names': {'upper': {0: 'LessOrEqual', 1: 'GreaterOrEqual'}}, 'body': '(input, k) => (output) {\n  sizes = Shape (input)\n  last = Constant <value_int: int = -1> ()\n  second = Constant <value_int: int = -2> ()\n  zero = Constant <value_int: int = 0> ()\n  one = Constant <value_int: int = 1> ()\n  axis = Constant <value_ints: ints = [1]> ()\n  column_count = Gather (sizes, last)\n  row_count = Gather (sizes, second)\n  columns = Range (zero, column_count, one)\n  rows = Range (zero, row_count, one)\n  rows_upright = Unsqueeze (rows, axis)\n  distance = Sub (columns, rows_upright)\n  inside = $upper (distance, k)\n  wide = Cast <to: int = $wide> (input)\n  nothing = Cast <to: int = $wide> (zero)\n  kept = Where (inside, wide, nothing)\n  output = Cast <to: int = $dtype> (kept)\n}\n'},),
}
