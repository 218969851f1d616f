"""A real Kubernetes cluster on this machine with Kueue and Cede, without Docker or a registry."""
