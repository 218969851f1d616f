"""The commands of `cede`, a file each."""
