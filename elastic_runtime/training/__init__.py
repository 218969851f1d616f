"""What runs in a rank's process around the training loop."""
