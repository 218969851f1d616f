"""The quota_controller: keeps Kueue's queues as the policy and the allocations define."""
