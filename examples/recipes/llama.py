"""A decoder-only transformer as Llama 3 is, in plain torch: it can be built on the meta device."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

STD = 0.02


class Linear(nn.Linear):
    """Without a bias. `std`: of its first weights."""

    def __init__(self, inputs: int, outputs: int, std: float = STD) -> None:
        self.std = std
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.weight, std=self.std, a=-3 * self.std, b=3 * self.std)


class Attention(nn.Module):
    """`heads` share `kv_heads` keys and values."""

    def __init__(self, width: int, heads: int, kv_heads: int, last_std: float) -> None:
        super().__init__()
        self.head_width = width // heads
        self.query = Linear(width, width)
        self.key = Linear(width, kv_heads * self.head_width)
        self.value = Linear(width, kv_heads * self.head_width)
        self.output = Linear(width, width, last_std)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        # each (batch, heads or kv_heads, length, width of a head)
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(
            rotated(query, angles), rotated(key, angles), value, is_causal=True, enable_gqa=True
        )
        outputs: torch.Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return outputs


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int, last_std: float) -> None:
        super().__init__()
        self.gate = Linear(width, hidden)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width, last_std)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return outputs


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int, last_std: float) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, kv_heads, last_std)
        self.norm2 = nn.RMSNorm(width, eps=1e-5)
        self.feed_forward = FeedForward(width, hidden, last_std)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), angles)
        x = x + self.feed_forward(self.norm2(x))
        return x


class Llama(nn.Module):
    """`recompute`: blocks compute their outputs again in the backward pass, to use less memory."""

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int,
        depth: int,
        heads: int,
        kv_heads: int,
        hidden: int,
        rope_base: float = 500_000.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.head_width = width // heads
        self.rope_base = rope_base
        self.recompute = recompute
        # The variance of the sum of all blocks does not depend on their number.
        last_std = STD / (2 * depth) ** 0.5
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, kv_heads, hidden, last_std) for _ in range(depth)
        )
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = Linear(width, vocabulary, width**-0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, length) tokens → (batch, length, vocabulary) logits of the next token."""
        x = self.embedding(tokens)
        angles = self._angles(tokens.shape[1], tokens.device)
        for block in self.blocks:
            x = self._call(block, x, angles)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits

    def _call(self, block: nn.Module, x: torch.Tensor, angles: torch.Tensor) -> Any:
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(block, x, angles, use_reentrant=False)
        return block(x, angles)

    def _angles(self, length: int, device: torch.device) -> torch.Tensor:
        """(length, half the width of a head)"""
        exponents = torch.arange(0, self.head_width, 2, device=device) / self.head_width
        return torch.outer(torch.arange(length, device=device), self.rope_base**-exponents)


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """`x` (batch, heads, length, width of a head), with its position in it."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
