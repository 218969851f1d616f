"""PURE. The situations of a job's membership, and the reasons for each decision."""

from enum import Enum

WAIT = "wait"
AT_STEP_END = "new generation at the end of the step"
AT_ONCE = "new generation at once"
FROM_SAVE = "new generation from the newest checkpoint"
STOP = "last generation: save and park"


class Situation(Enum):
    """In the order of the rules: the first situation whose condition holds is the job's."""

    SUCCEEDING = "the coordinator has just begun, and knows the newest generation"
    ANNOUNCING = "members of the generation before could elect without the newest one"
    TAKING_OVER = "the coordinator was replaced while the job trains"
    STARTING = "no pod trains, and this coordinator has made no generation"
    FINISHING = "a pod has finished the last step"
    RECOVERING = "a member of the generation was lost, or the generation broke"
    STOPPED = "the generation is the last one before a stop, or has no members"
    FORMING = "a member has not formed the newest generation"
    TRAINING = "all members train in the newest generation"

    def __init__(self, condition: str) -> None:
        self.condition = condition


class Reason(Enum):
    """Why the coordinator makes a new generation or waits."""

    # SUCCEEDING
    MEMBERS_UNKNOWN = "Members have not reported to the new coordinator yet.", WAIT
    # ANNOUNCING
    UNANNOUNCED = "No pod acts on a generation that another coordinator may never know.", WAIT
    # TAKING_OVER
    MEMBERS_MISSING = "Members that others name have not reported to the new coordinator yet.", WAIT
    TRAINING_CONTINUES = "The members that train continue under the new coordinator.", AT_ONCE
    # STARTING, STOPPED
    GATHERING = "The coordinator has just started: more pods may report.", WAIT
    NOTHING_TO_STOP = "The requested size is 0, and no pod is ready.", WAIT
    STARTS_STOPPED = "The requested size is 0: the ready pods park.", STOP
    TOO_FEW_PODS = "Fewer pods are ready than the smallest size needs.", WAIT
    # Also TRAINING.
    SETTLING = "A pod has changed a moment ago: others may change with it.", WAIT
    STARTS_FROM_SAVE = "The smallest size is ready, and no pod changed lately.", FROM_SAVE
    # FINISHING
    FINISHED = "The other members are about to finish too.", WAIT
    # RECOVERING
    LOSS_UNKNOWN = "A member has not reported since the break: it may be the lost one.", WAIT
    CUT_OFF = "Most members are silent: they may train under another coordinator.", WAIT
    HAND_OVER_UNKNOWN = "A leaving pod has not reported yet whether it handed over.", WAIT
    SURVIVORS_CONTINUE = "The pods that have the state continue without the lost one.", AT_ONCE
    STATE_LOST = "No pod has the state any more.", FROM_SAVE
    # STOPPED
    STAYS_STOPPED = "The requested size is 0.", WAIT
    STILL_SAVING = "A terminating pod still saves the state.", WAIT
    LOSS_UNNOTICED = "Pods with the state still train in an older generation.", WAIT
    # FORMING
    STILL_FORMING = "With two plans at once, members could meet in different places.", WAIT
    # TRAINING
    ALL_MUST_LEAVE = "No member may stay, or the requested size is 0.", STOP
    UNCHANGED = "The members are the pods that should train.", WAIT
    PODS_PREPARE = "More pods will be ready soon: one change takes them all.", WAIT
    RESIZED = "Other pods should train: the size or the ready pods have changed.", AT_STEP_END

    def __init__(self, sentence: str, outcome: str) -> None:
        self.sentence = sentence
        self.outcome = outcome
