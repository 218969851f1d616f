"""The webhook's certificate authority: issues, stores, publishes and rotates its certificates."""
