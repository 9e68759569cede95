"""A whole move: ask both brokers, show the plan, import, transfer contents, count; and guide the operator.

Consumers first (publishers stay at RabbitMQ, shovels transfer their messages):

    stop consumers ─▶ shovels begin ─▶ start consumers at Warren ─▶ stop publishers
        ─▶ the rest arrives and is counted ─▶ start publishers at Warren

Every message passes RabbitMQ's queue, the shovel and Warren's queue, so the order is kept. All consumers at RabbitMQ
are shovels, so the count is exact.

Publishers first (messages wait at Warren while consumers empty RabbitMQ):

    move publishers ─▶ consumers empty RabbitMQ's queues and stop ─▶ the rest arrives by shovel and is counted
        ─▶ start consumers at Warren

The order is kept for queues that the consumers emptied. The rest comes after messages that were published to Warren.

Not here: the command line (`cli.migrate.command`), the transfer (`cli.migrate.transfer`).
"""

import os
import select
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import final

from warren.cli.migrate.brokers import MoveFailed, RabbitMQ, WarrenDestination
from warren.cli.migrate.counts import MATCHES, QueueAudit
from warren.cli.migrate.definitions import EXCHANGES
from warren.cli.migrate.plan import MigrationPlan, MissingPermission, PlanOptions, listener_notes, plan_lines, plan_move
from warren.cli.migrate.queues import exchange_name, shovels_of_others, with_foreign_exchanges
from warren.cli.migrate.transfer import Transfer
from warren.cli.terminal import say

CONSUMERS = "consumers"
PUBLISHERS = "publishers"
ORDERS = (CONSUMERS, PUBLISHERS)
READ_BYTES = 4096


@final
class EnterKeyListener:
    """Waits for lines on standard input. After its end, only a signal ends the wait."""

    def __init__(self) -> None:
        self._lines = 0
        self._ended = False

    def enter_pressed(self, within_s: float = 0.0) -> bool:
        """Whether a line came; each counts once."""
        if not self._lines:
            self._read(within_s)
        if not self._lines:
            return False
        self._lines -= 1
        return True

    def _read(self, within_s: float) -> None:
        sources = [] if self._ended else [sys.stdin.fileno()]
        ready, _, _ = select.select(sources, [], [], within_s)
        if ready:
            given = os.read(ready[0], READ_BYTES)
            self._ended = not given
            self._lines += given.count(b"\n")


@final
class SwitchoverGuide:
    """Prints each step and waits until it is done."""

    def __init__(self, listener: EnterKeyListener) -> None:
        self._listener = listener
        self._step = 0

    def ask(self, sentence: str) -> None:
        """Wait for the operator."""
        self._print_step(sentence)
        while not self._listener.enter_pressed(1.0):
            pass

    def ask_while_transferring(self, sentence: str, transfer: Transfer) -> None:
        """Wait for the operator while shovels transfer messages."""
        self._print_step(sentence)
        with transfer:
            while not self._listener.enter_pressed():
                transfer.tick(ending=False)

    def _print_step(self, sentence: str) -> None:
        self._step += 1
        say(f"step {self._step}: {sentence}; then press Enter", flush=True)


def switch_consumers_first(guide: SwitchoverGuide, amqp: str, begin: Callable[[], Transfer]) -> Transfer:
    """Until only the rest is left to transfer."""
    guide.ask("stop the consumers at RabbitMQ; publishers continue there, and their messages wait for a moment")
    transfer = begin()
    guide.ask_while_transferring(
        f"start the consumers at Warren ({amqp}): shovels bring them everything, in order", transfer
    )
    guide.ask_while_transferring("stop the publishers at RabbitMQ, or let them wait", transfer)
    return transfer


def switch_publishers_first(guide: SwitchoverGuide, amqp: str, begin: Callable[[], Transfer]) -> Transfer:
    """Until only the rest is left to transfer."""
    guide.ask(f"stop the publishers at RabbitMQ and start them at Warren ({amqp}); consumers continue at RabbitMQ")
    guide.ask(
        "wait until the consumers have emptied RabbitMQ's queues, and stop them; "
        "messages that they leave come to Warren behind those published there since"
    )
    return begin()


class MoveOutcome(IntEnum):
    """Exit codes of a move that was not refused."""

    WELL = 0
    NOT_WELL = 1
    UNPROVEN = 3
    """Other consumers at RabbitMQ may have received what did not arrive."""


@dataclass(frozen=True)
class MoveOptions:
    """How the move is done."""

    plan_options: PlanOptions
    dry_run: bool = False
    definitions_only: bool = False
    follow: bool = False
    first: str = ""
    at_once: int = 0


class Move:
    """From RabbitMQ to Warren."""

    def __init__(
        self,
        source: RabbitMQ,
        destination: WarrenDestination,
        move_options: MoveOptions,
        print_line: Callable[[str], None],
    ) -> None:
        self._source = source
        self._destination = destination
        self._move_options = move_options
        self._print_line = print_line

    def run(self) -> MoveOutcome:
        """The outcome: done and counted, or planned without conflicts."""
        plan = self._plan()
        if plan.in_the_way:
            raise MoveFailed(
                f"{len(plan.in_the_way)} definitions differ at Warren; nothing was changed. Delete them at one "
                "of the brokers, make them the same, or leave Warren's as they are with --keep"
            )
        if not self._move_options.definitions_only:
            self._check_contents(plan)
        if self._move_options.dry_run:
            self._print_line("nothing was changed: this was a dry run")
            return MoveOutcome.WELL
        self._destination.bring(plan)
        self._print_line(f"definitions imported: {len(plan.brought) + len(plan.bridges)}")
        if self._move_options.definitions_only:
            return MoveOutcome.WELL
        return self._carry(plan)

    def _plan(self) -> MigrationPlan:
        source, move_options = self._source, self._move_options
        overview = source.overview()
        name, version = overview.get("product_name", "RabbitMQ"), overview.get("rabbitmq_version", "")
        if not str(version).startswith("3."):
            raise MoveFailed(f"{source.http.address} is {name} {version}; this moves from RabbitMQ 3")
        self._print_line(
            f"from {name} {version} at {source.http.address} to Warren at {self._destination.http.address}"
        )
        plan = plan_move(
            source.definitions(), self._destination.definitions(), source.queues(), move_options.plan_options
        )
        if plan.unknown_vhosts:
            raise MoveFailed(f"RabbitMQ has no virtual host '{plan.unknown_vhosts[0]}'; nothing was changed")
        for line in (*plan_lines(plan), *listener_notes(overview)):
            self._print_line(line)
        return plan

    def _check_contents(self, plan: MigrationPlan) -> None:
        """Check that contents can be transferred before anything is imported: a refused move changes nothing."""
        if plan.away:
            found = plan.away[0]
            raise MoveFailed(
                f"queue {found.queue} is {found.state} at RabbitMQ, which can neither count nor deliver its messages; "
                f"nothing was changed. Bring {found.node or 'its node'} back, delete the queue at RabbitMQ, or leave "
                "contents where they are with --definitions-only"
            )
        self._check_exchanges(plan)
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

    def _check_permissions(self, plan: MigrationPlan) -> None:
        if plan.missing_at_rabbitmq:
            missing = plan.missing_at_rabbitmq[0]
            raise MoveFailed(
                f"'{missing.user}' may not {missing.forbidden} of RabbitMQ, which its shovel has to"
                f"{_and_others(plan.missing_at_rabbitmq)}; nothing was changed: "
                f"rabbitmqctl set_permissions {_permitting(missing)}"
            )
        if plan.missing_at_warren:
            missing = plan.missing_at_warren[0]
            raise MoveFailed(
                f"'{missing.user}' may not {missing.forbidden} of Warren, which the move of queue {missing.queue} needs"
                f"{_and_others(plan.missing_at_warren)}; nothing was changed. Give --to a user with this permission, "
                "or grant it, with --keep if RabbitMQ's permissions differ: "
                f"warren ctl set_permissions {_permitting(missing)}"
            )

    def _check_shovels(self, plan: MigrationPlan) -> None:
        """A foreign shovel must not have the name of a transfer's shovel, neither at Warren nor in the import."""
        self._destination.carried()
        if others := shovels_of_others(each.value for each in plan.bridges):
            raise MoveFailed(
                f"RabbitMQ has a shovel {others[0]}, and those that carry contents have such names; nothing was "
                "changed. Bring it later, with --definitions-only --bridges, or give it another name"
            )

    def _check_exchanges(self, plan: MigrationPlan) -> None:
        """The exchanges of the move are deleted at the end, so they must not be foreign ones."""
        exchanges = [*self._destination.exchanges(), *plan.document().get(EXCHANGES.section, ())]
        taken = with_foreign_exchanges([found.queue for found in plan.carried], exchanges)
        if taken:
            exchange = f"exchange '{exchange_name(taken[0])}' in '{taken[0].vhost}'"
            raise MoveFailed(
                f"{exchange} belongs to others, and the move needs that name for the contents of queue {taken[0]}; "
                "nothing was changed. Delete or rename it, or leave contents where they are with --definitions-only"
            )

    def _carry(self, plan: MigrationPlan) -> MoveOutcome:
        transfer = self._carrying(plan)
        with transfer:
            transfer.drain()
        but = ", except those deleted at Warren" if transfer.gone else ""
        self._print_line(f"RabbitMQ's queues are empty{but}; counting")
        audits = transfer.settle()
        for audit in audits:
            if audit.had or audit.arrived or not audit.matches:
                self._print_line(count_line(audit))
        outcome = outcome_of(audits)
        if outcome is MoveOutcome.UNPROVEN:
            self._print_line("not proven: other consumers at RabbitMQ may have received what did not arrive")
        elif outcome is MoveOutcome.WELL and self._move_options.first:
            who = "publishers" if self._move_options.first == CONSUMERS else "consumers"
            self._print_line(f"everything has arrived: start the {who} at Warren")
        return outcome

    def _carrying(self, plan: MigrationPlan) -> Transfer:
        """The transfer at the point where only the rest is left."""
        move_options, amqp = self._move_options, self._destination.amqp()

        def begin(at_once: int = 0) -> Transfer:
            return Transfer(self._source, self._destination, plan.carried, at_once)

        listener = EnterKeyListener()
        if move_options.first == CONSUMERS:
            return switch_consumers_first(SwitchoverGuide(listener), amqp, begin)
        if move_options.first:
            return switch_publishers_first(SwitchoverGuide(listener), amqp, begin)
        if not move_options.follow:
            return begin(move_options.at_once)
        transfer = begin()
        SwitchoverGuide(listener).ask_while_transferring(
            "contents are carried until RabbitMQ's publishers are stopped", transfer
        )
        return transfer


def _and_others(lacks: list[MissingPermission]) -> str:
    more = len(lacks) - 1
    return f", and {more} more queues" if more else ""


def _permitting(missing: MissingPermission) -> str:
    return f"-p {missing.queue.vhost} {missing.user} " + " ".join(f"'{each}'" for each in missing.wanted)


def outcome_of(audits: Iterable[QueueAudit]) -> MoveOutcome:
    """The outcome of all queues together."""
    unproven = [audit for audit in audits if not audit.matches]
    if not unproven:
        return MoveOutcome.WELL
    return MoveOutcome.UNPROVEN if all(audit.is_explained for audit in unproven) else MoveOutcome.NOT_WELL


def count_line(audit: QueueAudit) -> str:
    """One queue's final count."""
    verdict = audit.verdict()
    counts = f"RabbitMQ had {audit.had}, {audit.arrived} arrived, Warren has {audit.destination_after.messages}"
    if audit.is_stream:
        counts = f"RabbitMQ has {audit.source_after.messages}, Warren has {audit.destination_after.messages}"
    return f"  queue {audit.queue}: {counts}: {'it matches' if verdict == MATCHES else verdict}"
