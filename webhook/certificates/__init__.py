"""The webhook's certificate authority: issue, store, rotate, publish."""
