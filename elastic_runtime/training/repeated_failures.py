"""PURE. Counts failures in a row: after some of them their cause is no lost rank."""

MAX_FAILURES = 3


class RepeatedFailures:
    """Of one rank."""

    def __init__(self) -> None:
        # Generations in a row, of the same processes, that did not form.
        self.joins = 0
        self._joining: object = None
        self._joins_were_repeated = False
        # Failures in a row of one attempt at a step.
        self.steps = 0
        self._attempt: object = None

    def add_join(self, processes: object) -> bool:
        """A generation of these processes did not form. True if that is no coincidence any more."""
        self.joins = self.joins + 1 if processes == self._joining else 1
        self._joining = processes
        is_repeated = self.joins >= MAX_FAILURES
        self._joins_were_repeated |= is_repeated
        return is_repeated

    def formed(self) -> bool:
        """A generation has formed. True if `add_join` returned True before."""
        were_repeated = self._joins_were_repeated
        self.joins = 0
        self._joins_were_repeated = False
        return were_repeated

    def add_step(self, attempt: object) -> bool:
        """A step failed. True if it failed again and again in the same `attempt`: the step and the
        processes that take part. If one of them was lost, it is another attempt."""
        self.steps = self.steps + 1 if attempt == self._attempt else 1
        self._attempt = attempt
        return self.steps >= MAX_FAILURES
