"""Inputs and outputs of the exported model: pytrees, caches, dynamic shapes, names of
dimensions.
"""
