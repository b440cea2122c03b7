"""What each operator of the tables costs, next to torch's kernel: time and memory, at two sizes."""
