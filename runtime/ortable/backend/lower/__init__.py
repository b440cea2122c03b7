"""From an FX graph to a model with roles: inputs, outputs, views, strides, conversion."""
