"""The flags of `turnwire serve`: names, environment variables, defaults, and what they mean."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from turnwire import flag_values as values

ENVIRONMENT_PREFIX = "TURNWIRE_"


class Flag(Struct, kw_only=True, frozen=True):
    """One setting: `--name`, `TURNWIRE_NAME`, what it takes and what it means."""

    name: str
    metavar: str
    default: str | None
    help: str
    parse: Callable[[str], Any]

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")


FLAGS = (
    Flag(
        name="host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on; any but a loopback one needs --key-file",
        parse=values.host,
    ),
    Flag(
        name="port",
        metavar="PORT",
        default="8787",
        help="port to listen on; 0 takes a free one, which is printed",
        parse=values.integer(0, 65_535),
    ),
    Flag(
        name="key-file",
        metavar="PATH",
        default=None,
        help="key that tokens are checked with: an Ed25519 key in PEM, or a secret; without one everyone may come in",
        parse=values.key_file,
    ),
    Flag(
        name="audience",
        metavar="NAME",
        default=None,
        help="takes only tokens that are made for this name (`aud`); without it only those that are made for no one",
        parse=values.audience,
    ),
    Flag(
        name="tls-certificate",
        metavar="PATH",
        default=None,
        help="certificate in PEM, with those that lead to its root: serves https and wss in place of http and ws",
        parse=values.readable,
    ),
    Flag(
        name="tls-key",
        metavar="PATH",
        default=None,
        help="the certificate's private key in PEM, without a password; needed if it is not in the same file",
        parse=values.readable,
    ),
    Flag(
        name="allowed-hosts",
        metavar="NAMES",
        default="",
        help="host names, separated by commas, under which the server may be asked besides those of this machine",
        parse=values.list_of(values.HOST, "a host name without a port"),
    ),
    Flag(
        name="allowed-origins",
        metavar="ORIGINS",
        default="",
        help="origins such as https://chat.example, separated by commas, whose pages may connect besides the own one",
        parse=values.list_of(values.ORIGIN, "an origin such as https://chat.example"),
    ),
    Flag(
        name="data",
        metavar="PATH",
        default="turnwire.db",
        help="SQLite file that holds all sessions; made if it is missing",
        parse=values.data,
    ),
    Flag(
        name="model",
        metavar="MODEL",
        default="scripted",
        help="scripted (built in, offline), openai:NAME or anthropic:NAME (or any service that speaks like them)",
        parse=values.model,
    ),
    Flag(
        name="base-url",
        metavar="URL",
        default=None,
        help="address of another service for openai:NAME or anthropic:NAME; keys: OPENAI_API_KEY, ANTHROPIC_API_KEY",
        parse=values.url,
    ),
    Flag(
        name="workspace",
        metavar="FOLDER",
        default=None,
        help="folder whose files the model's tools may list and read, and change with the user's approval",
        parse=values.folder,
    ),
    Flag(
        name="context-window-tokens",
        metavar="TOKENS",
        default="128000",
        help="how many tokens the model reads at most; a history that grows near it is summarised for the model",
        parse=values.integer(1_000, 100_000_000),
    ),
    Flag(
        name="titles",
        metavar="ON|OFF",
        default="on",
        help="on: a session that nobody named gets a title from the model after its first answer",
        parse=values.switch,
    ),
    Flag(
        name="grace-seconds",
        metavar="SECONDS",
        default="10",
        help="how long running turns may go on after SIGTERM before they are stopped",
        parse=values.seconds,
    ),
    Flag(
        name="close-seconds",
        metavar="SECONDS",
        default="10",
        help="how long clients may take after that to close their connections before they are cut off",
        parse=values.seconds,
    ),
    Flag(
        name="tick-ms",
        metavar="MS",
        default="15000",
        help="interval of the sign of life that every client gets",
        parse=values.integer(50, 600_000),
    ),
    Flag(
        name="write-timeout-seconds",
        metavar="SECONDS",
        default="30",
        help="how long a client may take no byte of what waits for it before it is given up",
        parse=values.seconds,
    ),
    Flag(
        name="max-request-bytes",
        metavar="BYTES",
        default="1048576",
        help="the largest message from a client",
        parse=values.integer(32_768, 67_108_864),
    ),
    Flag(
        name="max-subscriptions",
        metavar="NUMBER",
        default="100",
        help="how many sessions one connection may follow at a time",
        parse=values.COUNT,
    ),
    Flag(
        name="requests-per-second",
        metavar="NUMBER",
        default="100",
        help="how many messages one connection may send in the long run",
        parse=values.rate,
    ),
    Flag(
        name="request-burst",
        metavar="NUMBER",
        default="1000",
        help="how many it may send at once",
        parse=values.COUNT,
    ),
    Flag(
        name="principal-requests-per-second",
        metavar="NUMBER",
        default="400",
        help="how many messages all connections of one principal may send in the long run",
        parse=values.rate,
    ),
    Flag(
        name="principal-request-burst",
        metavar="NUMBER",
        default="2000",
        help="how many they may send at once",
        parse=values.COUNT,
    ),
    Flag(
        name="max-connections",
        metavar="NUMBER",
        default="10000",
        help="how many websockets there may be in all",
        parse=values.COUNT,
    ),
    Flag(
        name="max-connections-per-address",
        metavar="NUMBER",
        default="200",
        help="how many websockets may come from one address (a network of 64 bits of IPv6)",
        parse=values.COUNT,
    ),
    Flag(
        name="max-connections-per-principal",
        metavar="NUMBER",
        default="100",
        help="how many websockets one principal may have",
        parse=values.COUNT,
    ),
    Flag(
        name="uncounted-networks",
        metavar="NETWORKS",
        default="",
        help="networks such as 10.1.0.0/16, separated by commas, that the proxies before the server are in: connections"
        " from there are not counted by address, nor are those from this machine",
        parse=values.networks,
    ),
    Flag(
        name="max-sessions-per-principal",
        metavar="NUMBER",
        default="10000",
        help="how many sessions one principal may own, archived ones included",
        parse=values.COUNT,
    ),
    Flag(
        name="compression",
        metavar="ON|OFF",
        default="off",
        help="on: clients that offer permessage-deflate get it, for less traffic and more work; see the README",
        parse=values.switch,
    ),
    Flag(
        name="metrics-port",
        metavar="PORT",
        default=None,
        help="port for Prometheus metrics, at /metrics; none without it; 0 takes a free one, which is printed",
        parse=values.integer(0, 65_535),
    ),
    Flag(
        name="metrics-host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address for the metrics, which anyone may read who reaches it",
        parse=values.host,
    ),
    Flag(
        name="log-level",
        metavar="LEVEL",
        default="info",
        help="debug, info, warning or error",
        parse=values.log_level,
    ),
    Flag(
        name="log-format",
        metavar="FORMAT",
        default=None,
        help="console or json; without it console on a terminal, else json",
        parse=values.log_format,
    ),
)
