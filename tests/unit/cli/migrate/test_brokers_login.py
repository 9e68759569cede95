"""Why a login to RabbitMQ over AMQP fails, and the advice."""

import pytest

from warren.cli.migrate.brokers import MoveFailed, RabbitMQ
from warren.client import CannotConnect, ClientError, ConnectionClosed, ConnectionLost, LoginRefused

PERMIT = "rabbitmqctl set_permissions -p shop carrier '' '' '.*'"


def refusal(monkeypatch: pytest.MonkeyPatch, error: ClientError) -> str:
    def channel(*_: object) -> None:
        raise error

    monkeypatch.setattr(RabbitMQ, "_channel", channel)
    source = RabbitMQ("http://admin:secret@rabbit:15672", "amqp://carrier:secret@rabbit:5673", "")
    with pytest.raises(MoveFailed) as refused:
        source.enter("shop")
    source.close()
    return str(refused.value)


@pytest.mark.parametrize(
    "error",
    [CannotConnect([("rabbit:5673", "connection refused")]), ConnectionLost("the connection is gone")],
    ids=["nobody listens", "somebody hangs up"],
)
def test_an_amqp_that_is_not_reached_is_no_question_of_permissions(
    error: ClientError, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refusal(monkeypatch, error)
    assert told.startswith(f"RabbitMQ's AMQP is not reached: {error}; nothing was changed. ")
    assert "--amqp" in told
    assert "set_permissions" not in told


def test_a_virtual_host_that_is_closed_to_the_user_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "NOT_ALLOWED - access to vhost 'shop' refused for user 'carrier'"
    assert PERMIT in refusal(monkeypatch, ConnectionClosed(f"the broker closed the connection: {text}", 530, text))


def test_a_refused_login_is_reported_with_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    told = refusal(monkeypatch, LoginRefused("ACCESS_REFUSED"))
    assert told == "RabbitMQ refuses 'carrier' over AMQP: give a user and its password with --amqp"


def test_shovels_consume_as_the_user_of_the_http_api_unless_another_one_is_given() -> None:
    source = RabbitMQ("http://admin:secret@rabbit:15672", "", "")
    assert source.carrier == "admin"
    source.close()
