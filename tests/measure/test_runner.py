"""From a request to a run: what is planned, what is refused, and whether a run may be gone on with."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from live_processes import Bench
from stated_facts import facts_of
from torchstone.api.measuring.preparation import prepare_request
from torchstone.api.measuring.run import exit_code_of
from torchstone.cli.options.run_options import OPTIONS, make_run_request
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.records import Case, Run, Variant
from torchstone.measure.devices.case_limits import choose_limits
from torchstone.measure.measuring import Settings, settings_of_run
from torchstone.measure.plan import shard_cases
from torchstone.measure.procedures.rounds import RankCapacity
from torchstone.measure.procedures.scaling_procedure import HostGroup
from torchstone.measure.runner import check_hosts, check_same_environment, prepare_run
from torchstone.measure.session import Session
from torchstone.worker.cache_template import is_filled

BENCHMARKS = """
import torch, torchstone

@torchstone.benchmark(batch_size=4, parameters={"width": [4, 8]})
def linear(width, batch_size):
    return torch.nn.Linear(width, width), (torch.ones(batch_size, width),)

@torchstone.benchmark(modes=["inference"])
def fixed():
    return torch.relu, (torch.ones(4),)
"""

Prepare = Callable[..., Run]


@pytest.fixture
def prepare(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """What a command line plans, in a folder with a file of three benchmarks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench_it.py").write_text(BENCHMARKS)

    def call(*targets: str, **given: object) -> Run:
        absent = {each.name: () if each.multiple else None if each.metavar else False for each in OPTIONS}
        request = make_run_request(targets or ("bench_it.py",), absent | given)
        return prepare_run(prepare_request(request), bench.session)

    return call


def ids(run: Run) -> list[str]:
    return [case.id for case in run.plan]


def test_a_run_is_planned_with_both_probes_on_the_machines_own_device(prepare: Prepare) -> None:
    run = prepare()
    assert [(case.benchmark, case.probe) for case in run.plan] == [
        (name, probe)
        for name in ("linear(width=4)", "linear(width=8)", "fixed")
        for probe in ("performance", "accuracy")
    ]
    assert run.plan[0].variant == Variant("cpu", "inductor", "inference", "float32", None, 4)
    assert run.environment.fingerprint
    assert run.settings.threads == run.environment.threads
    assert not run.finished


def test_all_axes_can_be_asked_for_several_values(prepare: Prepare) -> None:
    run = prepare(
        "bench_it.py::linear(width=4)",
        probes=("performance",),
        backends=("eager,none",),
        modes=("inference", "training"),
        dtypes=("float32,bfloat16",),
        dynamics=("true,auto",),
        batch_sizes=("1,2",),
        devices=("cpu",),
    )
    assert len(run.plan) == 32
    assert len(set(ids(run))) == 32


def test_ids_are_the_same_in_every_run_and_shards_add_up(prepare: Prepare) -> None:
    whole = prepare()
    assert ids(prepare()) == ids(whole)
    shards = [prepare(shard=f"{index}/3") for index in (1, 2, 3)]
    assert sorted(case for shard in shards for case in ids(shard)) == sorted(ids(whole))
    assert [shard.plan for shard in shards] == [tuple(shard_cases(whole.plan, n, 3)) for n in (1, 2, 3)]


REFUSALS = [
    ({"backends": ("inductr",)}, "--backend inductr: torch.compile has no such backend here\n  did you mean"),
    ({"devices": ("cuda:77",)}, "--device cuda:77: no cuda device is available here"),
    ({"devices": ("toaster",)}, "--device toaster: torch knows no device 'toaster'"),
    (
        {"batch_sizes": ("2",), "only": ("fixed",)},
        "--batch-size cannot change bench_it::fixed, which does not take a batch_size",
    ),
    ({"size": "small"}, "bench_it::linear(width=4) has only one size"),
    ({"only": ("lineal(width=4)",)}, "no benchmark matches: lineal(width=4)\n  did you mean linear(width=4)"),
    ({"filters": ("xyz",)}, "no benchmark matches: xyz"),
    ({"modes": ("training",), "only": ("fixed",)}, "none of these benchmarks has the mode training"),
    ({"imports": ("not_there",)}, "--import not_there: ModuleNotFoundError"),
]


@pytest.mark.parametrize(("given", "message"), REFUSALS, ids=[message[:30] for _, message in REFUSALS])
def test_what_cannot_be_measured_is_refused_before_anything_is(
    prepare: Prepare, given: dict[str, object], message: str
) -> None:
    with pytest.raises(TorchstoneError) as raised:
        prepare(**given)
    assert str(raised.value).startswith(message)
    assert raised.value.exit_code == 2


def test_a_module_of_the_folder_may_register_a_backend(
    prepare: Prepare, bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "my_compiler.py").write_text(
        "import torch._dynamo\n"
        "@torch._dynamo.register_backend\n"
        "def counting(graph, inputs):\n"
        "    print('compiled by counting')\n"
        "    return graph.forward\n"
    )
    run = prepare(backends=("counting",), imports=("my_compiler",), filters=("width=4",), repeat="20")
    settings = settings_of_run(run, "run.jsonl")
    supervisor = bench.session.supervisor(settings, choose_limits(settings, run), bench.watcher)
    for outcome in supervisor.execute(run.plan):
        assert outcome.status == "pass"
        assert "compiled by counting" in facts_of(outcome)["log"]


# A device that is a folder of Python functions: what PyTorch calls a private one, with memory statistics of its own.
TOY_DEVICE = """
import torch
from torch.utils import backend_registration as registration

class Module(registration._DummyBackendModule):
    def reset_peak_memory_stats(self): ...
    def max_memory_allocated(self): return 5_000_000

class ToyTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, held):
        made = torch._C._acc.create_empty_tensor(held.shape, held.dtype)
        made.__class__ = cls
        return made
    def __init__(self, held):
        self.held = held

def held(value):
    return value.held if isinstance(value, ToyTensor) else value

def copy(source, target, non_blocking=False):
    held(target).copy_(held(source))
    return target

registration._setup_privateuseone_for_python_backend("toy", Module())
torch.accelerator.synchronize = lambda *_: None  # it has no streams to wait for
for name, function in {
    "empty.memory_format": lambda size, dtype=None, **_: ToyTensor(torch.empty(size, dtype=dtype)),
    "empty_strided": lambda size, stride, dtype=None, **_: ToyTensor(torch.empty_strided(size, stride, dtype=dtype)),
    "_copy_from": copy,
    "detach": lambda value: ToyTensor(held(value)),
    "relu": lambda value: ToyTensor(torch.relu(held(value))),
}.items():
    torch.library.impl(f"aten::{name}", "privateuseone")(function)
"""


def test_a_module_of_the_folder_may_register_a_device(prepare: Prepare, bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "toy_device.py").write_text(TOY_DEVICE)
    run = prepare(
        "bench_it.py::fixed",
        devices=("toy",),
        imports=("toy_device",),
        backends=("none",),
        probes=("performance",),
        repeat="20",
    )
    settings = settings_of_run(run, "run.jsonl")
    assert choose_limits(settings, run).jobs == 1
    supervisor = bench.session.supervisor(settings, choose_limits(settings, run), bench.watcher)
    (outcome,) = supervisor.execute(run.plan)
    assert outcome.status == "pass", outcome.failure
    assert outcome.case.variant.device == "toy"
    assert outcome.value("eager_peak_mem") == 0.005


def test_a_run_may_be_gone_on_with_only_in_its_own_world(
    prepare: Prepare, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=me", "-c", "user.email=me@here"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    run = prepare()
    check_same_environment(run, bench.session, "run.jsonl")
    monkeypatch.chdir(tmp_path.parent)  # where a run is gone on with from is of no account
    check_same_environment(run, bench.session, "run.jsonl")
    other = structs.replace(
        run, environment=structs.replace(run.environment, versions={"torch": "1.0"}, threads=77)
    )
    with pytest.raises(
        UsageError,
        match=r"the run was started with other code or in another environment: torch is .*, was 1\.0; number of threads",
    ):
        check_same_environment(other, bench.session, "run.jsonl")
    (tmp_path / "bench_it.py").write_text(f"{BENCHMARKS}\n# changed\n")
    with pytest.raises(UsageError, match="there are uncommitted changes"):
        check_same_environment(run, bench.session, "run.jsonl")
    git("commit", "-am", "two")
    with pytest.raises(UsageError, match=r"the revision is [0-9a-f]{12}, was [0-9a-f]{12}"):
        check_same_environment(run, bench.session, "run.jsonl")
    (tmp_path / "bench_it.py").unlink()
    with pytest.raises(TorchstoneError, match="importing it raised FileNotFoundError"):
        check_same_environment(run, bench.session, "run.jsonl")


def test_as_many_cases_run_at_once_as_have_cores_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchstone.measure.devices.case_limits._cores", lambda: 8)
    on_cpu = Run("id", (Case("m", "performance", "s", Variant("cpu")),), ())
    on_both = Run("id", (*on_cpu.plan, Case("m", "performance", "s", Variant("cuda"))), ())
    assert choose_limits(Settings(threads=2), on_cpu).jobs == 4
    assert choose_limits(Settings(threads=8), on_cpu).jobs == 1
    assert choose_limits(Settings(threads=16), on_cpu).jobs == 1
    assert choose_limits(Settings(threads=2), on_both).jobs == 1
    assert choose_limits(Settings(threads=8, jobs=3), on_both).jobs == 3
    rounds = Run("id", (Case("m", "scaling", "s", Variant("cpu")),), ())
    assert choose_limits(Settings(threads=1, jobs=3), rounds).jobs == 1


def test_a_shard_without_cases_is_said_and_is_no_failure(prepare: Prepare, bench: Bench) -> None:
    shards = [prepare("bench_it.py::fixed", probes=("accuracy",), shard=f"{part}/2") for part in (1, 2)]
    assert sorted(len(run.plan) for run in shards) == [0, 1]
    assert any("has no cases: all are in other shards" in caution.text for caution in bench.session.cautions)
    assert exit_code_of([]) == 0


def round_of(ranks: int) -> Case:
    further = (("ranks", str(ranks)), ("strategy", "ddp"))
    return Case("net", "scaling", "s", Variant("cpu", "none", "training", further=further))


@pytest.mark.parametrize(
    ("host_group", "fits"),
    [
        (HostGroup(RankCapacity(2, 8, "rank"), ("a", "b")), True),
        (HostGroup(RankCapacity(1, 8, "rank"), ("a",)), False),
        (HostGroup(RankCapacity(4, 4, "rank"), ("a", "b", "c", "d")), False),
        (HostGroup(RankCapacity(1, 1, ""), ("a",)), False),
    ],
)
def test_rounds_of_several_hosts_are_gone_on_with_on_as_many(
    host_group: HostGroup, fits: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("id", (round_of(8), round_of(16)), (), settings=Settings(layout=(2, 8)))
    monkeypatch.setattr(bench.session, "host_group", host_group)
    if fits:
        check_hosts(run, run.plan, bench.session)
    else:
        with pytest.raises(UsageError, match=r"were planned for (1 host|2 hosts) with 8 ranks each"):
            check_hosts(run, run.plan, bench.session)
    if len(host_group.names) == 1:
        check_hosts(run, [round_of(8)], bench.session)


@pytest.mark.slow
def test_the_template_is_filled_before_the_first_case_where_no_zygote_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a torch that was built for a device which is not there: the zygote waits for the device."""
    monkeypatch.setenv("TORCHSTONE_CACHE", str(tmp_path))
    with Session("fork", "cold", print) as session:
        session.start_workers([], ["cuda"])
        assert not is_filled(session.template)
        session.prime(Case("m", "performance", "s", Variant("cpu:0", "inductor")))
        assert is_filled(session.template)
