"""What administrators read in the status of our objects. Pure."""
