"""One file per family of operations."""
