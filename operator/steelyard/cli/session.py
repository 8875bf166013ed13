"""The options that every command for a cluster shares, and what they come to.

A command asks for them with a parameter of the type `Session`; `with_session` puts the options in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from steelyard.cli import codes
from steelyard.cli.codes import Code, Exit
from steelyard.cli.options import namespace_named
from steelyard.cli.output import complain
from steelyard.cluster import errors, kinds
from steelyard.cluster.errors import ClusterError, NotFound, NotServed
from steelyard.cluster.kinds import Object
from steelyard.cluster.kubectl import Kubectl, from_environment

SHARED = ("-n", "--namespace", "--context", "--kubeconfig", "--as")
"""The options of every command with a session; each takes a value."""


@dataclass(frozen=True)
class Session:
    """Who asks which cluster about which namespace."""

    kubectl: Kubectl
    asked_namespace: str | None = None

    @classmethod
    def open(
        cls,
        namespace: Annotated[
            str | None,
            typer.Option(
                "-n", "--namespace", parser=namespace_named, metavar="NAMESPACE", help="Default: the context's."
            ),
        ] = None,
        context: Annotated[str | None, typer.Option(metavar="NAME", help="Context of the kubeconfig.")] = None,
        kubeconfig: Annotated[str | None, typer.Option(metavar="FILE", help="Kubeconfig to use.")] = None,
        as_user: Annotated[str | None, typer.Option("--as", metavar="USER", help="User to act as.")] = None,
    ) -> Session:
        """Every option means what it means to kubectl."""
        return cls(from_environment(context, kubeconfig, as_user), namespace)

    @property
    def namespace(self) -> str:
        """The one that was named, else the context's."""
        return self.asked_namespace or self.kubectl.namespace

    @property
    def user(self) -> str:
        """Who asks, for what is written down."""
        try:
            return self.kubectl.user
        except ClusterError:
            return "somebody"

    def job(self, name: str) -> Object:
        """The AgenticRLJob of this name. Raises ClusterError."""
        try:
            return self.kubectl.get(kinds.JOB.path(self.namespace, name))
        except NotServed:
            raise
        except NotFound as error:
            raise self.no_job(name) from error

    def no_job(self, name: str) -> NotFound:
        return NotFound(f"{self.namespace}/{name}: there is no such job, or none any more")


MEANINGS: tuple[tuple[type[ClusterError], Code, str], ...] = (
    (errors.NoKubectl, codes.NO_KUBECTL, "install kubectl 1.30 or newer, or name it in $KUBECTL"),
    (errors.NoContext, codes.NO_CONTEXT, "`kubectl config get-contexts` lists what there is"),
    (errors.Unreachable, codes.UNREACHABLE, ""),
    (errors.Forbidden, codes.FORBIDDEN, ""),
    (errors.Unauthorized, codes.UNAUTHORIZED, "`kubectl get --raw /version` logs in"),
    (errors.NotServed, codes.NOT_FOUND, "is Steelyard installed? `steelyard check` tells"),
    (errors.NotFound, codes.NOT_FOUND, ""),
    (errors.Conflict, codes.CONFLICT, "try again"),
    (errors.Refused, codes.REFUSED, ""),
    (errors.Unavailable, codes.UNREACHABLE, "try again later"),
    (ClusterError, codes.FAILED, ""),
)
"""The first that fits: error, code, what helps."""


def code_of(error: ClusterError) -> Code:
    return next(code for kind, code, _ in MEANINGS if isinstance(error, kind))


def told(error: ClusterError) -> str:
    """The error with what helps."""
    helps = next(helps for kind, _, helps in MEANINGS if isinstance(error, kind))
    return f"{error}; {helps}" if helps else str(error)


def with_session(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options of `Session.open` for its parameter of that type, errors told and turned into exits.

    What a command returns is its exit code; None is 0.
    """
    signature = inspect.signature(command, eval_str=True)
    asks = next((one.name for one in signature.parameters.values() if one.annotation is Session), None)
    shared = inspect.signature(Session.open, eval_str=True).parameters if asks else {}
    own = [one.replace(kind=one.KEYWORD_ONLY) for one in signature.parameters.values() if one.name != asks]
    parameters = [*own, *(one.replace(kind=one.KEYWORD_ONLY) for one in shared.values())]

    @wraps(command)
    def run(**given: Any) -> None:
        options = {name: given.pop(name) for name in shared}
        try:
            session = {asks: Session.open(**options)} if asks else {}
            ended = command(**given, **session)
        except ClusterError as error:
            code = code_of(error)
            complain(code, "", told(error))
            raise typer.Exit(code.exit) from error
        except KeyboardInterrupt as error:  # how people end a watch
            raise typer.Exit(Exit.INTERRUPTED) from error
        raise typer.Exit(ended or Exit.OK)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
