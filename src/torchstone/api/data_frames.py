"""Make pandas data frames of records, if pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchstone.core.errors import TorchstoneError

if TYPE_CHECKING:
    import pandas as pd


def make_frame(records: Sequence[dict[str, object]]) -> pd.DataFrame:
    """Return records as a data frame: a row each."""
    try:
        import pandas as pd  # noqa: PLC0415  (optional, and slow to import)
    except ImportError:
        raise TorchstoneError(
            "to_frame() requires pandas, which is not installed", advice="install pandas, or use to_dicts()"
        ) from None
    return pd.DataFrame(records)
