# Generated from specs/rewrites by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from functools import partial

from ortable.passes.rewrite.rule import Rule, make_rules

_activation = partial(make_rules, file='specs/rewrites/activation.yaml', home='ortable_generated.rewrites.activation')
_arithmetic = partial(make_rules, file='specs/rewrites/arithmetic.yaml', home='ortable_generated.rewrites.arithmetic')
_attention = partial(make_rules, file='specs/rewrites/attention.yaml', home='ortable_generated.rewrites.attention')
_casts = partial(make_rules, file='specs/rewrites/casts.yaml', home='ortable_generated.rewrites.casts')
_concat = partial(make_rules, file='specs/rewrites/concat.yaml', home='ortable_generated.rewrites.concat')
_convolution = partial(make_rules, file='specs/rewrites/convolution.yaml', home='ortable_generated.rewrites.convolution')
_dims = partial(make_rules, file='specs/rewrites/dims.yaml', home='ortable_generated.rewrites.dims')
_expand = partial(make_rules, file='specs/rewrites/expand.yaml', home='ortable_generated.rewrites.expand')
_gather = partial(make_rules, file='specs/rewrites/gather.yaml', home='ortable_generated.rewrites.gather')
_grouped_heads = partial(make_rules, file='specs/rewrites/grouped_heads.yaml', home='ortable_generated.rewrites.grouped_heads')
_linear = partial(make_rules, file='specs/rewrites/linear.yaml', home='ortable_generated.rewrites.linear')
_masks = partial(make_rules, file='specs/rewrites/masks.yaml', home='ortable_generated.rewrites.masks')
_normalization = partial(make_rules, file='specs/rewrites/normalization.yaml', home='ortable_generated.rewrites.normalization')
_optimizers = partial(make_rules, file='specs/rewrites/optimizers.yaml', home='ortable_generated.rewrites.optimizers')
_ort_attention = partial(make_rules, file='specs/rewrites/ort_attention.yaml', home='ortable_generated.rewrites.ort_attention')
_ort_cached_attention = partial(make_rules, file='specs/rewrites/ort_cached_attention.yaml', home='ortable_generated.rewrites.ort_cached_attention')
_ort_coded_cache = partial(make_rules, file='specs/rewrites/ort_coded_cache.yaml', home='ortable_generated.rewrites.ort_coded_cache')
_ort_codes = partial(make_rules, file='specs/rewrites/ort_codes.yaml', home='ortable_generated.rewrites.ort_codes')
_ort_decode = partial(make_rules, file='specs/rewrites/ort_decode.yaml', home='ortable_generated.rewrites.ort_decode')
_ort_embeddings = partial(make_rules, file='specs/rewrites/ort_embeddings.yaml', home='ortable_generated.rewrites.ort_embeddings')
_ort_embeddings_half = partial(make_rules, file='specs/rewrites/ort_embeddings_half.yaml', home='ortable_generated.rewrites.ort_embeddings_half')
_ort_experts = partial(make_rules, file='specs/rewrites/ort_experts.yaml', home='ortable_generated.rewrites.ort_experts')
_ort_half = partial(make_rules, file='specs/rewrites/ort_half.yaml', home='ortable_generated.rewrites.ort_half')
_ort_half_products = partial(make_rules, file='specs/rewrites/ort_half_products.yaml', home='ortable_generated.rewrites.ort_half_products')
_ort_norm = partial(make_rules, file='specs/rewrites/ort_norm.yaml', home='ortable_generated.rewrites.ort_norm')
_ort_pointwise = partial(make_rules, file='specs/rewrites/ort_pointwise.yaml', home='ortable_generated.rewrites.ort_pointwise')
_ort_recurrence = partial(make_rules, file='specs/rewrites/ort_recurrence.yaml', home='ortable_generated.rewrites.ort_recurrence')
_ort_rotary = partial(make_rules, file='specs/rewrites/ort_rotary.yaml', home='ortable_generated.rewrites.ort_rotary')
_ort_weights = partial(make_rules, file='specs/rewrites/ort_weights.yaml', home='ortable_generated.rewrites.ort_weights')
_reshape = partial(make_rules, file='specs/rewrites/reshape.yaml', home='ortable_generated.rewrites.reshape')
_rotary = partial(make_rules, file='specs/rewrites/rotary.yaml', home='ortable_generated.rewrites.rotary')
_selection = partial(make_rules, file='specs/rewrites/selection.yaml', home='ortable_generated.rewrites.selection')
_slice = partial(make_rules, file='specs/rewrites/slice.yaml', home='ortable_generated.rewrites.slice')
_training = partial(make_rules, file='specs/rewrites/training.yaml', home='ortable_generated.rewrites.training')
_transpose = partial(make_rules, file='specs/rewrites/transpose.yaml', home='ortable_generated.rewrites.transpose')
_weights = partial(make_rules, file='specs/rewrites/weights.yaml', home='ortable_generated.rewrites.weights')
_weights_experts = partial(make_rules, file='specs/rewrites/weights_experts.yaml', home='ortable_generated.rewrites.weights_experts')
_weights_half = partial(make_rules, file='specs/rewrites/weights_half.yaml', home='ortable_generated.rewrites.weights_half')
RULES: tuple[Rule, ...] = (
    *_activation(
        ('Clip', (((0, 'Relu'),),), 2),
        name='clip_of_relu', stage='simplify',
        why='a lower bound of zero, or above it, cuts off what Relu cuts off',
    ),
    *_activation(
        ('Mul', (((-1, 'Add'), (-1, 'Erf'), (0, 'Div'), (1, '=')), ((-1, 'Mul'), (-1, 'Add'), (-1, 'Erf'), (0, 'Div'), (1, '=')), ((-1, 'Add'), (-1, 'Erf'), (0, 'Mul'), (-1, '=')), ((-1, 'Mul'), (-1, 'Add'), (-1, 'Erf'), (0, 'Mul'), (-1, '='))), 5),
        name='gelu_erf', stage='fuse', opsets=(20, 1000),
        why='Gelu is one operator',
    ),
    *_activation(
        ('Mul', (((-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Pow'), (1, '=')), ((-1, 'Mul'), (-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Pow'), (1, '=')), ((-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul')), ((-1, 'Mul'), (-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'))), 9),
        name='gelu_tanh', stage='fuse', opsets=(20, 1000),
        why='Gelu is one operator, with tanh too',
    ),
    *_activation(
        ('Mul', (((-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Mul'), (-1, '=')), ((-1, 'Mul'), (-1, 'Add'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Add'), (-1, 'Mul'), (-1, 'Mul'), (-1, '='))), 9),
        name='gelu_tanh_factored', stage='fuse', opsets=(20, 1000),
        why='Gelu is one operator, with tanh too, where x is taken out of the sum',
    ),
    *_activation(
        ('Div', (((0, 'Clip'), (0, 'Add'), (-1, '=')),), 3),
        ('Mul', (((-1, 'Clip'), (0, 'Add'), (-1, '=')),), 3),
        name='hard_sigmoid', stage='fuse',
        why='the line between two bounds in one operator',
    ),
    *_activation(
        ('Mul', (((-1, 'HardSigmoid'),),), 2),
        name='hard_swish', stage='fuse',
        why='HardSwish is one operator',
    ),
    *_activation(
        ('Log', (((0, 'Softmax'),),), 2),
        name='log_of_softmax', stage='fuse',
        off='the logarithm of a probability that is too small for its type is -inf before',
        why='one operator, and logarithms of small probabilities that are finite',
    ),
    *_activation(
        ('Sub', (((1, 'Log'), (0, 'ReduceSum'), (0, 'Exp'), (0, 'Sub'), (1, 'ReduceMax')),), 6),
        name='log_softmax', stage='fuse',
        why='the logarithm of a softmax in one operator',
    ),
    *_activation(
        ('Mul', (((-1, 'Tanh'), (0, 'Softplus')),), 3),
        name='mish', stage='fuse',
        why='Mish is one operator',
    ),
    *_activation(
        ('Relu', (((0, 'Clip'),),), 2),
        name='relu_of_clip', stage='simplify',
        why='what a lower bound of zero has cut off is not negative',
    ),
    *_activation(
        ('Relu', (((0, 'Relu'),), ((0, 'Sigmoid'),), ((0, 'HardSigmoid'),), ((0, 'Exp'),), ((0, 'Abs'),), ((0, 'Softplus'),), ((0, 'Softmax'),)), 2),
        name='relu_of_positive', stage='simplify',
        why='Relu changes nothing of what is not negative',
    ),
    *_activation(
        ('Div', (((1, 'ReduceSum'), (0, 'Exp'), (0, 'Sub'), (1, 'ReduceMax')),), 5),
        name='softmax', stage='fuse',
        why='exponentials over their sum in one operator',
    ),
    *_activation(
        ('Log', (((0, 'Add'), (-1, 'Exp')),), 3),
        name='softplus', stage='fuse',
        off='exp overflows for numbers above 88 and gives inf before',
        why='the logarithm of one more than an exponential in one operator, which does not overflow',
    ),
    *_arithmetic(
        ('Add', (((-1, 'Add'),),), 2),
        name='add_add_integers', stage='simplify',
        why='two constants are one; the order of additions of integers is free',
    ),
    *_arithmetic(
        ('Add', (((-1, '='),),), 1),
        name='add_zero', stage='simplify',
        why='an integer plus zero is itself',
    ),
    *_arithmetic(
        ('Div', (((1, '='),),), 1),
        name='div_one', stage='simplify',
        why='a number divided by one is itself',
    ),
    *_arithmetic(
        ('Max', (((-1, 'Max'),),), 2),
        name='max_max', stage='simplify',
        why='the larger of two constants is known',
    ),
    *_arithmetic(
        ('Min', (((-1, 'Min'),),), 2),
        name='min_min', stage='simplify',
        why='the smaller of two constants is known',
    ),
    *_arithmetic(
        ('Mul', (((-1, '='),),), 1),
        name='mul_one', stage='simplify',
        why='a number times one is itself',
    ),
    *_arithmetic(
        ('Neg', (((0, 'Neg'),),), 2),
        name='neg_neg', stage='simplify',
        why='the sign changes twice',
    ),
    *_arithmetic(
        ('Pow', (((1, '='),),), 1),
        name='pow_one', stage='simplify',
        why='the first power of a number is itself',
    ),
    *_arithmetic(
        ('Sub', ((),), 1),
        name='sub_zero', stage='simplify',
        why='a number minus zero is itself, -0.0 too',
    ),
    *_arithmetic(
        ('Sum', ((),), 1),
        name='sum_of_one', stage='simplify',
        why='a sum of one number is that number',
    ),
    *_attention(
        ('MatMul', (((0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Softmax'), (0, 'Mul'), (-1, 'MatMul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul')), ((0, 'Softmax'), (0, 'Div'), (0, 'MatMul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'MatMul')), ((0, 'Softmax'), (0, 'MatMul'))), 5),
        name='attention', stage='fuse', opsets=(23, 1000),
        off='what it gains on CPU is not measured',
        why='scaled products of queries and keys, mask, softmax and values in one operator',
    ),
    *_attention(
        ('Attention', (((1, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (1, '=')),), 7),
        name='attention_groups', stage='fuse', opsets=(23, 1000),
        off='Attention is',
        why='Attention reads keys and values that several heads share without copies of them',
    ),
    *_attention(
        ('Where', (((1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul')), ((1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'))), 6),
        name='attention_masked', stage='fuse', opsets=(23, 1000),
        off='what it gains on CPU is not measured',
        why='scaled products, a mask of allowed positions, softmax and values in one operator',
    ),
    *_casts(
        ('Cast', (((0, 'Cast'),),), 2),
        name='cast_cast', stage='simplify',
        why='a cast to a type that holds every value needs not be there when another one follows',
    ),
    *_casts(
        ('Cast', ((),), 1),
        name='cast_same', stage='simplify',
        why='a cast to the type that a tensor has already copies it',
    ),
    *_casts(
        ('Where', ((),), 1),
        name='where_one_zero_to_cast', stage='simplify',
        why='one input instead of three, and no selection',
    ),
    *_concat(
        ('Concat', ((),), 1),
        name='concat_concat', stage='simplify',
        why='what is joined to be joined again along the same axis is joined at once',
    ),
    *_concat(
        ('Concat', ((),), 1),
        name='concat_of_pieces', stage='simplify',
        why='pieces that lie side by side in one tensor need not be cut apart to be joined',
    ),
    *_concat(
        ('Concat', ((),), 1),
        name='concat_one', stage='simplify',
        why='a Concat of one tensor copies it',
    ),
    *_convolution(
        ('Add', (((-1, 'Conv'),),), 2),
        name='conv_add', stage='fuse',
        why='a constant that is added for each channel becomes the bias',
    ),
    *_convolution(
        ('BatchNormalization', (((0, 'Conv'),),), 2),
        name='conv_batch_norm', stage='fuse',
        why='the normalisation of trained channels is a scale and a shift, which weight and bias take up',
    ),
    *_convolution(
        ('Conv', (((0, 'Pad'),),), 2),
        name='conv_pad', stage='fuse',
        why='a convolution pads with zeros by itself',
    ),
    *_convolution(
        ('Mul', (((-1, 'Conv'),),), 2),
        ('Div', (((0, 'Conv'),),), 2),
        name='conv_scale', stage='fuse',
        why='a constant factor for each channel is part of the weight',
    ),
    *_convolution(
        ('Slice', (((0, 'Conv'),),), 2),
        name='conv_slice', stage='fuse',
        why='what a causal convolution cuts off behind the last place is not computed',
    ),
    *_convolution(
        ('Add', (((-1, 'ConvTranspose'),),), 2),
        name='conv_transpose_add', stage='fuse',
        why='a constant that is added for each channel becomes the bias',
    ),
    *_convolution(
        ('BatchNormalization', (((0, 'ConvTranspose'),),), 2),
        name='conv_transpose_batch_norm', stage='fuse',
        why='the normalisation of trained channels is a scale and a shift, which weight and bias take up',
    ),
    *_convolution(
        ('Mul', (((-1, 'ConvTranspose'),),), 2),
        ('Div', (((0, 'ConvTranspose'),),), 2),
        name='conv_transpose_scale', stage='fuse',
        why='a constant factor for each channel is part of the weight',
    ),
    *_convolution(
        ('AveragePool', (((0, 'Pad'),),), 2),
        name='pool_pad', stage='fuse',
        why='a mean over windows counts the zeros at the border by itself',
    ),
    *_dims(
        ('Concat', ((),), 1),
        name='concat_of_shapes', stage='simplify',
        why='sizes of one tensor that stand side by side are what Shape gives by itself',
    ),
    *_dims(
        ('Shape', ((),), 1),
        ('Size', ((),), 1),
        ('Gather', ((),), 1),
        ('Concat', ((),), 1),
        ('Slice', ((),), 1),
        ('Squeeze', ((),), 1),
        ('Unsqueeze', ((),), 1),
        ('Reshape', ((),), 1),
        ('Expand', ((),), 1),
        ('Cast', ((),), 1),
        ('Range', ((),), 1),
        ('ReduceProd', ((),), 1),
        ('ConstantOfShape', ((),), 1),
        name='known_sizes', stage='simplify',
        why='what is known before the model runs is a constant',
    ),
    *_dims(
        ('Add', ((),), 1),
        ('Sub', ((),), 1),
        ('Mul', ((),), 1),
        ('Div', ((),), 1),
        ('Mod', ((),), 1),
        ('Max', ((),), 1),
        ('Min', ((),), 1),
        ('Neg', ((),), 1),
        ('Abs', ((),), 1),
        ('Where', ((),), 1),
        name='known_sizes_computed', stage='simplify',
        why='what is known before the model runs is a constant',
    ),
    *_dims(
        ('Shape', (((0, 'Transpose'),), ((0, 'Reshape'),), ((0, 'Cast'),), ((0, 'Unsqueeze'),), ((0, 'Relu'),), ((0, 'Sigmoid'),), ((0, 'Tanh'),), ((0, 'Erf'),), ((0, 'Neg'),), ((0, 'Exp'),), ((0, 'Sqrt'),), ((0, 'Softmax'),), ((0, 'Squeeze'),), ((0, 'Expand'),), ((0, 'Slice'),), ((0, 'LayerNormalization'),)), 2),
        name='shape_of_shape', stage='simplify',
        why='sizes that what a tensor is made of has too need not wait for it',
    ),
    *_expand(
        ('Add', (((-1, 'Expand'),),), 2),
        ('Mul', (((-1, 'Expand'),),), 2),
        ('Sub', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('Div', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('Pow', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('Max', (((-1, 'Expand'),),), 2),
        ('Min', (((-1, 'Expand'),),), 2),
        ('And', (((-1, 'Expand'),),), 2),
        ('Or', (((-1, 'Expand'),),), 2),
        name='expand_before_arithmetic', stage='simplify',
        why='an elementwise operator stretches its inputs by itself',
    ),
    *_expand(
        ('Where', (((0, 'Expand'),), ((1, 'Expand'),), ((2, 'Expand'),)), 2),
        ('Equal', (((-1, 'Expand'),),), 2),
        ('Less', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('LessOrEqual', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('Greater', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('GreaterOrEqual', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        ('MatMul', (((0, 'Expand'),), ((1, 'Expand'),)), 2),
        name='expand_before_choice', stage='simplify',
        why='Where and comparisons stretch their inputs by themselves',
    ),
    *_expand(
        ('Expand', (((0, 'Expand'),),), 2),
        name='expand_expand', stage='simplify',
        why='the second Expand stretches enough',
    ),
    *_expand(
        ('Expand', ((),), 1),
        name='expand_last_axis', stage='arrange',
        why="ONNX Runtime's Expand writes short rows in 20 times the time that Concat takes for them",
    ),
    *_expand(
        ('Expand', ((),), 1),
        name='expand_same', stage='simplify',
        why='an Expand to the shape that a tensor has copies it',
    ),
    *_expand(
        ('Tile', ((),), 1),
        name='tile_same', stage='simplify',
        why='a Tile that repeats nothing copies a tensor',
    ),
    *_gather(
        ('Gather', (((0, 'Gather'),),), 2),
        name='gather_gather', stage='simplify',
        why='constant places among constant places are known before the model runs',
    ),
    *_gather(
        ('Gather', ((),), 1),
        name='gather_last_axis', stage='arrange',
        why="ONNX Runtime's Gather copies what is behind an index at once; along the last axis that is one element, which takes ten times as long as rows between two Transposes",
    ),
    *_gather(
        ('Gather', (((0, 'Shape'),),), 2),
        name='gather_of_shape', stage='simplify',
        why='sizes that stand side by side are what Shape gives by itself',
    ),
    *_gather(
        ('Squeeze', (((0, 'Gather'),),), 2),
        name='gather_squeeze', stage='simplify',
        why='a scalar index drops the axis that a vector of one index keeps',
    ),
    *_gather(
        ('Unsqueeze', (((0, 'Gather'),),), 2),
        name='gather_unsqueeze', stage='simplify',
        why='a vector of one index keeps the axis that a scalar index drops',
    ),
    *_gather(
        ('Gather', ((),), 1),
        name='gather_vector', stage='arrange',
        why="ONNX Runtime's Gather of single elements takes seven times as long as GatherElements",
    ),
    *_gather(
        ('GatherND', ((),), 1),
        name='gathernd_whole', stage='simplify',
        why='an index that counts every row of every axis takes the whole tensor',
    ),
    *_grouped_heads(
        ('MatMul', (((1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (1, '=')),), 5),
        name='grouped_keys', stage='arrange',
        why='keys that heads share are read where they are; queries of these heads are rows of one matrix',
    ),
    *_grouped_heads(
        ('MatMul', (((1, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (1, '=')),), 4),
        name='grouped_values', stage='arrange',
        why='values that heads share are read where they are; probs of these heads are rows of one matrix',
    ),
    *_linear(
        ('Add', (((-1, 'Gemm'),),), 2),
        name='gemm_add', stage='fuse',
        why='what is added to a product is an input of Gemm',
    ),
    *_linear(
        ('Add', (((-1, 'Gemm'),),), 2),
        name='gemm_add_constant', stage='fuse',
        why='two constants that are added one after the other are one',
    ),
    *_linear(
        ('BatchNormalization', (((0, 'Gemm'),),), 2),
        name='gemm_batch_norm', stage='fuse',
        why='the normalisation of trained features is a scale and a shift, which weight and bias take up',
    ),
    *_linear(
        ('Mul', (((-1, 'Gemm'),),), 2),
        ('Div', (((0, 'Gemm'),),), 2),
        name='gemm_scale', stage='fuse',
        why='a constant factor is part of a constant weight',
    ),
    *_linear(
        ('Mul', (((-1, 'Gemm'),),), 2),
        ('Div', (((0, 'Gemm'),),), 2),
        name='gemm_scale_number', stage='fuse',
        why='a product that is multiplied by a number is what alpha of Gemm is for',
    ),
    *_linear(
        ('Gemm', (((0, 'Transpose'),),), 2),
        name='gemm_transpose_a', stage='fuse',
        why='Gemm reads its first matrix transposed without copying it',
    ),
    *_linear(
        ('Gemm', (((1, 'Transpose'),),), 2),
        name='gemm_transpose_b', stage='fuse',
        why='Gemm reads its second matrix transposed without copying it',
    ),
    *_linear(
        ('Mul', (((-1, 'Add'), (-1, 'MatMul')),), 3),
        ('Div', (((0, 'Add'), (-1, 'MatMul')),), 3),
        name='linear_scale', stage='fuse',
        why='a constant factor behind a linear layer is part of its constant weight and bias',
    ),
    *_linear(
        ('Add', (((-1, 'MatMul'),),), 2),
        name='matmul_add_to_gemm', stage='fuse',
        why='one kernel call instead of two, and the bias is added while the product is in the cache',
    ),
    *_linear(
        ('BatchNormalization', (((0, 'MatMul'),),), 2),
        name='matmul_batch_norm', stage='fuse',
        why='the normalisation of trained features is a scale and a shift, which weight and bias take up',
    ),
    *_linear(
        ('Mul', (((-1, 'MatMul'),),), 2),
        ('Div', (((0, 'MatMul'),),), 2),
        name='matmul_scale', stage='fuse',
        why='a constant factor behind a product is part of its constant matrix',
    ),
    *_linear(
        ('MatMul', (((1, 'Transpose'),),), 2),
        name='matmul_transpose_b', stage='fuse',
        why='Gemm reads its second matrix transposed without copying it',
    ),
    *_masks(
        ('And', ((),), 1),
        name='and_decided', stage='simplify',
        why='what is true everywhere, or false everywhere, decides an And',
    ),
    *_masks(
        ('Or', ((),), 1),
        name='or_decided', stage='simplify',
        why='what is true everywhere, or false everywhere, decides an Or',
    ),
    *_masks(
        ('Where', (((0, 'Cast'), (0, 'ReduceMax'), (0, 'Cast')),), 5),
        name='rows_always_allowed', stage='simplify',
        why='attention needs no repair of rows without an allowed position where there are none',
    ),
    *_masks(
        ('Where', (((0, 'Cast'), (0, 'ReduceMax'), (0, 'Cast'), (0, 'Expand')), ((0, 'Cast'), (0, 'ReduceMax'), (0, 'Cast'), (0, 'And'))), 5),
        name='rows_narrow', stage='simplify',
        why='whether a row allows a position is asked once for all rows that are alike',
    ),
    *_masks(
        ('Where', ((),), 1),
        name='where_decided', stage='simplify',
        why='a condition that is the same everywhere chooses nothing',
    ),
    *_masks(
        ('Where', (((0, 'Expand'),), ((0, 'And'),)), 2),
        name='where_narrow', stage='simplify',
        why='Where stretches its condition by itself',
    ),
    *_normalization(
        ('Add', (((-1, 'BatchNormalization'),),), 2),
        name='batch_norm_add', stage='fuse',
        why='a constant that is added for each channel is part of the shift',
    ),
    *_normalization(
        ('Mul', (((-1, 'BatchNormalization'),),), 2),
        name='batch_norm_scale', stage='fuse',
        why='a constant factor for each channel is part of scale and shift',
    ),
    *_normalization(
        ('BatchNormalization', (((0, 'BatchNormalization'),),), 2),
        name='batch_norm_twice', stage='fuse',
        why='two normalisations with trained statistics are one',
    ),
    *_normalization(
        ('Add', (((-1, 'Mul'), (-1, 'Reshape'), (0, 'InstanceNormalization'), (0, 'Reshape')),), 5),
        name='group_norm', stage='fuse', opsets=(21, 1000),
        off='ONNX Runtime has no kernel for GroupNormalization and writes out more nodes',
        why='one operator says what six nodes compute',
    ),
    *_normalization(
        ('Div', (((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceMean')), ((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (0, 'Sub'), (1, 'ReduceMean'))), 7),
        ('Mul', (((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceMean')), ((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (0, 'Sub'), (1, 'ReduceMean'))), 8),
        name='instance_norm', stage='fuse',
        why='mean and variance of each picture and channel in one operator',
    ),
    *_normalization(
        ('Add', (((-1, 'Mul'), (-1, 'InstanceNormalization')),), 3),
        name='instance_norm_affine', stage='fuse',
        why='InstanceNormalization multiplies and adds for each channel by itself',
    ),
    *_normalization(
        ('Div', (((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceMean')), ((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (0, 'Sub'), (1, 'ReduceMean'))), 7),
        ('Mul', (((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceMean')), ((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (0, 'Sub'), (1, 'ReduceMean'))), 8),
        name='layer_norm', stage='fuse',
        why='mean and variance of the last axes in one operator',
    ),
    *_normalization(
        ('Add', (((-1, 'LayerNormalization'),),), 2),
        name='layer_norm_bias', stage='fuse',
        why='LayerNormalization adds its third input',
    ),
    *_normalization(
        ('Mul', (((-1, 'LayerNormalization'),),), 2),
        name='layer_norm_scale', stage='fuse',
        why='LayerNormalization multiplies by its second input',
    ),
    *_normalization(
        ('Div', (((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul')), ((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (1, '='))), 5),
        ('Mul', (((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul')), ((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (1, '='))), 6),
        name='rms_norm', stage='fuse', opsets=(23, 1000),
        why='the root of the mean of squares and the division by it in one operator',
    ),
    *_normalization(
        ('Div', (((1, 'Sqrt'), (0, 'Add'), (-1, 'Cast'), (0, 'Div'), (0, 'ReduceSum'), (0, 'Cast'), (0, 'ReduceSum'), (0, 'Reshape'), (0, 'Mul')), ((1, 'Sqrt'), (0, 'Add'), (-1, 'Cast'), (0, 'Div'), (0, 'ReduceSum'), (0, 'Cast'), (0, 'ReduceSum'), (0, 'Reshape'), (0, 'Pow'), (1, '='))), 10),
        ('Mul', (((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'Cast'), (0, 'Div'), (0, 'ReduceSum'), (0, 'Cast'), (0, 'ReduceSum'), (0, 'Reshape'), (0, 'Mul')), ((-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'Cast'), (0, 'Div'), (0, 'ReduceSum'), (0, 'Cast'), (0, 'ReduceSum'), (0, 'Reshape'), (0, 'Pow'), (1, '='))), 11),
        name='rms_norm_of_one_row', stage='fuse', opsets=(23, 1000),
        why='a mean over all elements is taken in parts, RMSNormalization of one row as that of many',
    ),
    *_normalization(
        ('Mul', (((-1, 'RMSNormalization'),),), 2),
        name='rms_norm_scale', stage='fuse', opsets=(23, 1000),
        why='RMSNormalization multiplies by its second input',
    ),
    *_optimizers(
        ('Div', (((1, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow')),), 5),
        name='max_before_power', stage='arrange',
        why="ONNX Runtime's LayerNormFusion does not look at the exponent",
    ),
    *_optimizers(
        ('Mul', (((-1, 'Conv'),),), 2),
        ('Div', (((0, 'Conv'),),), 2),
        name='max_between_conv_and_factor', stage='arrange',
        why="ONNX Runtime's ConvMulFusion moves a factor into the weight also where that overflows, or makes NaN",
    ),
    *_optimizers(
        ('AveragePool', (((0, 'Pad'),),), 2),
        name='max_between_pad_and_average', stage='arrange',
        why="ONNX Runtime's Pad_Fusion lets a pool pad more than its window, which no session accepts",
    ),
    *_optimizers(
        ('MaxPool', (((0, 'Pad'),),), 2),
        name='max_between_pad_and_maximum', stage='arrange',
        why="ONNX Runtime's Pad_Fusion takes the zeros for the padding of the pool, which is -inf",
    ),
    *_optimizers(
        ('QuantizeLinear', (((0, 'DequantizeLinear'),),), 2),
        name='max_between_quantizations', stage='arrange',
        why="ONNX Runtime's DoubleQDQPairsRemover quantizes once what is quantized twice with other scales",
    ),
    *_optimizers(
        ('Mul', (((-1, 'Div'),),), 2),
        name='max_between_quotient_and_factor', stage='arrange',
        why="ONNX Runtime's DivMulFusion makes z / x of (1 / x) * z, which rounds otherwise and may have fewer axes",
    ),
    *_optimizers(
        ('Add', ((),), 1),
        ('Sub', ((),), 1),
        name='sum_with_zero', stage='arrange',
        why="ONNX Runtime's NoopElimination drops a zero that makes 0.0 of -0.0, and what is zero in float32",
    ),
    *_optimizers(
        ('Mul', ((),), 1),
        ('Div', ((),), 1),
        name='wide_factor', stage='arrange',
        why="ONNX Runtime's MatMulScaleFusion keeps factors of float64 as float32, its NoopElimination takes 1 + 1e-9 for 1",
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'MatMul'))), 6),
        name='ort_attention', stage='runtime', target='onnxruntime', opsets=(23, 1000),
        off='without a mask the operators are as fast, and faster with few heads',
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'))), 8),
        name='ort_attention_causal', stage='runtime', target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul'))), 7),
        name='ort_attention_causal_by_division', stage='runtime', target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (2, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (2, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, '='))), 7),
        name='ort_attention_causal_hidden', stage='runtime', target='onnxruntime',
        why='what a causal mask hides is not computed',
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'))), 8),
        name='ort_attention_masked', stage='runtime', target='onnxruntime', opsets=(23, 1000),
        why='queries, keys and values stay rows, and rows that see no key are 0 without a Where of their own',
    ),
    *_ort_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'))), 8),
        name='ort_attention_with_bias', stage='runtime', target='onnxruntime', opsets=(23, 1000),
        why='queries, keys and values stay rows, and the scores of a head stay in the cache of a core',
    ),
    *_ort_cached_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Concat'))), 14),
        name='ort_append_attention', stage='runtime', target='onnxruntime',
        off='the kernel takes pieces of several texts only without a past',
        why='one kernel appends and attends, in place where the caches of input and result are one',
    ),
    *_ort_cached_attention(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Squeeze'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Concat'))), 20),
        name='ort_append_attention_repeated', stage='runtime', target='onnxruntime',
        off='the kernel takes pieces of several texts only without a past',
        why='one kernel appends and attends, and reads the keys that heads share once',
    ),
    *_ort_coded_cache(
        ('MatMul', (((0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul'))), 20),
        name='ort_coded_cache', stage='runtime', target='onnxruntime',
        why='codes are read once, where the nodes write and read the floats of the whole cache',
    ),
    *_ort_coded_cache(
        ('MatMul', (((0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul')), ((0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'Mul'), (-1, 'Cast'), (0, 'Concat'), (1, 'Cast'), (0, 'Clip'), (0, 'Round'), (0, 'Mul'))), 26),
        name='ort_coded_cache_repeated', stage='runtime', target='onnxruntime',
        why='codes are read once, where the nodes write and read the floats of the whole cache',
    ),
    *_ort_codes(
        ('Gather', ((),), 1),
        name='ort_codes_of_gather', stage='fuse', target='onnxruntime', opsets=(21, 1000),
        why='rows are looked up as codes, and only these become floats',
    ),
    *_ort_codes(
        ('Gemm', ((),), 1),
        name='ort_codes_of_gemm', stage='fuse', target='onnxruntime', opsets=(21, 1000),
        why='the kernel reads codes, a quarter or an eighth of the bytes',
    ),
    *_ort_codes(
        ('MatMul', ((),), 1),
        name='ort_codes_of_matmul', stage='fuse', target='onnxruntime', opsets=(21, 1000),
        why='the kernel reads codes, a quarter or an eighth of the bytes',
    ),
    *_ort_codes(
        ('Mul', (((-1, 'Reshape'), (0, 'MatMul')), ((-1, 'MatMul'),)), 3),
        name='ort_codes_scaled', stage='fuse', target='onnxruntime', opsets=(21, 1000),
        why='a product of codes, whose scales come after it',
    ),
    *_ort_decode(
        ('MatMul', (((0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose')), ((0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose')), ((0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'MatMul'), (1, 'Transpose')), ((0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'MatMul'), (1, 'Transpose')), ((0, 'Softmax'), (0, 'Add'), (-1, 'MatMul'), (1, 'Transpose')), ((0, 'Softmax'), (0, 'Where'), (1, 'MatMul'), (1, 'Transpose'))), 6),
        name='ort_decode', stage='runtime', target='onnxruntime',
        why='places of the cache after the last one that a mask shows are not read',
    ),
    *_ort_decode(
        ('MatMul', (((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Div'), (0, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Tanh'), (0, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Reshape'), (0, 'MatMul'), (1, 'Reshape'), (0, 'Transpose'))), 13),
        name='ort_decode_flat', stage='runtime', target='onnxruntime',
        why='places of the cache after the last one that a mask shows are not read',
    ),
    *_ort_decode(
        ('Reshape', (((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (0, 'Reshape')), ((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'Reshape'), (0, 'MatMul'), (0, 'Reshape')), ((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Div'), (0, 'Reshape'), (0, 'MatMul'), (0, 'Reshape')), ((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Where'), (1, 'Div'), (0, 'Reshape'), (0, 'MatMul'), (0, 'Reshape')), ((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Add'), (-1, 'Reshape'), (0, 'MatMul'), (0, 'Reshape')), ((0, 'MatMul'), (0, 'Reshape'), (0, 'Softmax'), (0, 'Where'), (1, 'Reshape'), (0, 'MatMul'), (0, 'Reshape'))), 10),
        name='ort_decode_grouped', stage='runtime', target='onnxruntime',
        why='places of the cache after the last one that a mask shows are not read',
    ),
    *_ort_embeddings(
        ('Gather', (((0, 'DequantizeLinear'),),), 2),
        name='ort_bits_embedding', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        why='rows are looked up as codes, and only these become floats',
    ),
    *_ort_embeddings(
        ('Gather', ((),), 1),
        name='ort_weights_of_gather', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a table of 4 or 8 bits instead of 32',
    ),
    *_ort_embeddings_half(
        ('Gather', ((),), 1),
        name='ort_half_weights_of_gather', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a table of 4 or 8 bits instead of 16',
    ),
    *_ort_experts(
        ('Slice', (((0, 'ScatterElements'), (1, 'Where'), (1, 'Min'), (-1, 'Cast'), (0, 'Where'), (1, 'Div'), (0, 'Mul'), (-1, 'Sub'), (0, 'Cast')), ((0, 'ScatterElements'), (1, 'Where'), (1, 'Min'), (-1, 'Cast'), (0, 'Where'), (0, 'And'), (-1, 'GreaterOrEqual'), (0, 'Cast'))), 16),
        name='ort_expert_counts', stage='runtime', target='onnxruntime',
        why='a histogram of whole numbers is counted without floats and without a scatter',
    ),
    *_ort_experts(
        ('Sub', (((1, 'Cast'), (0, 'Not'), (0, 'Equal'), (-1, 'Sub'), (1, 'Mul'), (-1, 'Div')),), 8),
        name='ort_expert_rows', stage='runtime', target='onnxruntime',
        why='places are not negative, and Div rounds them as a floor does',
    ),
    *_ort_experts(
        ('MatMul', (((0, 'Gather'),),), 2),
        name='ort_experts_of_columns', stage='runtime', target='onnxruntime',
        why='one product an expert, where a matrix was copied for each row',
    ),
    *_ort_experts(
        ('MatMul', (((1, 'Gather'),),), 2),
        name='ort_experts_of_rows', stage='runtime', target='onnxruntime',
        why='one product an expert, where a matrix was copied for each row',
    ),
    *_ort_half(
        ('Cast', ((),), 1),
        name='half_weight_as_float32', stage='arrange',
        off='it stores weights in twice as many bytes, which `weights=` asks for',
        why='a weight that was cast once need not be cast when a model is loaded',
    ),
    *_ort_half(
        ('Cast', (((0, 'Transpose'),),), 2),
        name='ort_half_cast_first', stage='arrange', target='onnxruntime',
        why='a product reads a float32 matrix transposed where it lies, and a half one has to be copied',
    ),
    *_ort_half_products(
        ('Gemm', ((),), 1),
        name='ort_half_gemm', stage='arrange', target='onnxruntime',
        off='ONNX Runtime makes fewer casts, which `weights="keep"` gives up for memory',
        why='a weight is cast when its product is computed',
    ),
    *_ort_half_products(
        ('MatMul', ((),), 1),
        name='ort_half_matmul', stage='arrange', target='onnxruntime',
        off='ONNX Runtime makes fewer casts, which `weights="keep"` gives up for memory',
        why='a weight is cast when its product is computed',
    ),
    *_ort_half_products(
        ('MatMul', (((1, 'Transpose'),),), 2),
        name='ort_half_transposed_matmul', stage='arrange', target='onnxruntime',
        off='ONNX Runtime makes fewer casts, which `weights="keep"` gives up for memory',
        why='a weight is cast when its product is computed',
    ),
    *_ort_norm(
        ('Mul', (((-1, 'Mul'), (-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Mul')), ((-1, 'Mul'), (-1, 'Reciprocal'), (0, 'Sqrt'), (0, 'Add'), (-1, 'ReduceMean'), (0, 'Pow'), (1, '='))), 7),
        name='ort_rms_norm_by_division', stage='runtime', target='onnxruntime',
        why='ONNX Runtime makes one SimplifiedLayerNormalization of this spelling',
    ),
    *_ort_norm(
        ('LayerNormalization', (((0, 'Add'),),), 2),
        name='ort_sum_before_layer_norm', stage='runtime', target='onnxruntime',
        why='ONNX Runtime makes SkipLayerNormalization of Add and LayerNormalization, six times as slow on the CPU; Sum of two adds the same view, and it leaves that alone',
    ),
    *_ort_pointwise(
        ('Gemm', ((),), 1),
        name='ort_gemm_to_conv', stage='arrange', target='onnxruntime',
        off='it pays on processors with AVX-512 only, and not for every model',
        why="with AVX-512, ONNX Runtime's convolutions of blocked channels are faster than its products",
    ),
    *_ort_pointwise(
        ('Transpose', (((0, 'Reshape'), (0, 'Mul'), (-1, 'Mul'), (-1, 'Sigmoid'), (0, 'Reshape'), (0, 'Transpose')),), 9),
        name='ort_image_gate', stage='arrange', target='onnxruntime',
        off='ort_gemm_to_conv is',
        why='a gate between convolutions needs no rows',
    ),
    *_ort_pointwise(
        ('Transpose', (((0, 'Reshape'), (0, 'Relu'), (0, 'Reshape'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Gelu'), (0, 'Reshape'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Sigmoid'), (0, 'Reshape'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Tanh'), (0, 'Reshape'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Relu'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Gelu'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Sigmoid'), (0, 'Reshape'), (0, 'Transpose')), ((0, 'Reshape'), (0, 'Tanh'), (0, 'Reshape'), (0, 'Transpose'))), 6),
        name='ort_image_unary', stage='arrange', target='onnxruntime',
        off='ort_gemm_to_conv is',
        why='an activation between convolutions needs no rows',
    ),
    *_ort_pointwise(
        ('Add', (((-1, 'MatMul'),),), 2),
        name='ort_linear_to_conv', stage='runtime', target='onnxruntime',
        off='it pays on processors with AVX-512 only, and not for every model',
        why="with AVX-512, ONNX Runtime's convolutions of blocked channels are faster than its products",
    ),
    *_ort_pointwise(
        ('MatMul', ((),), 1),
        name='ort_product_to_conv', stage='arrange', target='onnxruntime',
        off='ort_linear_to_conv is',
        why="with AVX-512, ONNX Runtime's convolutions of blocked channels are faster than its products",
    ),
    *_ort_recurrence(
        ('Conv', ((),), 1),
        name='ort_causal_conv', stage='runtime', target='onnxruntime',
        why='a kernel for few places, where Conv takes the channels one by one',
    ),
    *_ort_recurrence(
        ('Slice', (((0, 'Conv'),),), 2),
        name='ort_causal_conv_step', stage='runtime', target='onnxruntime',
        why='the last place of a sequence is computed alone, by a kernel for one place',
    ),
    *_ort_recurrence(
        ('Add', (((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceSum'), (1, '=')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'ReduceSum'), (1, '=')), ((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'Squeeze'), (0, 'MatMul')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'Squeeze'), (0, 'MatMul')), ((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'MatMul')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'MatMul'))), 9),
        name='ort_delta_step', stage='runtime', target='onnxruntime',
        why='one pass over the state in the cache of a core, where the nodes read and write it five times',
    ),
    *_ort_recurrence(
        ('Add', (((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'ReduceSum'), (0, 'Mul'), (-1, 'Mul')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'ReduceSum'), (0, 'Mul'), (-1, 'Mul')), ((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'Squeeze'), (0, 'MatMul'), (1, 'Mul')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'Squeeze'), (0, 'MatMul'), (1, 'Mul')), ((-1, 'Mul'), (-1, 'Unsqueeze'), (0, 'Mul'), (-1, 'Sub'), (1, 'MatMul'), (1, 'Mul')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Sub'), (1, 'MatMul'), (1, 'Mul'))), 10),
        name='ort_gated_delta_step', stage='runtime', target='onnxruntime',
        why='one pass over the state in the cache of a core, where the nodes read and write it six times',
    ),
    *_ort_recurrence(
        ('Add', (((-1, 'Mul'),),), 5),
        name='ort_gated_step', stage='runtime', target='onnxruntime',
        why='one pass over the state in the cache of a core, where the nodes read and write it four times',
    ),
    *_ort_rotary(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'RotaryEmbedding'))), 14),
        name='ort_attention_causal_rotary', stage='runtime', target='onnxruntime', opsets=(23, 1000),
        why='queries and keys are transposed where they are read, what a causal mask hides is not computed, and keys and values of grouped heads are not repeated',
    ),
    *_ort_rotary(
        ('Reshape', (((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'Reshape'), (0, 'Expand'), (0, 'Unsqueeze'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Where'), (1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (1, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'Where'), (2, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding')), ((0, 'Transpose'), (0, 'MatMul'), (0, 'Softmax'), (0, 'Add'), (-1, 'Mul'), (-1, 'MatMul'), (1, 'Transpose'), (0, 'com.microsoft::RotaryEmbedding'))), 14),
        name='ort_attention_causal_rotary_places', stage='runtime', target='onnxruntime',
        why='queries and keys are transposed where they are read, what a causal mask hides is not computed, and keys and values of grouped heads are not repeated',
    ),
    *_ort_rotary(
        ('Add', (((-1, 'Mul'), (-1, 'Concat'), (0, 'Neg'), (0, 'Slice')),), 7),
        name='ort_rotary_embedding', stage='runtime', target='onnxruntime',
        why='one pass over the heads instead of seven',
    ),
    *_ort_weights(
        ('Add', (((-1, 'com.microsoft::MatMulNBits'),),), 2),
        name='ort_bits_bias', stage='arrange', target='onnxruntime',
        why='the kernel adds a bias by itself',
    ),
    *_ort_weights(
        ('Gemm', (((1, 'DequantizeLinear'),),), 2),
        name='ort_bits_gemm', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        why='the kernel reads codes, a quarter or an eighth of the bytes',
    ),
    *_ort_weights(
        ('MatMul', (((1, 'DequantizeLinear'),),), 2),
        name='ort_bits_matmul', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        why='the kernel reads codes, a quarter or an eighth of the bytes',
    ),
    *_ort_weights(
        ('MatMul', (((1, 'Transpose'), (0, 'DequantizeLinear')),), 3),
        name='ort_bits_transposed_matmul', stage='arrange', target='onnxruntime', opsets=(21, 1000),
        why='the kernel reads codes, a quarter or an eighth of the bytes',
    ),
    *_reshape(
        ('Reshape', ((),), 1),
        name='reshape_constant_target', stage='simplify',
        why='sizes that ONNX copies or finds by itself need no nodes that compute them',
    ),
    *_reshape(
        ('Reshape', (((0, 'Gemm'), (0, 'Reshape')),), 3),
        name='reshape_gemm_reshape', stage='simplify',
        why='a MatMul takes the leading dimensions as they are, so that both reshapes are gone',
    ),
    *_reshape(
        ('Reshape', (((0, 'Reshape'),), ((0, 'Unsqueeze'),), ((0, 'Squeeze'),), ((0, 'Flatten'),)), 2),
        name='reshape_given_target', stage='simplify',
        why='the view in between says nothing that the second target does not say',
    ),
    *_reshape(
        ('Reshape', (((0, 'Reshape'),), ((0, 'Unsqueeze'),), ((0, 'Squeeze'),), ((0, 'Flatten'),)), 2),
        ('Unsqueeze', (((0, 'Reshape'),), ((0, 'Unsqueeze'),), ((0, 'Squeeze'),), ((0, 'Flatten'),)), 2),
        ('Squeeze', (((0, 'Reshape'),), ((0, 'Unsqueeze'),), ((0, 'Squeeze'),), ((0, 'Flatten'),)), 2),
        ('Flatten', (((0, 'Reshape'),), ((0, 'Unsqueeze'),), ((0, 'Squeeze'),), ((0, 'Flatten'),)), 2),
        name='view_again', stage='simplify',
        why='two views in a row are one',
    ),
    *_reshape(
        ('Reshape', ((),), 1),
        ('Unsqueeze', ((),), 1),
        ('Squeeze', ((),), 1),
        ('Flatten', ((),), 1),
        name='view_same', stage='simplify',
        why='a view of the shape that a result has already says nothing',
    ),
    *_reshape(
        ('Reshape', (((0, 'Relu'), (0, 'Reshape')), ((0, 'Sigmoid'), (0, 'Reshape')), ((0, 'Tanh'), (0, 'Reshape')), ((0, 'Erf'), (0, 'Reshape')), ((0, 'Neg'), (0, 'Reshape')), ((0, 'Exp'), (0, 'Reshape')), ((0, 'Sqrt'), (0, 'Reshape')), ((0, 'Abs'), (0, 'Reshape')), ((0, 'Softplus'), (0, 'Reshape')), ((0, 'Gelu'), (0, 'Reshape')), ((0, 'LeakyRelu'), (0, 'Reshape')), ((0, 'Cast'), (0, 'Reshape')), ((0, 'HardSigmoid'), (0, 'Reshape')), ((0, 'HardSwish'), (0, 'Reshape')), ((0, 'Not'), (0, 'Reshape')), ((0, 'Reciprocal'), (0, 'Reshape'))), 3),
        name='view_unary_view', stage='simplify',
        why='an elementwise function needs no other shape than what it reads and gives has anyway',
    ),
    *_reshape(
        ('Add', (((-1, 'Reshape'),),), 3),
        ('Mul', (((-1, 'Reshape'),),), 3),
        ('Sub', (((0, 'Reshape'),),), 3),
        ('Div', (((0, 'Reshape'),),), 3),
        name='views_side_by_side', stage='simplify',
        why='two tensors of one shape need one view after an elementwise operator, not two before it',
    ),
    *_rotary(
        ('Add', (((-1, 'Mul'), (-1, 'Concat'), (0, 'Neg'), (0, 'Slice')),), 7),
        name='rotary_embedding', stage='fuse', opsets=(23, 1000),
        why='the turn of positions in one operator',
    ),
    *_selection(
        ('Clip', (((0, 'Clip'),),), 2),
        name='clip_clip', stage='simplify',
        why='two intervals that meet are one',
    ),
    *_selection(
        ('Not', (((0, 'Not'),),), 2),
        name='not_not', stage='simplify',
        why='negated twice is not negated',
    ),
    *_selection(
        ('Where', (((0, 'Not'),),), 2),
        name='where_not', stage='simplify',
        why='the branches change places instead of the condition being negated',
    ),
    *_selection(
        ('Where', ((),), 1),
        name='where_same', stage='simplify',
        why='both branches are the same tensor',
    ),
    *_slice(
        ('Slice', (((0, 'Concat'),),), 2),
        name='slice_of_concat', stage='simplify',
        why='a piece of what was joined is cut from the part that holds it, or joined from the parts that it takes whole',
    ),
    *_slice(
        ('Slice', (((0, 'Slice'),),), 2),
        name='slice_slice', stage='simplify',
        why='a piece of a piece is cut at once',
    ),
    *_slice(
        ('Squeeze', (((0, 'Slice'),),), 2),
        name='slice_squeeze', stage='simplify',
        why='one element along an axis that is dropped then is what Gather takes',
    ),
    *_slice(
        ('Slice', ((),), 1),
        name='slice_whole', stage='simplify',
        why='a Slice that takes everything copies it',
    ),
    *_slice(
        ('Slice', ((),), 2),
        name='slices_to_split', stage='arrange',
        why='two pieces that are all of a tensor come from one node',
    ),
    *_slice(
        ('Slice', ((),), 3),
        name='slices_to_split_of_three', stage='arrange',
        why='three pieces that are all of a tensor come from one node',
    ),
    *_slice(
        ('Split', ((),), 1),
        name='split_one', stage='simplify',
        why='a Split into one part copies it',
    ),
    *_training(
        ('Sub', (((1, 'Mul'), (-1, 'ReduceSum'), (0, 'Where'), (0, 'Equal')),), 6),
        name='cross_entropy_gradient', stage='fuse',
        why='what is added at one class of each row need not be compared with all classes',
    ),
    *_training(
        ('Mul', (((-1, 'Mul'), (-1, 'Cast')),), 3),
        name='dropout_gradient', stage='simplify',
        why='the scale of what is kept is chosen by the mask, in one pass instead of two',
    ),
    *_training(
        ('Mul', (((-1, 'Expand'),),), 2),
        name='expand_of_product', stage='simplify',
        why='a number multiplies fewer elements before they are repeated',
    ),
    *_training(
        ('Div', (((0, 'Expand'),),), 2),
        name='expand_of_quotient', stage='simplify',
        why='a number divides fewer elements before they are repeated',
    ),
    *_training(
        ('Mul', (((-1, 'Mul'), (-1, 'Reshape'), (0, 'MatMul')), ((-1, 'Mul'), (-1, 'MatMul'))), 4),
        name='factor_of_product', stage='fuse',
        why='Gemm multiplies by a number by itself',
    ),
    *_training(
        ('Mul', (((-1, 'Mul'),),), 2),
        name='factor_of_smaller', stage='fuse',
        why='a number multiplies the smaller one of two factors',
    ),
    *_training(
        ('Add', (((-1, 'Add'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, '=')), ((-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, 'Mul'), (-1, '='))), 15),
        name='gelu_tanh_gradient', stage='fuse',
        why='the gradient of gelu with tanh, written out by autograd, multiplies by constants once',
    ),
    *_training(
        ('Squeeze', (((0, 'ReduceSum'),), ((0, 'ReduceMean'),), ((0, 'ReduceMax'),), ((0, 'ReduceMin'),)), 2),
        name='reduce_squeeze', stage='simplify',
        why='a sum drops the axes that it is taken over by itself',
    ),
    *_training(
        ('Mul', (((-1, 'Add'), (-1, 'Mul'), (-1, 'Sub'), (0, '=')),), 6),
        name='silu_gradient', stage='fuse',
        why='silu, which a neighbour of its gradient reads, is a part of it',
    ),
    *_training(
        ('ReduceSum', (((0, 'Neg'),),), 2),
        name='sum_of_negated', stage='simplify',
        why='a sum has fewer signs to turn than what is summed',
    ),
    *_training(
        ('Add', (((-1, 'Pad'),), ((-1, 'Add'), (-1, 'Pad'))), 4),
        name='sum_of_padded', stage='fuse',
        why='two pieces in a room of zeros each, side by side, are joined instead of added',
    ),
    *_transpose(
        ('Transpose', (((0, 'Transpose'),),), 2),
        name='transpose_back', stage='simplify',
        why='a second Transpose that undoes the first one gives what was there before',
    ),
    *_transpose(
        ('Reshape', (((0, 'Transpose'),),), 2),
        ('Squeeze', (((0, 'Transpose'),),), 2),
        ('Unsqueeze', (((0, 'Transpose'),),), 2),
        name='transpose_of_ones', stage='simplify',
        why='a Transpose that moves only axes of size 1 next to a view copies a tensor for nothing',
    ),
    *_transpose(
        ('Transpose', ((),), 1),
        name='transpose_same', stage='simplify',
        why='a permutation that leaves every axis at its place',
    ),
    *_transpose(
        ('Transpose', (((0, 'Transpose'),),), 2),
        name='transpose_transpose', stage='simplify',
        why='two permutations in a row are one',
    ),
    *_transpose(
        ('Transpose', (((0, 'Relu'), (0, 'Transpose')), ((0, 'Sigmoid'), (0, 'Transpose')), ((0, 'Tanh'), (0, 'Transpose')), ((0, 'Erf'), (0, 'Transpose')), ((0, 'Neg'), (0, 'Transpose')), ((0, 'Exp'), (0, 'Transpose')), ((0, 'Sqrt'), (0, 'Transpose')), ((0, 'Abs'), (0, 'Transpose')), ((0, 'Softplus'), (0, 'Transpose')), ((0, 'Gelu'), (0, 'Transpose')), ((0, 'LeakyRelu'), (0, 'Transpose')), ((0, 'Cast'), (0, 'Transpose')), ((0, 'HardSigmoid'), (0, 'Transpose')), ((0, 'HardSwish'), (0, 'Transpose')), ((0, 'Elu'), (0, 'Transpose')), ((0, 'Reciprocal'), (0, 'Transpose'))), 3),
        name='transpose_unary_transpose', stage='simplify',
        why='an elementwise function of a transposed tensor, turned back, needs no Transpose',
    ),
    *_weights(
        ('Gemm', ((),), 1),
        name='weights_of_gemm', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32',
    ),
    *_weights(
        ('MatMul', ((),), 1),
        name='weights_of_matmul', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32',
    ),
    *_weights(
        ('MatMul', (((1, 'Transpose'),),), 2),
        name='weights_of_transposed_matmul', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32, where others read it as it is',
    ),
    *_weights_experts(
        ('MatMul', (((1, 'Gather'),),), 2),
        name='weights_of_expert', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32',
    ),
    *_weights_experts(
        ('Gemm', (((1, 'Gather'),),), 2),
        name='weights_of_expert_in_gemm', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32',
    ),
    *_weights_experts(
        ('MatMul', (((1, 'Gather'), (0, 'Transpose')),), 3),
        name='weights_of_transposed_expert', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 32',
    ),
    *_weights_half(
        ('Gemm', (((1, 'Cast'),),), 2),
        name='half_weights_of_gemm', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16, and of 32 in a session',
    ),
    *_weights_half(
        ('Gemm', ((),), 1),
        name='half_weights_of_gemm_in_half', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16; kernels add up in float32',
    ),
    *_weights_half(
        ('MatMul', (((1, 'Cast'),),), 2),
        name='half_weights_of_matmul', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16, and of 32 in a session',
    ),
    *_weights_half(
        ('MatMul', ((),), 1),
        name='half_weights_of_matmul_in_half', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16; kernels add up in float32',
    ),
    *_weights_half(
        ('MatMul', (((1, 'Cast'), (0, 'Transpose')), ((1, 'Transpose'), (0, 'Cast'))), 3),
        name='half_weights_of_transposed_matmul', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16, and of 32 in a session',
    ),
    *_weights_half(
        ('MatMul', (((1, 'Transpose'),),), 2),
        name='half_weights_of_transposed_matmul_in_half', stage='arrange', opsets=(21, 1000),
        off='it rounds weights, which `weights=` asks for',
        why='a weight of 4 or 8 bits instead of 16; kernels add up in float32',
    ),
)
