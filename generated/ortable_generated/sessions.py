# Generated from specs/runtime/session.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""What sessions of ONNX Runtime are told, and what may be tried."""

INFERENCE: dict[str, str] = {
    "intra_op_num_threads": "torch",
    "session.intra_op.spin_duration_us": "50",
    "session.x64quantprecision": "1",
    "session.qdq_matmulnbits_accuracy_level": "1",
}

TRAINING: dict[str, str] = {
    "intra_op_num_threads": "torch",
    "session.intra_op.spin_duration_us": "50",
    "session.x64quantprecision": "1",
    "session.qdq_matmulnbits_accuracy_level": "1",
}

SEARCHED: dict[str, tuple[int, ...]] = {
    "intra_op_num_threads": (1,),
    "enable_mem_pattern": (0,),
    "session.intra_op.allow_spinning": (0,),
    "session.force_spinning_stop": (0, 1),
    "session.intra_op.spin_duration_us": (20, 50, 200, 1000),
    "session.intra_op.spin_backoff_max": (4, 8),
    "session.dynamic_block_base": (2, 4, 8),
    "session.graph_optimizations_loop_level": (2,),
}

RANGES: dict[str, tuple[int, int]] = {
    "intra_op_num_threads": (0, 1024),
    "enable_mem_pattern": (0, 1),
    "session.intra_op.allow_spinning": (0, 1),
    "session.force_spinning_stop": (0, 1),
    "session.intra_op.spin_duration_us": (0, 1000000),
    "session.intra_op.spin_backoff_max": (1, 64),
    "session.dynamic_block_base": (0, 64),
    "session.graph_optimizations_loop_level": (0, 2),
    "session.x64quantprecision": (0, 1),
    "session.qdq_matmulnbits_accuracy_level": (0, 4),
}
