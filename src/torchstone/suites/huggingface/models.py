"""Build a transformers model with its inputs.

Imports torch and transformers.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor

from torchstone.define.benchmarks import Work
from torchstone.suites.huggingface.recipes import SMALL_LENGTH, Recipe

FIRST_TOKEN = 8
"""Random tokens start here; lower ones are padding and other special tokens."""

# So small that results can be compared: a CPU drops nothing, a GPU one number in thirty million. But not zero, for which torch and
# transformers take another way than in real training (no random numbers, other attention kernels).
NEARLY_NO_DROPOUT = 1e-30


def build(
    name: str, recipe: Recipe, batch_size: int, dtype: str, device: str, size: str, *, labels: bool
) -> Work:
    """Return a model with its inputs, among them labels if asked, created on its device: filling billions of weights on a CPU takes minutes."""
    if dtype not in recipe.dtypes:
        raise NotImplementedError(f"{name} runs in {', '.join(recipe.dtypes)} only, not in {dtype}")
    sizes = recipe.small if size == "small" else recipe.full
    configuration = configure(recipe.configuration, use_cache=False, **sizes)
    with torch.device(device):
        model = find_class(recipe.model)(configuration)
        length = SMALL_LENGTH if size == "small" else recipe.length
        inputs = make_inputs(recipe.task, configuration, batch_size, length)
        if labels:
            inputs |= make_labels(recipe.task, configuration, inputs)
    return Work(model, (), inputs, loss_of)


def find_class(name: str) -> Any:  # noqa: ANN401  (a class of a library that does not annotate its models)
    """Return a class of transformers by name; versions differ."""
    try:
        return getattr(transformers, name)
    except AttributeError as error:
        raise NotImplementedError(f"transformers {transformers.__version__} has no {name}") from error


def configure(class_name: str, **sizes: Any) -> Any:  # noqa: ANN401  (as above; sizes are whatever the class takes)
    """Return a configuration with dropout practically off."""
    configuration = find_class(class_name)(**sizes)
    for key, value in configuration.to_dict().items():
        if "layerdrop" in key:
            # Drops whole layers, so it cannot be nearly off.
            setattr(configuration, key, 0.0)
        elif ("dropout" in key or key.endswith("_pdrop")) and isinstance(value, float) and value > 0:
            setattr(configuration, key, NEARLY_NO_DROPOUT)
    return configuration


def loss_of(output: Any) -> Any:  # noqa: ANN401  (every model has its own class of output)
    """Return the loss, which the model computes from labels."""
    return output.loss


def random_tokens(vocabulary: int, batch_size: int, length: int) -> Tensor:
    """Return random tokens, none of them special."""
    return torch.randint(FIRST_TOKEN, vocabulary, (batch_size, length))


def make_inputs(task: str, configuration: Any, batch_size: int, length: int) -> dict[str, Tensor]:  # noqa: ANN401  (as above)
    """Return the inputs of the model."""
    tokens = random_tokens(configuration.vocab_size, batch_size, length)
    inputs = {"input_ids": tokens}
    if task == "translation":
        inputs["decoder_input_ids"] = random_tokens(configuration.vocab_size, batch_size, length)
    elif task == "layout":
        # Left, top, right and bottom of every token on its page; right and bottom are not less than the others.
        corners = torch.randint(0, configuration.max_2d_position_embeddings, (batch_size, length, 2, 2))
        inputs["bbox"] = corners.sort(dim=2).values.flatten(2)
    return inputs


def make_labels(task: str, configuration: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:  # noqa: ANN401  (as above)
    """Return the additional inputs for computing the loss."""
    tokens = inputs["input_ids"]
    batch_size, length = tokens.shape
    if task == "classification":
        return {"labels": torch.randint(0, configuration.num_labels, (batch_size,))}
    if task == "answer":
        return {
            "start_positions": torch.randint(0, length, (batch_size,)),
            "end_positions": torch.randint(0, length, (batch_size,)),
        }
    return {"labels": random_tokens(configuration.vocab_size, batch_size, length)}
