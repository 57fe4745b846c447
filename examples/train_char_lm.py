#!/usr/bin/env python3
"""Trains a small character-level language model twice: with tilewright, and with plain PyTorch.

The text is the documentation of Python's standard library, which every machine has. Both models
start from the same weights and see the same batches, so that their curves must agree; beside them
stands what a step takes.

Example:
    python examples/train_char_lm.py                      # a minute or two on two cores
    python examples/train_char_lm.py --steps 1000 --dim 256 --plot losses.png
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import tilewright.nn
import torch

from tilewright import ops


@dataclasses.dataclass(frozen=True)
class Size:
    """How large the model is."""

    characters: int
    dim: int
    heads: int
    layers: int
    length: int


# Where layers come from: tilewright.nn, or Plain.
Layers = ModuleType | type


class Block(torch.nn.Module):
    """Attention and a gated layer, each on what came in plus what they make of it."""

    def __init__(self, size: Size, nn: Layers) -> None:
        """`nn` makes the layers."""
        super().__init__()
        self.heads = size.heads
        self.attention_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.qkv = nn.Linear(size.dim, 3 * size.dim, bias=False)
        self.rope = nn.RotaryEmbedding(size.dim // size.heads, size.length)
        self.attention = nn.FlashAttention(causal=True)
        self.out = nn.Linear(size.dim, size.dim, bias=False)
        self.mlp_norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.mlp = nn.GatedMLP(size.dim, 8 * size.dim // 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """X [B, S, dim]."""
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        x = x + self.out(self.attention(self.rope(q), self.rope(k), v).flatten(2))
        return x + self.mlp(self.mlp_norm(x))


class Model(torch.nn.Module):
    """Characters in, logits of the next ones out."""

    def __init__(self, size: Size, nn: Layers) -> None:
        """As Block."""
        super().__init__()
        self.embedding = torch.nn.Embedding(size.characters, size.dim)
        self.blocks = torch.nn.ModuleList(Block(size, nn) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.dim, eps=1e-5)
        self.head = nn.Linear(size.dim, size.characters, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Text [B, S]."""
        x = self.embedding(text)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Plain:
    """The layers in PyTorch alone, by the names of tilewright.nn."""

    Linear = torch.nn.Linear
    RMSNorm = torch.nn.RMSNorm

    class GatedMLP(torch.nn.Module):
        """The gated layer."""

        def __init__(self, dim: int, hidden: int) -> None:
            """Three matrices."""
            super().__init__()
            self.gate_proj = torch.nn.Linear(dim, hidden, bias=False)
            self.up_proj = torch.nn.Linear(dim, hidden, bias=False)
            self.down_proj = torch.nn.Linear(hidden, dim, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """down(silu(gate(x)) * up(x))."""
            return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

    class RotaryEmbedding(torch.nn.Module):
        """Rotates neighbours."""

        def __init__(self, dim: int, length: int) -> None:
            """Tables of all positions."""
            super().__init__()
            frequencies = 10000.0 ** -(torch.arange(0, dim, 2) / dim)
            angles = torch.outer(torch.arange(length), frequencies)[None, :, None]
            self.register_buffer("cos", angles.cos().repeat_interleave(2, -1), persistent=False)
            self.register_buffer("sin", angles.sin().repeat_interleave(2, -1), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """X [B, S, H, D]."""
            turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
            length = x.shape[1]
            return x * self.cos[:, :length] + turned * self.sin[:, :length]

    class FlashAttention(torch.nn.Module):
        """PyTorch's own attention."""

        def __init__(self, causal: bool) -> None:
            """Keeps the option."""
            super().__init__()
            self.causal = causal

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            """q, k, v [B, S, H, D]."""
            swapped = (x.transpose(1, 2) for x in (q, k, v))
            out = torch.nn.functional.scaled_dot_product_attention(*swapped, is_causal=self.causal)
            return out.transpose(1, 2)


def documentation() -> str:
    """What the standard library says about itself."""

    def texts(module: ModuleType) -> Iterator[str]:
        yield inspect.getdoc(module) or ""
        for _, member in sorted(inspect.getmembers(module)):
            if inspect.isclass(member) or inspect.isroutine(member):
                yield inspect.getdoc(member) or ""

    names = (
        "argparse asyncio collections datetime decimal email.message logging pathlib statistics "
    )
    names += "subprocess tarfile threading typing unittest.mock urllib.request zipfile"
    modules = [__import__(name, fromlist=["x"]) for name in names.split()]
    return "\n\n".join(dict.fromkeys(text for module in modules for text in texts(module)))


def loss_of(model: Model, batch: torch.Tensor, with_tilewright: bool) -> torch.Tensor:
    """Cross-entropy of each next character."""
    logits = model(batch[:, :-1]).flatten(0, 1)
    target = batch[:, 1:].flatten()
    if with_tilewright:
        return ops.cross_entropy(logits, target)
    return torch.nn.functional.cross_entropy(logits, target)


class Trainer:
    """One model and its optimizer."""

    def __init__(self, model: Model, with_tilewright: bool) -> None:
        """Nothing has run yet."""
        self.model, self.with_tilewright = model, with_tilewright
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, batch: torch.Tensor) -> None:
        """One step, timed."""
        begin = time.perf_counter()
        loss = loss_of(self.model, batch, self.with_tilewright)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)
        self.losses.append(loss.item())

    @property
    def milliseconds(self) -> float:
        """The median of a step."""
        return 1e3 * sorted(self.seconds)[len(self.seconds) // 2]


def progress(done: int, total: int, trainers: dict[str, Trainer]) -> None:
    """One line, rewritten."""
    bar = ("#" * (24 * done // total)).ljust(24, ".")
    parts = [f"{n}: {t.losses[-1]:.3f} {t.milliseconds:.1f} ms" for n, t in trainers.items()]
    end = "\n" if done == total else ""
    print(f"\r[{bar}] {done}/{total}  {'  '.join(parts)}", end=end, file=sys.stderr, flush=True)


def plot(trainers: dict[str, Trainer], path: Path) -> None:
    """The curves as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (name, trainer), style in zip(trainers.items(), ("-", "--"), strict=True):
        label = f"{name}, {trainer.milliseconds:.1f} ms a step"
        axes.plot(trainer.losses, style, label=label)
    axes.set(xlabel="step", ylabel="loss (nats a character)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


@torch.no_grad()
def sample(model: Model, start: torch.Tensor, length: int, count: int) -> torch.Tensor:
    """`count` characters after `start`."""
    text = start[None]
    for _ in range(count):
        logits = model(text[:, -length:])[:, -1]
        text = torch.cat([text, torch.multinomial(logits.softmax(-1), 1)], 1)
    return text[0]


def main() -> None:
    """Trains both models in turns, step by step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=128, help="characters in a row")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--plot", type=Path, help="write the loss curves to this PNG (matplotlib)")
    args = parser.parse_args()
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")

    text = documentation()
    alphabet = sorted(set(text))
    number = {character: i for i, character in enumerate(alphabet)}
    data = torch.tensor([number[character] for character in text])
    size = Size(len(alphabet), args.dim, max(1, args.dim // 32), args.layers, args.length)
    torch.manual_seed(0)
    plain = Model(size, Plain)
    ours = Model(size, tilewright.nn)
    ours.load_state_dict(plain.state_dict())
    trainers = {"tilewright": Trainer(ours, True), "PyTorch": Trainer(plain, False)}
    count = sum(p.numel() for p in ours.parameters())
    print(f"{len(text)} characters of {len(alphabet)} kinds; {count} parameters", file=sys.stderr)

    for step in range(args.steps):
        starts = torch.randint(len(data) - args.length - 1, (args.batch,))
        batch = torch.stack([data[i : i + args.length + 1] for i in starts])
        for trainer in list(trainers.values())[:: 1 if step % 2 else -1]:  # nobody goes first
            trainer.step(batch)
        progress(step + 1, args.steps, trainers)

    first, second = trainers.values()
    apart = max(abs(a - b) for a, b in zip(first.losses, second.losses, strict=True))
    print(f"loss {first.losses[0]:.3f} -> {first.losses[-1]:.3f}; the curves differ by {apart:.1e}")
    print(f"a step: {first.milliseconds:.1f} ms and {second.milliseconds:.1f} ms")
    if args.plot:
        plot(trainers, args.plot)
        print(f"curves: {args.plot}")
    written = sample(ours, data[:16], args.length, 160).tolist()
    print("".join(alphabet[i] for i in written))


if __name__ == "__main__":
    main()
