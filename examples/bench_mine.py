"""Your own models: every function that is decorated is a benchmark."""

import torch

import torchstone


@torchstone.benchmark(batch_size=8)
def my_model():
    """A model and its inputs: torchstone moves both to the device and the dtype that are measured."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 10))
    return model, (torch.randn(8, 256),)


@torchstone.benchmark(batch_size=4, parameters={"heads": [4, 8]})
def attention(heads, batch_size):
    """A grid: one benchmark for each number of heads; --batch-size works because the function takes a batch_size."""
    return torch.nn.MultiheadAttention(128, heads, batch_first=True), (torch.randn(batch_size, 64, 128),) * 3


@torchstone.benchmark(modes=["inference"])
def softplus_sum():
    """A plain function, for inference only."""
    return lambda x: torch.nn.functional.softplus(x).sum(-1), (torch.randn(512, 512),)
