"""Settings of `turnwire serve`: what its flags and environment variables come to, and what does not go together."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnwire.flags import FLAGS
from turnwire.gateway.auth import is_loopback
from turnwire.gateway.settings import LOOPBACK_NETWORKS, GatewaySettings
from turnwire.gateway.tokens import Key
from turnwire.logs import LogFormat


class SettingError(Exception):
    """A flag or environment variable with a wrong value; the sentence names it."""


class Settings(Struct, kw_only=True, frozen=True):
    """What one server runs with. Seconds and ms as the names say."""

    host: str
    port: int
    key_file: Key | None
    audience: str | None
    tls_certificate: Path | None
    tls_key: Path | None
    tls: ssl.SSLContext | None
    """Of the certificate and the key."""
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    data: Path
    model: str
    base_url: str | None
    workspace: Path | None
    context_window_tokens: int
    titles: bool
    grace_seconds: float
    close_seconds: float
    tick_ms: int
    write_timeout_seconds: float
    max_request_bytes: int
    max_subscriptions: int
    requests_per_second: float
    request_burst: int
    principal_requests_per_second: float
    principal_request_burst: int
    max_connections: int
    max_connections_per_address: int
    max_connections_per_principal: int
    uncounted_networks: tuple[str, ...]
    """Besides this machine."""
    max_sessions_per_principal: int
    compression: bool
    metrics_host: str
    metrics_port: int | None
    log_level: str
    log_format: LogFormat | None

    def gateway(self) -> GatewaySettings:
        """What its gateway is told."""
        return GatewaySettings(
            host=self.host,
            port=self.port,
            tick_ms=self.tick_ms,
            allowed_hosts=self.allowed_hosts,
            allowed_origins=self.allowed_origins,
            write_timeout_s=self.write_timeout_seconds,
            close_timeout_s=self.close_seconds,
            tls=self.tls,
            compression=self.compression,
            max_request_bytes=self.max_request_bytes,
            max_subscriptions=self.max_subscriptions,
            requests_per_s=self.requests_per_second,
            request_burst=self.request_burst,
            principal_requests_per_s=self.principal_requests_per_second,
            principal_request_burst=self.principal_request_burst,
            max_connections=self.max_connections,
            max_connections_per_address=self.max_connections_per_address,
            max_connections_per_principal=self.max_connections_per_principal,
            uncounted_networks=(*LOOPBACK_NETWORKS, *self.uncounted_networks),
            max_sessions_per_principal=self.max_sessions_per_principal,
        )


def settings_from(given: Mapping[str, str | None], environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from flags (by `Flag.field`), else from the environment, else the defaults.

    Raises SettingError that names the flag or variable.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for flag in FLAGS:
        text, source = given.get(flag.field), f"--{flag.name}"
        if text is None and flag.variable in environment:
            text, source = environment[flag.variable], flag.variable
        if text is None:
            text = flag.default
        sources[flag.field] = source
        try:
            values[flag.field] = None if text is None else flag.parse(text)
        except ValueError as error:
            raise SettingError(f"{source}: {error}") from None
    settings = Settings(**values, tls=_tls(values["tls_certificate"], values["tls_key"], sources))
    if settings.key_file is None and not is_loopback(settings.host):
        reason = "can be reached from other machines, so --key-file is needed"
        raise SettingError(f"{sources['host']}: {settings.host} {reason}")
    if settings.audience is not None and settings.key_file is None:
        raise SettingError(f"{sources['audience']}: --key-file is needed as well")
    return settings


def _tls(certificate: Path | None, key: Path | None, sources: Mapping[str, str]) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise SettingError(f"{sources['tls_key']}: --tls-certificate is needed as well")
        return None
    from turnwire.gateway.tls import tls_context  # and with it all of X.509, which most servers leave to a proxy

    try:
        return tls_context(certificate, key or certificate)
    except ValueError as error:
        raise SettingError(f"{sources['tls_certificate']}: {error}") from None
