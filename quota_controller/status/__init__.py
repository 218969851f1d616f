"""PURE. What the status of the policy and of every allocation reports."""
