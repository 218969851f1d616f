"""How a model is spread over the ranks, and how its gradients are summed."""
