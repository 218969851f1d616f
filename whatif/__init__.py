"""What would happen to whom: the controllers' own decisions on a copy of the cluster's objects."""
