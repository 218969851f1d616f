"""A script with a `datasets.Dataset`, as users write it, whose job the tests disturb.

`data.jsonl` has the texts. Every worker splits and tokenizes them, beside the others.
"""

import json
from pathlib import Path

from datasets import load_dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from elastic_runtime.integrations.transformers import ElasticTrainer
from tests.frameworks import tiny

MICRO_BATCHES = 4
STEPS = 30
SPECIAL = ("[PAD]", "[MASK]")


def make_tokenizer() -> PreTrainedTokenizerFast:
    numbers = [str(number) for number in range(tiny.VOCABULARY - len(SPECIAL))]
    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *numbers))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[MASK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", mask_token="[MASK]", unk_token="[MASK]"
    )


tokenizer = make_tokenizer()
texts = load_dataset("json", data_files="data.jsonl", split="train", cache_dir="cache")
parts = texts.train_test_split(test_size=0.2, seed=1)
parts = parts.map(lambda rows: tokenizer(rows["text"]), batched=True)
trainer = ElasticTrainer(
    tiny.model(),
    tiny.arguments(
        Path("out"),
        max_steps=STEPS,
        gradient_accumulation_steps=MICRO_BATCHES,
        lr_scheduler_type="constant",
        eval_strategy="steps",
        eval_steps=10,
    ),
    session_options={"journal": "log"},
    train_dataset=parts["train"],
    eval_dataset=parts["test"].with_format("torch"),
    # It draws which tokens are masked.
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
)
trainer.train()
evaluated = [line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line]
Path("evaluated.json").write_text(json.dumps(evaluated))
