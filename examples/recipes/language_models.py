"""Language models of transformers, with or without LoRA, and their tokenizers.

`random:llama` is a tiny model of that family with random weights, to try a recipe without a
download. Every family of transformers has its name: `random:qwen3`, `random:gpt_oss`.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    Mxfp4Config,
    PreTrainedTokenizerFast,
)

RANDOM = "random:"
# One token for each byte, and two others.
END, PADDING = "<end>", "<padding>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    # Of those families that have experts.
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}


@dataclass(kw_only=True)
class Lora:
    """A small matrix beside each large one, which alone is trained."""

    rank: int
    alpha: int
    # Names of modules, or all-linear.
    targets: list[str] = field(default_factory=lambda: ["all-linear"])
    # Names of parameters that are no modules, such as those of experts.
    parameters: list[str] = field(default_factory=list)


def load(name: str, lora: Lora | None, *, dtype: torch.dtype, seed: int) -> tuple[Any, Any]:
    """A model and its tokenizer. `name`: on the Hugging Face Hub, a directory, or `random:...`."""
    torch.manual_seed(seed)
    if name.startswith(RANDOM):
        tokenizer = byte_tokenizer()
        config = AutoConfig.for_model(
            name.removeprefix(RANDOM), vocab_size=len(tokenizer), **token_ids(tokenizer), **TINY
        )
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    else:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **unpacked(name))
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return (with_lora(model, lora) if lora else model), tokenizer


def with_lora(model: Any, lora: Lora) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = lora.targets[0] if lora.targets == ["all-linear"] else lora.targets
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets,
        target_parameters=lora.parameters or None,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def unpacked(name: str) -> dict[str, Any]:
    """gpt-oss is published in four bits, which cannot be trained."""
    packing = getattr(AutoConfig.from_pretrained(name), "quantization_config", None) or {}
    is_packed = packing.get("quant_method") == "mxfp4"
    return {"quantization_config": Mxfp4Config(dequantize=True)} if is_packed else {}


def byte_tokenizer() -> Any:
    """It needs no file."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PADDING,
        chat_template=CHAT_TEMPLATE,
    )


def token_ids(tokenizer: Any) -> dict[str, int]:
    return {
        "bos_token_id": tokenizer.eos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
