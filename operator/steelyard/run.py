"""The operator's process: reads the settings, builds what the controller depends on, runs until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

import kopf
from pydantic import ValidationError

from steelyard import handlers
from steelyard.cluster.client import NoCluster, connect
from steelyard.cluster.kubernetes import KubernetesCluster
from steelyard.cluster.lease import Lease
from steelyard.controller import Controller, Dependencies
from steelyard.metrics import Prometheus
from steelyard.metrics.connect import connect as connect_prometheus
from steelyard.pools.loop import PoolDependencies, Pools
from steelyard.settings import Settings, explained, reference
from steelyard.telemetry import Telemetry, serving

LEASE_LOST_SECONDS = 60.0
MISSES = 2

log = logging.getLogger("steelyard")


async def run(settings: Settings) -> None:
    """The whole operator, until it is told to stop or a part of it fails."""
    telemetry = Telemetry()
    client = await connect(settings.kubeconfig, telemetry.count_request)
    lease = Lease(client, settings.lease_namespace, settings.lease_name, settings.identity)
    client.fence = lease.fence
    cluster = KubernetesCluster(client, settings.namespaces, pod_monitors=settings.pod_monitors)
    async with connect_prometheus(
        settings.prometheus_url, settings.prometheus_timeout_seconds, settings.prometheus_secret
    ) as http:
        deps = Dependencies(cluster, Prometheus(http), settings.images, telemetry, time.time)
        controller, pools = Controller(deps), Pools(PoolDependencies(cluster, telemetry, time.time, deps.measured))
        cluster.store.on_change = controller.wake

        def wake_all() -> None:
            for key in cluster.store.jobs:
                controller.wake(key)
            for name in cluster.store.pools:
                pools.wake(name)

        async def stop() -> None:
            await pools.stop()
            await controller.stop()

        cluster.store.on_pool_change = pools.wake
        lease.on_acquired = wake_all
        telemetry.lease_held.set_function(lambda: float(lease.held))
        telemetry.under_control.set_function(lambda: float(len(controller)))
        telemetry.silence.set_function(lambda: max(cluster.silence().values()))
        checks = {"/healthz": lambda: complaints(cluster, lease), "/readyz": lambda: obstacles(cluster, lease)}
        async with serving(telemetry, settings.http_port, checks):
            try:
                await _until_stopped(settings, cluster, lease, stop)
            finally:
                await stop()
                await lease.release()
                await client.close()


def complaints(cluster: KubernetesCluster, lease: Lease) -> list[str]:
    """Why this operator should be restarted."""
    found = [f"the watch of {kind} is dead" for kind in cluster.deaf()]
    if cluster.audit.misses >= MISSES:
        found.append("the watch of AgenticRLJob misses events")
    if time.monotonic() - lease.last_held > LEASE_LOST_SECONDS:
        found.append("the Lease is not held")
    return found


def obstacles(cluster: KubernetesCluster, lease: Lease) -> list[str]:
    """Why this operator does not act yet."""
    found = [f"the state of {kind} is not read" for kind in cluster.unread()]
    return found if lease.held else [*found, "the Lease is not held"]


async def _until_stopped(
    settings: Settings, cluster: KubernetesCluster, lease: Lease, stop: Callable[[], Awaitable[None]]
) -> None:
    if settings.namespaces:
        log.warning("serving %s only: RLPools are off, and jobs that name one wait", ", ".join(settings.namespaces))
    registry = kopf.OperatorRegistry()
    login = kopf.login_with_kubeconfig if settings.kubeconfig else kopf.login_with_service_account
    handlers.register(registry, cluster.store, login, stop)
    own = asyncio.current_task()
    assert own is not None
    # Until kopf has its handler: whoever ends gives the Lease back.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)
    async with asyncio.TaskGroup() as group:
        background = [group.create_task(cluster.run()), group.create_task(lease.run())]
        await cluster.synced()  # no job is looked at before all children are known
        log.info("the state of all children is read")
        await kopf.operator(
            registry=registry,
            settings=handlers.settings(clusterwide=not settings.namespaces),
            namespaces=settings.namespaces,
            clusterwide=not settings.namespaces,
            standalone=True,
        )
        for task in background:
            task.cancel()


def main() -> None:
    """Exits 2 on a wrong argument or setting, 1 when it is told of no cluster."""
    parser = argparse.ArgumentParser(
        "python -m steelyard",
        description="The operator. It takes no arguments; its settings are environment variables:",
        epilog=reference(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    try:
        settings = Settings()
    except ValidationError as error:
        parser.error(explained(error))
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "kopf", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if settings.kubeconfig:
        os.environ["KUBECONFIG"] = str(settings.kubeconfig)  # where kopf's login looks
    try:
        asyncio.run(run(settings))
    except NoCluster as error:
        sys.exit(f"{parser.prog}: {error}")
    except asyncio.CancelledError:
        log.info("told to stop before all was read")
