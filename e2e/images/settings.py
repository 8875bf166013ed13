"""How this machine reaches the package registries, in the form that pip and uv read inside a build."""

import os
from collections.abc import Mapping
from pathlib import Path

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def pip_configuration(environment: Mapping[str, str]) -> str:
    """pip.conf with every PIP_* variable that does not name a path of this machine."""
    kept = {name.removeprefix("PIP_"): value for name, value in environment.items() if name.startswith("PIP_")}
    lines = [
        f"{name.lower().replace('_', '-')} = {value}\n" for name, value in sorted(kept.items()) if not _is_path(value)
    ]
    return "".join(["[global]\n", f"cert = {_AUTHORITIES}\n", *lines])


def uv_configuration(environment: Mapping[str, str]) -> str:
    """uv.toml with the certificates of the image and the indexes of this machine."""
    lines = ["system-certs = true\n"]
    if index := environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL"):
        lines.append(f'index-url = "{index}"\n')
    if extra := environment.get("UV_INDEX") or environment.get("UV_EXTRA_INDEX_URL"):
        lines.append(f"extra-index-url = {extra.split()}\n".replace("'", '"'))
    return "".join(lines)


def build_options(folder: Path) -> list[str]:
    """Options for buildah: they hold during the build and leave no trace in the image. `folder` keeps the files."""
    files = {"/etc/pip.conf": pip_configuration(os.environ), "/etc/uv/uv.toml": uv_configuration(os.environ)}
    mounts = []
    for number, (target, text) in enumerate(files.items()):
        path = folder / str(number)
        path.write_text(text)
        mounts.append((path, target))
    authorities = Path(os.environ.get("SSL_CERT_FILE") or _AUTHORITIES)
    if authorities.exists():
        mounts.append((authorities, str(_AUTHORITIES)))
    proxies = [f"--build-arg={name}={value}" for name in _PROXIES if (value := os.environ.get(name))]
    return [*(f"--volume={source}:{target}:ro" for source, target in mounts), *proxies]


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~"))
