"""What is known of a tensor on a domain: the interval of its entries, and the radii of its slices."""
