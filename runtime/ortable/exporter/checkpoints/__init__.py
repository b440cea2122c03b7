"""Read checkpoints whose weights are already codes, integers of 4 or 8 bits.

One reader for each format returns `WeightCodes`, from which `loader` builds the layers of the
model. Called by `export_language_model` and by users, as `ortable.load_quantized_checkpoint`.
"""
