"""What torch refuses for the data of a call, and whether torch.compile with ortable refuses it."""
