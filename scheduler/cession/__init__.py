"""A Cession from its opening to its end."""
