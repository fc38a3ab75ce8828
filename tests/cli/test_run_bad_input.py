"""Bad input to ``torchstone run``: a clear message, exit code 2, nothing started and nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import Command, WriteFile

GOOD = "import torchstone\n@torchstone.benchmark\ndef m(): ...\n"

# What the command line alone shows to be wrong: torch is not even loaded.
USAGE = [
    (["smok"], "no such suite, file or folder: 'smok'\n  did you mean 'smoke'?"),
    (["gone.py"], "gone.py: no such file\n"),
    (["bench_aa.py"], "bench_aa.py: no such file\n  did you mean 'bench_a.py'?\n"),
    (["./folder/bnech_a.py"], "no such file\n  did you mean './folder/bench_a.py'?\n"),
    (["bench_a"], "no such suite, file or folder: 'bench_a'\n  did you mean 'bench_a.py'?"),
    (["floder"], "no such suite, file or folder: 'floder'\n  did you mean 'folder'?"),
    (["bench_a.py", "--probe", "performence"], "instructions, scaling\n  did you mean 'performance'?\n"),
    (["bench_a.py", "--probe", "accuracy,complie_cache"], "scaling\n  did you mean 'compile_cache'?\n"),
    (["bench_a.py", "--dtype", "bfloat61"], "bfloat16, amp\n  did you mean 'bfloat16'?\n"),
    (["bench_a.py", "--mode", "trianing"], "inference, training\n  did you mean 'training'?\n"),
    (["bench_a.py", "--counter", "simulted"], "cpu_time\n  did you mean 'simulated'?\n"),
    (["bench_a.py", "folder/bench_a.py"], "would both be the suite bench_a"),
    (["bench_a.py", "--probe", "speed"], "--probe speed: expected performance, accuracy"),
    (["bench_a.py", "--mode", "sleeping"], "--mode sleeping: expected inference, training"),
    (["bench_a.py", "--dtype", "int8"], "--dtype int8: expected float32, float16, bfloat16, amp"),
    (["bench_a.py", "--dynamic", "maybe"], "--dynamic maybe: expected auto, true, false"),
    (["bench_a.py", "--batch-size", "0"], "--batch-size 0: expected a whole number from 1"),
    (["bench_a.py", "--batch-size", "4,many"], "--batch-size many: expected a whole number from 1"),
    (["bench_a.py", "--size", "tiny"], "--size tiny: expected full, small"),
    (["bench_a.py", "--start", "thread"], "--start thread: expected auto, fork, spawn"),
    (["bench_a.py", "--shard", "3/2"], "--shard 3/2: expected I/N with I from 1 to N"),
    (["bench_a.py", "--shard", "0/2"], "--shard 0/2: expected I/N"),
    (["bench_a.py", "--shard", "1"], "--shard 1: expected I/N"),
    (["bench_a.py", "--shard", "²/2"], "--shard ²/2: expected I/N"),
    (["bench_a.py", "--timeout", "soon"], "--timeout soon: expected a duration such as 90, 90s, 10m or 1h"),
    (["bench_a.py", "--shard", "1/" + "9" * 5000], "expected I/N"),
    (["bench_a.py", "--timeout", "9" * 400], "expected a duration"),
    (["bench_a.py", "--memory-limit", "9" * 400], "expected a size"),
    (["bench_a.py", "--timeout", "0"], "--timeout 0: expected a duration"),
    (["bench_a.py", "--timeout", "-5s"], "--timeout -5s: expected a duration"),
    (["bench_a.py", "--budget", "5 days"], "--budget 5 days: expected a duration"),
    (["bench_a.py", "--memory-limit", "lots"], "--memory-limit lots: expected a size such as 8GB"),
    (["bench_a.py", "--memory-limit", "0GB"], "--memory-limit 0GB: expected a size"),
    (["bench_a.py", "--precision", "110%"], "--precision 110%: expected a share such as 1% or 0.01"),
    (["bench_a.py", "--precision", "0"], "--precision 0: expected a share"),
    (["bench_a.py", "--repeat", "some"], "--repeat some: expected a whole number from 1"),
    (["bench_a.py", "--jobs", "0"], "--jobs 0: expected a whole number from 1"),
    (["bench_a.py", "-k", "("], "-k (: not a regular expression"),
    (["bench_a.py", "--exclude", "*"], "--exclude *: not a regular expression"),
    (["bench_a.py", "--option", "max_autotune"], "--option max_autotune: expected KEY=VALUE"),
    (["bench_a.py", "--option", "a=1", "--option", "a=2"], "--option a is given twice"),
    (
        ["bench_a.py", "--compile-mode", "default", "--option", "a=1"],
        "--compile-mode cannot be used with --option",
    ),
    (["bench_a.py", "--compare-outputs", "gone"], "--compare-outputs gone: no such folder"),
    (["bench_a.py", "--shard", "1/2", "--durations", "gone.jsonl"], "gone.jsonl: no such file"),
    (["bench_a.py", "--csv", "bench_a.py"], "bench_a.py: this is a file, expected a folder"),
    (["bench_a.py", "--v3", "/proc/no"], "/proc/no: cannot write into this folder"),
    (
        ["bench_a.py", "-o", "bench_a.py"],
        "bench_a.py already exists, and is not a run file\n  choose another",
    ),
    (["bench_a.py", "-o", "empty"], "empty already exists, and is not a run file\n  choose another"),
    (
        ["bench_a.py", "-o", "folder"],
        "folder is a folder; --output must be a file\n  name a file in it, such as folder/run.jsonl",
    ),
    (
        ["bench_a.py", "-o", "new/"],
        "new/ is a folder; --output must be a file\n  name a file in it, such as new/run.jsonl",
    ),
    (["bench_a.py", "-o", "/dev/null"], "/dev/null: a device, expected a regular file\n  choose another"),
    (["bench_a.py", "-o", "/dev/full"], "/dev/full: a device, expected a regular file\n  choose another"),
    (["bench_a.py", "-o", "pipe"], "pipe: a pipe, expected a regular file\n  choose another --output"),
    (["--repeat", "3"], "no targets given"),
    (
        ["bench_a.py", "--resume", "run.jsonl"],
        "the target bench_a.py cannot be used with --resume",
    ),
    (["--resume", "run.jsonl", "--device", "cpu"], "--device cannot be used with --resume"),
    (["--resume", "run.jsonl", "--batch-invariant"], "--batch-invariant cannot be used with --resume"),
    (["--resume", "gone.jsonl"], "gone.jsonl: cannot be opened: no such file or directory"),
    (["--resume", "."], ".: a folder, expected a regular file"),
    (["--resume", "table.csv"], "table.csv:1: this is not a run file"),
    (["--resume", "other.json"], "other.json:1: this is not a run file"),
    (["--resume", "empty"], "empty:1: the first line is cut off"),
    (["--resume", "bench_a.py"], "bench_a.py:1: this is not a run file"),
    (["--unknown"], "no such option: --unknown"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(each[0])[:60] for each in USAGE])
def test_what_cannot_be_meant_is_refused_at_once(
    torchstone: Command, write: WriteFile, tmp_path: Path, arguments: list[str], message: str
) -> None:
    write("bench_a.py", GOOD)
    write("folder/bench_a.py", GOOD)
    write("table.csv", "dev,name,batch_size,accuracy\ncpu,m,1,pass\n")
    write("other.json", '{"metric": {"name": "speedup"}}\n')
    write("empty", "")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    ran = torchstone("run", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "run --resume" not in ran.err
    assert ran.out == ""
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("start", [pytest.param("fork", marks=pytest.mark.slow), "spawn"])
def test_a_file_that_cannot_be_used_is_refused_with_its_place(
    torchstone: Command, write: WriteFile, tmp_path: Path, start: str
) -> None:
    write("bench_bad.py", "print('noise')\ndef f(:\n    pass\n")
    ran = torchstone("run", "bench_bad.py", "--start", start, "--device", "cpu")
    assert ran.code == 2
    said, error = ran.err.splitlines()
    assert said == "loading torch and inspecting the machine"
    assert error == f"error: {tmp_path}/bench_bad.py:2:7: syntax error: invalid syntax"
    assert os.listdir(tmp_path) == ["bench_bad.py"]


def test_a_file_that_takes_its_worker_down_is_refused_when_it_is_listed(
    torchstone: Command, write: WriteFile
) -> None:
    write("bench_bad.py", "import os\nprint('last words', flush=True)\nos.abort()\n")
    ran = torchstone("list", "bench_bad.py")
    assert ran.code == 2
    assert "bench_bad.py:3: the worker ended by SIGABRT while it was importing this file" in ran.err
    assert ran.err.endswith("\n  it printed: last words\n")
