"""Lower operators on complex tensors, which are pairs of real results."""
