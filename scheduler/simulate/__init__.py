"""Replays a trace of jobs on a model of Kueue, with the scheduler's own plan."""
