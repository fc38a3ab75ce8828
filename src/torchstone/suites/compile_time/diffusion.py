"""Benchmark a diffusion transformer, compiled as a whole, block by block, or with equal blocks compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import Compiled, seeded

if TYPE_CHECKING:
    from torch import Tensor, nn

WIDTH = 64
HEADS = 4
EXPANSION = 4
BLOCKS = 4
TEXT_LENGTH = 8
IMAGE_LENGTHS = (16, 24)
"""Image lengths; the second only with dynamic sizes."""


class Diffusion(Compiled):
    """Compile inference of the network in one of three ways."""

    category = "diffusion_dit"
    mode = "inference"
    dynamic = False
    empty_cache = True
    precision = "high"
    way = "full"
    """``full``: one graph; ``regional``: a graph for every block; ``hierarchical``: one graph in which equal blocks share a region."""

    def missing(self) -> str:
        """Return why it is not available: shared regions need a newer torch."""
        import torch

        if self.way == "hierarchical" and not hasattr(torch.compiler, "nested_compile_region"):
            return f"torch {torch.__version__} has no torch.compiler.nested_compile_region"
        return ""

    def prepare_once(self) -> None:
        """Create the network, and an input for each image length."""
        import torch

        self.network: Any = diffusion_transformer(shared=self.way == "hierarchical").to(self.device).eval()
        source = seeded()

        def noise(*sizes: int) -> Tensor:
            return torch.randn(sizes, generator=source).to(self.device)

        lengths = IMAGE_LENGTHS if self.dynamic else IMAGE_LENGTHS[:1]
        self.inputs = [
            (noise(1, length, WIDTH), noise(1, TEXT_LENGTH, WIDTH), noise(1, WIDTH)) for length in lengths
        ]

    def run(self) -> None:
        """Compile, and run with every input."""
        import torch

        with torch.no_grad():
            compiled = self._compiled()
            for each in self.inputs:
                compiled(*each)

    def _compiled(self) -> Callable[..., Tensor]:
        if self.way != "regional":
            whole: Callable[..., Tensor] = self._compile(self.network)
            return whole
        blocks = [self._compile(block) for block in self.network.blocks]
        network = self.network

        def by_block(*inputs: Tensor) -> Tensor:
            result: Tensor = network.through(blocks, *inputs)
            return result

        return by_block

    def _compile(self, module: nn.Module) -> Any:  # noqa: ANN401  (what torch.compile makes of a module)
        import torch

        return torch.compile(module, backend=self.backend, dynamic=self.dynamic, fullgraph=True)


def diffusion_transformer(shared: bool) -> nn.Module:
    """Build a network of equal blocks that attend to image and text, modulated by time."""
    import torch
    from torch import nn

    block_class = make_block_class(shared)

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed_time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
            self.blocks = nn.ModuleList(block_class() for _ in range(BLOCKS))
            self.norm = nn.LayerNorm(WIDTH)
            self.leave = nn.Linear(WIDTH, WIDTH)

        def through(self, blocks: Sequence[nn.Module], image: Tensor, text: Tensor, time: Tensor) -> Tensor:
            modulation = self.embed_time(time)
            for block in blocks:
                image = block(image, text, modulation)
            result: Tensor = self.leave(self.norm(image))
            return result

        def forward(self, image: Tensor, text: Tensor, time: Tensor) -> Tensor:
            return self.through(self.blocks, image, text, time)  # type: ignore[arg-type]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer()


def make_block_class(shared: bool) -> type[nn.Module]:
    """Return the class of blocks; ``shared`` blocks are compiled once for all."""
    import torch
    from torch import nn
    from torch.nn import functional

    def attend(*values: Tensor) -> Tensor:
        query, key, value = map(split_heads, values)
        return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(-2)

    # Not a module: its epsilon would become an input of the region, and equal blocks could not share it.
    def normalized(values: Tensor) -> Tensor:
        return functional.layer_norm(values, (WIDTH,))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(WIDTH, 3 * WIDTH)
            self.merge = nn.Linear(WIDTH, WIDTH)
            self.ask_text = nn.Linear(WIDTH, WIDTH)
            self.project_text = nn.Linear(WIDTH, 2 * WIDTH)
            self.merge_text = nn.Linear(WIDTH, WIDTH)
            wide = EXPANSION * WIDTH
            self.network = nn.Sequential(
                nn.Linear(WIDTH, wide), nn.GELU(approximate="tanh"), nn.Linear(wide, WIDTH)
            )
            self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

        def forward(self, image: Tensor, text: Tensor, modulation: Tensor) -> Tensor:
            shift, scale, gate, last_shift, last_scale, last_gate = (
                self.modulate(modulation).unsqueeze(1).chunk(6, dim=-1)
            )
            seen = self.project(normalized(image) * (1 + scale) + shift).chunk(3, dim=-1)
            image = image + gate * self.merge(attend(*seen))
            projected = self.project_text(text).chunk(2, dim=-1)
            image = image + self.merge_text(attend(self.ask_text(normalized(image)), *projected))
            result: Tensor = image + last_gate * self.network(
                normalized(image) * (1 + last_scale) + last_shift
            )
            return result

    if shared:
        region: Any = torch.compiler.nested_compile_region
        Block.forward = region(Block.forward)  # type: ignore[method-assign]
    return Block


def split_heads(values: Any) -> Any:  # noqa: ANN401  (torch does not say what its methods take)
    """Reshape (batch, length, width) to (batch, heads, length, width of a head)."""
    return values.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    described = f"a diffusion transformer of {BLOCKS} equal blocks, "
    return [
        Diffusion("diffusion_dit_full_inductor", description=described + "compiled as one graph"),
        Diffusion(
            "diffusion_dit_regional_inductor",
            way="regional",
            description=described + "each compiled by itself",
        ),
        Diffusion(
            "diffusion_dit_hierarchical_inductor",
            way="hierarchical",
            description=described + "which share one compiled region",
        ),
        Diffusion(
            "diffusion_dit_hierarchical_dynamic",
            way="hierarchical",
            dynamic=True,
            description=described + "which share one compiled region, for images of any size",
        ),
    ]
