"""What a session consists of: the state, the step, and the change of generations."""
