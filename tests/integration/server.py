"""The API server as tests see it: the scenarios' client, and raw requests for what only a kubelet would do."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import httpx

from e2e.kube import Kube, Object

GONE, CONFLICT = 404, 409
"""What a request may meet when others act at the same time."""


class Patch(StrEnum):
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    """Lists are merged by their keys."""


class Refused(Exception):
    """The API server said no; the text holds its words."""


class Server(Kube):
    """Everything of `Kube`, and requests to any path."""

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        params: Mapping[str, str] | None = None,
        patch: Patch = Patch.MERGE,
        fine: Collection[int] = (),
    ) -> Object:
        """The answer's body; Refused when the server does, {} when its status is `fine`."""
        headers = {"Content-Type": patch if method == "PATCH" else "application/json"}
        response = self._http.request(method, path, json=body, params=params, headers=headers)
        if response.status_code in fine:
            return {}
        if response.is_error:
            raise Refused(f"{method} {path}: {response.status_code} {_message(response)}")
        answer: Object = response.json()
        return answer

    def items(self, path: str, **params: str) -> list[Object]:
        """Every object of a collection."""
        found: list[Object] = self.request("GET", path, params=params)["items"]
        return found


def _message(response: httpx.Response) -> str:
    try:
        said: str = response.json()["message"]
    except (ValueError, KeyError):
        return response.text
    return said
