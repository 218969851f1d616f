"""PURE. The exception for a mistake in a script. Without torch, which the agent does not import."""


class Mistake(ValueError):
    """A mistake in a script: started again, it would fail in the same way."""
