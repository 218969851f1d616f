"""The frozen picture of the cluster that every decision reads."""
