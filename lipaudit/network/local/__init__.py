"""Bounds on balls and boxes: the Jacobian at the centre, and how far it can move over the domain."""
