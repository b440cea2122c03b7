"""Tests of drawings of graphs: scenes, folding, DOT text, Model Explorer."""
