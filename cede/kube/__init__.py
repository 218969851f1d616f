"""The wire: the only room that knows the API server."""
