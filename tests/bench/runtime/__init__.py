"""What elastic_runtime promises, measured beside its peers in the same run: `make
bench-runtime`."""
