"""`sparsegp certificate`."""

import click


@click.command()
@click.argument("folder", metavar="DIR")
def certificate(folder: str) -> None:
    """Make a TLS certificate in DIR: ca.pem, cert.pem and key.pem, good for a year.

    Scheduler, workers and this program take it (--tls). Whoever can read key.pem can run code on
    the cluster. Needs the extra `tls`.
    """
    from sparsegp.execution.security import write_certificate

    made = write_certificate(folder)
    click.echo(f"{made.ca} {made.cert} {made.key}")
