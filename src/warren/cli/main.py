"""`warren`: the commands, and the only place where an error becomes a sentence and an exit code.

Exit codes: 0 done; 1 refused or failed, with the reason on standard error; 2 wrong usage, a bad option, file or port; 3
a node's address or port is not available now.

Commands import what they need when they run, so that `--help` and usage errors are quick.

Not here: what a command does (the package that it calls).
"""

import os
import sys
from typing import Annotated, Any

import typer

from warren import __version__
from warren.cli import journal
from warren.cli.client import commands as client
from warren.cli.cluster import commands as cluster
from warren.cli.ha import commands as ha
from warren.cli.migrate.command import migrate
from warren.cli.pipeline import commands as pipeline
from warren.cli.terminal import say
from warren.errors import ConfigError, WarrenError

_TO_READ_WARREN_VARIABLES = {"auto_envvar_prefix": "WARREN"}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def main() -> None:
    """The entry point of the `warren` script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        outcome = app(arguments, prog_name="warren", standalone_mode=False)
    except typer.TyperException as error:
        return _refuse(error.format_message(), 2)
    except ConfigError as error:
        return _refuse(str(error), getattr(error, "exit_code", 2))
    except WarrenError as error:
        return _refuse(str(error), 1)
    except (typer.Abort, KeyboardInterrupt):
        return 1
    return outcome if isinstance(outcome, int) else 0


def _refuse(sentence: str, exit_code: int) -> int:
    say(f"warren: {' '.join(sentence.split())}", sys.stderr)
    return exit_code


@app.callback(invoke_without_command=True, epilog="Example: warren serve --amqp 127.0.0.1:5672 --data var")
def root(context: typer.Context) -> None:
    """An AMQP 0-9-1 message broker."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _option(metavar: str, sentence: str) -> Any:
    return typer.Option(metavar=metavar, help=sentence)


@app.command(
    context_settings=_TO_READ_WARREN_VARIABLES,
    epilog="Example: warren serve --name rabbit@one --amqp 127.0.0.1:5672 --config warren.conf\n\n"
    "Each key of the configuration file is also an environment variable, in capitals, with two underscores for a dot: "
    "WARREN_LISTENERS__TCP__DEFAULT=5673",
)
def serve(
    name: Annotated[str, _option("NAME[@HOST]", "The node's name.")] = "",
    data: Annotated[str, _option("DIR", "Data directory; ./var by default.")] = "",
    amqp: Annotated[str, _option("HOST:PORT", "Where to listen for AMQP; port 0 picks a free one.")] = "",
    http: Annotated[
        str, _option("HOST:PORT", "Where to serve the HTTP API and the pages; port 0 picks a free one.")
    ] = "",
    peer: Annotated[str, _option("HOST:PORT", "Where to listen for other nodes; port 0 picks a free one.")] = "",
    config: Annotated[str, _option("FILE", "A rabbitmq.conf-style file of key = value lines.")] = "",
    join: Annotated[list[str] | None, _option("HOST:PORT", "A node whose cluster to join; may be repeated.")] = None,
    ram: Annotated[bool, typer.Option("--ram", help="Keep definitions in memory only, as part of a cluster.")] = False,
    witness: Annotated[
        bool, typer.Option("--witness", help="Keep definitions and hold no queues, as part of a cluster.")
    ] = False,
    stopped: Annotated[
        bool, typer.Option("--stopped", help="Wait for 'warren ctl start_app' before starting.")
    ] = False,
) -> int:
    """Run one node in the foreground until SIGTERM or Ctrl-C."""
    from warren.node.config.settings import NodeFlags, read_settings
    from warren.node.service import serve as serve_node

    flags = NodeFlags(name, data, amqp, http, peer, config, tuple(join or ()), ram, witness, stopped)
    return serve_node(read_settings(flags, os.environ))


@app.command(epilog="Example: warren sim --seed 42 --steps 2000")
def sim(
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The same seed gives the same run.")],
    steps: Annotated[int, typer.Option(min=1, metavar="N", help="Number of steps.")] = 1000,
    nodes: Annotated[int, typer.Option(min=1, max=5, metavar="N", help="Number of nodes; several form a cluster.")] = 1,
    rings: Annotated[bool, typer.Option("--rings", help="Simulate the members of one mirrored queue only.")] = False,
) -> int:
    """Replay one simulated run and print its trace."""
    if rings:
        from warren.sim.replica_sets.run import run_replica_sets

        return run_replica_sets(seed, steps, sink=print).print_verdict()
    if nodes > 1:
        from warren.sim.cluster.run import run_cluster

        return run_cluster(seed, steps, nodes, sink=print).print_verdict()
    from warren.sim.run import run_node

    return run_node(seed, steps, sink=print).print_verdict()


app.add_typer(journal.app, name="journal")
app.add_typer(cluster.app, name="cluster")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(client.app, name="client")
app.add_typer(ha.app, name="ha")


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    epilog="Example: warren ctl list_queues name messages",
)
def ctl(context: typer.Context) -> int:
    """Operate a node with rabbitmqctl's commands over the HTTP API."""
    from warren.cli.ctl.run import run as run_verb

    return run_verb(context.args)


app.command(
    epilog="Example: warren migrate --from http://admin:secret@rabbit:15672 --to http://guest:guest@localhost:15672 "
    "--dry-run"
)(migrate)


@app.command(epilog="Example: warren version")
def version() -> int:
    """Print the version, and whether the core is compiled."""
    from warren.node.process import core_kind

    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"warren {__version__} core={core_kind()} python={python}")
    return 0


if __name__ == "__main__":
    main()
