"""Time to a verdict, and false alarms, of torchstone ab, pyperf and pytest-benchmark: the same model against itself, side by side.

    pip install pyperf pytest-benchmark
    python benchmarks/peers.py

pyperf measures each side with its default settings and compares the two files with 'compare_to', pytest-benchmark measures each side in its default way and fails by
'--benchmark-compare-fail' at torchstone's margin. Nothing differs between the sides, so every change that is seen is a false alarm. A verdict is one comparison, from the first
process to the answer. Only torchstone can say that it does not know: that is counted too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

MARGIN = 2  # percent
MODEL = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
inputs = torch.randn(64, 256)
"""
OURS = """
import torch, torchstone

@torchstone.benchmark
def mlp():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
    return model, (torch.randn(64, 256),)
"""
PYPERF = f"""
import pyperf
{MODEL}
compiled = torch.compile(model)
with torch.no_grad():
    compiled(inputs)
    runner = pyperf.Runner()
    runner.bench_func("mlp", lambda: compiled(inputs))
"""
PYTEST = f"""
{MODEL}
def test_mlp(benchmark):
    compiled = torch.compile(model)
    with torch.no_grad():
        compiled(inputs)
        benchmark(lambda: compiled(inputs))
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program with its output."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
    )


def ask_torchstone(folder: Path) -> bool | None:
    """Whether 'ab' sees a change; None where it is inconclusive."""
    (folder / "bench_mlp.py").write_text(OURS)
    done = run(folder, "torchstone", "ab", "bench_mlp.py", "--margin", f"{MARGIN}%", "--budget", "120s")
    if done.returncode not in {0, 1}:
        sys.exit(f"torchstone: {done.stderr}")
    if "inconclusive" in done.stdout:
        return None
    return "regression" in done.stdout or "improvement" in done.stdout


def ask_pyperf(folder: Path) -> bool:
    """Whether 'compare_to' sees a change."""
    (folder / "bench.py").write_text(PYPERF)
    for name in ("a.json", "b.json"):
        (folder / name).unlink(missing_ok=True)
        done = subprocess.run(
            [
                sys.executable,
                "bench.py",
                "-q",
                "-o",
                name,
                "--inherit-environ",
                "TORCHINDUCTOR_CACHE_DIR,PYTHONPATH",
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
        )
        if done.returncode:
            sys.exit(f"pyperf: {done.stderr}")
    said = run(folder, "pyperf", "compare_to", "a.json", "b.json", f"--min-speed={MARGIN}").stdout
    return "faster" in said or "slower" in said


def ask_pytest_benchmark(folder: Path) -> bool:
    """Whether 'compare-fail' sees a change: it looks for what is slower, so the sides are also looked at the other way round."""
    (folder / "test_mlp.py").write_text(PYTEST)
    first = run(folder, "pytest", "-q", "test_mlp.py", "--benchmark-json=a.json")
    if first.returncode:
        sys.exit(f"pytest-benchmark: {first.stdout}")
    fail = f"--benchmark-compare-fail=median:{MARGIN}%"
    second = run(
        folder, "pytest", "-q", "test_mlp.py", "--benchmark-compare=a.json", fail, "--benchmark-json=b.json"
    )
    if second.returncode:
        return True
    from torchstone.formats import read_file  # noqa: PLC0415

    before, after = (
        float(read_file(str(folder / name)).run.outcomes[0].measurements[0].value)
        for name in ("a.json", "b.json")
    )
    return before / after - 1 > MARGIN / 100


PEERS: dict[str, Callable[[Path], bool | None]] = {
    "torchstone ab": ask_torchstone,
    "pyperf": ask_pyperf,
    "pytest-benchmark": ask_pytest_benchmark,
}


def compare(peers: Sequence[str], times: int) -> bool:
    """All of them in turns, so that the machine's moods are shared; then the table."""
    took: dict[str, list[float]] = {name: [] for name in peers}
    answers: dict[str, list[bool | None]] = {name: [] for name in peers}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(times):
            for name in peers:
                folder = Path(scratch) / name.replace(" ", "-")
                folder.mkdir(exist_ok=True)
                began = time.monotonic()
                answers[name].append(PEERS[name](folder))
                took[name].append(time.monotonic() - began)
                print(
                    f"  {number + 1} of {times}, {name}: {took[name][-1]:.0f} s", file=sys.stderr, flush=True
                )
    false = {name: answers[name].count(True) for name in peers}
    print("| | comparisons | false alarms | inconclusive | seconds to a verdict (median) |")
    print("|---|---|---|---|---|")
    for name in peers:
        unknown = answers[name].count(None)
        print(f"| {name} | {times} | {false[name]} | {unknown} | {statistics.median(took[name]):.0f} |")
    holds = True
    ours = "torchstone ab"
    for name in peers:
        if name != ours:
            quicker = statistics.median(took[name]) / statistics.median(took[ours])
            holds &= quicker >= 3 or false[name] >= 5 * max(1, false[ours])
            print(
                f"against {name}: {quicker:.1f} times as fast, {false[ours]} false alarms for {false[name]}"
            )
    return holds


def main() -> None:
    """Ask all, or those that were named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peers", nargs="*", default=list(PEERS))
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    holds = compare(given.peers, given.times)
    print("as wanted" if holds else "NOT AS WANTED")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
