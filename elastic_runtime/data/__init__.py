"""Assigns samples to ranks, so that the order of samples does not depend on the job's size."""
