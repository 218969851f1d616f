"""A small GPT over characters: enough to see a loss fall on a CPU."""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        # (batch, length, 3, heads, width of a head)
        projected = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        # each (batch, heads, length, width of a head)
        q, k, v = projected.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        x = x + self.mlp(self.norm2(x))
        return x


class GPT(nn.Module):
    def __init__(
        self, vocabulary: int, context: int, width: int = 96, depth: int = 3, heads: int = 4
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) characters → (batch, length, vocabulary) logits of the next character."""
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        logits: torch.Tensor = self.head(self.blocks(x))
        return logits


class Text:
    """A text as overlapping windows of `context` characters, each with the character after it."""

    def __init__(self, path: str, context: int = 64) -> None:
        text = Path(path).read_text(encoding="utf-8")
        self.characters = sorted(set(text))
        # (characters,)
        self.data = torch.tensor([self.characters.index(c) for c in text])
        self.context = context

    def __len__(self) -> int:
        return len(self.data) - self.context

    def batch(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, context) characters, and the same shifted by one."""
        windows = torch.stack([self.data[i : i + self.context + 1] for i in indices])
        return windows[:, :-1], windows[:, 1:]


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
