"""The command lines of `warren ha`.

Standard output has the files or findings, standard error reasons for refusals.

Exit codes: 0 done, nothing wrong; 1 refused, or the deployment has a problem; 2 wrong usage or a bad file.

Not here: reading the deployment (`cli.ha.source`), rendering (`cli.ha.bundle`), checking (`cli.ha.probes`,
`cli.ha.verdict`).
"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

File = Annotated[str, typer.Argument(metavar="[FILE]", help="The deployment, as a TOML file.")]
From = Annotated[str, typer.Option("--from", metavar="URL", help="Ask this node's HTTP API which nodes there are.")]
User = Annotated[str, typer.Option(metavar="NAME", help="As whom to ask; WARREN_USER, or guest, unless given.")]
Password = Annotated[str, typer.Option(metavar="WORD", help="WARREN_PASSWORD, or guest, unless given.")]
Virtual = Annotated[
    str, typer.Option(metavar="ADDRESS/LENGTH", help="With --from: the address that clients will know.")
]
Balancers = Annotated[
    list[str] | None,
    typer.Option("--balancer", metavar="NAME=ADDRESS", help="With --from: a load balancer; may be given again."),
]
Authority = Annotated[
    str, typer.Option("--ca-file", metavar="FILE", help="With --from: the authority of the nodes' certificates.")
]
Interface = Annotated[str, typer.Option(metavar="NAME", help="With --from: the balancers' network interface.")]
ABOUT_FILES = "docs/frontdoor.md describes the file."


@app.callback(epilog="Example: warren ha render deployment.toml --out rendered")
def ha() -> None:
    """Load balancers and a virtual address before a cluster."""


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
    """Write configurations for HAProxy, Keepalived and the nodes, once the first two have nothing against theirs."""
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
    print("Not checked by HAProxy and Keepalived." if unchecked else "HAProxy and Keepalived have nothing against it.")
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
    rules: Annotated[
        str, typer.Option(metavar="MACHINE", help="Print nothing but the firewall's rules of this machine.")
    ] = "",
) -> int:
    """Print which ports of which machine must be open for whom, and the rules of nftables that make it so."""
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
    "Run it from a machine of the clients. Without a user it looks at the balancers and the nodes; with one, who needs "
    f"the tag monitoring, also at the cluster behind them.\n\n{ABOUT_FILES}"
)
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The deployment, as a TOML file.")],
    user: Annotated[str, typer.Option(metavar="NAME", help="As whom to ask; WARREN_USER unless given.")] = "",
    password: Annotated[str, typer.Option(metavar="WORD", help="WARREN_PASSWORD unless given.")] = "",
    ca_file: Annotated[str, typer.Option(metavar="FILE", help="The authority of the nodes' certificates.")] = "",
) -> int:
    """Look at a deployment from outside, and say in words what is wrong; 1 if anything is."""
    import os

    from warren.cli.ha.probes import ClusterLogin, observe
    from warren.cli.ha.source import read_file
    from warren.cli.ha.verdict import WRONG, judge_deployment

    deployment = read_file(file)
    user, password = user or os.environ.get("WARREN_USER", ""), password or os.environ.get("WARREN_PASSWORD", "")
    findings = judge_deployment(deployment, observe(deployment, ClusterLogin(user, password, ca_file)))
    for finding in findings:
        print(f"{finding.level:8} {finding.sentence}")
    if not user:
        print("remark   without --user nobody was asked about members, versions, mirrors and the clients' addresses")
    bad = sum(finding.level == WRONG for finding in findings)
    print(f"{bad} wrong" if bad else "nothing is wrong")
    return 1 if bad else 0
