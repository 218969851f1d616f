"""Checkpoints in a shared directory and on the pods' own disks: saved, listed and loaded."""
