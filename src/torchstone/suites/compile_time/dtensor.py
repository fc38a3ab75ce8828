"""Benchmark the dispatch overhead of distributed tensors, with fake ranks and without moving data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.tensor import Placement

RANKS = 256


class Dispatch(Counted):
    """Run an operation on replicated tensors."""

    category = "dtensor_dispatch"
    counts = "all"
    device = "cuda"

    def missing(self) -> str:
        """Return why it is not available: not every build of torch has torch.distributed."""
        import torch

        return (
            ""
            if torch.distributed.is_available()
            else f"torch {torch.__version__} was built without torch.distributed"
        )

    def prepare_once(self) -> None:
        """Create fake ranks, and two tensors."""
        from torch.distributed.tensor import Replicate

        self.mesh: Any = _mesh(self.device)
        self.left: Any = self.tensor(Replicate(), 10, 10)
        self.right: Any = self.tensor(Replicate(), 10, 10)

    def tensor(self, placement: Placement, *sizes: int, trained: bool = False) -> Tensor:
        """Return a tensor of ones on the mesh, with local parts of the given size."""
        import torch
        from torch.distributed.tensor import DTensor

        local = torch.ones(sizes, device=self.device, requires_grad=trained)
        return DTensor.from_local(local, self.mesh, [placement])

    def finish(self) -> None:
        """Destroy the process group."""
        from torch import distributed

        self.left = self.right = self.mesh = None
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _mesh(device: str) -> Any:  # noqa: ANN401  (torch's own type is not exported everywhere)
    """Return a mesh of all ranks in a row; this one is the first."""
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    store: Any = FakeStore
    distributed.init_process_group("fake", store=store(), rank=0, world_size=RANKS)
    return distributed.device_mesh.init_device_mesh(device, (RANKS,), mesh_dim_names=("dp",))


class Detach(Dispatch):
    """Detach: the cheapest operation."""

    description = "detach a distributed tensor"

    def work(self) -> None:
        """Detach."""
        self.left.detach()


class ToFromLocal(Dispatch):
    """Convert to a local tensor and back."""

    description = "take this rank's part of a distributed tensor, and make a distributed tensor of it"

    def work(self) -> None:
        """Convert there and back."""
        from torch.distributed.tensor import DTensor, Replicate

        DTensor.from_local(self.left.to_local(), self.mesh, [Replicate()])


class Collectives(Dispatch):
    """Redistribute between all placements."""

    description = "redistribute: split, all-to-all, all-gather, all-reduce and reduce-scatter"

    def prepare_once(self) -> None:
        """Create one more tensor, a partial sum on every rank."""
        from torch.distributed.tensor import Partial

        super().prepare_once()
        self.partial: Any = self.tensor(Partial(), 10, 10)

    def work(self) -> None:
        """Redistribute, one after the other."""
        from torch.distributed.tensor import Replicate, Shard

        value = self.left
        for placement in (Shard(0), Shard(1), Replicate()):
            value = value.redistribute(placements=[placement])
        for placement in (Replicate(), Shard(0)):
            self.partial.redistribute(placements=[placement])


class AddBackward(Dispatch):
    """Add two tensors sharded along different dimensions, and differentiate."""

    description = "add two differently sharded tensors, and go backward"

    def prepare_once(self) -> None:
        """Create global tensors of 512 along every dimension."""
        from torch.distributed.tensor import Shard

        super().prepare_once()
        self.left = self.tensor(Shard(0), 2, 512, trained=True)
        self.right = self.tensor(Shard(1), 512, 2, trained=True)

    def work(self) -> None:
        """Run forward and backward."""
        (self.left + self.right).sum().backward()


class Inplace(Dispatch):
    """Run an in-place operation."""

    description = "add to a distributed tensor in place"

    def work(self) -> None:
        """Add in place."""
        self.left.add_(self.right)


class View(Dispatch):
    """Run a view operation."""

    description = "view a distributed tensor in another shape"

    def work(self) -> None:
        """Flatten."""
        self.left.view(100)


class Random(Dispatch):
    """Run a random operation, for which ranks agree on random numbers."""

    description = "fill a distributed tensor with random numbers"

    def work(self) -> None:
        """Fill with random numbers."""
        self.left.uniform_()


class CustomHandler(Dispatch):
    """Run an operation with its own handler in DTensor."""

    description = "an operation that does not go through the general dispatch"

    def work(self) -> None:
        """Compare shapes."""
        import torch

        torch.ops.aten.is_same_size(self.left, self.right)


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    return [
        Detach("dtensor_dispatch_detach"),
        ToFromLocal("dtensor_dispatch_to_from_local"),
        Collectives("dtensor_dispatch_collectives"),
        AddBackward("dtensor_dispatch_add_backward"),
        Inplace("dtensor_dispatch_inplace"),
        View("dtensor_dispatch_view"),
        Random("dtensor_dispatch_random"),
        CustomHandler("dtensor_dispatch_custom_handler"),
    ]
