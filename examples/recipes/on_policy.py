"""Improves a language model by rewards for its own answers: on-policy reinforcement learning.

    python -m elastic_runtime --local 2 on_policy.py values/on-policy.toml

In each step the model of now writes a group of answers to every prompt. Each gets a reward, which
`reward` computes, and an answer that is better than the others of its group becomes more likely.
It is GRPO with one update for a rollout, so that no probability ratio has to be clipped, and
without a reference model. The values file says everything that is to be chosen.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from language_models import Lora, load
from samples import Lines
from torch.optim.lr_scheduler import LinearLR
from values import Training, from_command_line

from elastic_runtime import Session, device

MAX_NORM = 1.0
# Of the reward, for an answer in the right form.
FORM_SHARE = 0.1


@dataclass(kw_only=True)
class Values(Training):
    # On the Hugging Face Hub, a directory, or random:llama.
    model: str
    # Answers to each prompt. `batch` and `micro_batch` are prompts.
    group: int
    # Tokens of an answer, at most.
    max_new_tokens: int
    temperature: float = 1.0
    bf16: bool = True
    lora: Lora | None = None

    def mistakes(self) -> Iterator[str]:
        yield from super().mistakes()
        if self.group < 2:
            yield f"group is {self.group}: answers are compared, give at least 2"
        if not self.temperature:
            yield "temperature is 0: all answers would be alike, give more"


def reward(row: dict[str, Any], answer: str) -> float:
    """Change it for your task. Here: the last number is the right one, or at least most are digits.

    `row`: a line of the data, with `prompt` and what else is needed to check an answer.
    """
    numbers = re.findall(r"-?\d+", answer)
    is_right = bool(numbers) and numbers[-1] == str(row["answer"])
    digits = sum(character.isdigit() for character in answer)
    return (1 - FORM_SHARE) * is_right + FORM_SHARE * digits / max(1, len(answer))


@dataclass
class Rollout:
    """Answers to some prompts, (answers, tokens) each. `length`: tokens of a prompt.

    `is_answer`: a token of the answer, of which the first end is the last one.
    """

    tokens: torch.Tensor
    is_given: torch.Tensor
    is_answer: torch.Tensor
    length: int
    rewards: torch.Tensor

    def advantages(self, group: int) -> torch.Tensor:
        """(answers, 1): how much better each is than the others of its group."""
        grouped = self.rewards.view(-1, group)
        spread = grouped.std(1, keepdim=True) + 1e-4
        return ((grouped - grouped.mean(1, keepdim=True)) / spread).view(-1, 1)


def roll_out(rows: list[dict[str, Any]]) -> Rollout:
    prompts = tokenizer([row["prompt"] for row in rows], return_tensors="pt", padding=True)
    prompts = prompts.to(session.device)
    tokens = model.generate(
        input_ids=prompts["input_ids"],
        attention_mask=prompts["attention_mask"],
        do_sample=True,
        temperature=values.temperature,
        top_k=0,
        top_p=1.0,
        num_return_sequences=values.group,
        max_new_tokens=values.max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
    )
    length = prompts["input_ids"].shape[1]
    answers = tokens[:, length:]
    ends = answers == tokenizer.eos_token_id
    is_answer = (ends.cumsum(1) - ends.long()) == 0
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    rewards = [reward(rows[i // values.group], text) for i, text in enumerate(texts)]
    is_given = prompts["attention_mask"].repeat_interleave(values.group, 0)
    return Rollout(
        tokens,
        torch.cat([is_given, is_answer.long()], 1),
        is_answer,
        length,
        torch.tensor(rewards, device=session.device),
    )


def policy_loss(rollout: Rollout) -> torch.Tensor:
    """Its gradient is that of the expected reward, as a mean over the tokens of the answers."""
    logits = model(input_ids=rollout.tokens, attention_mask=rollout.is_given).logits
    scores = logits[:, rollout.length - 1 : -1] / values.temperature
    chosen = rollout.tokens[:, rollout.length :, None]
    # (answers, tokens of an answer)
    likelihood = scores.log_softmax(-1).gather(-1, chosen).squeeze(-1)
    weighted = rollout.advantages(values.group) * likelihood * rollout.is_answer
    loss: torch.Tensor = -weighted.sum() / rollout.is_answer.sum()
    return loss


values = from_command_line(Values)
dtype = torch.bfloat16 if values.bf16 and values.lora else torch.get_default_dtype()
model, tokenizer = load(values.model, values.lora, dtype=dtype, seed=values.seed)
model.to(device())
tokenizer.padding_side = "left"
prompts = Lines(values.data)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=values.learning_rate, weight_decay=0.0)
warmup = LinearLR(optimizer, 1 / max(1, values.warmup), total_iters=values.warmup)
session = Session(
    model,
    optimizer,
    samples=len(prompts),
    lr_schedulers=[warmup],
    **values.session_options(),
)
for step in session.steps(values.steps):
    # Rewards, and answers.
    totals = torch.zeros(2)
    for batch in step:
        with torch.autocast(session.device.type, torch.bfloat16, enabled=values.bf16):
            rollout = roll_out([prompts[index] for index in batch.indices])
            loss = policy_loss(rollout)
        step.backward(loss, weight=rollout.is_answer.sum())
        totals += torch.tensor([float(rollout.rewards.sum()), len(rollout.rewards)])
    step.clip(MAX_NORM)
    rewards, answers = step.all_reduce(totals, "sum").tolist()
    if session.rank == 0:
        print(f"step {step.number + 1}: mean reward {rewards / max(1, answers):.4f}")
if session.rank == 0:
    model.save_pretrained(Path(values.output) / "model")
    tokenizer.save_pretrained(Path(values.output) / "model")
