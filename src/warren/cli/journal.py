"""`warren journal`: inspect the data directory of a stopped node, and salvage a damaged one.

Standard output has the findings, as tables or as JSON. Standard error has the progress and, for exit codes 1 and 2, the
reason.

Not here: the tables (`cli.journal_report`), reading and repairing (`node.disk.offline_directory`).
"""

import json
import sys
from typing import Annotated

import typer

from warren.cli.terminal import say
from warren.errors import ConfigError, StoreError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Directory = Annotated[str, typer.Argument(metavar="DIR", help="The data directory of a node that does not run.")]


@app.callback(epilog="Example: warren journal inspect var")
def journal() -> None:
    """Inspect and repair the data directory of a stopped node."""


@app.command(
    epilog="Example: warren journal inspect var --json\n\n"
    "Exit codes: 0 sound; 1 damaged, or a node runs there; 2 not a data directory."
)
def inspect(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    records: Annotated[bool, typer.Option("--records", help="List the records, one per line.")] = False,
    segment: Annotated[int | None, typer.Option(metavar="N", min=1, help="With --records: only this segment.")] = None,
) -> int:
    """Print the content of a data directory; nothing is changed."""
    from warren.cli.journal_report import ScanProgress, inspected, show
    from warren.node.disk.offline_directory import OfflineDirectory

    if segment is not None and not records:
        raise ConfigError("--segment N goes with --records")
    progress = ScanProgress()
    offline = OfflineDirectory(directory, progress.show, shared=True)
    try:
        if records:
            for number in offline.files.segments() if segment is None else [segment]:
                lines = offline.record_lines(number)
                progress.done()
                print("\n".join([f"segment {number}", *lines]))
            return 0
        findings = inspected(offline)
    finally:
        progress.done()
        offline.close()
    if as_json:
        print(json.dumps(findings, indent=2))
    else:
        show(findings)
    if findings["faults"]:
        command = f"'warren journal salvage {directory}'"
        raise StoreError(f"{directory} is damaged: {findings['faults'][0]}; {command} saves the readable messages")
    return 0


@app.command(
    epilog="Example: warren journal salvage var --dry-run\n\n"
    "Exit codes: 0 done, or nothing to do; 1 refused or failed; 2 wrong usage, or not a data directory."
)
def salvage(
    directory: Directory,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Keep everything that can be read of a damaged journal, so that the node can start without the rest.

    Replaced files are kept in DIR/salvage-TIME; segments are not changed.
    """
    from warren.cli.journal_report import ScanProgress, inspected, show_salvage
    from warren.node.disk.offline_directory import OfflineDirectory
    from warren.node.disk.offline_streams import offline_streams, salvage_streams

    progress = ScanProgress()
    offline = OfflineDirectory(directory, progress.show, shared=False)
    try:
        findings = inspected(offline)
        progress.done()
        if not findings["faults"]:
            print("The journal is sound: there is nothing to salvage, and nothing was changed.")
            return 0
        for fault in findings["faults"]:
            say(f"Found: {fault}.")
        show_salvage(findings["salvage"])
        offline.refuse_unknown(len(findings["salvage"]["unknown_queues"]))
        if dry_run:
            print("Nothing was changed.")
            return 0
        if not yes:
            _ask()
        recovered = offline.recover(lenient=True)
        kept = offline.salvage(recovered)
        salvage_streams(offline.path, kept, offline_streams(offline, recovered.journal))
        progress.done()
    finally:
        progress.done()
        offline.close()
    if offline.is_member:
        print("The cluster will not rely on this node's copies: it gets mirrored queues from the other nodes.")
    print(f"Done. The replaced files are in {kept}; delete it when you no longer need it. The node can start.")
    return 0


def _ask() -> None:
    if not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask: give --yes to continue without the unreadable messages")
    typer.confirm("Continue without the unreadable messages?", abort=True)
