"""Build models without the weights that they would fetch: they keep their random ones, and no download is ever tried.

Results must not depend on what a machine happens to have in its cache, so weights in a cache are not read either. A
model that needs more than weights (code or a configuration from a hub, data) says what it needs.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, NoReturn

import torch
from torch import nn

_HUB_ERRORS = frozenset({"LocalEntryNotFoundError", "OfflineModeIsEnabled", "EntryNotFoundError"})
"""Errors of huggingface_hub for a file that is not on this machine."""


_INHERITED = object()


class NotFetchedError(OSError):
    """Raised in place of a download; the message says what is needed."""


class Unfetched(dict[str, Any]):
    """Weights that were not fetched. Every part of them is the same, and loading them changes nothing."""

    def __missing__(self, key: str) -> Unfetched:
        return self

    def get(self, key: str, default: object = None) -> Unfetched:  # noqa: ARG002  (a dictionary's own signature)
        """Return this, whatever the key."""
        return self

    def pop(self, key: str, default: object = None) -> Unfetched:  # noqa: ARG002  (as above)
        """Return this, whatever the key."""
        return self


@contextmanager
def random_weights() -> Iterator[None]:
    """Leave random weights in models that are built meanwhile, and refuse connections to other machines."""
    with ExitStack() as stack:
        fetch: Any = torch.hub.load_state_dict_from_url
        stack.enter_context(_replaced_everywhere(fetch, _fetch_nothing))
        stack.enter_context(_replaced(torch.hub, "download_url_to_file", _refuse_file))
        stack.enter_context(_replaced(torch.hub, "load", _load_local_only(torch.hub.load)))
        stack.enter_context(_replaced(nn.Module, "load_state_dict", _ignoring(nn.Module.load_state_dict)))
        stack.enter_context(_replaced(socket, "getaddrinfo", _refusing_names(socket.getaddrinfo)))
        stack.enter_context(_replaced(socket.socket, "connect", _refusing_addresses(socket.socket.connect)))
        yield


@contextmanager
def random_library_weights() -> Iterator[None]:
    """The same for models of transformers and timm, if these libraries have been imported."""
    with ExitStack() as stack:
        if "transformers" in sys.modules:  # which imports its own parts late
            model: Any = import_module("transformers.modeling_utils").PreTrainedModel
            stack.enter_context(_replaced(model, "from_pretrained", classmethod(_from_configuration)))
        if timm := sys.modules.get("timm.models._builder"):
            stack.enter_context(_replaced(timm, "load_pretrained", _load_nothing))
        yield


def find_missing(error: BaseException) -> str:
    """Return what a model needs that is not on this machine, from the error that it raised; empty if that is not the reason."""
    seen: BaseException | None = error
    for _ in range(100):
        if seen is None:
            return ""
        if isinstance(seen, NotFetchedError):
            return str(seen)
        if {kind.__name__ for kind in type(seen).__mro__} & _HUB_ERRORS:
            return f"files of the Hugging Face hub ({str(error).partition(chr(10))[0]:.200})"
        seen = seen.__cause__ or seen.__context__
    return ""


def _fetch_nothing(*_args: object, **_options: object) -> Unfetched:
    return Unfetched()


def _load_nothing(*_args: object, **_options: object) -> None:
    return None


def _refuse_file(url: object, *_args: object, **_options: object) -> NoReturn:
    raise NotFetchedError(str(url))


def _load_local_only(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def load_local(repo_or_dir: str, model: str, *args: Any, **options: Any) -> Any:  # noqa: ANN401  (torch's own signature)
        if options.get("source", "github") != "local":
            raise NotFetchedError(f"the code of {model} from {repo_or_dir}")
        return load(repo_or_dir, model, *args, **options)

    return load_local


def _ignoring(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``load_state_dict`` for which weights that were not fetched are none."""

    @functools.wraps(load)
    def load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401  (torch's own signature)
        if isinstance(state_dict, Unfetched):
            return nn.modules.module._IncompatibleKeys([], [])
        return load(self, state_dict, *args, **options)

    return load_state_dict


def _refusing_names(look_up: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(look_up)
    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401  (Python's own signature)
        if not _is_here(host):
            raise NotFetchedError(f"a connection to {host}")
        return look_up(host, *args, **options)

    return getaddrinfo


def _refusing_addresses(join: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(join)
    def connect(self: socket.socket, address: Any) -> Any:  # noqa: ANN401  (Python's own signature)
        if isinstance(address, tuple) and address and not _is_here(address[0]):
            raise NotFetchedError(f"a connection to {address[0]}")
        return join(self, address)

    return connect


def _is_here(host: object) -> bool:
    """Return whether a host is this machine."""
    text = host.decode(errors="replace") if isinstance(host, bytes) else str(host or "localhost")
    if text in {"localhost", "localhost.localdomain", socket.gethostname()}:
        return True
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _from_configuration(kind: Any, /, name: Any, *args: Any, config: Any = None, **_options: Any) -> Any:  # noqa: ANN401  (classes of transformers)
    """Build a model of transformers from its configuration, which has to be on this machine."""
    configuration = kind.config_class.from_pretrained(name) if config is None else config
    return kind._from_config(configuration) if hasattr(kind, "_from_config") else kind(configuration, *args)


@contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute, and put it back; one that is inherited is inherited again."""
    own = vars(owner).get(name, _INHERITED)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def _replaced_everywhere(function: Callable[..., Any], by: Callable[..., Any]) -> Iterator[None]:
    """Replace a function in every module that has imported it by its name, and put it back in these and later ones."""
    _exchange(function, by)
    try:
        yield
    finally:
        _exchange(by, function)


def _exchange(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    name = "load_state_dict_from_url"
    for module in list(sys.modules.values()):
        for known in (name, "load_url"):
            if getattr(module, "__dict__", {}).get(known) is old:
                setattr(module, known, new)
