# Generated from specs/onnx/*.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Traits of ONNX operators: for each the operators that have it, by their keys (``Node.key``)."""

# stands in most graphs many times, so rewrites are found by a rarer one
COMMON = frozenset(
    {
        "Add",
        "Cast",
        "Constant",
        "Mul",
        "Reshape",
        "Transpose",
    }
)

# two inputs may change places
COMMUTATIVE = frozenset(
    {
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Equal",
        "Max",
        "Mean",
        "Min",
        "Mul",
        "Or",
        "Sum",
        "Xor",
    }
)

# compares two numbers at each place
COMPARISON = frozenset(
    {
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
    }
)

# an element of the result depends on the elements at its place alone, inputs broadcast
ELEMENTWISE = frozenset(
    {
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "Div",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Where",
        "Xor",
        "com.microsoft::Gelu",
        "com.microsoft::QuickGelu",
    }
)

# on a first input without elements ONNX Runtime's kernel on the CPU ends the process
CRASHES_ON_EMPTY = frozenset(
    {
        "GRU",
        "LSTM",
        "RNN",
        "com.microsoft::GroupQueryAttention",
    }
)

# every element of the result is one of the first input, chosen by indices
GATHERS = frozenset(
    {
        "Gather",
        "GatherElements",
        "GatherND",
    }
)

# an attribute is a graph, which may read results around it
HAS_SUBGRAPH = frozenset(
    {
        "If",
        "Loop",
        "Scan",
        "SequenceMap",
    }
)

# folds axes, and equal elements to that element
IDEMPOTENT_REDUCTION = frozenset(
    {
        "ReduceMax",
        "ReduceMin",
    }
)

# the result has the elements of the first input in their order: shape changes at most
KEEPS_ORDER = frozenset(
    {
        "Flatten",
        "Identity",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
    }
)

# its result on a stored weight is computed at run time, and not stored beside it
KEEPS_WEIGHTS = frozenset(
    {
        "DequantizeLinear",
        "Transpose",
    }
)

# ONNX Runtime's kernel on the CPU writes the result over the first input where they share memory: what it does not write stays
IN_PLACE = frozenset(
    {
        "ScatterElements",
        "ScatterND",
    }
)

# computes with booleans alone
LOGICAL = frozenset(
    {
        "And",
        "Not",
        "Or",
        "Xor",
    }
)

# multiplies the matrices in the last two axes of two inputs
MATMUL = frozenset(
    {
        "MatMul",
        "com.microsoft::FusedMatMul",
    }
)

# every element of the result is one of the first input, wherever sizes say
MOVES_ELEMENTS = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)

# says which of two numbers is the larger
ORDERING = frozenset(
    {
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
    }
)

# of two inputs from DequantizeLinear, ONNX Runtime multiplies the codes as integers
MULTIPLIES_CODES = frozenset(
    {
        "Conv",
        "Gemm",
        "MatMul",
    }
)

# draws anew at every run
RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "com.microsoft::BiasDropout",
        "com.microsoft::BitmaskBiasDropout",
        "com.microsoft::BitmaskDropout",
    }
)

# the result has every element of the first input once: shape and order change at most
REARRANGES = frozenset(
    {
        "DepthToSpace",
        "Flatten",
        "Identity",
        "Reshape",
        "SpaceToDepth",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)

# runs over the steps of a sequence: axes are steps, batch, features
RECURRENT = frozenset(
    {
        "GRU",
        "LSTM",
        "RNN",
    }
)

# computes something else in a wider type, so no input may be cast for a kernel
DTYPE_SENSITIVE = frozenset(
    {
        "BitCast",
        "CastLike",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QuantizeLinear",
    }
)

# trait -> its operators
BY_TRAIT = {
    "common": COMMON,
    "commutative": COMMUTATIVE,
    "comparison": COMPARISON,
    "elementwise": ELEMENTWISE,
    "crashes_on_empty": CRASHES_ON_EMPTY,
    "gathers": GATHERS,
    "has_subgraph": HAS_SUBGRAPH,
    "idempotent_reduction": IDEMPOTENT_REDUCTION,
    "keeps_order": KEEPS_ORDER,
    "keeps_weights": KEEPS_WEIGHTS,
    "in_place": IN_PLACE,
    "logical": LOGICAL,
    "matmul": MATMUL,
    "moves_elements": MOVES_ELEMENTS,
    "ordering": ORDERING,
    "multiplies_codes": MULTIPLIES_CODES,
    "random": RANDOM,
    "rearranges": REARRANGES,
    "recurrent": RECURRENT,
    "dtype_sensitive": DTYPE_SENSITIVE,
}
