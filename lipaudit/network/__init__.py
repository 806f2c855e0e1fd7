"""From rules to the whole network."""
