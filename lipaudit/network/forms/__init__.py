"""Quadratic forms carried backwards: bounds of a whole network that its layers share (docs/tightening.md)."""
