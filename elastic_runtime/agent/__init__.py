"""PID 1 of a training pod, and the coordinator of the job. Imports no torch."""
