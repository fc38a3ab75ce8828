"""Build the networks of the smoke suite with their inputs.

Imports torch.

Every network works on any device and in any floating-point type: ``forward`` creates tensors only from its
inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._dynamo import graph_break
from torch.nn import functional

from torchstone.define.benchmarks import Work

WIDTH = 128
ROWS = 20_000
LENGTHS = (19, 28, 37, 46)
"""The sequence lengths in one call of ``dynamic``."""


def build(name: str, batch_size: int) -> Work:
    """Return a network with its inputs, by name."""
    return Work(NETWORKS[name](), _inputs(name, batch_size), loss=norm)


def _inputs(name: str, batch_size: int) -> tuple[Tensor, ...]:
    match name:
        case "convnet":
            return (torch.randn(batch_size, 3, 24, 24),)
        case "lstm":
            return (torch.randn(batch_size, 12, 64),)
        case "attention":
            return (torch.randn(batch_size, 32, WIDTH),)
        case "experts":
            return (torch.randn(batch_size, 16, WIDTH),)
        case "embedding":
            bag = 100
            rows = torch.randint(0, ROWS, (batch_size * bag,))
            return rows, torch.arange(0, batch_size * bag, bag)
        case "dynamic":
            return tuple(torch.randn(batch_size, length, WIDTH) for length in LENGTHS)
        case _:
            return (torch.randn(batch_size, WIDTH),)


def norm(output: Tensor) -> Tensor:
    """Return the loss: a norm, whose gradients are large enough for tolerances to be meaningful."""
    wide = torch.promote_types(output.dtype, torch.float32)
    result: Tensor = torch.linalg.vector_norm(output, dtype=wide)
    return result


class Mlp(nn.Module):
    """Three linear layers with normalization in between."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, 4 * width),
            nn.LayerNorm(4 * width),
            nn.SiLU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, values: Tensor) -> Tensor:
        """Map (batch, width) to (batch, width)."""
        result: Tensor = self.layers(values)
        return result


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, image: Tensor) -> Tensor:
        """Transform the image, keeping its shape."""
        hidden = functional.relu(self.first_norm(self.first(image)))
        return functional.relu(image + self.second_norm(self.second(hidden)))


class Convnet(nn.Module):
    """A stem, two residual blocks with downsampling in between, and a classifier."""

    def __init__(self, channels: int, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.fine = Residual(channels)
        self.coarser = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.coarse = Residual(2 * channels)
        self.classify = nn.Linear(2 * channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to (batch, classes)."""
        hidden = self.coarse(self.coarser(self.fine(self.stem(image))))
        result: Tensor = self.classify(hidden.mean((2, 3)))
        return result


class Lstm(nn.Module):
    """An LSTM written step by step: ``nn.LSTM`` is a single call that compilers leave alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(width, 4 * width)
        self.from_state = nn.Linear(width, 4 * width, bias=False)
        self.width = width

    def forward(self, sequence: Tensor) -> Tensor:
        """Map (batch, time, width) to the last state, (batch, width)."""
        state = memory = sequence.new_zeros(sequence.shape[0], self.width)
        for step in self.from_input(sequence).unbind(1):
            enter, forget, leave, candidate = (step + self.from_state(state)).chunk(4, dim=-1)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(candidate)
            state = torch.sigmoid(leave) * torch.tanh(memory)
        return state


class Attention(nn.Module):
    """A transformer block: causal attention, then a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.before_network = nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, sequence: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = sequence.shape
        projected = self.project(self.before_attention(sequence)).view(batch, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        sequence = sequence + self.merge(seen.transpose(1, 2).reshape(batch, length, width))
        result: Tensor = sequence + self.network(self.before_network(sequence))
        return result


class Experts(nn.Module):
    """A mixture of experts: each token is processed by the few experts with the highest scores."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts)
        self.enter = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.leave = nn.Parameter(torch.randn(experts, 2 * width, width) / (2 * width) ** 0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        hidden = functional.silu(torch.einsum("blw,ewh->bleh", tokens, self.enter))
        results = torch.einsum("bleh,ehw->blew", hidden, self.leave)
        return (results * self.route(tokens).unsqueeze(-1)).sum(2)

    def route(self, tokens: Tensor) -> Tensor:
        """Return the weight of every expert for every token, mostly zero.

        Weights are relative to the best score that is not chosen. So an expert that is barely chosen has a
        weight near zero, and rounding, which may choose another one, does not change the result.
        """
        scores = self.router(tokens)
        best, experts = scores.topk(self.chosen + 1, dim=-1)
        weights = best[..., : self.chosen] - best[..., self.chosen :]
        return torch.zeros_like(scores).scatter(-1, experts[..., : self.chosen], weights)


class EmbeddingSums(nn.Module):
    """Sums of embedding rows, and a linear layer."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(rows, width, mode="sum")
        self.leave = nn.Linear(width, 2 * width)

    def forward(self, rows: Tensor, starts: Tensor) -> Tensor:
        """Map row numbers and the start of each bag to (bags, width)."""
        return functional.relu(self.leave(self.table(rows, starts)))


class BreaksGraph(nn.Module):
    """A network that reads a value halfway and branches on it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, 2 * width)
        self.usual = nn.Linear(2 * width, width)
        self.unusual = nn.Linear(2 * width, width)

    def forward(self, values: Tensor) -> Tensor:
        """Map (batch, width) to (batch, width)."""
        hidden = functional.gelu(self.enter(values))
        # Far from the threshold, so that rounding never decides the branch.
        if hidden.abs().mean().item() < 100:
            return torch.tanh(self.usual(hidden))
        return torch.sigmoid(self.unusual(hidden))


class Encoder(nn.Module):
    """The encoder that ``Dynamic`` applies to each sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(2 * width)
        self.leave = nn.Linear(2 * width, width)

    def forward(self, sequence: Tensor) -> Tensor:
        """Map (batch, length, width) to (batch, width), for any length."""
        hidden = self.leave(functional.gelu(self.norm(self.enter(sequence))))
        scores = hidden.mean(-1, keepdim=True).softmax(1)
        result: Tensor = (hidden * scores).sum(1)
        return result


class Dynamic(nn.Module):
    """Several sequences of different lengths through one encoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encode = Encoder(width)

    def forward(self, *sequences: Tensor) -> Tensor:
        """Return one result per sequence: (sequences, batch, width)."""
        results = []
        for sequence in sequences:
            results.append(self.encode(sequence))
            # Without a break, everything would be one graph with four fixed lengths. With one in the loop, the encoder is compiled
            # separately, and gets another length at every call.
            graph_break()
        return torch.stack(results)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: Attention(WIDTH, heads=4),
    "convnet": lambda: Convnet(16),
    "dynamic": lambda: Dynamic(WIDTH),
    "embedding": lambda: EmbeddingSums(ROWS, WIDTH),
    "experts": lambda: Experts(WIDTH, experts=8, chosen=2),
    "graph_break": lambda: BreaksGraph(WIDTH),
    "lstm": lambda: Lstm(64),
    "mlp": lambda: Mlp(WIDTH),
}
