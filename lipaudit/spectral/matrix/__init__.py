"""Norms of dense matrices: Gram iteration and what certifies it."""
