"""What lipaudit knows: its rules and its methods."""
