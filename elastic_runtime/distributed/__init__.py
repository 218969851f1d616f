"""Process groups, and the transfer of state between ranks."""
