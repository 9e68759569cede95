"""Runs one command line of `warren ctl`, from its words to the exit code.

The only place where a `Failure` becomes lines on standard error.

Not here: parsing (`cli.ctl.command_line`), the verbs (`cli.ctl.catalog`).
"""

import os
import sys
from contextlib import closing
from typing import Final

from warren import __version__
from warren.cli.ctl import command_line, output
from warren.cli.ctl.api import OK, STOPPED, USAGE, ApiRefusal, Failure, TimedOut, UsageFailure, WrongNodeState
from warren.cli.ctl.catalog import GROUPS, VERBS
from warren.cli.ctl.command_line import CommandLine
from warren.cli.ctl.verb import Rows, Verb, VerbCall
from warren.cli.terminal import say

INTERRUPTED: Final = 130


def run(words: list[str]) -> int:
    """Run one verb; returns the exit code."""
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; nothing else may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(words: list[str]) -> int:
    line = command_line.read(words, VERBS)
    if line.verb is None and "version" in line.switches:
        print(__version__)
        return OK
    if line.verb is None:
        asked = "help" in line.switches
        stream = sys.stdout if asked else sys.stderr
        print(command_line.verb_overview(GROUPS, stream), file=stream)
        return OK if asked else USAGE
    verb = VERBS.get(line.verb)
    if verb is None:
        print(command_line.unknown_verb(line.verb, GROUPS), file=sys.stderr)
        return USAGE
    if "help" in line.switches:
        print(command_line.verb_page(verb, sys.stdout))
        return OK
    return _carry_out(line, verb)


def _carry_out(line: CommandLine, verb: Verb) -> int:
    try:
        line.refuse_invalid()
        with closing(VerbCall(verb, line.arguments, line.options(os.environ), verb.patience_s)) as call:
            return _perform_running(call)
    except UsageFailure as misuse:
        say(f"{misuse.prefix}: {misuse.text}", sys.stderr)
        print(f"Arguments given:\n\t{' '.join(line.shown)}\n", file=sys.stderr)
        print(f"{command_line.heading('Usage', sys.stderr)}\n\n{command_line.usage_line(verb)}", file=sys.stderr)
        return misuse.exit_code
    except TimedOut as late:
        node = line.switches.get("node") or line.options(os.environ).http
        say(f"Error: operation {verb.name} on node {node} {late.text}", sys.stderr)
        return late.exit_code
    except Failure as failure:
        sys.stdout.flush()
        say(failure.text, sys.stderr)
        return failure.exit_code


def _perform_running(call: VerbCall) -> int:
    """A verb fails with a hint if the node is stopped."""
    try:
        return _perform(call)
    except ApiRefusal as answer:
        if answer.error != STOPPED:
            raise
        raise WrongNodeState(
            "this command requires the 'rabbit' app to be running on the target node. "
            "Start it with 'warren ctl start_app'."
        ) from answer


def _perform(call: VerbCall) -> int:
    _check(call)
    if call.options.node and not call.verb.of_process:
        _ = call.node
    output.announce(call, call.banner())
    if call.options.dry_run:
        return OK
    outcome = call.verb.run(call)
    output.write(call, outcome)
    return outcome.exit_code if isinstance(outcome, Rows) else OK


def _check(call: VerbCall) -> None:
    fewest, most = call.verb.arguments
    if len(call.arguments) < fewest:
        raise UsageFailure(USAGE, "not enough arguments.")
    if len(call.arguments) > most:
        raise UsageFailure(USAGE, "too many arguments.")
    if call.verb.columns:
        call.chosen_columns("")
    if call.verb.check is not None:
        call.verb.check(call)
