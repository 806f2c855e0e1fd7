"""From what the user typed to a loaded model."""
