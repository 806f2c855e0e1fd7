"""Certificates of single decisions: radii within which a classifier cannot change its mind, and attacks that show where it does."""
