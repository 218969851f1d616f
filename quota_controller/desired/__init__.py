"""PURE. The objects that should exist, computed from the policy, the allocations and the nodes."""
