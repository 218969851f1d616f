"""What all components share: the API objects (`cede.api`) and the client of the API server
(`cede.kube`); and the `cede` command."""
