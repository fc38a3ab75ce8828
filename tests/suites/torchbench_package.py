"""A package with the public shape of torchbenchmark: its base classes, and models that load weights as its own do.

The real one is not on the package index. File layout, constructors and the ways to load weights are those of
pytorch/benchmark; torchvision and transformers do the real loading.
"""

from __future__ import annotations

from pathlib import Path

ROOT = """
from pathlib import Path

REPO_PATH = Path(__file__).resolve().parent.parent
"""

BASE = '''
import torch


class CheckAfterConstruction(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.__post__init__()
        return made


class BenchmarkModel(metaclass=CheckAfterConstruction):
    """The base class of all models: seeds, and chooses a batch size for the test and device."""

    DEFAULT_TRAIN_BSIZE = None
    DEFAULT_EVAL_BSIZE = None

    def __init__(self, test, device, batch_size=None, extra_args=()):
        if test not in ("train", "eval"):
            raise AssertionError(test)
        self.test, self.device, self.extra_args = test, device, list(extra_args)
        real_seed = torch.manual_seed
        torch.manual_seed = lambda *_: real_seed(1337)
        torch.manual_seed(0)
        self.batch_size = batch_size or (self.DEFAULT_TRAIN_BSIZE if test == "train" else self.DEFAULT_EVAL_BSIZE)
        if device not in ("cpu", "cuda", "xpu"):
            raise UnboundLocalError("current_device_name")
        if not self.batch_size:
            raise NotImplementedError(f"Test {test} is not implemented.")

    def __post__init__(self):
        if self.extra_args:
            raise AssertionError(self.extra_args)
'''

VISION = '''
import torch
from torchvision import models as torchvision_models

from torchbenchmark.util.model import BenchmarkModel


class TorchVisionModel(BenchmarkModel):
    """A classifier of torchvision with the weights that it was published with."""

    def __init__(self, model_name, test, device, batch_size=None, weights=None, extra_args=()):
        super().__init__(test=test, device=device, batch_size=batch_size, extra_args=extra_args)
        make = getattr(torchvision_models, model_name)
        self.model = (make(pretrained=True) if weights is None else make(weights=weights)).to(device)
        self.example_inputs = (torch.randn(self.batch_size, 3, 64, 64, device=device),)
        self.example_outputs = torch.rand_like(self.model(*self.example_inputs))
        getattr(self.model, "train" if test == "train" else "eval")()

    def get_module(self):
        return self.model, self.example_inputs
'''

CLASSIFIER = """
from torchvision import models

from torchbenchmark.util.framework.vision.model_factory import TorchVisionModel


class Model(TorchVisionModel):
    DEFAULT_TRAIN_BSIZE = 3
    DEFAULT_EVAL_BSIZE = 2

    def __init__(self, test, device, batch_size=None, extra_args=()):
        super().__init__({name!r}, test, device, batch_size, {weights}, extra_args)
"""

MOCO = """
import torch
import torch.distributed as dist
from torchvision import models

from torchbenchmark.util.model import BenchmarkModel


class Model(BenchmarkModel):
    DEFAULT_TRAIN_BSIZE = DEFAULT_EVAL_BSIZE = 32

    def __init__(self, test, device, batch_size=None, extra_args=()):
        super().__init__(test=test, device=device, batch_size=batch_size, extra_args=extra_args)
        try:
            dist.init_process_group("nccl", init_method="tcp://localhost:10001", world_size=1, rank=0)
        except RuntimeError:
            pass
        if device == "cpu":
            raise NotImplementedError("DistributedDataParallel/allgather requires cuda")
"""

SIMPLE = """
import torch
{imports}
from torchbenchmark.util.model import BenchmarkModel


class Model(BenchmarkModel):
    DEFAULT_TRAIN_BSIZE = DEFAULT_EVAL_BSIZE = 2

    def __init__(self, test, device, batch_size=None, extra_args=()):
        super().__init__(test=test, device=device, batch_size=batch_size, extra_args=extra_args)
        self.model = torch.nn.Linear(4, 3)
        {load}

    def get_module(self):
        return self.model, (torch.randn(self.batch_size, 4),)
"""

WAYS_TO_LOAD = {
    "from_hub_by_name": (
        "from torch.hub import load_state_dict_from_url",
        'self.model.load_state_dict(load_state_dict_from_url("https://host.invalid/weights.pth")["state_dict"])',
    ),
    "from_hub": (
        "",
        (
            'weights = torch.hub.load_state_dict_from_url("https://host.invalid/w.pth"); weights.pop("head.bias"); '
            "self.model.load_state_dict(weights, strict=False)"
        ),
    ),
    "code_of_hub": ("", 'self.model = torch.hub.load("author/project", "big_model", trust_repo=True)'),
    "file_of_hub": ("", 'torch.hub.download_url_to_file("https://host.invalid/words.txt", "words.txt")'),
    "own_connection": (
        "import urllib.request",
        'urllib.request.urlopen("https://host.invalid/data.zip", timeout=5)',
    ),
    "own_address": ("import socket", 'socket.create_connection(("192.0.2.1", 80), timeout=5)'),
    "hub_configuration": (
        "from transformers import AutoModelForMaskedLM",
        'self.model = AutoModelForMaskedLM.from_pretrained("author/model-that-is-nowhere")',
    ),
    "local_configuration": (
        "from pathlib import Path\nfrom transformers import AutoModelForMaskedLM",
        "self.model = AutoModelForMaskedLM.from_pretrained(str(Path(__file__).parent))",
    ),
    "own_weights": ("", "self.model.load_state_dict({k: v + 1 for k, v in self.model.state_dict().items()})"),
    "own_failure": ("", 'raise FileNotFoundError("its own file is missing")'),
    "gpu_only": ("", 'raise NotImplementedError("this kernel requires CUDA")'),
    "no_such_test": ("", "raise NotImplementedError('Test eval is not implemented.')"),
}
"""What a model does to get its weights, by the name of the model: further imports, and the statement in its constructor."""


def write_package(folder: Path) -> Path:
    """Write the package, and return its folder."""
    package = folder / "torchbenchmark"
    files = {
        "__init__.py": ROOT,
        "models/__init__.py": "",
        "util/__init__.py": "",
        "util/model.py": BASE,
        "util/framework/__init__.py": "",
        "util/framework/vision/__init__.py": "",
        "util/framework/vision/model_factory.py": VISION,
        "models/resnet18/__init__.py": CLASSIFIER.format(
            name="resnet18", weights="models.ResNet18_Weights.IMAGENET1K_V1"
        ),
        "models/squeezenet1_1/__init__.py": CLASSIFIER.format(
            name="squeezenet1_1", weights="models.SqueezeNet1_1_Weights.IMAGENET1K_V1"
        ),
        "models/resnet50/__init__.py": CLASSIFIER.format(name="resnet50", weights="None"),
        "models/moco/__init__.py": MOCO,
    }
    for name, (imports, load) in WAYS_TO_LOAD.items():
        files[f"models/{name}/__init__.py"] = SIMPLE.format(imports=imports, load=load)
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package
