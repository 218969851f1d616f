"""Kueue's arithmetic of quota: what is used, what a Workload needs, and whether it fits."""
