"""Models in Trainer's layout, beside the checkpoints from which a job continues."""

import logging
import shutil
from pathlib import Path
from typing import Any

from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, rotate_checkpoints

from elastic_runtime.checkpointing import restore
from elastic_runtime.training import keep_best

log = logging.getLogger(__name__)
# The name of a model's directory begins with it until the model is complete.
DRAFT = "draft-"


def path(trainer: Any, step: int) -> str:
    """Where the model of a step is."""
    return str(Path(trainer.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}")


def save(trainer: Any) -> None:
    """Write the present model, and delete old ones. By one worker, which may be killed in it."""
    directory = Path(path(trainer, trainer.state.global_step))
    draft = directory.with_name(DRAFT + directory.name)
    # Also those of workers that were lost while they wrote one.
    for left in directory.parent.glob(f"{DRAFT}{PREFIX_CHECKPOINT_DIR}-*"):
        shutil.rmtree(left, ignore_errors=True)
    trainer.save_model(str(draft), _internal_call=True)
    trainer.state.save_to_json(str(draft / TRAINER_STATE_NAME))
    shutil.rmtree(directory, ignore_errors=True)
    draft.rename(directory)
    rotate_checkpoints(
        output_dir=trainer.args.output_dir,
        save_total_limit=trainer.args.save_total_limit,
        best_model_checkpoint=trainer.state.best_model_checkpoint,
        use_mtime=True,
    )


def load_best(trainer: Any) -> None:
    """The session's checkpoint of the best state, alike on all workers, or an error on all."""
    step = trainer.state.best_global_step
    best = keep_best.load_best(trainer.session)
    if best is None or best["step"] != step:
        # Its save was interrupted, as by a lost worker.
        facts = {"best_step": step, "kept_step": best["step"] if best else -1}
        log.warning("the best state was not kept, the one before it is loaded", extra=facts)
    if best:
        trainer.model.load_state_dict(best["model"])


def newest_state(checkpoints: Path) -> Any:
    """The whole model of the session's newest checkpoint; None if there is none yet."""
    newest = restore.newest_intact(checkpoints)
    return restore.load(newest)["model"] if newest else None
