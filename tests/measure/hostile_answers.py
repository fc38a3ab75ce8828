"""Answers that no worker of ours would give: real ones with some part replaced, dropped or added, and arbitrary JSON."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

DEEP: Any = 5
for _ in range(60):
    DEEP = [DEEP]

GARBAGE: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 5, 0.5, -0.0, 1e-320, 1e-9, 1e99, 1e308, -1e308, 2**31, 2**63, 10**40),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "5",
        "pass",
        "OOM",
        "a\nb",
        "\ud800",
        "\x1b[31m",
        "http://me:secret@host/",
    ),
    *(
        [],
        [5],
        [0.0],
        [""],
        [[]],
        [{}],
        ["x", 5],
        {},
        {"x": 5},
        {"x": "y"},
        {"x": {}},
        {"": ""},
        {"-1": 0},
        DEEP,
    ),
)


def arbitrary(chance: random.Random, depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Any JSON."""
    kind = chance.random()
    if depth > 3 or kind < 0.6:
        return copy.deepcopy(chance.choice(GARBAGE))
    several = range(chance.randint(0, 3))
    if kind < 0.8:
        return [arbitrary(chance, depth + 1) for _ in several]
    return {str(chance.choice(GARBAGE)): arbitrary(chance, depth + 1) for _ in several}


def mutate(chance: random.Random, value: Any) -> Any:  # noqa: ANN401  (any JSON)
    """The same with one part that is something else."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return arbitrary(chance)
    changed = copy.copy(value)
    key: Any = chance.choice(list(changed)) if isinstance(changed, dict) else chance.randrange(len(changed))
    what = chance.random()
    if what < 0.1:
        del changed[key]
    elif what < 0.2 and isinstance(changed, dict):
        changed[str(chance.choice(GARBAGE))] = arbitrary(chance)
    else:
        changed[key] = mutate(chance, changed[key])
    return changed


def hostile(chance: random.Random, real: Any) -> Any:  # noqa: ANN401  (any JSON)
    """An answer: as it should be, with one to three parts changed, or something else altogether."""
    kind = chance.random()
    if kind < 0.05:
        return real
    if kind < 0.15:
        return arbitrary(chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        real = mutate(chance, real)
    return real


def as_line(message: Any) -> bytes:  # noqa: ANN401  (any JSON)
    """A message as a model could write it into the channel."""
    return json.dumps(message).encode()
