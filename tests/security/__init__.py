"""Tests of untrusted models, weights, specs, rules, programs, caches and names in pages."""
