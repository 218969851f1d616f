"""Training jobs that change size while they run. Scripts import `elastic_runtime.session`."""
