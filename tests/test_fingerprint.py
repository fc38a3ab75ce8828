"""What decides whether times may be compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.environments import differences, fingerprint, unknowns
from torchstone.core.run_settings import NO_ENVIRONMENT, Environment, environment_from, settings_from

FACTS: dict[str, Any] = {
    "machine": {
        "host": "ci-17",
        "kernel": "6.1.0",
        "architecture": "x86_64",
        "cpu": {"model": "AMD EPYC 9654", "family": "AuthenticAMD 25.17", "governor": "powersave"},
        "cores": {"physical": 96, "logical": 192, "allowed": 16, "quota": None},
        "memory": {"total": 64 << 30},
    },
    "accelerators": [{"name": "NVIDIA H200", "memory": 150 << 30, "sm_clock_max_mhz": 1980}],
    "software": {"python": {"version": "3.12.4"}, "torch": {"cpu_capability": "AVX512"}},
    "versions": {"torch": "2.13.0", "transformers": "5.22.2"},
    "variables": {"OMP_NUM_THREADS": "8", "CUDA_HOME": "/usr/local/cuda", "CUDA_VISIBLE_DEVICES": "3"},
    "threads": 8,
}
ENVIRONMENT = environment_from(FACTS)


def changed(value: object, *path: str) -> Environment:
    environment = copy.deepcopy(FACTS)
    inner: Any = environment
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return environment_from(environment)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (changed("2.14.0", "versions", "torch"), "torch is 2.14.0, was 2.13.0"),
        (changed("4.0", "versions", "transformers"), "transformers is 4.0, was 5.22.2"),
        (changed("Xeon", "machine", "cpu", "model"), "cpu is Xeon, was AMD EPYC 9654"),
        (changed("aarch64", "machine", "architecture"), "architecture is aarch64, was x86_64"),
        (changed(4, "machine", "cores", "allowed"), "number of cores allowed is 4, was 16"),
        (changed(2.0, "machine", "cores", "quota"), "number of cores allowed is 2, was 16"),
        (changed([], "accelerators"), "accelerator is none, was NVIDIA H200"),
        (changed("3.13.0", "software", "python", "version"), "python is 3.13, was 3.12"),
        (changed(1, "threads"), "number of threads is 1, was 8"),
        (changed("4", "variables", "OMP_NUM_THREADS"), "OMP_NUM_THREADS is 4, was 8"),
        (changed("1", "variables", "TORCH_X"), "TORCH_X is 1, was not set"),
        (changed({}, "variables"), "OMP_NUM_THREADS is not set, was 8"),
    ],
)
def test_what_decides_times_changes_the_fingerprint_and_is_named(environment: Environment, told: str) -> None:
    assert differences(environment, ENVIRONMENT) == [told]
    assert fingerprint(environment) != fingerprint(ENVIRONMENT)


@pytest.mark.parametrize(
    "environment",
    [
        changed("ci-18", "machine", "host"),
        changed("6.1.99", "machine", "kernel"),
        changed(1, "machine", "memory"),
        changed("performance", "machine", "cpu", "governor"),
        changed("3.12.9", "software", "python", "version"),
        changed("/opt/cuda", "variables", "CUDA_HOME"),
        changed("5", "variables", "CUDA_VISIBLE_DEVICES"),
        changed([{"name": "NVIDIA H200", "sm_clock_max_mhz": 1000}] * 2, "accelerators"),
    ],
)
def test_what_does_not_decide_times_leaves_the_fingerprint_alone(environment: Environment) -> None:
    assert differences(environment, ENVIRONMENT) == []
    assert fingerprint(environment) == fingerprint(ENVIRONMENT)


def test_a_fingerprint_is_twelve_hexadecimal_digits_that_do_not_depend_on_order() -> None:
    backwards = environment_from(dict(reversed(FACTS.items())))
    assert fingerprint(backwards) == fingerprint(ENVIRONMENT)
    assert len(fingerprint(NO_ENVIRONMENT)) == 12
    assert int(fingerprint(ENVIRONMENT), 16) >= 0


def test_a_library_that_only_one_run_used_stands_not_in_the_way() -> None:
    more = changed({"torch": "2.13.0", "transformers": "5.22.2", "timm": "1.0"}, "versions")
    assert differences(more, ENVIRONMENT) == []


@pytest.mark.parametrize("marker", ["(hidden)", "(set)"])
def test_two_hidden_values_are_unknown_and_neither_equal_nor_different(marker: str) -> None:
    hidden = changed({"OMP_NUM_THREADS": "8", "TORCH_X": marker}, "variables")
    shown = changed({"OMP_NUM_THREADS": "8", "TORCH_X": "1"}, "variables")
    told = ["TORCH_X is set in both environments, but its value is hidden: it may differ"]
    for other in (hidden, shown):
        assert unknowns(hidden, other) == unknowns(other, hidden)
        assert [caution.text for caution in unknowns(hidden, other)] == told
        assert differences(hidden, other) == []
    assert unknowns(shown, shown) == []


def test_of_many_environments_each_unknown_variable_is_named_once() -> None:
    one = changed({"TORCH_X": "1", "TORCH_Y": "(hidden)", "TORCH_Z": "(hidden)"}, "variables")
    other = changed({"TORCH_X": "(hidden)", "TORCH_Y": "2"}, "variables")
    told = [
        "TORCH_X and TORCH_Y are set in several environments, but their values are hidden: they may differ"
    ]
    assert [caution.text for caution in unknowns(one, other, ENVIRONMENT, other)] == told
    assert unknowns(one, ENVIRONMENT, ENVIRONMENT) == []


def test_a_variable_that_is_hidden_here_and_absent_there_is_a_difference() -> None:
    hidden, absent = changed({"TORCH_X": "(hidden)"}, "variables"), changed({}, "variables")
    assert differences(hidden, absent) == ["TORCH_X is (hidden), was not set"]
    assert differences(absent, hidden) == ["TORCH_X is not set, was (hidden)"]
    assert unknowns(hidden, absent) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["cpu", "cores", "python", "torch", "name", "X"]), JSON, max_size=3)
ENVIRONMENTS = st.builds(
    Environment,
    machine=OBJECTS,
    accelerators=st.none() | st.lists(OBJECTS, max_size=2).map(tuple),
    software=OBJECTS,
    versions=OBJECTS,
    variables=st.none() | OBJECTS,
    threads=st.none() | st.integers(1, 64),
)


@given(ENVIRONMENTS, ENVIRONMENTS)
def test_environments_of_any_shape_are_compared(one: Environment, other: Environment) -> None:
    assert differences(one, one) == []
    if differences(one, other):
        assert fingerprint(one) != fingerprint(other)
    assert len(differences(one, other)) == len(differences(other, one))


def test_keys_of_another_version_are_kept() -> None:
    facts = FACTS | {"rack": {"row": 3}, "fingerprint": "abc"}
    environment = environment_from(facts)
    assert environment.rest == {"rack": {"row": 3}}
    assert environment.to_mapping() == facts
    sources = {"smoke": {"kind": "suite", "name": "smoke"}}
    settings = settings_from({"sources": sources, "repeat": 3, "colour": "red"})
    assert (settings.repeat, settings.rest) == (3, {"colour": "red"})
    assert settings.to_mapping() == {"sources": sources, "repeat": 3, "colour": "red"}


def on_gpu(**facts: object) -> Environment:
    return changed(
        [{"name": "NVIDIA H200", "driver": "570.1", "power_limit_w": 700, **facts}], "accelerators"
    )


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (on_gpu(driver="580.2"), ["accelerator driver is 580.2, was 570.1"]),
        (on_gpu(power_limit_w=500), ["power limit of the accelerator is 500 W, was 700 W"]),
        (on_gpu(uuid="GPU-1"), []),
        (on_gpu(driver=None), []),  # what only one of them states is no difference
    ],
)
def test_driver_and_power_limit_decide_but_not_which_of_equal_devices(
    other: Environment, told: list[str]
) -> None:
    assert differences(other, on_gpu()) == told


def test_the_uuid_of_a_device_is_not_in_the_fingerprint() -> None:
    assert fingerprint(on_gpu(uuid="GPU-1")) == fingerprint(on_gpu(uuid="GPU-2"))
    assert fingerprint(on_gpu()) != fingerprint(on_gpu(driver="580.2"))
