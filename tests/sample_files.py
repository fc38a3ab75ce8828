"""Realistic files of every kind. Those in CANONICAL are written the way torchstone writes them, byte for byte, if it writes that kind.

Those in tests/formats/data were written by the tools themselves; only names and paths of a machine were taken out, and some of what is not read.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any

from torchstone.core.records import Case, Reading
from torchstone.core.text.safe_text import is_plain
from torchstone.formats import FORMATS

STATS = (
    "calls_captured,unique_graphs,graph_breaks,unique_graph_breaks,fallbacks_to_eager,autograd_captures,"
    "autograd_compiles,cudagraph_skips"
)
PERFORMANCE = (
    "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem,"
    f"{STATS}\n"
    "cuda,BERT_pytorch,128,1.523810,12.300000,31.250000,0.981234,4.120000,4.198765,412,1,0,0,0,0,0,0\n"
    "cuda,openai/whisper-tiny,8,0.912000,103.500000,64.000125,1.000000,7.000000,7.000000,2051,4,3,2,1,0,0,5\n"
    "cuda,moco,0,0.0,0.0,0,0,0,0,0,0,0,0,0,0,0,0\n"
)
ACCURACY = (
    f"dev,name,batch_size,accuracy,{STATS},compilation_latency\n"
    "cuda,AlbertForMaskedLM,8,pass,373,1,0,0,0,0,0,0,20.125000\n"
    "cuda,sam,4,fail_accuracy,801,7,6,3,0,0,0,2,88.000000\n"
    "cuda,yolov3,4,pass_due_to_skip,312,2,1,1,0,0,0,0,17.500000\n"
    "cuda,google/gemma-2-2b,0,eager_1st_run_OOM,0,0,0,0,0,0,0,0,0\n"
)
EXPECTED = (
    "name,accuracy,graph_breaks,calls_captured,fallbacks_to_eager\n"
    "AlbertForMaskedLM,pass,0,373,0\n"
    "GPTJForCausalLM,eager_1st_run_OOM,,,\n"
    "sam,fail_accuracy,6,801,\n"
)
MEMORY = "name,compression_ratio\nBERT_pytorch,0.981234\nmoco,1.100000\n"
BY_DTYPE = (
    "name,float32,bfloat16,amp\nresnet50,pass,pass,fail_accuracy\nsam,fail_accuracy,,pass\nyolov3,,pass,\n"
)
PR_TIME = (
    "add_loop_eager,compile_time_instruction_count,3070000000\n"
    "add_loop_eager,instruction_count,4100000000\n"
    "dtensor_dispatch_add,instruction_count,156789\n"
)
PR_TIME_EXPECTED = (
    "add_loop_eager,compile_time_instruction_count,3070000000,0.1\n\n\n\n"
    "mm_loop_inductor_gpu,compile_time_instruction_count,4820968837,0.015\n\n\n\n"
    "symint_sum_loop,compile_time_instruction_count,4299000000,0.2\n"
)

V3_RECORDS: list[dict[str, Any]] = [
    {
        "timestamp": 1767225600,
        "schema_version": "v3",
        "name": "inductor-perf / test (inductor_huggingface)",
        "repo": "pytorch/pytorch",
        "head_branch": "main",
        "head_sha": "0123456789abcdef0123456789abcdef01234567",
        "workflow_id": 20123456789,
        "run_attempt": 1,
        "job_id": 57123456789,
        "runners": [
            {
                "name": "cuda",
                "type": "NVIDIA H100",
                "cpu_info": "x86_64",
                "cpu_count": 96,
                "avail_gpu_mem_in_gb": 79.6,
                "extra_info": {"python": "3.12"},
            }
        ],
        "benchmark": {
            "name": "TorchInductor",
            "mode": "inference",
            "dtype": "bfloat16",
            "extra_info": {
                "device": "cuda",
                "is_dynamic": "False",
                "batch_size": "32",
                "quantization": "None",
            },
        },
        "model": {
            "name": "BertForMaskedLM",
            "type": "OSS model",
            "backend": "inductor",
            "origins": ["huggingface"],
            "extra_info": {},
        },
        "inputs": {"tokens": {"dtype": "int64", "extra_info": {}}},
        "dependencies": {},
        "metric": {
            "name": "speedup",
            "type": "SPEEDUP",
            "benchmark_values": [1.5, 1.25, 1.375],
            "target_value": 1.4,
            "extra_info": {"is_warm": "true"},
        },
    },
    {
        "benchmark": {
            "name": "TorchInductor",
            "mode": "training",
            "dtype": "amp",
            "extra_info": {"device": "cuda", "is_dynamic": True},
        },
        "model": {"name": "sam", "backend": "inductor", "origins": ["torchbench", "pytorch"]},
        "metric": {
            "name": "accuracy",
            "benchmark_values": [],
            "extra_info": {"benchmark_values": ["fail_accuracy"], "log": "https://example.org/1"},
        },
    },
]
V3 = "".join(json.dumps(record) + "\n" for record in V3_RECORDS)
DDP_REPORT: dict[str, Any] = {
    "pytorch_version": "2.9.0",
    "cuda_version": "12.8",
    "distributed_backend": "nccl",
    "bucket_size": 25,
    "benchmark_results": [
        {
            "model": "resnet50",
            "batch_size": 32,
            "result": [
                {"ranks": [0], "measurements": [0.101, 0.1025, 0.1]},
                {"ranks": [0], "measurements": [0.103, 0.104]},
                {"ranks": [0, 1, 2, 3], "measurements": [0.11, 0.112]},
            ],
        },
        {
            "model": "resnext101_32x8d",
            "batch_size": 16,
            "result": [{"ranks": [0], "measurements": [0.5]}, {"ranks": [0, 1], "measurements": [0.625]}],
        },
    ],
}
DDP = json.dumps(DDP_REPORT) + "\n"
RUN = (
    '{"kind":"run","format":2,"id":"nightly","plan":[{"benchmark":"sam","probe":"accuracy","suite":"torchbench",'
    '"variant":{"device":"cuda","dynamic":false,"batch_size":4,"further":[["tag","a"]]}},'
    '{"benchmark":"moco","probe":"performance"}],"revision":{"commit":"0123abc","dirty":true},'
    '"environment":{"versions":{"torch":"2.9.0"}},"settings":{"repeat":30}}\n'
    '{"kind":"outcome","outcome":{"case":{"benchmark":"sam","probe":"accuracy","suite":"torchbench",'
    '"variant":{"device":"cuda","dynamic":false,"batch_size":4,"further":[["tag","a"]]}},"status":"fail_to_run",'
    '"measurements":[{"metric":"graph_breaks","samples":[3]}],'
    '"failure":{"phase":"compile","message":"no\\nway"},"repro":"python sam.py"}}\n'
    '{"kind":"outcome","outcome":{"case":{"benchmark":"moco","probe":"performance"},"status":"pass",'
    '"measurements":[{"metric":"speedup","samples":[1.25,1.5],"extra":{"note":"cold"}}]}}\n'
    '{"kind":"end","outcomes":2}\n'
)

CACHEBENCH = (
    json.dumps(
        [
            {
                "benchmark": {
                    "name": "TorchCache Benchmark",
                    "mode": mode,
                    "extra_info": {"is_dynamic": dynamic, "device": "cuda"},
                },
                "model": {"name": model, "backend": "inductor", "origins": [suite]},
                "metric": {"name": metric, "type": "OSS model", "benchmark_values": values},
            }
            for suite, model, mode, dynamic in (
                ("torchbench", "resnet50", "training", False),
                ("huggingface", "BertForMaskedLM", "inference", True),
            )
            for metric, values in (
                ("Cold compile time (s)", [41.5, 40.25]),
                ("Warm compile time (s)", [6.5, 7.0]),
                ("Speedup (%)", [83.48623853211009]),
            )
        ]
    )
    + "\n"
)
SPEEDUP_TARGETS = (
    "#name,backend,data_type,shape,wrapper,perf_speedup_target_some_machine\n"
    "#alexnet,backend=inductor,float32,static,default,1.05\n"
    "densenet,backend=inductor,float32,static,default,1.4\n"
    "mobilenet,backend=inductor,float32,static,cpp,2.625\n"
    "mobilenet,backend=inductor,amp,dynamic,cpp,2.25\n"
    "mobilenet,export-aot-inductor,float32,static,default,1\n"
)
DATA = Path(__file__).parent / "formats" / "data"
TOOLS = ("pytest-benchmark", "pyperf", "asv", "hyperfine")
CANONICAL = {
    "run": RUN,
    "performance": PERFORMANCE,
    "accuracy": ACCURACY,
    "expected": EXPECTED,
    "expected-by-dtype": BY_DTYPE,
    "pr-time": PR_TIME,
    "pr-time-expected": PR_TIME_EXPECTED,
    "speedup-targets": SPEEDUP_TARGETS,
    "v3": V3,
    "cachebench": CACHEBENCH,
    "ddp": DDP,
    **{tool: (DATA / f"{tool}.json").read_text() for tool in TOOLS},
}
QUARANTINE = (
    "# cases that may not block\n"
    '[[quarantine]]\ncase = "yolov3"\nreason = "flaky since the driver update"\nlink = "https://example.org/1"\n'
    'owner = "somebody"\nsince = 2026-01-31\nexpires = 2099-12-31\n\n'
    '[[quarantine]]\ncase = "resnet*"\nreason = "rewrite"\nmetric = ["graph_breaks", "calls_captured"]\n'
    'platform = "rocm"\nallow_missing = true\n'
)
SETTINGS = (
    '[check]\npolicy = "strict"\nbaseline = "expected.csv"\nquarantine = ["quarantine.toml"]\n'
    'block = ["improvement"]\nallow = ["new"]\n\n'
    '[[rule]]\nmetric = "speedup"\ncase = "resnet*"\nkind = "between"\nlow = 1\nhigh = 2.5\n\n'
    '[[rule]]\nmetric = "graph_breaks"\nkind = "count"\nbetter = "lower"\ntolerance = 2\n'
)


def read_as(kind: str, text: str, path: str = "file") -> Reading:
    return FORMATS[kind].read(path, text)


def rewrite(kind: str, text: str) -> str:
    """The text that comes out when this one is read and written again."""
    return FORMATS[kind].write(read_as(kind, text).run)


def assert_sound(reading: Reading) -> None:
    """Nothing in a reading can break what comes after it: numbers are finite, names can be shown on one line."""
    run = reading.run
    assert reading.kind in FORMATS
    assert len(reading.lines) == len(run.outcomes)
    assert all(line >= 1 for line in reading.lines)
    assert {outcome.case for outcome in run.outcomes} <= set(run.plan)
    for case in run.plan:
        _assert_sound_case(case)
    for outcome in run.outcomes:
        assert is_plain(outcome.status)
        for measurement in outcome.measurements:
            assert measurement.metric
            assert is_plain(measurement.metric)
            assert measurement.samples
            assert all(map(isfinite, measurement.samples))
            assert isfinite(measurement.value)


def _assert_sound_case(case: Case) -> None:
    assert is_plain(case.id)
    assert is_plain(case.benchmark)
    assert is_plain(case.suite)
    assert all(is_plain(axis) and is_plain(value) for axis, value in case.variant.axes().items())
    assert case.variant.batch_size is None or case.variant.batch_size > 0
