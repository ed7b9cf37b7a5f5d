# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""GPT-2 in PyTorch, and the files of examples/gpt/ that it can be compared by. Imported by the scripts beside it."""
import struct
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LLM_C_MAGIC = 20240326
FLOAT32, BFLOAT16 = 3, 5


@dataclass(frozen=True)
class Config:
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int

    @property
    def padded(self) -> int:
        return (self.vocabulary + 127) // 128 * 128


GPT2_124M = Config(layers=12, width=768, heads=12, context=1024, vocabulary=50257)


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """The head's matrix is the token embedding, padded to a multiple of 128 rows."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.padded, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                last = name.endswith(("project.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * config.layers) ** 0.5 if last else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, x: torch.Tensor, targets: torch.Tensor, padded: bool = False) -> torch.Tensor:
        """Returns the mean loss. Padded: over all rows of the head, which spares a copy; no target is one of those."""
        at = torch.arange(x.shape[1], device=x.device)
        h = self.tokens(x) + self.positions(at)
        for block in self.blocks:
            h = block(h)
        logits = F.linear(self.norm(h), self.tokens.weight)
        if not padded:
            logits = logits[..., :self.config.vocabulary]
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def in_llm_c_order(self) -> list[tuple[str, nn.Parameter]]:
        """Returns each tensor with its name, as they follow each other in llm.c's files."""
        order = [("tokens", self.tokens.weight), ("positions", self.positions.weight)]
        for part in ("norm1", "qkv", "project", "norm2", "up", "down"):
            for kind in ("weight", "bias"):
                order += [(f"block{i}.{part}.{kind}", getattr(getattr(block, part), kind))
                          for i, block in enumerate(self.blocks)]
        return order + [("norm.weight", self.norm.weight), ("norm.bias", self.norm.bias)]

    def decayed(self, decay: float) -> list[dict]:
        """Returns AdamW's groups: matrices decay, scales and shifts do not."""
        parameters = list(self.parameters())
        return [{"params": [p for p in parameters if p.dim() == 2], "weight_decay": decay},
                {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]


def config_of(header: np.ndarray, path: str) -> Config:
    if header[0] != LLM_C_MAGIC or header[1] not in (FLOAT32, BFLOAT16):
        raise ValueError(f"{path}: this is no GPT-2 of llm.c's, version 3 or 5")
    context, vocabulary, layers, heads, width, padded = (int(n) for n in header[2:8])
    config = Config(layers, width, heads, context, vocabulary)
    if config.padded != padded:
        raise ValueError(f"{path}: its vocabulary is padded to {padded}, not to {config.padded}")
    return config


def read_tensors(file, order: list[tuple[str, nn.Parameter]], half: bool = False):
    """Yields each tensor's name, its parameter, and the values that the file has for it."""
    for name, parameter in order:
        if half:
            raw = np.frombuffer(file.read(2 * parameter.numel()), dtype=np.uint16)
            values = (raw.astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(file.read(4 * parameter.numel()), dtype=np.float32)
        yield name, parameter, torch.from_numpy(values.copy()).view(parameter.shape)


def load(path: str) -> Gpt2:
    """Makes the model of a checkpoint, or of a file of llm.c's."""
    with open(path, "rb") as file:
        header = np.frombuffer(file.read(1024), dtype=np.int32)
        model = Gpt2(config_of(header, path))
        with torch.no_grad():
            for _, parameter, values in read_tensors(file, model.in_llm_c_order(), header[1] == BFLOAT16):
                parameter.copy_(values)
    return model


@dataclass
class Gradients:
    config: Config
    x: torch.Tensor
    targets: torch.Tensor
    loss: float
    tensors: dict[str, torch.Tensor]


def load_gradients(path: str) -> Gradients:
    """Reads what `train --dump-gradients` has written."""
    with open(path, "rb") as file:
        magic, version, batch, tokens, loss = struct.unpack("<8sIIIf", file.read(24))
        if magic != b"gradient" or version != 1:
            raise ValueError(f"{path}: train --dump-gradients has not written this")
        config = config_of(np.frombuffer(file.read(1024), dtype=np.int32), path)
        x, targets = (torch.from_numpy(np.frombuffer(file.read(4 * batch * tokens), dtype=np.int32).astype(np.int64))
                      .view(batch, tokens) for _ in range(2))
        tensors = {name: values for name, _, values in read_tensors(file, Gpt2(config).in_llm_c_order())}
    return Gradients(config, x, targets, loss, tensors)
