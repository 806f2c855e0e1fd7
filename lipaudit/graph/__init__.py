"""The captured graph of a network and its simplification."""
