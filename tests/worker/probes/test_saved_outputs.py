"""Files of kept outputs that are no files."""

from __future__ import annotations

import os
from pathlib import Path

from torchstone.worker.probes.outputs.saved_outputs import load_outputs


def test_a_device_or_a_pipe_in_place_of_kept_outputs_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zero.pt").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.pt")
    assert load_outputs(str(tmp_path / "zero.pt"))[1].endswith("a device, expected a regular file")
    assert load_outputs(str(tmp_path / "pipe.pt"))[1].endswith("a pipe, expected a regular file")
