"""Passes: each turns a graph into one that is equal in value or equal on differences."""
