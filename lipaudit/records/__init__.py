"""What an audit, a comparison and a diff found, as plain records: no torch, no text for people, no rendering."""
