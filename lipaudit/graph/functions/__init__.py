"""Functions of one real variable: terms, derivatives, ranges, and suprema of slopes."""
