"""What was granted stays granted; more is granted of what is unallocated; who gives when nodes
fail."""
