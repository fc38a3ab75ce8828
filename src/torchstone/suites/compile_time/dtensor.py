"""Distributed tensors: what an operation on them costs before any data moves. The other ranks do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.tensor import Placement

RANKS = 256


class Dispatch(Counted):
    """An operation on tensors that all ranks have a copy of."""

    category = "dtensor_dispatch"
    counts = "all"
    device = "cuda"

    def missing(self) -> str:
        """Not every build of torch is for more than one process."""
        import torch

        return (
            ""
            if torch.distributed.is_available()
            else f"torch {torch.__version__} was built without torch.distributed"
        )

    def prepare_once(self) -> None:
        """Ranks that only seem to be there, and two tensors."""
        from torch.distributed.tensor import Replicate

        self.mesh: Any = _mesh(self.device)
        self.left: Any = self.tensor(Replicate(), 10, 10)
        self.right: Any = self.tensor(Replicate(), 10, 10)

    def tensor(self, placement: Placement, *sizes: int, trained: bool = False) -> Tensor:
        """A tensor of ones on the mesh, of which this rank's part has the sizes given."""
        import torch
        from torch.distributed.tensor import DTensor

        local = torch.ones(sizes, device=self.device, requires_grad=trained)
        return DTensor.from_local(local, self.mesh, [placement])

    def finish(self) -> None:
        """Send the ranks home."""
        from torch import distributed

        self.left = self.right = self.mesh = None
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _mesh(device: str) -> Any:  # noqa: ANN401  (torch's own type is not exported everywhere)
    """All ranks in a row, this one the first."""
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    store: Any = FakeStore
    distributed.init_process_group("fake", store=store(), rank=0, world_size=RANKS)
    return distributed.device_mesh.init_device_mesh(device, (RANKS,), mesh_dim_names=("dp",))


class Detach(Dispatch):
    """The cheapest operation there is."""

    description = "detach a distributed tensor"

    def work(self) -> None:
        """Detach."""
        self.left.detach()


class ToFromLocal(Dispatch):
    """Out of the distributed world and back."""

    description = "take this rank's part of a distributed tensor, and make a distributed tensor of it"

    def work(self) -> None:
        """There and back."""
        from torch.distributed.tensor import DTensor, Replicate

        DTensor.from_local(self.left.to_local(), self.mesh, [Replicate()])


class Collectives(Dispatch):
    """Every way to get from one placement to another."""

    description = "redistribute: split, all-to-all, all-gather, all-reduce and reduce-scatter"

    def prepare_once(self) -> None:
        """One more tensor, of which every rank has a summand."""
        from torch.distributed.tensor import Partial

        super().prepare_once()
        self.partial: Any = self.tensor(Partial(), 10, 10)

    def work(self) -> None:
        """One after the other."""
        from torch.distributed.tensor import Replicate, Shard

        value = self.left
        for placement in (Shard(0), Shard(1), Replicate()):
            value = value.redistribute(placements=[placement])
        for placement in (Replicate(), Shard(0)):
            self.partial.redistribute(placements=[placement])


class AddBackward(Dispatch):
    """Two tensors that are split along different dimensions, added, and differentiated."""

    description = "add two differently sharded tensors, and go backward"

    def prepare_once(self) -> None:
        """Together they are square: 512 along every dimension."""
        from torch.distributed.tensor import Shard

        super().prepare_once()
        self.left = self.tensor(Shard(0), 2, 512, trained=True)
        self.right = self.tensor(Shard(1), 512, 2, trained=True)

    def work(self) -> None:
        """Forward and backward."""
        (self.left + self.right).sum().backward()


class Inplace(Dispatch):
    """An operation that changes its first operand."""

    description = "add to a distributed tensor in place"

    def work(self) -> None:
        """Add."""
        self.left.add_(self.right)


class View(Dispatch):
    """An operation that only changes the shape."""

    description = "view a distributed tensor in another shape"

    def work(self) -> None:
        """Flatten."""
        self.left.view(100)


class Random(Dispatch):
    """An operation for which ranks have to agree on random numbers."""

    description = "fill a distributed tensor with random numbers"

    def work(self) -> None:
        """Fill."""
        self.left.uniform_()


class CustomHandler(Dispatch):
    """An operation that distributed tensors handle by themselves."""

    description = "an operation that does not go through the general dispatch"

    def work(self) -> None:
        """Compare shapes."""
        import torch

        torch.ops.aten.is_same_size(self.left, self.right)


def collect() -> Sequence[Counted]:
    """Those of this topic."""
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
