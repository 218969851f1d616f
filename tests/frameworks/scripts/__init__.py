"""Training scripts that need packages of make test-integrations."""
