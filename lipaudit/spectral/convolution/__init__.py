"""Norms of convolutions from their geometry and their symbol."""
