"""In-memory doubles of the wire: an API server, Kueue, a runtime."""
