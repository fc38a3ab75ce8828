"""Delivering messages to a real HTTP server on this machine; no error says where it is."""

from __future__ import annotations

import socket
import threading

import pytest

from torchstone.core.errors import UsageError
from torchstone.integrations.delivery import DeliveryError, NotificationChannel, check_url, post_json
from webhook_service import SECRET, service


@pytest.mark.parametrize("code", [200, 201, 204])
def test_json_arrives_as_it_was_sent(code: int) -> None:
    with service(code) as server:
        post_json(server.url, '{"text": "größer"}', NotificationChannel.SLACK)
        assert server.posted == [
            (f"/services/{SECRET}", "application/json; charset=utf-8", {"text": "größer"})
        ]


@pytest.mark.parametrize("code", [301, 302, 307, 400, 403, 404, 500, 503])
def test_any_other_answer_is_a_failure_that_names_the_code_only(code: int) -> None:
    with (
        service(code) as server,
        pytest.raises(DeliveryError, match=f"slack: the service answered {code}") as caught,
    ):
        post_json(server.url, "{}", NotificationChannel.SLACK)
    assert "secret" not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"
    assert "127.0.0.1" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_service_that_does_not_answer_is_given_up() -> None:
    with service(200, delay=1.0) as server, pytest.raises(DeliveryError, match=r"no answer within 0\.1 s"):
        post_json(server.url, "{}", NotificationChannel.WEBHOOK, timeout=0.1)


def test_a_service_that_is_not_there_is_a_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DeliveryError, match="webhook: connection refused") as caught:
        post_json(f"http://127.0.0.1:{port}/{SECRET}", "{}", NotificationChannel.WEBHOOK)
    assert "secret" not in str(caught.value)


def test_a_name_that_nobody_knows_is_a_failure_without_the_name() -> None:
    with pytest.raises(DeliveryError) as caught:
        post_json(f"http://no-such-host.invalid/{SECRET}", "{}", NotificationChannel.WEBHOOK)
    assert "invalid/" not in str(caught.value)
    assert "no-such-host" not in str(caught.value)


def test_what_answers_without_http_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example.com\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DeliveryError, match="not HTTP"):
            post_json(
                f"http://127.0.0.1:{server.getsockname()[1]}/{SECRET}", "{}", NotificationChannel.WEBHOOK
            )
        thread.join()


@pytest.mark.parametrize(
    "url", ["", "hooks.example.com/secret", "ftp://example.com/secret", "https:///", "https://a b/secret"]
)
def test_what_is_no_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError, match="invalid URL for slack") as caught:
        check_url(url, NotificationChannel.SLACK)
    assert "secret/" not in str(caught.value)
    assert not url or url not in str(caught.value)
