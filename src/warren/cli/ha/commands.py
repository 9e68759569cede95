"""The command lines of `warren ha`.

Standard output has the files or findings, standard error reasons for refusals.

Exit codes: 0 done, nothing wrong; 1 refused, or the deployment has a problem; 2 wrong usage or a bad file.

Not here: reading the deployment (`cli.ha.source`), rendering (`cli.ha.bundle`), checking (`cli.ha.probes`,
`cli.ha.verdict`).
"""

from pathlib import Path
from typing import Annotated

import typer

from warren.cli.terminal import say

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

File = Annotated[str, typer.Argument(metavar="[FILE]", help="The deployment, as a TOML file.")]
From = Annotated[str, typer.Option("--from", metavar="URL", help="Ask this node's HTTP API for the nodes.")]
User = Annotated[str, typer.Option(metavar="NAME", help="User name; WARREN_USER or guest by default.")]
Password = Annotated[str, typer.Option(metavar="WORD", help="WARREN_PASSWORD or guest by default.")]
Virtual = Annotated[str, typer.Option(metavar="ADDRESS/LENGTH", help="With --from: the virtual address for clients.")]
Balancers = Annotated[
    list[str] | None,
    typer.Option("--balancer", metavar="NAME=ADDRESS", help="With --from: a load balancer; may be repeated."),
]
Authority = Annotated[
    str, typer.Option("--ca-file", metavar="FILE", help="With --from: the CA of the nodes' certificates.")
]
Interface = Annotated[str, typer.Option(metavar="NAME", help="With --from: the balancers' network interface.")]
ABOUT_FILES = "docs/frontdoor.md describes the file."


@app.callback(epilog="Example: warren ha render deployment.toml --out rendered")
def ha() -> None:
    """Load balancers and a virtual address in front of a cluster."""


@app.command(
    epilog="Example: warren ha render deployment.toml --out rendered\n\n"
    "Example: warren ha render --from http://n1:15672 --virtual 10.0.0.10/24 --balancer lb1=10.0.0.11 "
    f"--balancer lb2=10.0.0.12 --out rendered\n\n{ABOUT_FILES}"
)
def render(
    out: Annotated[str, typer.Option(metavar="DIR", help="Where to write: a folder for each machine.")],
    file: File = "",
    url: From = "",
    user: User = "",
    password: Password = "",
    virtual: Virtual = "",
    balancer: Balancers = None,
    interface: Interface = "eth0",
    ca_file: Authority = "",
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Do not have HAProxy and Keepalived check their configurations.")
    ] = False,
) -> int:
    """Write configurations for HAProxy, Keepalived and the nodes, after HAProxy and Keepalived have checked theirs."""
    from warren.cli.ha import bundle
    from warren.cli.ha.bundle import rendered_files, write_all
    from warren.cli.ha.deployment import DEPLOYMENT_FILE, remarks
    from warren.cli.ha.source import DeploymentSource, deployment_of

    deployment = deployment_of(
        DeploymentSource(file, url, user, password, virtual, tuple(balancer or ()), interface, ca_file)
    )
    place = Path(out) / DEPLOYMENT_FILE
    # do not overwrite the author's own file with one without comments
    files = rendered_files(deployment, with_itself=not (file and place.exists() and place.samefile(file)))
    left_unchecked = [] if unchecked else bundle.check_configurations(deployment)
    write_all(Path(out), files)
    for each in files:
        print(f"{out.rstrip('/')}/{each.path}")
    for sentence in (*remarks(deployment), *left_unchecked):
        print(sentence)
    print("Not checked by HAProxy and Keepalived." if unchecked else "HAProxy and Keepalived accept it.")
    return 0


@app.command(
    epilog="Example: warren ha plan deployment.toml\n\n"
    f"Example: warren ha plan deployment.toml --rules lb1 > warren.nft\n\n{ABOUT_FILES}"
)
def plan(
    file: File = "",
    url: From = "",
    user: User = "",
    password: Password = "",
    virtual: Virtual = "",
    balancer: Balancers = None,
    interface: Interface = "eth0",
    ca_file: Authority = "",
    rules: Annotated[str, typer.Option(metavar="MACHINE", help="Print only the firewall rules of this machine.")] = "",
) -> int:
    """Print the ports that must be open on each machine, and nftables rules for them."""
    from warren.cli.ha import port_plan as planning
    from warren.cli.ha.source import DeploymentSource, deployment_of, with_addresses

    described = deployment_of(
        DeploymentSource(file, url, user, password, virtual, tuple(balancer or ()), interface, ca_file)
    )
    deployment = with_addresses(described)
    print(planning.rules_of(deployment, rules) if rules else planning.plan_text(deployment), end="")
    return 0


@app.command(
    epilog="Example: warren ha check deployment.toml --user ops --password secret\n\n"
    "Run it from a machine of the clients. Without --user it checks the balancers and the nodes. With a user that has "
    f"the tag monitoring it also checks the cluster behind them.\n\n{ABOUT_FILES}"
)
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The deployment, as a TOML file.")],
    user: Annotated[str, typer.Option(metavar="NAME", help="User name; WARREN_USER by default.")] = "",
    password: Annotated[str, typer.Option(metavar="WORD", help="WARREN_PASSWORD by default.")] = "",
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="The CA of the nodes' certificates.")] = "",
) -> int:
    """Check a deployment from outside and print the findings; exit code 1 if something is wrong."""
    import os

    from warren.cli.ha.probes import ClusterLogin, observe
    from warren.cli.ha.source import read_file
    from warren.cli.ha.verdict import WRONG, judge_deployment

    deployment = read_file(file)
    user, password = user or os.environ.get("WARREN_USER", ""), password or os.environ.get("WARREN_PASSWORD", "")
    findings = judge_deployment(deployment, observe(deployment, ClusterLogin(user, password, ca_file)))
    for finding in findings:
        say(f"{finding.level:8} {finding.sentence}")
    if not user:
        print("remark   without --user members, versions, mirrors and the clients' addresses were not checked")
    bad = sum(finding.level == WRONG for finding in findings)
    print(f"{bad} wrong" if bad else "nothing is wrong")
    return 1 if bad else 0
