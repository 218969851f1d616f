"""The only package of Cede that talks to the API server."""
