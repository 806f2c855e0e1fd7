"""Six small trained networks to try lipaudit on, and the script that trains them."""
