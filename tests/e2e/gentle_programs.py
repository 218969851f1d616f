"""Training programs as their users have them: each saves when it is told to end, and continues from
there. Each writes a log of its own, which outlives its pods."""

EXIT_CODE = 143
"""Of a program that was told to end. With 0, Kueue would count the pods of a group as finished."""
LOG = """
import os, pathlib, signal, sys, time
names = ("JOB_COMPLETION_INDEX", "MEMBER", "RANK")
rank = "-".join(os.environ[name] for name in names if name in os.environ)
folder = pathlib.Path("/shared", os.environ["RUN"])
folder.mkdir(exist_ok=True)
log = open(folder / f"log-{rank}", "a", buffering=1)
STEP_S = 0.1
"""
PLAIN = f"""{LOG}
save = folder / f"save-{{rank}}"
step = int(save.read_text()) if save.exists() else 0
print("begins after step", step, file=log)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
while not told:
    time.sleep(STEP_S)
    step += 1
    print("step", step, file=log)
time.sleep(float(os.environ["SAVE_S"]))
save.write_text(str(step))
print("saved step", step, file=log)
sys.exit({EXIT_CODE})
"""
ACCELERATE = f"""{LOG}
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
saved = sorted(folder.glob("state-*"), key=lambda path: int(path.name[6:]))
if saved:
    accelerator.load_state(str(saved[-1]))
step = int(saved[-1].name[6:]) if saved else 0
print("begins after step", step, file=log)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
while True:
    accelerator.backward(model(torch.randn(8, 4)).square().mean())
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(STEP_S)
    step += 1
    print("step", step, file=log)
    # the signal reaches the processes in different steps
    if accelerator.reduce(torch.tensor(float(bool(told)))) > 0:
        break
accelerator.save_state(str(folder / f"state-{{step}}"))
print("saved step", step, file=log)
sys.exit({EXIT_CODE})
"""
TRAINER = f"""{LOG}
import torch, transformers
from transformers.trainer_utils import get_last_checkpoint

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        return {{"x": torch.randn(4), "labels": torch.zeros(1)}}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        return {{"loss": (self.linear(x) - labels).square().mean()}}

class Log(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **more):
        print("begins after step", state.global_step, file=log)

    def on_step_end(self, args, state, control, **more):
        print("step", state.global_step, file=log)
        time.sleep(STEP_S)

arguments = transformers.TrainingArguments(
    output_dir=str(folder / "out"), max_steps=10**6, enable_jit_checkpoint=True,
    save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True, ignore_data_skip=True,
)
last = get_last_checkpoint(arguments.output_dir) if (folder / "out").exists() else None
trainer = transformers.Trainer(Model(), arguments, train_dataset=Data(), callbacks=[Log()])
trainer.train(resume_from_checkpoint=last)
print("saved step", get_last_checkpoint(arguments.output_dir).rpartition("-")[2], file=log)
sys.exit({EXIT_CODE})
"""
LIGHTNING = f"""{LOG}
import lightning, torch
from lightning.pytorch.callbacks import OnExceptionCheckpoint

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.linear(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

class Log(lightning.Callback):
    def on_train_start(self, trainer, _):
        print("begins after step", trainer.global_step, file=log)

    def on_train_batch_end(self, trainer, *_):
        print("step", trainer.global_step, file=log)
        time.sleep(STEP_S)

trainer = lightning.Trainer(
    max_steps=10**6, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
    callbacks=[Log(), OnExceptionCheckpoint(str(folder), "last")],
)
data = torch.utils.data.DataLoader(torch.randn(10**5, 4), batch_size=8)
saved = folder / "last.ckpt"
try:
    trainer.fit(Model(), data, ckpt_path=str(saved) if saved.exists() else None)
finally:
    print("saved step", trainer.global_step, file=log)
    sys.exit({EXIT_CODE})
"""
WRITE = "printenv PROGRAM > train.py && exec"
TORCHRUN = f"{WRITE} python -m torch.distributed.run --standalone --nproc-per-node 2 train.py"
PYTHON = f"{WRITE} python train.py"
LAUNCHERS = {
    "python": (PYTHON, PLAIN),
    "torchrun": (TORCHRUN, PLAIN),
    "accelerate": (TORCHRUN, ACCELERATE),
    "trainer": (PYTHON, TRAINER),
    "lightning": (PYTHON, LIGHTNING),
}
"""How a program is started, and the program. The shell command ends with `exec`, so that it is
Python that gets the signal."""
REPEATED = {"trainer": 1}
"""Trainer saves before or within a step, and then computes that step (transformers 5.23,
trainer_jit_checkpoint.py): it is repeated."""
WITH_FRAMEWORK = ("accelerate", "trainer", "lightning")
"""Those whose packages are those of `make test-integrations`."""


def processes_per_pod(launcher: str) -> int:
    return 2 if LAUNCHERS[launcher][0] == TORCHRUN else 1
