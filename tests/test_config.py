from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Command, WriteFile
from torchstone.core.config import read_config
from torchstone.core.errors import InputError
from torchstone.core.records import Rule

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"

SETTINGS = """\
[check]
policy = "strict"
baseline = ["sub/e.csv"]
allow = ["new"]

[[rule]]
metric = "graph_breaks"
case = "resnet*"
kind = "count"
better = "lower"
tolerance = 2
"""


@pytest.fixture
def results(write: WriteFile) -> str:
    write("sub/e.csv", "name,accuracy,graph_breaks\nresnet18,pass,0\nvgg,pass,0\n")
    return write(
        "r.csv", HEADER + "cuda,resnet18,8,pass,1,1,2\ncuda,vgg,8,pass,1,1,0\ncuda,more,8,pass,1,1,0\n"
    )


def test_settings_of_the_current_folder_are_used(torchstone: Command, write: WriteFile, results: str) -> None:
    write("torchstone.toml", SETTINGS)
    assert torchstone("check", results).code == 0


def test_paths_are_relative_to_the_settings(torchstone: Command, write: WriteFile, results: str) -> None:
    write("sub/ci.toml", SETTINGS.replace("sub/e.csv", "e.csv"))
    assert torchstone("check", results, "--config", "sub/ci.toml").code == 0


def test_the_environment_can_name_the_settings(
    torchstone: Command, write: WriteFile, results: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sub/ci.toml", SETTINGS.replace("sub/e.csv", "e.csv"))
    monkeypatch.setenv("TORCHSTONE_CONFIG", "sub/ci.toml")
    assert torchstone("check", results).code == 0


def test_the_command_line_comes_before_the_settings(
    torchstone: Command, write: WriteFile, results: str
) -> None:
    write("torchstone.toml", SETTINGS)
    assert torchstone("check", results, "--rule", "graph_breaks=count:lower:0").code == 1
    assert torchstone("check", results, "--block", "new").code == 1
    assert torchstone("check", results, "--baseline", write("o.csv", "name,accuracy\nvgg,OOM\n")).code == 0


def test_rules_are_read_with_their_scope(tmp_path: Path) -> None:
    path = tmp_path / "torchstone.toml"
    path.write_text(SETTINGS)
    (scoped,) = read_config(str(path)).rules
    assert (scoped.metric, scoped.case, scoped.rule) == (
        "graph_breaks",
        "resnet*",
        Rule("count", better="lower", tolerance=2),
    )


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[chek]\npolicy = 'strict'\n", 1, "chek"),
        ("\n[check]\npolicy = 'lax'\n", 3, "policy"),
        ("[check]\nbaseline = 3\n", 2, "baseline"),
        ("[check]\nblock = ['everything']\n", 2, "block"),
        ("[check]\nplatform = 'x'\n", 2, "platform"),
        ("[[rule]]\nkind = 'floor'\nlow = 1\n", 1, "metric"),
        ("[[rule]]\nmetric = 'a'\nkind = 'ignore'\n\n[[rule]]\nmetric = 'b'\nkind = 'flor'\n", 7, "kind"),
        ("[[rule]]\nmetric = 'a'\nkind = 'floor'\n", 1, "low"),
        ("[[rule]]\nmetric = 'a'\nkind = 'floor'\nlow = 'x'\n", 4, "low"),
        ("[[rule]]\nmetric = 'a'\nkind = 'floor'\nlow = nan\n", 4, "low"),
        ("[[rule]]\nmetric = 'a'\nkind = 'floor'\nlow = 1\nhigh = 2\n", 5, "high"),
        ("[[rule]]\nmetric = 'a'\nkind = 'margin'\nmargin = -0.1\n", 4, "margin"),
        ("[[rule]]\nmetric = 'a'\nkind = 'count'\nbetter = 'up'\n", 4, "better"),
        ("[[rule]]\nmetric = 'a'\nkind = 'ratio_floor'\nratio = 0\n", 4, "ratio"),
        ("[[rule]]\nmetric = 'graph_breaks'\nkind = 'must_pass'\n", 3, "kind"),
        ("[[rule]]\nmetric = 'accuracy'\nkind = 'floor'\nlow = 1\n", 3, "kind"),
        ("[rule]\nmetric = 'a'\n", 1, "rule"),
        ("check = 3\n", 1, "check"),
        ("[check\n", 1, 7),
    ],
)
def test_a_mistake_in_the_settings_names_its_line_and_key(
    text: str, line: int, column: str | int, tmp_path: Path
) -> None:
    path = tmp_path / "torchstone.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config(str(path))
    assert (caught.value.line, caught.value.column) == (line, column)
