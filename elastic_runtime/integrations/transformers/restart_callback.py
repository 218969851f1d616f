"""For the Trainer as it is, under `python -m elastic_runtime --restart`."""

from typing import Any

from transformers import TrainerCallback

from elastic_runtime.restart import progress, stop_requested


class RestartCallback(TrainerCallback):
    """When the job gets another size, all ranks save and stop after the same step.

    Trainer's own `enable_jit_checkpoint` decides on each rank for itself: several ranks may save
    different steps. The script resumes by `trainer.train(resume_from_checkpoint=...)` with the
    newest checkpoint of `output_dir`.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if stop_requested(args.device, state.global_step):
            control.should_training_stop = True

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if stop_requested(args.device, state.global_step):
            control.should_save = True
            control.should_training_stop = True

    def on_prediction_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        progress()
