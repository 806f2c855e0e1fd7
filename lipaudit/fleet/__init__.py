"""Many models in one run: requests, worker processes, a record that survives interruptions, and a summary."""
