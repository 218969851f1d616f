"""Lines of JSON as samples: {"text"}, {"prompt", "completion"} or {"messages"}."""

import json
from pathlib import Path
from typing import Any

import torch

# The label of a token that is no part of the loss.
IGNORED = -100
FORMS = "text, prompt and completion, or messages"


class Lines(torch.utils.data.Dataset[dict[str, Any]]):
    """The objects of a file of JSON lines, each read when it is needed."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._starts = list[int]()
        start = 0
        with self.path.open("rb") as file:
            for line in file:
                if line.strip():
                    self._starts.append(start)
                start += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        with self.path.open("rb") as file:
            file.seek(self._starts[index])
            line = file.readline()
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{self.path}, sample {index}: this is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{self.path}, sample {index}: {row!r} is no JSON object")
        return row


class TokenSamples(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Token ids and labels. The loss is that of the text, of the completion, or of the last
    message. At most `max_tokens` of a sample are used.
    """

    def __init__(self, path: str, tokenizer: Any, max_tokens: int) -> None:
        self.lines = Lines(path)
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        try:
            prompt, completion = self._tokens(self.lines[index])
        except KeyError as error:
            raise ValueError(
                f"{self.lines.path}, sample {index} has no {error}: give {FORMS}"
            ) from error
        ids = prompt + completion
        labels = [IGNORED] * len(prompt) + completion
        return {"input_ids": ids[: self.max_tokens], "labels": labels[: self.max_tokens]}

    def _tokens(self, row: dict[str, Any]) -> tuple[list[int], list[int]]:
        """What is given, and what is learned."""
        end = [self.tokenizer.eos_token_id]
        if "messages" in row:
            return self._tokens_of_messages(row["messages"])
        if "text" in row:
            return [], self._encode(row["text"], is_start=True) + end
        prompt = self._encode(row["prompt"], is_start=True)
        return prompt, self._encode(row["completion"], is_start=False) + end

    def _tokens_of_messages(self, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
        form = self.tokenizer.apply_chat_template
        prompt = form(messages[:-1], tokenize=False, add_generation_prompt=True)
        whole = form(messages, tokenize=False)
        if not whole.startswith(prompt):
            raise ValueError(
                "the chat template of this tokenizer changes earlier messages: give prompt and "
                "completion in place of messages"
            )
        answer = whole[len(prompt) :]
        # The template has its own first and last tokens.
        return self._encode(prompt, is_start=False), self._encode(answer, is_start=False)

    def _encode(self, text: str, *, is_start: bool) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=is_start)["input_ids"]
        return ids
