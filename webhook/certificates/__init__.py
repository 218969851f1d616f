"""The webhook's own certificate authority: issues, stores, publishes and rotates certificates."""
