"""The page of `cede dashboard`: what the cluster shares, live, with the rights of its reader."""
