"""Passes over a graph; :mod:`lipaudit.graph.passes.table` lists them in their order."""
