"""Conditions that a build puts on reports and diffs."""
