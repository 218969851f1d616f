"""The story told on a real cluster: a training job gives half of its accelerators to another team
and loses nothing."""
