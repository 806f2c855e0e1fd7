"""From a module to a graph of ATen operations, compared with the module."""
