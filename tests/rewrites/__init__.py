"""Proofs of the rewrites on small graphs, and where each rule fires."""
