"""PURE. The answers of `cede status` and `cede explain`, from the objects of the cluster."""
