"""Runs as `torchstone run` writes them, for the page: every sort of end, real names, numbers that look measured.

`python tests/reporting/page_samples.py FOLDER` writes them as run files, to look at the page they make.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from stated_facts import measurement_of, with_facts
from torchstone.core.cautions import recorded
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.details.known_fields import take_known
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import Settings, environment_from, settings_from
from torchstone.core.vocabulary import Probe

NAMES = (
    *(
        "AlbertForMaskedLM",
        "AllenaiLongformerBase",
        "BartForCausalLM",
        "BertForMaskedLM",
        "BlenderbotForCausalLM",
    ),
    *(
        "DebertaV2ForMaskedLM",
        "DistilBertForMaskedLM",
        "DistillGPT2",
        "ElectraForCausalLM",
        "GPT2ForSequenceClassification",
    ),
    *("LayoutLMForMaskedLM", "M2M100ForConditionalGeneration", "MBartForCausalLM", "MegatronBertForCausalLM"),
    *(
        "MobileBertForMaskedLM",
        "OPTForCausalLM",
        "PegasusForCausalLM",
        "RobertaForCausalLM",
        "T5Small",
        "XLNetLMHeadModel",
    ),
    *(
        "resnet50",
        "mobilenetv3_large_100",
        "vit_base_patch16_siglip_256",
        "convnext_base",
        "swin_base_patch4_window7_224",
    ),
)
TRACEBACK = """Traceback (most recent call last):
  File "/opt/torchstone/probes/performance.py", line 141, in measure
    result = compiled(*inputs)
             ^^^^^^^^^^^^^^^^^
  File "/opt/conda/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 745, in compile_wrapper
    raise e.remove_dynamo_frames() from None
  File "/opt/conda/lib/python3.11/site-packages/torch/_inductor/graph.py", line 1310, in run_node
    result = super().run_node(n)
{error}
"""
LOG = """W1019 03:12:44.187 torch/_dynamo/convert_frame.py:1016] [6/8] torch._dynamo hit config.recompile_limit (8)
\x1b[33mskipping cudagraphs due to mutated inputs (2 instances)\x1b[0m
AUTOTUNE mm(4096x768, 768x3072)
  triton_mm_14 0.0841 ms 100.0% ACC_TYPE='tl.float32', BLOCK_K=32, BLOCK_M=128, BLOCK_N=128
  mm 0.0902 ms 93.2%
"""
BREAKS: list[dict[str, Any]] = [
    {
        "reason": "Data-dependent branching\n  Explanation: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).",
        "count": 2,
        "place": "transformers/models/longformer/modeling_longformer.py:1278",
        "source": "if padding_len > 0 and is_global_attn.any().item():",
    },
    {
        "reason": "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "count": 4,
        "place": "transformers/models/xlnet/modeling_xlnet.py:1021",
        "source": "mlen = mems[0].shape[0] if mems[0] is not None else int(lengths.max().item())",
    },
    {
        "reason": "call to a builtin that cannot be traced: print",
        "count": 1,
        "place": "timm/models/swin_transformer.py:512",
        "source": 'print(f"window {self.window_size} < {x.shape}")',
    },
]
FAILURES: dict[str, tuple[str, str]] = {
    "fail_accuracy": ("compare", "logits: RMSE (res-fp64) 0.01841, (ref-fp64) 0.00021 and shape [4, 512, 30522], tolerance 0.001"),
    "fail_to_run": ("compile", "torch._inductor.exc.InductorError: LoweringException: AssertionError: size mismatch in aten.bmm.default\n  target: aten.bmm.default\n  args[0]: TensorBox(StorageBox(InputBuffer(name='arg0_1')))"),
    "OOM": ("run", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.21 GiB. GPU 0 has a total capacity of 39.49 GiB of which 3.11 GiB is free."),
    "timeout": ("compile", "no result after 900 s: the worker was stopped"),
    "worker_died": ("run", "the worker process was killed by signal 11 (SIGSEGV)"),
    "eager_1st_run_OOM": ("eager", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 GiB."),
}  # fmt: skip


def variant(batch_size: int | None = None) -> Variant:
    return Variant("cuda", "inductor", "inference", "bfloat16", False, batch_size)


def suite_of(name: str) -> str:
    return "huggingface" if name[0].isupper() else "timm"


def measurements(chance: random.Random, level: float, samples: int = 30) -> tuple[Measurement, ...]:
    """What a performance case that passed has."""
    compiled, wide = chance.lognormvariate(2, 0.8), chance.uniform(0.004, 0.06)
    eager, memory = compiled * level, chance.lognormvariate(1, 0.7)
    saved = chance.uniform(0.85, 1.4)

    def timed(middle: float) -> tuple[float, ...]:
        slow = chance.randrange(samples)
        return tuple(
            round(middle * chance.lognormvariate(0, wide) * (1.5 if n == slow else 1), 5)
            for n in range(samples)
        )

    breaks = chance.choice([0, 0, 0, 1, 4])
    interval = {
        "interval": [level * (1 - wide), level * (1 + wide)],
        "confidence": 0.95,
        "method": "paired bootstrap",
    }
    counts = {
        "calls_captured": chance.randrange(80, 900),
        "unique_graphs": breaks + 1,
        "graph_breaks": breaks,
        "unique_graph_breaks": min(breaks, 2),
        "fallbacks_to_eager": 0,
        "autograd_captures": 0,
        "autograd_compiles": 0,
        "cudagraph_skips": chance.choice([0, 0, 2]),
        "recompiles": breaks // 2,
    }
    return (
        measurement_of("speedup", (level,), interval),
        Measurement("abs_latency", timed(compiled), MeasurementDetails(block=4)),
        Measurement("eager_latency", timed(eager), MeasurementDetails(block=4)),
        Measurement(
            "compilation_latency",
            (chance.lognormvariate(2.6, 0.6),),
            MeasurementDetails(start="fork", cache="cold"),
        ),
        Measurement("compile_seconds", (chance.lognormvariate(2.3, 0.6),)),
        Measurement("eager_peak_mem", (memory,)),
        Measurement("dynamo_peak_mem", (memory / saved,)),
        Measurement("compression_ratio", (saved,)),
        *(Measurement(metric, (number,)) for metric, number in counts.items()),
    )


def passed(case: Case, chance: random.Random, level: float) -> Outcome:
    compiling = chance.uniform(5, 40)
    stated: dict[str, Any] = {}
    extra: dict[str, Any] = {
        "duration": compiling + 16.4,
        "phases": {"load": 3.2, "eager": 4.1, "compile": compiling, "run": 6.0, "compare": 0.4},
    }
    found = measurements(chance, level) if case.probe == Probe.PERFORMANCE else ()
    if case.probe == Probe.ACCURACY:
        found = (Measurement("compile_seconds", (compiling,)), Measurement("graph_breaks", (0,)))
        extra["accuracy"] = {"tolerance": 0.001, "cosine": False, "reference": "float64"}
    if case.benchmark in {"AllenaiLongformerBase", "XLNetLMHeadModel", "swin_base_patch4_window7_224"}:
        stated["graph_breaks"] = BREAKS[: 1 + len(case.benchmark) % 3]
        stated["recompile_reasons"] = [
            "tensor 'L['input_ids']' size mismatch at index 1. expected 512, actual 384"
        ]
    noisy = "too noisy: the interval is wider than 10% of the speedup; measure on a quiet machine"
    is_noisy = case.benchmark in {"T5Small", "DistillGPT2"} and case.probe == Probe.PERFORMANCE
    cautions = (recorded(noisy),) if is_noisy else ()
    capture, _ = take_known(stated, CaptureDetails)
    outcome = Outcome(case, "pass", found, repro=repro_of(case), cautions=cautions, capture=capture)
    return with_facts(outcome, extra)


def failed(case: Case, status: str) -> Outcome:
    phase, message = FAILURES[status]
    error = message.partition("\n")[0]
    traceback = TRACEBACK.format(error=error) if status not in {"timeout", "worker_died"} else ""
    outcome = Outcome(case, status, (), Failure(phase, message, traceback, LOG), repro_of(case))
    return with_facts(outcome, {"duration": 31.5, "phases": {"load": 3.0, "eager": 2.5}})


def repro_of(case: Case) -> str:
    return f"torchstone repro run.jsonl '{case.id}'"


ENVIRONMENT: dict[str, Any] = {
    "machine": {"cpu": "AMD EPYC 7763 64-Core Processor", "cores": 24, "memory": 225485783040, "governor": "performance"},
    "software": {"python": "3.11.7", "torch": "2.13.0+cu128", "triton": "3.5.0", "cuda": "12.8", "transformers": "4.57.1"},
    "accelerators": [{"name": "NVIDIA A100-SXM4-40GB", "memory": 42405855232, "driver": "570.86", "power_limit": "400 W"}],
    "variables": {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "OMP_NUM_THREADS": "24"},
    "fingerprint": "b1946ac92492d2347c6235b4d2611184",
}  # fmt: skip
REVISION = Revision("9f8e7d6c5b4a39281706f5e4d3c2b1a098765432", "main", dirty=True)
SETTINGS: dict[str, Any] = {"timeout": 900, "samples": 30, "seed": 1337, "isolation": "fork"}
STATED_ENVIRONMENT, STATED_SETTINGS = environment_from(ENVIRONMENT), settings_from(SETTINGS)


ENDS: dict[tuple[str, str], str] = {
    ("DebertaV2ForMaskedLM", Probe.PERFORMANCE): "worker_died",
    ("DebertaV2ForMaskedLM", Probe.ACCURACY): "fail_accuracy",
    ("BartForCausalLM", Probe.ACCURACY): "fail_accuracy",
    ("M2M100ForConditionalGeneration", Probe.PERFORMANCE): "timeout",
    ("BlenderbotForCausalLM", Probe.PERFORMANCE): "OOM",
    ("BlenderbotForCausalLM", Probe.ACCURACY): "eager_1st_run_OOM",
    ("XLNetLMHeadModel", Probe.ACCURACY): "fail_to_run",
    ("convnext_base", Probe.PERFORMANCE): "fail_to_run",
    ("convnext_base", Probe.ACCURACY): "fail_to_run",
    ("OPTForCausalLM", Probe.ACCURACY): "pass_due_to_skip",
}
ABSENT = {("vit_base_patch16_siglip_256", Probe.ACCURACY), ("swin_base_patch4_window7_224", Probe.ACCURACY)}


def sample_run() -> Run:
    """Performance and accuracy of 25 benchmarks: nine cases fail, each in its way, one is skipped, and two have no outcome."""
    return make_run("2026-10-19T03-11-07-a100", ENDS, ABSENT, drift=0.0)


def old_run() -> Run:
    """The same benchmarks some days before: all passed, and most were a little faster."""
    return make_run("2026-10-12T03-10-58-a100", {}, set(), drift=0.04)


def make_run(
    name: str, ends: Mapping[tuple[str, str], str], absent: Collection[tuple[str, str]], drift: float
) -> Run:
    plan, outcomes = [], []
    for probe, benchmark in product((Probe.PERFORMANCE, Probe.ACCURACY), NAMES):
        chance = random.Random(f"{benchmark} {probe}")  # noqa: S311  (samples, not secrets)
        level = chance.lognormvariate(0.22, 0.25)
        later = random.Random(f"{benchmark} {probe} {name}").lognormvariate(drift, drift)  # noqa: S311
        case = Case(benchmark, probe.value, suite_of(benchmark), variant(2 ** chance.randrange(2, 7)))
        plan.append(case)
        end = ends.get((benchmark, probe), "pass")
        if (benchmark, probe) in absent:
            continue
        if end == "pass_due_to_skip":
            outcomes.append(Outcome(case, end, repro=repro_of(case)))
        elif end == "pass":
            outcomes.append(passed(case, chance, level * later))
        else:
            outcomes.append(failed(case, end))
    return Run(name, tuple(plan), tuple(outcomes), REVISION, STATED_ENVIRONMENT, STATED_SETTINGS, not absent)


COMPILING = {"dynamo": 0.11, "guards": 0.03, "aot_autograd": 0.16, "inductor": 0.12, "codegen": 0.09, "native": 0.42, "loading": 0.0}  # fmt: skip
"""Where a cold start's compile time goes, as shares of it."""
KEPT = {
    "warm": {"dynamo": 1.0, "guards": 0.8, "aot_autograd": 0.05, "native": 0.02, "loading": 0.03},
    "portable": {"dynamo": 1.0, "guards": 0.8, "aot_autograd": 0.05, "native": 1.02, "loading": 0.03},
    "precompile": {"dynamo": 0.1, "native": 0.02, "loading": 0.04},
}
"""What of each phase is left in the other starts; loading is a share of all."""
BYPASSED = (
    "bypassed because of unsupported operators: aten::_histc; see TORCH_LOGS=+torch._inductor.codecache"
)
OTHER_KEY = (
    "its key is another one: inductor_config[cpp.threads] was 4, is 8; torch_version was 2.13.0, is 2.14.0"
)
AGAIN = "what inductor wrote was compiled again, in {} s (cold: {} s): it is not among what was saved"
NO_PRECOMPILE = "it cannot be compiled for it: PackageError: cannot serialize a closure of <lambda>"


def cache_measurements(
    cold: float, scenarios: Collection[str], repeats: int, graphs: int, missed: int
) -> tuple[Measurement, ...]:
    """What a compile_cache case has: phases, seconds, look-ups, sizes and savings."""
    chance = random.Random(f"{cold} {repeats}")  # noqa: S311
    found: list[Measurement] = []
    spent: dict[str, list[float]] = {}
    for scenario in scenarios:
        noise = [chance.uniform(0.97, 1.03) for _ in range(repeats)]
        kept = KEPT.get(scenario, dict.fromkeys(COMPILING, 1.0))
        whole = [0.015 * cold * each for each in noise]
        for phase, share in COMPILING.items():
            part = kept.get(phase, 0.0) * (share if phase != "loading" or scenario == "cold" else 1.0)
            samples = tuple(cold * part * each for each in noise)
            whole = [one + other for one, other in zip(whole, samples, strict=True)]
            found.append(
                Measurement(f"{scenario}_{phase}_seconds", samples, MeasurementDetails(start="fork"))
            )
        spent[scenario] = whole
        lost = graphs * 2 if scenario == "cold" else missed if scenario == "warm" else 0
        for quantity, number in (
            ("cache_files", graphs * 9), ("cache_bytes", graphs * 325_424), ("cache_hit", graphs * 2 - lost),
            ("cache_miss", lost), ("cache_bypass", 0), ("hit_rate", 100 * (1 - lost / graphs / 2)),
        ):  # fmt: skip
            found.append(Measurement(f"{scenario}_{quantity}", (number,) * repeats))
        found.append(
            Measurement(f"{scenario}_compile_seconds", tuple(whole), MeasurementDetails(start="fork"))
        )
        found.append(
            Measurement(
                f"{scenario}_first_result_seconds",
                tuple(s + 0.05 for s in whole),
                MeasurementDetails(start="fork"),
            )
        )
        if scenario in {"portable", "precompile"}:
            found.append(
                Measurement(
                    f"{scenario}_load_seconds", (0.004 * cold,) * repeats, MeasurementDetails(start="fork")
                )
            )
        if scenario != "cold":
            saved = 100 * (1 - sum(whole) / sum(spent["cold"]))
            around = {"interval": [saved - 0.8, saved + 0.8], "confidence": 0.95} if repeats > 1 else {}
            found.append(measurement_of(f"{scenario}_saved", (saved,), {"repeats": repeats, **around}))
    return tuple(found)


def not_warm(scenario: str, graph: str, cache: str, state: str, reason: str) -> dict[str, Any]:
    return {
        "scenario": scenario, "repeat": 1, "graph": graph, "cache": cache, "state": state, "reason": reason
    }  # fmt: skip


def cached(name: str, cold: float, repeats: int = 1, missed: int = 0, without: str = "") -> Outcome:
    """A compile_cache case that passed."""
    case = Case(name, Probe.COMPILE_CACHE.value, suite_of(name), variant(8))
    scenarios = [each for each in ("cold", "warm", "portable", "precompile") if each != without]
    graphs = 1 + len(name) % 4
    reasons = [
        not_warm(
            "portable", "all", "native", "miss", AGAIN.format(round(cold * 0.43, 1), round(cold * 0.42, 1))
        )
    ]
    reasons += [not_warm("warm", f"{n}/0", "fx_graph", "bypass", BYPASSED) for n in range(missed)]
    if missed:
        reasons.append(not_warm("warm", "0/1", "aot_autograd", "miss", OTHER_KEY))
    stated: dict[str, Any] = {each: {"status": "pass"} for each in scenarios}
    if without:
        stated[without] = {"status": "not available", "reason": NO_PRECOMPILE}
    extra: dict[str, Any] = {
        "duration": 4.2 * cold,
        "phases": {"load": 0.5, "compile": 4 * cold, "eager": 0.1, "compare": 0.1},
        "scenarios": stated,
        "caches": {"warm": {"fx_graph": {"hit": graphs, "miss": 0, "bypass": missed}}},
        "artifacts": {"portable": {"bytes": 183_082 * graphs, "inductor": graphs}},
        "not_warm": reasons,
    }
    found = cache_measurements(cold, scenarios, repeats, graphs, missed)
    return with_facts(Outcome(case, "pass", found, repro=repro_of(case)), extra)


def cache_failed(name: str, scenario: str, status: str, message: str, cold: float = 0.0) -> Outcome:
    """A compile_cache case of which one scenario failed; before it there is what was measured until then."""
    case = Case(name, Probe.COMPILE_CACHE.value, suite_of(name), variant(8))
    before = ["cold"] if scenario != "cold" else []
    stated: dict[str, Any] = {each: {"status": "pass"} for each in before}
    stated[scenario] = {"status": status, "reason": message}
    failure = Failure("compile", f"in the {scenario} scenario: {message}", "", LOG)
    found = cache_measurements(cold, before, 1, 1, 0)
    outcome = Outcome(case, status, found, failure, repro_of(case))
    return with_facts(outcome, {"duration": 9.0, "scenarios": stated, "caches": {}})


def cache_run() -> Run:
    """Compile caches of nine benchmarks: six good ones, one wrong when warm, one that does not compile, and one without an outcome."""
    outcomes = (
        cached("BertForMaskedLM", 21.4, repeats=3),
        cached("GPT2ForSequenceClassification", 17.9, repeats=3),
        cached("AllenaiLongformerBase", 64.2, repeats=3, missed=2),
        cached("T5Small", 30.6, without="precompile"),
        cached("resnet50", 12.3),
        cached("mobilenetv3_large_100", 3.2, without="precompile"),
        cache_failed("XLNetLMHeadModel", "warm", "fail_accuracy", "the first result is not that of the cold start: logits", 25.0),
        cache_failed("convnext_base", "cold", "fail_to_run", "InductorError: LoweringException: AssertionError"),
    )  # fmt: skip
    plan = [outcome.case for outcome in outcomes]
    plan.append(Case("DistillGPT2", Probe.COMPILE_CACHE.value, "huggingface", variant(8)))
    return Run(
        "2026-11-15T22-00-00-caches",
        tuple(plan),
        outcomes,
        REVISION,
        STATED_ENVIRONMENT,
        STATED_SETTINGS,
        finished=False,
    )


def mixed_run() -> Run:
    """Performance, accuracy and compile caches in one run."""
    first, second = sample_run(), cache_run()
    plan, outcomes = (*first.plan, *second.plan), (*first.outcomes, *second.outcomes)
    return Run("mixed", plan, outcomes, REVISION, STATED_ENVIRONMENT, STATED_SETTINGS, finished=False)


ATTACK = "</script></style><img src=x onerror=alert(1)><script>alert(2)</script>"
MARKUP = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "</style><style>*{display:none}</style>",
    '"><svg/onload=alert(3)>',
    "'onmouseover='alert(4)",
    "</td></tr></table><p>",
    "<!-- -->",
    "a&amp;b",
)
"""Text that would do something in a page, were it not escaped; none of it needs to be spelled out otherwise."""
HIDDEN = "ab\u202ecd\u2066e\u200bf"


def nasty_run() -> Run:
    """Everything that can be said is an attack, or a character that should not be there."""
    names = (
        ATTACK,
        '"><svg/onload=alert(3)>',
        "'onmouseover='alert(4)",
        "a&amp;b",
        "über/模型",
        "x" * 300,
        "-->",
        "${7*7}{{7*7}}",
    )
    outcomes = []
    for number, name in enumerate(names):
        case = Case(
            name,
            ATTACK if number == 1 else "compile_cache" if number in {0, 3, 5} else "performance",
            ATTACK,
            Variant(ATTACK, mode="javascript:alert(5)"),
        )
        failure = Failure(
            ATTACK,
            f"{ATTACK}\x00\x1b[31mred\x1b[0m\x07{HIDDEN}\ud800" + "m" * 100_000,
            ATTACK * 50,
            ATTACK + "\r\n\x08",
        )
        measured = (
            measurement_of(ATTACK, (1, 2, 3), {ATTACK: ATTACK, "interval": ATTACK}),
            Measurement("speedup", (1.5,), MeasurementDetails(interval=(1, 2))),
            measurement_of("cold_compile_seconds", (2.5,), {ATTACK: ATTACK}),
            Measurement("portable_compile_seconds", (-1, 1e300)),
        )
        breaks = [{"reason": ATTACK, "count": ATTACK, "place": ATTACK, "source": ATTACK}, ATTACK]
        extra: dict[str, Any] = {
            ATTACK: {ATTACK: [ATTACK, {ATTACK: ATTACK}]},
            "graph_breaks": breaks,
            "phases": {ATTACK: 1.5},
            "duration": ATTACK,
            "recompile_reasons": [ATTACK, {"a": 1}],
            "log": ATTACK,
            "scenarios": {name: {"status": ATTACK, "reason": ATTACK} for name in ("warm", ATTACK)},
            "not_warm": [not_warm(*[ATTACK] * 5)],
            "artifacts": {ATTACK: {"bytes": 7}},
            "caches": ATTACK,
            "ranks": [{"rank": ATTACK}, ATTACK],
        }
        status = "pass" if number % 2 else ATTACK
        capture = CaptureDetails((GraphBreak(ATTACK, ATTACK, ATTACK),), (ATTACK,))
        cautions = (recorded(ATTACK),)
        outcome = Outcome(case, status, measured, failure, f"rm {ATTACK}", None, cautions, capture=capture)
        outcomes.append(with_facts(outcome, extra))
    plan = tuple(outcome.case for outcome in outcomes)
    facts = {ATTACK: {ATTACK: ATTACK}, "deep": {"a": {"b": {"c": {"d": {"e": {"f": {"g": ATTACK}}}}}}}}
    return Run(ATTACK, plan, tuple(outcomes), Revision(ATTACK, ATTACK, True, ATTACK), environment_from(facts), Settings(rest=facts))  # fmt: skip


def large_run(cases: int) -> Run:
    """Very many cases, one in ten of which fails with a long traceback."""
    chance = random.Random(1)  # noqa: S311
    outcomes = []
    for number in range(cases):
        name = f"{NAMES[number % len(NAMES)]}_{number}"
        case = Case(name, "performance", suite_of(name), variant(8))
        if number % 10:
            outcomes.append(passed(case, chance, chance.lognormvariate(0.2, 0.3)))
        else:
            outcomes.append(
                Outcome(case, "fail_to_run", (), Failure("compile", f"error {number}", TRACEBACK * 40, LOG * 20), repro_of(case))
            )  # fmt: skip
    plan = tuple(outcome.case for outcome in outcomes)
    return Run("large", plan, tuple(outcomes), REVISION, STATED_ENVIRONMENT, STATED_SETTINGS)


def main(folder: Path) -> None:
    """Write all samples."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {
        "run": sample_run(),
        "old": old_run(),
        "large": large_run(5_000),
        "caches": cache_run(),
        "mixed": mixed_run(),
    }
    for name, run in runs.items():
        (folder / f"{name}.jsonl").write_text(encode_run(run), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
