"""What lipaudit knows: its rules, its methods, and the names of models. Nothing here imports torch, except to collect them."""
