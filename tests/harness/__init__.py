"""Programs that tests drive: local jobs, a model of membership, a whole controller."""
