"""The demo: on a real cluster, a training job cedes half of its accelerators and loses no step."""
