"""PURE. Every reason why a job gives capacity, and not another one."""

from cede.api.reasons import Reason


class PreferenceReason(Reason):
    """`spec.alternatives[].reason` of a Cession: why the target gives, and not the other jobs."""

    NO_OTHER_JOBS = (
        "NoOtherJobs",
        "The other jobs could not have released enough quota, or not on nodes with room.",
    )
    SHRINKS_FIRST = ("ShrinksFirst", "Jobs shrink before any job is stopped.")
    LAST_RESORT = (
        "LastResort",
        "A job that has just started, or that was stopped before, gives last.",
    )
    TEAM_ORDER = (
        "TeamOrder",
        "Teams give in the order of their shares, and the team of the target gives first.",
    )
    LOWEST_CLASS = ("LowestClass", "In a team, the lowest class gives first.")
    SAVES_FIRST = (
        "SavesFirst",
        "Of one class, a job that is asked to save is stopped before one that cannot be asked.",
    )
    LEAST_COST = ("LeastCost", "Of one class, the job whose stop costs least is stopped first.")
    YOUNGEST_FIRST = ("YoungestFirst", "Of one class, the youngest job gives first.")
    BEST_FIT = (
        "BestFit",
        "The targets release less that is not needed, or release it on the nodes that matter.",
    )
