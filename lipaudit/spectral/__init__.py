"""Spectral norms from weights alone: no graph, no model."""
