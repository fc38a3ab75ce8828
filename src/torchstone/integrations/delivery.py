"""Deliver a message to a URL by HTTP; the URL is a secret, which no error contains."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from enum import StrEnum
from typing import IO

from torchstone.core.errors import TorchstoneError, UsageError

TIMEOUT = 10.0
"""Seconds that a service may take to answer."""


class NotificationChannel(StrEnum):
    """What kind of target is told. The store records this word, never the target itself."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    GITHUB = "github"
    FILE = "file"


class DeliveryError(TorchstoneError):
    """A message could not be delivered; it is tried again next time."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a failure: what was posted would be lost on the way."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow no redirect."""


def check_url(url: str, channel: NotificationChannel) -> None:
    """Raise an error unless this can be a URL; it is not quoted."""
    rest = url.partition("://")[2]
    if (
        not url.startswith(("https://", "http://"))
        or not rest.strip("/")
        or any(each.isspace() for each in url)
    ):
        raise UsageError(
            f"invalid URL for {channel.value}",
            advice="expected https://... (it is a secret, so it is not shown)",
        )


def post_json(url: str, body: str, channel: NotificationChannel, timeout: float = TIMEOUT) -> None:
    """Post JSON to a URL; raise a ``DeliveryError`` unless the service accepts it in time."""
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "torchstone"}
    try:
        request = urllib.request.Request(url, body.encode(), headers)  # noqa: S310  (check_url has seen it)
        opener = urllib.request.build_opener(_NoRedirects())
        with opener.open(request, timeout=timeout) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise _failed(channel, f"the service answered {error.code} {_phrase(error.code)}".rstrip()) from None
    except urllib.error.URLError as error:
        raise _failed(channel, _why(error.reason, timeout)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _failed(channel, _why(error, timeout)) from None
    except ValueError:  # its message contains the URL
        raise _failed(channel, "the URL is not valid") from None


def _phrase(code: int) -> str:
    return http.client.responses.get(code, "")


def _why(reason: object, timeout: float) -> str:
    """Return why no answer came: in the words of the system, which name neither host nor path."""
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(reason, OSError):
        return (reason.strerror or type(reason).__name__).lower()
    return f"the answer is not HTTP ({type(reason).__name__})"


def _failed(channel: NotificationChannel, why: str) -> DeliveryError:
    return DeliveryError(f"{channel.value}: {why}", advice="it is tried again next time")
