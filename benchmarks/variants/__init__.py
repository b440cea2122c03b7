"""One layer of each kind of sequence model: state spaces, mixtures of experts, forms of attention
and of positions; compiled and exported, next to eager, torch.onnx's graph and operators of ONNX
Runtime."""
