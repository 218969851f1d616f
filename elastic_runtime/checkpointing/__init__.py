"""Durable saves, saves on a pod's own disk, and reading them."""
