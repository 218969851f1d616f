"""Training state as a tree of tensors, and the plan that reshards it."""
