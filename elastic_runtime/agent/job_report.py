"""PURE. What people read about a job: its status as a table or a line, and answers to requests."""

from collections.abc import Iterator, Sequence

from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST, State, Status


def table(status: Status) -> str:
    """A line for each fact, without those that the job does not have."""
    facts = dict(_facts(status))
    width = max(map(len, facts)) + 2
    return "\n".join(f"{name:{width}}{fact}" for name, fact in facts.items())


def _facts(status: Status) -> Iterator[tuple[str, str]]:
    yield "state", status.state
    yield "doing", status.busy
    requested = f" ({status.wanted} requested)" if status.wanted not in (0, status.size) else ""
    yield "size", f"{_pods(status.size)}{requested}"
    if status.step:
        yield "step", str(status.step)
        yield "loss", _loss(status)
    if status.stepSeconds:
        yield "pace", f"{status.stepSeconds:.3g} s a step"
    if status.samplesPerSecond:
        yield "samples", f"{status.samplesPerSecond:.4g} a second"
    yield "checkpoint", _checkpoint(status)
    if status.parked:
        yield "parked", ", ".join(f"pod {index}" for index in status.parked)
    if status.message:
        yield "message", status.message


def live_line(status: Status) -> str:
    """The most important first, because a narrow terminal cuts the end."""
    parts = list[str]()
    if status.step:
        parts += [f"step {status.step}", f"loss {_loss(status)}"]
    parts.append(_requested_pods(status))
    if status.samplesPerSecond:
        parts.append(f"{status.samplesPerSecond:.4g} samples/s")
    return "  ".join([*parts, status.busy])


def line_without_answer(codes: Sequence[int | None], members: int, seconds: float) -> str:
    """In place of the live line, if no pod of a local job has answered for so long.

    `codes`: exit codes of the pods, negative for a signal, None for one that runs. `members`: pods
    that trained when one answered last.
    """
    running = codes.count(None)
    killed = [index for index, code in enumerate(codes) if code is not None and code < 0]
    why = f"{running} of {len(codes)} run"
    if killed and 2 * running <= members:
        # They cannot elect another coordinator.
        why = f"{running} of {members} is no majority"
    causes = [*(f"pod {index} was killed" for index in killed), why]
    return f"no coordinator for {seconds:.0f} s: {', '.join(causes)}; Ctrl-C ends it"


def _requested_pods(status: Status) -> str:
    if status.wanted in (0, status.size):
        return _pods(status.size)
    return f"{status.size} of {_pods(status.wanted)}"


def answer_to_resize(status: Status, size: int) -> str:
    """`status`: the job's reply to the request."""
    if size == 0:
        saves = "saves" if status.durableStep else "saves, if its session has checkpoint=,"
        return f"stop requested: the job {saves} and its pods park; now: {status.busy}"
    if size == status.size and status.state == State.TRAINING:
        return f"the job trains with {_pods(size)} already"
    return f"{_pods(size)} requested, {status.size} now: {status.busy}"


def answer_to_save(status: Status) -> str:
    """`status`: the job's reply to the request."""
    without = "" if status.durableStep else "; a session without checkpoint= saves nothing"
    return (
        f"save requested after step {status.step}; checkpoint now: {_checkpoint(status)}; "
        f"`status` shows when the new one is complete{without}"
    )


def end_of_job(code: int, step: int, durable_step: int) -> str:
    """`code`: of a local job. `step`: the newest committed one that is known; 0 for none."""
    if code == 0:
        return "the job has finished"
    if code != EXIT_LEFT_ON_REQUEST:
        return f"the job has failed with exit code {code}, see above"
    if durable_step:
        return (
            f"the job has left before its last step; the same command continues it after step "
            f"{durable_step}"
        )
    if step:
        return (
            f"the job has left after step {step} and has no checkpoint: give its session "
            f"checkpoint=, or see above why it was not saved"
        )
    # Perhaps a command that saves on its own.
    return "the job has left before its end; the same command starts it again"


def _checkpoint(status: Status) -> str:
    if not status.durableStep:
        return "none"
    seconds = f", saved in {status.saveSeconds:.3g} s" if status.saveSeconds else ""
    return f"step {status.durableStep}{seconds}"


def _loss(status: Status) -> str:
    return "unknown or not finite" if status.loss is None else f"{status.loss:.6g}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
