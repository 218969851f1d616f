"""Turns the policy and the allocations into the queues of Kueue."""
