"""Who may come in by Host and Origin (X1)."""

import pytest

from turnwire.gateway.auth import Doorman, own_names

doorman = Doorman(hosts=("chat.example", "2001:db8::7"), origins=("https://pages.example",))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8787", None),
        ("LOCALHOST", None),
        ("127.0.0.1:8787", None),
        ("127.8.9.1", None),
        ("[::1]:8787", None),
        ("app.localhost:1", None),
        ("chat.example", None),
        ("[2001:db8::7]:80", None),
        ("localhost:8787", "http://localhost:8787"),
        ("localhost", "http://localhost:80"),
        ("localhost:", "http://localhost"),
        ("localhost", "https://localhost:443"),
        ("[::1]:8787", "http://[::1]:8787"),
        ("chat.example", "https://chat.example"),
        ("localhost:8787", "https://pages.example"),
        ("localhost:8787", "HTTPS://Pages.Example"),
    ],
)
def test_X1_own_names_and_own_pages_are_let_in(host: str, origin: str | None) -> None:
    assert doorman.refusal(host, origin) is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (None, None),
        ("", None),
        ("evil.example", None),
        ("localhost.evil.example", None),
        ("127.0.0.1.evil.example", None),
        ("192.168.1.5:8787", None),
        ("0.0.0.0:8787", None),
        ("localhost:8787@evil.example", None),
        ("evil.example@localhost:8787", None),
        ("localhost/x", None),
        ("localhost:port", None),
        ("localhost:65536", None),
        ("localhost:-1", None),
        ("[::1", None),
        ("[::1]x", None),
        ("[::1]evil.example:80", None),
        ("evil.example[::1]", None),
        ("[localhost]", None),
        ("[v1.localhost]", None),
        ("local\thost", None),
        ("evil.example, x.localhost", None),
        ("localhost:8787", "null"),
        ("localhost:8787", ""),
        ("localhost:8787", "https://evil.example"),
        ("localhost:8787", "http://localhost:9999"),
        ("localhost:8787", "http://127.0.0.1:8787"),
        ("localhost:8787", "https://localhost"),
        ("localhost:8787", "http://localhost:8787@evil.example"),
        ("localhost:8787", "http://evil.example@localhost:8787"),
        ("localhost:8787", "http://localhost:8787/path"),
        ("localhost:8787", "http://localhost:8787?"),
        ("localhost:8787", "http://local\thost:8787"),
        ("localhost:8787", "file://localhost:8787"),
        ("localhost:8787", "chrome-extension://abc"),
        ("evil.example", "https://pages.example"),
        ("evil.example", "http://evil.example"),
    ],
)
def test_X1_all_others_are_kept_out(host: str | None, origin: str | None) -> None:
    refusal = doorman.refusal(host, origin)
    assert refusal is not None
    assert refusal.endswith(".")


@pytest.mark.parametrize(
    ("listens_on", "names"),
    [("192.168.1.5", {"192.168.1.5"}), ("chat.example", {"chat.example"}), ("0.0.0.0", set()), ("::", set())],
)
def test_X1_the_address_that_is_listened_on_is_a_name_of_it_unless_it_stands_for_all(
    listens_on: str, names: set[str]
) -> None:
    """A page may ask under 0.0.0.0 for what listens on this machine."""
    assert set(own_names(listens_on)) == names
