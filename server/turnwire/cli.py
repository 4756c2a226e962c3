"""The command line: `turnwire serve | token | db | conformance | schema | version`."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from typing import NoReturn

import trio

from turnwire import database, logs
from turnwire.app import Turnwire
from turnwire.conformance.arguments import add_parser as add_conformance_command
from turnwire.flags import FLAGS
from turnwire.gateway import TokenAuthenticator
from turnwire.sessions.environment import now_ms
from turnwire.settings import SettingError, Settings, settings_from
from turnwire.signals import StopSignals
from turnwire.stopping import Watchdog
from turnwire.store.base import StoreIncompatible, StoreLocked, StoreUnavailable
from turnwire.token_command import add_token_command, run_token_command
from turnwire.tools.workspace import workspace_tools
from turnwire_protocol.schema import schema

EXAMPLES = """\
examples:
  turnwire serve
      the chat page on http://127.0.0.1:8787 with the built-in scripted model
  turnwire serve --port 9000 --data /var/lib/chat/turnwire.db
  turnwire serve --host 0.0.0.0 --key-file turnwire.key --allowed-hosts chat.example.org
      for others, who need a token each (turnwire token create)
  turnwire serve --host 0.0.0.0 --key-file turnwire.key --allowed-hosts chat.example.org --port 443
      --tls-certificate fullchain.pem --tls-key privkey.pem
      the same by https and wss, without a proxy
  turnwire serve --model openai:gpt-4o-mini
      with the key in OPENAI_API_KEY
  turnwire serve --model anthropic:claude-sonnet-4-5
      with the key in ANTHROPIC_API_KEY
  turnwire serve --model openai:llama3.2 --base-url http://127.0.0.1:11434/v1
      a model on this machine
"""

EXPECTED_FAILURES = (StoreLocked, StoreIncompatible, StoreUnavailable, OSError)
"""Why a server may not start or not go on: a sentence for the operator, no traceback."""

_log = logging.getLogger(__name__)

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_FORCED = 3

EXIT_CODES = """\
exit codes:
  0  the server was stopped in order: every turn has its end in the store
  1  it could not start, or could not go on
  2  wrong arguments
  3  the stop was not orderly: cut short by a second signal, hung, or the end of a turn could not be stored;
     the next start closes the turns that were left open
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits: 0 when it is done, 1 when it failed, 2 for wrong arguments, 3 as EXIT_CODES says."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "serve":
            sys.exit(_serve(options))
        case "token":
            sys.exit(_token(options))
        case "db":
            sys.exit(database.run(options))
        case "conformance":
            from turnwire.conformance.command import run  # the pack, which no other command needs

            sys.exit(run(options))
        case "schema":
            print(json.dumps(schema(), indent=2, sort_keys=True))
        case "version":
            print(f"turnwire {version('turnwire')}")
    sys.exit(0)


def _token(options: argparse.Namespace) -> int:
    try:
        return run_token_command(options)
    except ValueError as error:
        print(f"turnwire token: {error}", file=sys.stderr)
        return EXIT_USAGE


def _serve(options: argparse.Namespace) -> int:
    with StopSignals(for_good=True) as signals:
        return _serve_until(signals, options)


def _serve_until(signals: StopSignals, options: argparse.Namespace) -> int:
    try:
        settings = settings_from(vars(options))
        app = _app(settings)
    except (SettingError, ValueError) as error:
        print(f"turnwire serve: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs.configure(settings.log_level, settings.log_format, sys.stderr)
    watchdog = Watchdog(_end_by_force)
    try:
        orderly = trio.run(partial(_run, app, settings, watchdog, signals))
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - what it is goes into the log
        failures = list(_leaves(error))
        if not all(isinstance(failure, EXPECTED_FAILURES) for failure in failures):
            _log.critical("the server failed", exc_info=error)
            return EXIT_FAILURE
        for failure in failures:
            print(f"turnwire serve: {failure}", file=sys.stderr)
        return EXIT_FAILURE
    finally:
        watchdog.cancel()
    return 0 if orderly else EXIT_FORCED


def _end_by_force() -> None:
    """For a process that cannot end by itself: no thread and no clean-up is waited for."""
    print("turnwire serve: the stop took too long and was ended by force", file=sys.stderr, flush=True)
    os._exit(EXIT_FORCED)


def _app(settings: Settings) -> Turnwire:
    """Raises ValueError when the model cannot be used like this, such as for want of a key."""
    return Turnwire(
        settings.data,
        model=settings.model,
        base_url=settings.base_url,
        tools=workspace_tools(settings.workspace, now=now_ms),
        context_window_tokens=settings.context_window_tokens,
        titles=settings.titles,
    )


async def _run(app: Turnwire, settings: Settings, watchdog: Watchdog, signals: StopSignals) -> bool:
    return await app.serve(
        settings=settings.gateway(),
        authenticator=_authenticator(settings),
        grace_seconds=settings.grace_seconds,
        announce=partial(print, flush=True),
        watchdog=watchdog,
        signals=signals,
        metrics_host=settings.metrics_host,
        metrics_port=settings.metrics_port,
    )


def _authenticator(settings: Settings) -> TokenAuthenticator | None:
    return None if settings.key_file is None else TokenAuthenticator(settings.key_file, audience=settings.audience)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="turnwire",
        description="A real-time session server for AI-agent chat.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve_parser = commands.add_parser(
        "serve",
        help="serve the chat page and the WebSocket",
        description="Serves the chat page and the WebSocket until SIGTERM or Ctrl-C; a second one ends it at once.",
        epilog=f"{EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for flag in FLAGS:
        default = "" if not flag.default else f"; default {flag.default}"
        serve_parser.add_argument(
            f"--{flag.name}", metavar=flag.metavar, help=f"{flag.help} [{flag.variable}{default}]"
        )
    add_token_command(commands)
    database.add_parser(commands)
    add_conformance_command(commands)
    commands.add_parser("schema", help="print the JSON Schema of the protocol")
    commands.add_parser("version", help="print the version")
    return parser
