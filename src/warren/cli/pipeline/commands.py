"""The command lines of `warren pipeline`: one module for each job.

Standard output says what was done, standard error how far it is and why something was refused.

Exit codes: 0 done; 1 refused or failed, or a job found what it looked for; 2 wrong usage.

Not here: what every job may be told (`cli.pipeline.options`).
"""

import typer

from warren.cli.pipeline import audit, compensate, load, reconcile, report, trace

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(epilog="Example: warren pipeline trace --lake lake --files var/traces")
def pipeline() -> None:
    """Spark jobs on what flows through the broker: archive, audit, reconcile and repair."""


trace.add_to(app)
reconcile.add_to(app)
report.add_to(app)
audit.add_to(app)
compensate.add_to(app)
load.add_to(app)
