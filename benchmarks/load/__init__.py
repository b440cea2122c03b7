"""Requests per second and latencies of one model that several threads call at once."""
