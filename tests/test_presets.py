"""Presets: what ``dashboard`` sets, presets of torchstone.toml, options beside them, and what is recorded and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import torchstone as api
from conftest import Command, WriteFile
from live_processes import read_run
from torchstone.api.measuring.preparation import prepare_request
from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.presets import BUILT_IN, KEYS, Preset, apply_preset, read_presets
from torchstone.cli.options.run_options import OPTIONS
from torchstone.core.environments import differences, fingerprint
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Variant
from torchstone.core.run_settings import (
    Environment,
    Settings,
    describe_choices,
    name_choices,
    settings_from,
)
from torchstone.core.vocabulary import Probe
from torchstone.measure.executors.fake import FakeExecutor, Script, passes
from torchstone.measure.executors.selection import using_executor
from torchstone.measure.measuring import make_job
from torchstone.measure.plan import Axes, Listing, Selection, plan_cases
from torchstone.suites import load_suite
from torchstone.worker.protocol.case_findings import TorchSettingsFound
from torchstone.worker.protocol.jobs import MeasureJob, TorchSettings
from torchstone.worker.protocol.replies import BenchmarkFound, CaseDetails, CaseReply

MINE = """\
[preset.mine]
tf32 = true
dtype = ["bfloat16", "amp"]
repeat = 12
option = { max_autotune = true, epilogue_fusion = false }
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the folder of a test has a configuration."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeExecutor]:
    """Workers of a machine with one GPU, and two benchmarks: one takes labels, and has a batch size of the dashboard."""
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    found = [
        BenchmarkFound(
            "labelled", 8, modes=("inference",), takes=("batch_size", "labels"), dashboard_batch_size=4
        ),
        BenchmarkFound("plain", 8, modes=("inference",), takes=("batch_size",)),
    ]

    def measure(_job: MeasureJob) -> Script:
        return passes()

    fake = FakeExecutor(measure, found, ("Fake GPU",))
    with using_executor(fake):
        yield fake


def measured(executor: FakeExecutor) -> list[MeasureJob]:
    return [job for job in executor.jobs if isinstance(job, MeasureJob)]


def run_performance(torchstone: Command, *options: str, output: str = "run.jsonl") -> str:
    ran = torchstone("run", "bench_it.py", "--probe", "performance", "-o", output, *options)
    assert ran.code == 0, ran.err
    return ran.out + ran.err


def test_dashboard_reaches_the_workers(torchstone: Command, executor: FakeExecutor) -> None:
    run_performance(torchstone, "--preset", "dashboard", "--device", "cuda")
    labelled, plain = measured(executor)
    assert labelled.torch == TorchSettings(tf32=True, half_reductions=True, cuda_graphs=True)
    assert labelled.axes.labels
    assert (labelled.axes.batch_size, plain.axes.batch_size) == (4, 8)
    assert labelled.options.repeat == 30


def test_without_a_preset_everything_is_left_to_torch(torchstone: Command, executor: FakeExecutor) -> None:
    run_performance(torchstone, "--device", "cuda")
    for job in measured(executor):
        assert job.torch == TorchSettings()
        assert not job.axes.labels
        assert (job.axes.batch_size, job.options.repeat) == (8, None)


def test_a_run_records_its_preset_and_what_it_set(
    torchstone: Command, executor: FakeExecutor, tmp_path: Path
) -> None:
    run_performance(torchstone, "--preset", "dashboard", "--device", "cuda")
    run = read_run(tmp_path / "run.jsonl").run
    assert run.settings.preset == "dashboard"
    assert (run.settings.tf32, run.settings.batch_set, run.settings.pairs) == (True, "dashboard", 30)
    assert run.environment.chosen == {
        "preset": "dashboard",
        "labels in inference": "given",
        "TF32": "allowed",
        "half-precision reductions in attention": "allowed",
        "CUDA graphs": "on",
    }


def test_a_model_that_cannot_be_given_labels_is_named(torchstone: Command, executor: FakeExecutor) -> None:
    said = run_performance(torchstone, "--preset", "dashboard", "--device", "cuda")
    assert "1 benchmark cannot be given labels in inference, and runs without: bench_it::plain" in " ".join(
        said.split()
    )


def test_an_option_goes_before_the_preset_and_this_is_said_and_recorded(
    torchstone: Command, executor: FakeExecutor, tmp_path: Path
) -> None:
    said = run_performance(
        torchstone, "--preset", "dashboard", "--device", "cuda", "--tf32", "off", "--repeat", "5"
    )
    assert "the preset dashboard is not used as it is: --tf32, --repeat goes before it" in said
    job = measured(executor)[0]
    assert (job.torch.tf32, job.torch.cuda_graphs, job.options.repeat) == (False, True, 5)
    settings = read_run(tmp_path / "run.jsonl").run.settings
    assert settings.overrides == ("--tf32", "--repeat")
    assert settings.pairs is None


def test_an_option_that_agrees_with_the_preset_overrides_nothing() -> None:
    assert apply_preset(RunRequest(preset="dashboard", tf32=True)).overrides == ()


def test_a_batch_size_goes_before_those_of_the_dashboard() -> None:
    assert apply_preset(RunRequest(preset="dashboard", batch_sizes=(2,))).overrides == ("--batch-size",)


def test_on_a_cpu_the_preset_says_what_does_not_apply(torchstone: Command, executor: FakeExecutor) -> None:
    said = " ".join(run_performance(torchstone, "--preset", "dashboard", "--device", "cpu").split())
    assert (
        "TF32, half-precision reductions in attention, CUDA graphs apply to GPUs only: these settings have no effect on cpu"
        in said
    )
    job = measured(executor)[0]
    assert job.torch == TorchSettings()
    assert job.axes.labels


def test_runs_with_different_presets_are_not_compared(
    torchstone: Command, executor: FakeExecutor, tmp_path: Path
) -> None:
    run_performance(torchstone, "--device", "cuda", "--only", "plain", output="a.jsonl")
    run_performance(
        torchstone, "--device", "cuda", "--only", "plain", "--preset", "dashboard", output="b.jsonl"
    )
    ran = torchstone("compare", "a.jsonl", "b.jsonl")
    assert "preset is dashboard, was none" in " ".join((ran.out + ran.err).split())
    assert "inconclusive" in ran.out
    anyway = torchstone("compare", "a.jsonl", "b.jsonl", "--cross-environment")
    assert "compared anyway" in " ".join((anyway.out + anyway.err).split())


def test_repeating_a_run_with_its_preset_finds_the_same_environment(
    torchstone: Command, executor: FakeExecutor
) -> None:
    run_performance(torchstone, "--device", "cuda", "--only", "plain", "--preset", "dashboard")
    ran = torchstone("repro", "run.jsonl", "plain", "--trust")
    assert ran.code == 0, ran.err
    assert "changed since the run" not in ran.err
    assert measured(executor)[-1].torch.tf32 is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--preset", "dashboard", "--labels", "off"), "--preset dashboard --labels off"),
        (("--tf32", "on", "--cuda-graphs", "off"), "--tf32 on --cuda-graphs off"),
    ],
)
def test_the_command_for_a_missing_case_has_the_preset(
    torchstone: Command, executor: FakeExecutor, write: WriteFile, options: tuple[str, ...], words: str
) -> None:
    run_performance(torchstone, "--device", "cuda", "--only", "plain", *options)
    expected = write("e.csv", "name,speedup\nplain,1.5\nlabelled,1.5\n")
    ran = torchstone("check", "run.jsonl", "--baseline", expected)
    assert ran.code == 1
    assert words in " ".join(ran.out.split())


def test_a_preset_of_the_configuration_is_a_set_of_options(
    torchstone: Command, executor: FakeExecutor, write: WriteFile
) -> None:
    write("torchstone.toml", MINE)
    run_performance(torchstone, "--preset", "mine", "--device", "cuda", "--only", "plain")
    jobs = measured(executor)
    assert [job.axes.dtype for job in jobs] == ["bfloat16", "amp"]
    assert jobs[0].axes.options == {"max_autotune": True, "epilogue_fusion": False}
    assert jobs[0].options.repeat == 12


def test_the_python_interface_takes_presets_too(executor: FakeExecutor) -> None:
    run = api.run(
        "bench_it.py",
        preset="dashboard",
        tf32=False,
        devices="cuda",
        probes="performance",
        output="api.jsonl",
    )
    assert run.run.settings.preset == "dashboard"
    assert run.run.settings.overrides == ("--tf32",)


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        ("[preset.mine]\ntf33 = true\n", 2, "tf33", "unknown key; expected one of tf32, half-reductions"),
        ("[preset.mine]\n\ntf32 = 1\n", 3, "tf32", "expected true or false"),
        ("[preset.mine]\nrepeat = 0\n", 2, "repeat", "expected a whole number from 1"),
        ("[preset.mine]\nrepeat = true\n", 2, "repeat", "expected a whole number from 1"),
        ("[preset.mine]\nprecision = 2.0\n", 2, "precision", "expected a share"),
        ("[preset.mine]\nbudget = -1\n", 2, "budget", "expected seconds"),
        ("[preset.mine]\ndtype = 'float8'\n", 2, "dtype", "no such dtype: float8"),
        ("[preset.mine]\ndtype = []\n", 2, "dtype", "expected a text or a list of texts"),
        ("[preset.mine]\nmode = 'sleeping'\n", 2, "mode", "no such mode: sleeping"),
        ("[preset.mine]\nbatch-set = 'largest'\n", 2, "batch-set", "no such batch-set: largest"),
        ("[preset.mine]\ncompile-mode = ''\n", 2, "compile-mode", "expected a text in quotes"),
        ("[preset.mine]\noption = 'a=b'\n", 2, "option", "expected a table"),
        ("[preset.mine]\noption = { a = [1] }\n", 2, "option", "a: expected a text, a number, true or false"),
        (
            "[preset.mine]\ncompile-mode = 'max-autotune'\noption = { a = 1 }\n",
            3,
            "option",
            "compile-mode cannot be used with option",
        ),
        ("[preset.dashboard]\ntf32 = false\n", 1, None, "the preset dashboard is built in"),
        ("[check]\n[preset]\nmine = 3\n", 3, "mine", "expected a table [preset.NAME]"),
        ("preset = 3\n", 1, "preset", "expected a table [preset.NAME]"),
        ("[[preset]]\ntf32 = true\n", 1, "preset", "expected a table [preset.NAME]"),
    ],
)
def test_a_mistake_in_a_preset_names_its_line_its_key_and_what_is_allowed(
    text: str, line: int, key: str | None, said: str, write: WriteFile
) -> None:
    path = write("torchstone.toml", text)
    with pytest.raises(InputError) as caught:
        read_presets(path)
    assert (caught.value.line, caught.value.column) == (line, key)
    assert said in str(caught.value)


def test_a_mistake_in_a_preset_ends_the_command_before_anything_is_written(
    torchstone: Command, executor: FakeExecutor, write: WriteFile, tmp_path: Path
) -> None:
    write("torchstone.toml", "[preset.mine]\ntf33 = true\n")
    ran = torchstone("run", "bench_it.py", "--preset", "mine", "-o", "run.jsonl")
    assert ran.code == 2
    assert "torchstone.toml:2" in ran.err
    assert "tf33" in ran.err
    assert not (tmp_path / "run.jsonl").exists()
    assert torchstone("run", "bench_it.py", "--preset", "dashboard", "--dry-run").code == 0


def test_an_unknown_preset_lists_those_there_are(
    torchstone: Command, executor: FakeExecutor, write: WriteFile
) -> None:
    write("torchstone.toml", MINE)
    ran = torchstone("run", "bench_it.py", "--preset", "dashbord")
    assert ran.code == 2
    assert "there is no such preset" in ran.err
    assert "did you mean 'dashboard'?" in ran.err
    assert "there are: dashboard, mine" in ran.err


def test_an_empty_name_is_no_preset(torchstone: Command, executor: FakeExecutor) -> None:
    assert torchstone("run", "bench_it.py", "--preset", "").code == 2


def test_check_leaves_presets_alone(torchstone: Command, write: WriteFile) -> None:
    write("torchstone.toml", MINE)
    results = write("r.csv", "dev,name,batch_size,accuracy\ncuda,vgg,8,pass\n")
    assert torchstone("check", results, "--baseline", write("e.csv", "name,accuracy\nvgg,pass\n")).code == 0


def test_every_key_of_a_preset_is_an_option_and_a_field() -> None:
    flags = {option.flag for option in OPTIONS}
    assert {f"--{key}" for key in KEYS} <= flags
    assert {field for field, _ in KEYS.values()} == {*Preset.__struct_fields__}
    assert {*Preset.__struct_fields__} <= {*RunRequest.__struct_fields__}


@pytest.mark.parametrize("probe", ["compile_cache", "instructions"])
def test_repeats_of_a_preset_are_for_timing_alone(probe: str) -> None:
    prepared = prepare_request(RunRequest(targets=("smoke",), preset="dashboard", probes=(probe,)))
    assert (prepared.settings.repeat, prepared.settings.pairs) == (None, 30)
    case = Case("mlp", probe, "smoke", Variant("cuda", "inductor", "inference", "float32"))
    job = make_job(case, prepared.settings, "fork")
    assert job.options.repeat is None
    assert job.counting.iterations is None


def test_accuracy_is_calculated_in_full_precision_with_the_dashboards_cuda_graphs() -> None:
    prepared = prepare_request(RunRequest(targets=("smoke",), preset="dashboard"))
    case = Case("mlp", "accuracy", "smoke", Variant("cuda:1", "inductor", "inference", "float32"))
    assert make_job(case, prepared.settings, "fork").torch == TorchSettings(cuda_graphs=True)


def test_batch_sizes_of_the_dashboard_are_those_of_its_runner() -> None:
    listings = [
        Listing(
            "huggingface",
            each.name,
            each.batch_size,
            each.accuracy_batch_size,
            each.modes,
            each.takes,
            dashboard_batch_size=each.dashboard_batch_size,
        )
        for each in load_suite("huggingface").collect()
    ]
    axes = Axes(("performance", "accuracy"), ("cuda",), batch_set="dashboard")
    sizes = {
        (case.benchmark, case.probe): case.variant.batch_size
        for case in plan_cases(listings, axes, Selection())
    }
    for name, size in (
        ("AlbertForMaskedLM", 4),
        ("BertForMaskedLM", 16),
        ("BlenderbotForCausalLM", 4),
        ("BlenderbotForConditionalGeneration", 16),
        ("DistillGPT2", 16),
        ("GPT2ForSequenceClassification", 4),
        ("GPTJForCausalLM", 1),
        ("M2M100ForConditionalGeneration", 16),
        ("T5Small", 4),
    ):
        assert sizes[name, Probe.PERFORMANCE] == size
        assert sizes[name, Probe.ACCURACY] == 1


def test_only_runs_that_chose_the_same_settings_have_the_same_fingerprint() -> None:
    plain = Environment(versions={"torch": "2.13.0"}, variables={})
    chosen = Environment(versions={"torch": "2.13.0"}, variables={}, chosen={"preset": "dashboard"})
    assert fingerprint(plain) != fingerprint(chosen)
    assert differences(chosen, plain) == ["preset is dashboard, was none"]
    assert differences(plain, chosen) == ["preset is none, was dashboard"]
    assert differences(chosen, chosen) == []


@pytest.mark.parametrize(("base", "new"), [("a.jsonl", "b"), ("a", "b.jsonl"), ("a", "b")])
def test_a_preset_is_kept_by_an_export_to_records_of_the_database(
    torchstone: Command, executor: FakeExecutor, base: str, new: str, tmp_path: Path
) -> None:
    options = ("--device", "cuda", "--only", "plain")
    run_performance(torchstone, *options, "--v3", "a", output="a.jsonl")
    run_performance(torchstone, *options, "--preset", "dashboard", "--v3", "b", output="b.jsonl")
    paths = [str(next((tmp_path / name).glob("*.json"), name)) for name in (base, new)]
    ran = torchstone("compare", *paths)
    assert "preset is dashboard, was none" in " ".join((ran.out + ran.err).split())


def test_settings_that_torchs_caches_do_not_tell_apart_have_their_own_warm_cache() -> None:
    assert name_choices(Settings()) == ""
    assert name_choices(Settings(labels=True)) == ""
    one, other = (name_choices(Settings(half_reductions=value)) for value in (True, False))
    assert len({one, other, ""}) == 3
    assert name_choices(Settings(tf32=True, cuda_graphs=True)) == "tf32-on-cuda-graphs-on"


def test_choices_are_described_for_the_device_that_they_apply_to() -> None:
    settings = Settings(preset="p", tf32=False, cuda_graphs=True)
    assert describe_choices(settings, "cuda:3") == {
        "preset": "p",
        "TF32": "not allowed",
        "CUDA graphs": "on",
    }
    assert describe_choices(settings, "cpu") == {"preset": "p"}


def test_settings_of_a_run_file_are_read_back() -> None:
    settings = Settings(sources={}, preset="dashboard", tf32=True, overrides=("--tf32",), pairs=30)
    stated = {**settings.to_mapping(), "sources": {"smoke": {"kind": "suite", "name": "smoke"}}}
    found = settings_from(stated)
    assert (found.preset, found.tf32, found.overrides, found.pairs) == ("dashboard", True, ("--tf32",), 30)
    assert found.rest == {}


def test_a_preset_with_a_mode_refuses_options_of_the_command_line(write: WriteFile) -> None:
    write("torchstone.toml", "[preset.fast]\ncompile-mode = 'max-autotune'\n")
    request = RunRequest(targets=("smoke",), preset="fast", compile_options=(("max_autotune", "true"),))
    with pytest.raises(UsageError, match="one of them is from the preset fast"):
        prepare_request(request)


def test_dashboard_is_the_only_built_in_preset() -> None:
    assert list(BUILT_IN) == ["dashboard"]


def test_a_run_and_a_case_are_shown_with_what_they_were_measured_under(
    torchstone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path / "kept"))
    (tmp_path / "bench_it.py").write_text("")
    found = TorchSettingsFound(True, True, True, True, "sdpa (flash, math)")

    def measure(_job: MeasureJob) -> Script:
        yield CaseReply("pass", (), CaseDetails(torch=found, device="cuda:0"))
        return 0

    with using_executor(FakeExecutor(measure, [BenchmarkFound("plain", 8, modes=("inference",))], ("GPU",))):
        run_performance(torchstone, "--device", "cuda", "--preset", "dashboard")
    shown = torchstone("show", "run.jsonl", "plain")
    assert (
        "measured on: cuda:0, TF32 allowed, half-precision reductions allowed, CUDA graphs on, labels in inference, attention sdpa (flash, math)"
        in " ".join(shown.out.split())
    )
    assert "preset dashboard" in torchstone("show", "run.jsonl").out.splitlines()[0]
    assert torchstone("report", "run.jsonl", "-o", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "sdpa (flash, math)" in page
    assert "half-precision reductions in attention" in page
