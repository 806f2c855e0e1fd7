"""Numbers and sentences for people."""
