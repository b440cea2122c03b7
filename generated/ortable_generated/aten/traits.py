# Generated from specs/aten by codegen. Do not edit: change the spec, then run `make codegen`.
"""What is true of operators, by the keys under which nodes are looked up. `load_specs` adds what a
user's file says."""

from __future__ import annotations

# a check while the model runs: ONNX has no operator that raises, so nothing is emitted
ASSERTION: set[str] = {
    "aten::_assert_async",
    "aten::_assert_async.msg",
    "aten::_assert_scalar",
    "aten::_assert_tensor_metadata",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "torch._assert",
    "torch._check",
    "torch._check_is_size",
}

# calls an operator with an effect; a token orders it
CARRIES_TOKEN: set[str] = {
    "with_effects",
}

# converts to a dtype that the program names
CAST: set[str] = {
    "aten::_to_copy",
    "aten::to.device",
    "aten::to.dtype",
    "aten::to.dtype_layout",
    "aten::to.other",
    "aten::type_as",
    "prims::convert_element_type",
}

# a region that casts the operands of what is inside, where the graph does not show it, if the
# argument at this position is true
CASTS: dict[str, int] = {
    "wrap_with_autocast": 2,
}

# ONNX Runtime saves more by computing it than entering a session costs
COMPUTE_BOUND: set[str] = {
    "aten::_convolution",
    "aten::_convolution.deprecated",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::addbmm",
    "aten::addmm",
    "aten::addmm.dtype",
    "aten::addmv",
    "aten::baddbmm",
    "aten::bmm",
    "aten::bmm.dtype",
    "aten::conv1d",
    "aten::conv1d.padding",
    "aten::conv2d",
    "aten::conv2d.padding",
    "aten::conv3d",
    "aten::conv3d.padding",
    "aten::convolution",
    "aten::dot",
    "aten::einsum",
    "aten::linear",
    "aten::matmul",
    "aten::mm",
    "aten::mm.dtype",
    "aten::mv",
    "aten::scaled_dot_product_attention",
}

# its first argument must be true, its second is what torch says where it is false
CONDITION: set[str] = {
    "aten::_assert_async",
    "aten::_assert_async.msg",
    "aten::_assert_scalar",
    "aten::_functional_assert_async.msg",
    "aten::_functional_assert_scalar",
    "torch._assert",
    "torch._check",
    "torch._check_is_size",
}

# how many elements there are, along an axis or in all: never negative
EXTENT: set[str] = {
    "aten::sym_numel",
    "aten::sym_size.int",
}

# the elements that a condition picks: no more than the tensor has
FILTER: set[str] = {
    "aten::masked_select",
    "aten::nonzero",
}

# stands for a call of its first argument, an overload that writes
FUNCTIONALIZED_CALL: set[str] = {
    "auto_functionalized",
    "auto_functionalized_v2",
}

# returns views of its input as that operator does, which its schema does not say
HIDDEN_VIEW: dict[str, str] = {
    "aten::unsafe_chunk": 'aten::chunk',
    "aten::unsafe_split.Tensor": 'aten::split.Tensor',
    "aten::unsafe_split_with_sizes": 'aten::split_with_sizes',
}

# returns its input itself unless it trains with p > 0, which its schema does not say
IDENTITY_IN_EVAL: set[str] = {
    "aten::dropout",
    "aten::feature_dropout",
}

# reads the only value of its first argument
ITEM: set[str] = {
    "aten::_local_scalar_dense",
    "aten::item",
}

# the dtype of the argument at this position says nothing about the result's
MASK: dict[str, int] = {
    "aten::masked_fill_.Scalar": 1,
    "aten::masked_fill_.Tensor": 1,
}

# in-place by its schema, but no data is written
METADATA_ONLY: set[str] = {
    "aten::detach_",
}

# torch's decomposition of it is wrong: no table of its own takes it
NEVER_DECOMPOSE: set[str] = {
    "aten::_upsample_nearest_exact2d",
    "aten::_upsample_nearest_exact2d.vec",
    "aten::multi_margin_loss",
    "aten::multilabel_margin_loss_forward",
    "aten::signbit",
    "aten::upsample_nearest2d",
    "aten::upsample_nearest2d.vec",
}

# has an effect: it stays behind those before it
ORDERED: set[str] = {
    "print",
    "run_and_save_rng_state",
    "with_effects",
}

# its values, or whether torch can compute them, depend on the strides of its arguments
READS_STRIDES: set[str] = {
    "aten::_reshape_alias",
    "aten::_reshape_alias_copy",
    "aten::as_strided",
    "aten::as_strided_copy",
    "aten::as_strided_scatter",
    "aten::view.dtype",
    "aten::view_as_complex",
    "aten::view_as_complex_copy",
    "prims::as_strided_scatter",
}

# a recurrent network of several layers, with dropout between them
RECURRENT: set[str] = {
    "aten::gru.input",
    "aten::lstm.input",
    "aten::rnn_relu.input",
    "aten::rnn_tanh.input",
    "ortable_packed::gru",
    "ortable_packed::lstm",
    "ortable_packed::rnn_relu",
    "ortable_packed::rnn_tanh",
}

# sets a mode around the graph that it calls; torch writes it out when it decomposes
REGION: set[str] = {
    "wrap_with_autocast",
    "wrap_with_set_grad_enabled",
}

# computes nothing: it returns its first argument, all of them, or nothing
RETURNS: dict[str, str] = {
    "_export_tracepoint": 'all',
    "print": 'nothing',
    "register_hook": 'first',
}

# composite in torch, but it always returns memory of its own
RETURNS_NEW_STORAGE: set[str] = {
    "aten::batch_norm",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::group_norm",
    "aten::instance_norm",
    "aten::layer_norm",
    "aten::linear",
    "aten::matmul",
}

# an integer that metadata spells out: nothing is emitted
SIZE: set[str] = {
    "aten::numel",
    "aten::size.int",
    "aten::sym_numel",
    "aten::sym_size",
    "aten::sym_size.int",
    "aten::sym_storage_offset",
    "aten::sym_stride.int",
}

# a tensor inside a tensor subclass; torch writes it out
SUBCLASS_PART: set[str] = {
    "export::access_subclass_inner_tensor",
}

# slower than in torch where its weights change: torch runs it in graphs that train, unless its
# kernels take patches that never overlap
TRAINED_IN_TORCH: set[str] = {
    "aten::convolution",
}

# calls a graph once and changes only how torch sees it; the graph stands after `before`
# arguments, the operands (`packed`: one tuple) `between` further ones later
TRANSPARENT: dict[str, tuple[int, int, bool]] = {
    "autograd_function_apply": (0, 1, False),
    "dynamo_bypassing_wrapper": (1, 0, False),
    "flex_gemm": (1, 0, True),
    "hints_wrapper": (0, 0, True),
    "invoke_quant": (0, 0, False),
    "invoke_quant_packed": (0, 0, False),
    "invoke_subgraph": (0, 1, False),
    "local_map_hop": (0, 0, False),
    "run_const_graph": (0, 0, True),
    "strict_mode": (0, 0, True),
    "tag_activation_checkpoint": (0, 0, False),
    "wrap": (0, 0, False),
    "wrap_activation_checkpoint": (0, 0, False),
    "wrap_with_autocast": (4, 0, False),
    "wrap_with_set_grad_enabled": (1, 0, False),
}

# leaves its result as the memory was: there is no value to compare
UNINITIALIZED: set[str] = {
    "aten::empty.memory_format",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
}

# returns memory of its input, which its schema does not say
UNMARKED_VIEW: set[str] = {
    "aten::_unsafe_view",
    "aten::lift",
}

# may share the memory of a tensor that nobody else reads
UNSAFE_VIEW: set[str] = {
    "aten::_unsafe_view",
}

# moves no data in torch, as a rule: not worth a session
VIEW: set[str] = {
    "aten::_unsafe_view",
    "aten::alias",
    "aten::detach",
    "aten::expand",
    "aten::permute",
    "aten::reshape",
    "aten::select.int",
    "aten::slice.Tensor",
    "aten::split",
    "aten::split.Tensor",
    "aten::split.sizes",
    "aten::squeeze",
    "aten::squeeze.dim",
    "aten::squeeze.dims",
    "aten::sym_size",
    "aten::sym_size.int",
    "aten::t",
    "aten::transpose.int",
    "aten::unsqueeze",
    "aten::view",
    "aten::view.dtype",
    "prims::reshape",
    "prims::squeeze",
    "prims::transpose",
}

# torch's decomposition of it is slow; autograd's kernels need it where sizes are free
WHOLE_WHEN_STATIC: set[str] = {
    "aten::_upsample_nearest_exact1d",
    "aten::_upsample_nearest_exact1d.vec",
    "aten::_upsample_nearest_exact3d",
    "aten::_upsample_nearest_exact3d.vec",
    "aten::hardshrink",
    "aten::softshrink",
    "aten::upsample_bicubic2d",
    "aten::upsample_bicubic2d.vec",
    "aten::upsample_bilinear2d",
    "aten::upsample_bilinear2d.vec",
    "aten::upsample_linear1d",
    "aten::upsample_linear1d.vec",
    "aten::upsample_nearest1d",
    "aten::upsample_nearest1d.vec",
    "aten::upsample_nearest3d",
    "aten::upsample_nearest3d.vec",
    "aten::upsample_trilinear3d",
    "aten::upsample_trilinear3d.vec",
}
