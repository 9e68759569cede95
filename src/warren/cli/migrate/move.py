"""A whole move: both brokers are asked, the plan is told and carried out, contents are carried and counted.

Not here: the command line (`cli.migrate.command`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

from warren.cli.migrate.carrying import Carrying
from warren.cli.migrate.destination import Destination
from warren.cli.migrate.guide import CONSUMERS, Guide, Listener, lead_consumers_first, lead_publishers_first
from warren.cli.migrate.rabbitmq import RabbitMQ
from warren.cli.migrate.trouble import MoveFailed
from warren.migrating.counting import MATCHES, Account
from warren.migrating.definitions import EXCHANGES
from warren.migrating.permitting import Lack
from warren.migrating.plan import Plan, Wishes, plan_move
from warren.migrating.shovels import exchange_name, shovels_of_others, with_roads_of_others
from warren.migrating.wording import listener_notes, plan_lines


class Outcome(IntEnum):
    """The exit codes of a move that was not refused."""

    WELL = 0
    NOT_WELL = 1
    UNPROVEN = 3
    """What did not arrive may have been consumed at RabbitMQ by others."""


@dataclass(frozen=True)
class Manner:
    """How a move is done."""

    wishes: Wishes
    dry_run: bool = False
    definitions_only: bool = False
    follow: bool = False
    first: str = ""
    at_once: int = 0


class Move:
    """From one broker to the other."""

    def __init__(self, source: RabbitMQ, destination: Destination, manner: Manner, tell: Callable[[str], None]) -> None:
        self._source = source
        self._destination = destination
        self._manner = manner
        self._tell = tell

    def run(self) -> Outcome:
        """All is well if it is done and counted, or planned without anything in the way."""
        plan = self._plan()
        if plan.in_the_way:
            raise MoveFailed(
                f"{len(plan.in_the_way)} definitions are otherwise at Warren; nothing was changed. Delete them at one "
                "of the brokers, make them the same, or leave Warren's as they are with --keep"
            )
        if not self._manner.definitions_only:
            self._check_contents(plan)
        if self._manner.dry_run:
            self._tell("nothing was changed: this was a dry run")
            return Outcome.WELL
        self._destination.bring(plan)
        self._tell(f"definitions brought: {len(plan.brought) + len(plan.bridges)}")
        if self._manner.definitions_only:
            return Outcome.WELL
        return self._carry(plan)

    def _plan(self) -> Plan:
        source, manner = self._source, self._manner
        overview = source.overview()
        name, version = overview.get("product_name", "RabbitMQ"), overview.get("rabbitmq_version", "")
        if not str(version).startswith("3."):
            raise MoveFailed(f"{source.http.address} is {name} {version}; this moves from RabbitMQ 3")
        self._tell(f"from {name} {version} at {source.http.address} to Warren at {self._destination.http.address}")
        plan = plan_move(source.definitions(), self._destination.definitions(), source.queues(), manner.wishes)
        if plan.unknown_vhosts:
            raise MoveFailed(f"RabbitMQ has no virtual host '{plan.unknown_vhosts[0]}'; nothing was changed")
        for line in (*plan_lines(plan), *listener_notes(overview)):
            self._tell(line)
        return plan

    def _check_contents(self, plan: Plan) -> None:
        """That contents can be carried is made sure of before anything is brought: a refused move changes nothing."""
        if plan.away:
            found = plan.away[0]
            raise MoveFailed(
                f"queue {found.queue} is {found.state} at RabbitMQ, which can neither count nor give away what is in "
                f"it; nothing was changed. Bring {found.node or 'its node'} back, delete the queue at RabbitMQ, or "
                "leave contents where they are with --definitions-only"
            )
        self._check_roads(plan)
        self._check_shovels(plan)
        if plan.closed_vhosts:
            vhost, user = plan.closed_vhosts[0], self._destination.http.user
            raise MoveFailed(
                f"'{user}' may not enter virtual host '{vhost}' of Warren, which its shovels have to; nothing was "
                f"changed: warren ctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
            )
        self._check_permissions(plan)
        for vhost in sorted({found.queue.vhost for found in plan.carried}):
            self._source.enter(vhost)

    def _check_permissions(self, plan: Plan) -> None:
        if plan.lacking_at_rabbitmq:
            lack = plan.lacking_at_rabbitmq[0]
            raise MoveFailed(
                f"'{lack.user}' may not {lack.forbidden} of RabbitMQ, which its shovel has to"
                f"{_and_others(plan.lacking_at_rabbitmq)}; nothing was changed: "
                f"rabbitmqctl set_permissions {_permitting(lack)}"
            )
        if plan.lacking_at_warren:
            lack = plan.lacking_at_warren[0]
            raise MoveFailed(
                f"'{lack.user}' may not {lack.forbidden} of Warren, without which queue {lack.queue} cannot be carried"
                f"{_and_others(plan.lacking_at_warren)}; nothing was changed. Give --to a user who may, or, with "
                f"--keep if RabbitMQ's permissions are others: warren ctl set_permissions {_permitting(lack)}"
            )

    def _check_shovels(self, plan: Plan) -> None:
        """Somebody's own shovel must not have the name of one that carries, neither at Warren nor by being brought."""
        self._destination.carried()
        if others := shovels_of_others(each.value for each in plan.bridges):
            raise MoveFailed(
                f"RabbitMQ has a shovel {others[0]}, and those that carry contents have such names; nothing was "
                "changed. Bring it later, with --definitions-only --bridges, or give it another name"
            )

    def _check_roads(self, plan: Plan) -> None:
        """What shovels publish to leads to one queue and is deleted at the end: it must not be somebody's own."""
        exchanges = [*self._destination.exchanges(), *plan.document().get(EXCHANGES.section, ())]
        taken = with_roads_of_others([found.queue for found in plan.carried], exchanges)
        if taken:
            road = f"exchange '{exchange_name(taken[0])}' in '{taken[0].vhost}'"
            raise MoveFailed(
                f"{road} is somebody's own, and the contents of queue {taken[0]} would come by one of that name; "
                "nothing was changed. Delete or rename it, or leave contents where they are with --definitions-only"
            )

    def _carry(self, plan: Plan) -> Outcome:
        carrying = self._carrying(plan)
        with carrying:
            carrying.drain()
        but = ", but for what is gone at Warren" if carrying.gone else ""
        self._tell(f"RabbitMQ's queues are empty{but}; counting")
        accounts = carrying.settle()
        for account in accounts:
            if account.had or account.arrived or not account.matches:
                self._tell(count_line(account))
        outcome = outcome_of(accounts)
        if outcome is Outcome.UNPROVEN:
            self._tell("not proven: others consumed at RabbitMQ meanwhile; look whether they had what did not come")
        elif outcome is Outcome.WELL and self._manner.first:
            who = "publishers" if self._manner.first == CONSUMERS else "consumers"
            self._tell(f"everything has arrived: start the {who} at Warren")
        return outcome

    def _carrying(self, plan: Plan) -> Carrying:
        """What is on its way when only the rest is to come."""
        manner, amqp = self._manner, self._destination.amqp()

        def begin(at_once: int = 0) -> Carrying:
            return Carrying(self._source, self._destination, plan.carried, at_once)

        listener = Listener()
        if manner.first == CONSUMERS:
            return lead_consumers_first(Guide(listener), amqp, begin)
        if manner.first:
            return lead_publishers_first(Guide(listener), amqp, begin)
        if not manner.follow:
            return begin(manner.at_once)
        carrying = begin()
        Guide(listener).ask_while_carrying("contents are carried until RabbitMQ's publishers are stopped", carrying)
        return carrying


def _and_others(lacks: list[Lack]) -> str:
    more = len(lacks) - 1
    return f", and {more} more of the queues are like it" if more else ""


def _permitting(lack: Lack) -> str:
    return f"-p {lack.queue.vhost} {lack.user} " + " ".join(f"'{each}'" for each in lack.wanted)


def outcome_of(accounts: Iterable[Account]) -> Outcome:
    """Of all queues together."""
    unproven = [account for account in accounts if not account.matches]
    if not unproven:
        return Outcome.WELL
    return Outcome.UNPROVEN if all(account.is_explained for account in unproven) else Outcome.NOT_WELL


def count_line(account: Account) -> str:
    """One queue's final count."""
    verdict = account.verdict()
    counts = f"RabbitMQ had {account.had}, {account.arrived} arrived, Warren has {account.destination_after.messages}"
    if account.is_stream:
        counts = f"RabbitMQ has {account.source_after.messages}, Warren has {account.destination_after.messages}"
    return f"  queue {account.queue}: {counts}: {'it matches' if verdict == MATCHES else verdict}"
