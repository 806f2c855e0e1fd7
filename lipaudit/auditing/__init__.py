"""From a request to a report."""
