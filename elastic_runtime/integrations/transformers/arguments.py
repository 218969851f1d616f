"""PURE. What ElasticTrainer makes of TrainingArguments, and which of them it refuses."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from elastic_runtime.integrations.epochs import Epochs

# Values that ask for nothing.
NOTHING = (None, False, "", "no", "none")
# By argument: the values that are accepted, and what to do in place of another one.
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    # --- how processes work together, which the session decides
    "fsdp": (NOTHING, "give ElasticTrainer strategy=Sharded(...)"),
    "deepspeed": (NOTHING, "give ElasticTrainer strategy=Sharded(...)"),
    "parallelism_config": (NOTHING, "leave it out: workers differ in their data only"),
    "ddp_find_unused_parameters": (NOTHING, "leave it out: the session finds them"),
    "ddp_bucket_cap_mb": (NOTHING, "leave it out: the session reduces gradients"),
    "ddp_broadcast_buffers": (NOTHING, "leave it out: buffers are alike on all workers"),
    "ddp_static_graph": (NOTHING, "leave it out: the session reduces gradients"),
    "ddp_backend": (NOTHING, "leave it out: the session forms the groups"),
    "ddp_timeout": ((1800,), "set CEDE_STEP_TIMEOUT_SECONDS in the job"),
    "local_rank": ((-1,), "leave it out: start the script with python -m elastic_runtime"),
    "average_tokens_across_devices": (
        (True,),
        "leave it out: the loss is the mean over the tokens of all workers, at every size",
    ),
    "save_on_each_node": (NOTHING, "leave it out: output_dir is shared by all pods"),
    # --- which samples a step has
    "auto_find_batch_size": (NOTHING, "set per_device_train_batch_size, which must stay the same"),
    "train_sampling_strategy": (
        ("random",),
        "leave it out: the session draws the samples, each once in an epoch",
    ),
    "dataloader_drop_last": (
        NOTHING,
        "leave it out: every batch is full, and continues across the end of an epoch",
    ),
    "dataloader_in_order": ((True,), "leave it out: the session decides on the order"),
    "ignore_data_skip": (NOTHING, "leave it out: samples follow from the step, without reading"),
    # --- what would need numbers of all workers
    "include_num_input_tokens_seen": (NOTHING, "leave it out: tokens are not counted"),
    "batch_eval_metrics": (NOTHING, "leave it out: compute_metrics gets all predictions at once"),
    # --- what ends, saves or changes a job in another way
    "enable_jit_checkpoint": (NOTHING, "leave it out: on SIGTERM the session saves"),
    "push_to_hub": (NOTHING, "leave it out, and call trainer.push_to_hub() after train()"),
    "bf16_full_eval": (NOTHING, "use bf16, which evaluates in bfloat16 too"),
    "fp16_full_eval": (NOTHING, "use fp16, which evaluates in float16 too"),
    "torch_empty_cache_steps": (NOTHING, "empty the cache in a callback"),
}
# Settings of accelerator_config that would change how batches are formed.
ACCELERATOR_DEFAULTS: Mapping[str, Any] = {
    "split_batches": False,
    "dispatch_batches": None,
    "even_batches": True,
    "use_seedable_sampler": True,
    "non_blocking": False,
    "gradient_accumulation_kwargs": None,
}
SCHEDULES_BY_METRIC = ("reduce_lr_on_plateau", "greedy")
# They update parameters inside the backward pass.
FUSED_OPTIMIZERS = ("lomo", "adalomo")
# Methods of Trainer that the session replaces, and what to override in their place.
REPLACED_METHODS: Mapping[str, str] = {
    "training_step": "compute_loss",
    "get_batch_samples": "compute_loss",
    "get_train_dataloader": "nothing, and pass train_dataset and data_collator",
    "_get_train_sampler": "nothing: the session draws the samples",
    "evaluation_loop": "prediction_step",
    "_inner_training_loop": "compute_loss, or use a callback",
    "_run_epoch": "compute_loss, or use a callback",
}
# Names of Trainer, some of them private, that ElasticTrainer calls or replaces.
NEEDED_NAMES = (
    *REPLACED_METHODS,
    "loss_is_scaled_for_ga",
    "_determine_best_metric",
    "_finalize_training",
    "_get_learning_rate",
    "_get_num_items_in_batch",
    "_load_best_model",
    "_maybe_log_save_evaluate",
    "_prepare_inputs",
    "_save",
    "_save_checkpoint",
)
TESTED_VERSION = "5.23.0"
EPOCH_STOP = (
    "a callback set should_epoch_stop, but every sample of an epoch is used once: set "
    "should_training_stop to end the job"
)
OTHER_CHECKPOINT = (
    "resume_from_checkpoint is %s, which is not in output_dir: the session resumes from output_dir "
    "by itself; to start from other weights, load them by from_pretrained"
)
BEST_OF_SHARDED = (
    "TrainingArguments has load_best_model_at_end=True, but no worker has the whole of a sharded "
    "model: leave it out, and read the best state by restore.best(output_dir/session)"
)
# Accelerate makes no GradScaler and no autocast there, and a worker beside it may have a GPU.
HALF_ON_CPU = (
    "TrainingArguments has fp16=True, but this worker has no GPU, and Accelerate would train in "
    "float32 there: use bf16"
)
SEARCH = "hyperparameter_search needs a job for each trial: start the script once for each"


def version_mistakes(trainer: type, version: str) -> Iterator[str]:
    """`trainer`: of the transformers of that version."""
    if missing := [name for name in NEEDED_NAMES if not hasattr(trainer, name)]:
        yield (
            f"the Trainer of transformers {version} has no {', '.join(missing)}: use transformers "
            f"{TESTED_VERSION}, with which ElasticTrainer is tested"
        )


def argument_mistakes(args: Any, *, is_sharded: bool = False) -> Iterator[str]:
    """`args`: TrainingArguments. `is_sharded`: the strategy is Sharded."""
    if is_sharded and args.load_best_model_at_end:
        yield BEST_OF_SHARDED
    if args.fp16 and args.device.type == "cpu":
        yield HALF_ON_CPU
    for name, (accepted, cure) in REFUSED.items():
        value = plain(getattr(args, name, accepted[0]))
        # fsdp and debug may become lists.
        if value != [] and value not in accepted:
            yield f"TrainingArguments has {name}={value!r}: {cure}"
    settings = args.accelerator_config
    for name, default in ACCELERATOR_DEFAULTS.items():
        value = getattr(settings, name, default)
        if value != default:
            yield f"TrainingArguments has {name}={value!r} in accelerator_config: leave it out"
    if plain(args.lr_scheduler_type) in SCHEDULES_BY_METRIC:
        yield (
            f"TrainingArguments has lr_scheduler_type={plain(args.lr_scheduler_type)!r}, which "
            "needs a metric: use one that depends on the step only, such as 'linear'"
        )
    if plain(args.optim) in FUSED_OPTIMIZERS or "layerwise" in plain(args.optim):
        yield (
            f"TrainingArguments has optim={plain(args.optim)!r}, which changes parameters before "
            "the gradients of all workers are there: use another, such as 'adamw_torch_fused'"
        )


def plain(value: Any) -> Any:
    """Of an enum, its value."""
    return getattr(value, "value", value)


def trainer_mistakes(
    processes: Any, trainer_class: type, base_class: type, train_dataset: Any, eval_dataset: Any
) -> Iterator[str]:
    """In what ElasticTrainer is given. `base_class`: ElasticTrainer."""
    if not isinstance(processes, Integral) or isinstance(processes, bool) or processes < 1:
        yield (
            f"processes is {processes!r}: give the number of processes for which "
            "gradient_accumulation_steps was chosen, at least 1"
        )
    yield from _dataset_mistakes("train_dataset", train_dataset)
    if isinstance(train_dataset, dict) and train_dataset:
        yield (
            f"train_dataset is a {type(train_dataset).__name__} of {', '.join(train_dataset)}: "
            f"give one of them, as data[{next(iter(train_dataset))!r}]"
        )
    # One, or several by name.
    parts = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
    for part, dataset in parts.items():
        name = f"eval_dataset[{part!r}]" if part else "eval_dataset"
        yield from _dataset_mistakes(name, dataset)
    for name, cure in REPLACED_METHODS.items():
        if getattr(trainer_class, name) is not getattr(base_class, name):
            yield (
                f"{trainer_class.__name__} overrides {name}, which the session replaces: override "
                f"{cure}"
            )


def _dataset_mistakes(name: str, dataset: Any) -> Iterator[str]:
    classes = [cls.__name__ for cls in type(dataset).__mro__]
    has_length = dataset is None or hasattr(dataset, "__len__")
    # torch's own has an [index] by its type, and none in fact.
    if not has_length or "IterableDataset" in classes:
        yield (
            f"{name} is a {classes[0]}, which can only be read in sequence: give a dataset with a "
            "length and an [index], such as load_dataset without streaming=True, or port the loop "
            "with session.streams"
        )


@dataclass(frozen=True)
class Plan:
    """Which steps a job has.

    `num_train_epochs`, `max_steps`: as the user chose them; without a positive `max_steps` the
    epochs count.
    """

    epochs: Epochs
    num_train_epochs: float
    max_steps: int

    @property
    def steps(self) -> int:
        """The last one is the first at which all epochs have been used."""
        if self.max_steps > 0:
            return self.max_steps
        return max(1, self.epochs.steps(self.num_train_epochs))

    @property
    def whole_epochs(self) -> int:
        """As many as begin."""
        has_steps = self.max_steps > 0
        return math.ceil(self.epochs.used(self.steps) if has_steps else self.num_train_epochs)
