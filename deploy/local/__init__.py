"""A real Kubernetes cluster on this machine, with Kueue and Cede in it: no Docker, no registry."""
