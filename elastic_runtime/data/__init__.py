"""Which rank reads which samples, and how datasets and streams follow a resize."""
