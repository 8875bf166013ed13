"""Answers of Prometheus' HTTP API: parsed once, here; whatever is wrong with one is a typed reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import httpx

from steelyard.balance.types import Instant, MetricsProblem, MetricsUnavailable, Series

TARGET_LABELS = frozenset(
    {"__name__", "namespace", "pod", "instance", "job", "container", "endpoint", "steelyard_job"}
    | {"exported_namespace", "exported_pod", "persistentvolumeclaim"}
)
"""Labels that say where a series was scraped or whom it is about, not what it measures."""

Index = Mapping[tuple[str, str], tuple[Series, ...]]
"""(namespace, pod or claim) -> its series of one metric."""

Samples = tuple[tuple[Instant, float], ...]
Row = tuple[Mapping[str, str], Samples]
"""Labels and samples, oldest first."""


class Unavailable(Exception):
    """The metrics source did not answer; `reason` says why, as a value."""

    def __init__(self, problem: MetricsProblem, message: str) -> None:
        super().__init__(message)
        self.reason = MetricsUnavailable(problem, message)


async def ask(client: httpx.AsyncClient, about: str, endpoint: str, **parameters: str) -> list[Row]:
    """The rows of one answer of /api/v1/`endpoint`; `about` names the question in errors. Raises Unavailable."""
    try:
        response = await client.get(f"/api/v1/{endpoint}", params=parameters)
    except (httpx.DecodingError, httpx.TooManyRedirects) as error:
        raise Unavailable(MetricsProblem.BAD_RESPONSE, _sentence(about, error)) from error
    except httpx.HTTPError as error:
        raise Unavailable(MetricsProblem.UNREACHABLE, _sentence(about, error)) from error
    try:
        return list(_rows(about, response))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unavailable(
            MetricsProblem.BAD_RESPONSE,
            f"Prometheus answered {about} with status {response.status_code} and a body that is not a range vector",
        ) from error


def indexed(rows: Iterable[Row]) -> Index:
    """Rows by whom they are about."""
    index: dict[tuple[str, str], tuple[Series, ...]] = {}
    for labels, samples in rows:
        where = _where(labels)
        index[where] = (*index.get(where, ()), Series(_measured(labels), samples))
    return index


def _rows(about: str, response: httpx.Response) -> Iterator[Row]:
    """Matrices as they are; an instant's vector as one sample each."""
    body = response.json()
    if response.status_code != httpx.codes.OK or body["status"] != "success":
        told = f"{body.get('errorType', 'error')}: {body.get('error', 'no text')}"
        raise Unavailable(MetricsProblem.BAD_RESPONSE, f"Prometheus refused {about} ({response.status_code}, {told})")
    for row in body["data"]["result"]:
        values: list[Any] = row["values"] if "values" in row else [row["value"]]
        yield dict(row["metric"]), tuple((float(at), float(value)) for at, value in values)


def _where(labels: Mapping[str, str]) -> tuple[str, str]:
    """Whom a series is about: exporters that speak for other pods name them `exported_`, unless labels are honoured."""
    namespace = labels.get("exported_namespace") or labels.get("namespace", "")
    return namespace, labels.get("persistentvolumeclaim") or labels.get("exported_pod") or labels.get("pod", "")


def _measured(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in labels.items() if key not in TARGET_LABELS))


def _sentence(about: str, error: Exception) -> str:
    return f"Prometheus did not answer for {about}: {type(error).__name__}{f': {error}' if str(error) else ''}"
