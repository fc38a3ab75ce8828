"""Define your own benchmarks: each decorated function is one."""

import torch

import torchstone


@torchstone.benchmark(batch_size=8)
def my_model():
    """Return a model and its inputs; torchstone moves both to the measured device and dtype."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 10))
    return model, (torch.randn(8, 256),)


@torchstone.benchmark(batch_size=4, parameters={"heads": [4, 8]})
def attention(heads, batch_size):
    """Define a grid: one benchmark per number of heads. The batch_size parameter makes --batch-size work."""
    return torch.nn.MultiheadAttention(128, heads, batch_first=True), (torch.randn(batch_size, 64, 128),) * 3


@torchstone.benchmark(modes=["inference"])
def softplus_sum():
    """Return a plain function, for inference only."""
    return lambda x: torch.nn.functional.softplus(x).sum(-1), (torch.randn(512, 512),)
