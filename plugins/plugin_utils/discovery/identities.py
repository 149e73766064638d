# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How discovery proves who it is: private keys, the SSH agent, a password."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

try:
    import paramiko
    from paramiko.pkey import UnknownKeyType
except ImportError:
    paramiko = None  # type: ignore[assignment]  # see library.py

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError, shown_path

# As ssh looks for them; keys on a security token (_sk) are beyond paramiko.
DEFAULT_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa")


def load(path: Path, passphrase: str | None) -> Any:
    """The private key in a file. OptionError, naming the file, where it cannot be used."""
    fault = f"the private key {shown_path(path)} cannot be used"
    try:
        return _load(path, passphrase)
    except OSError as exc:
        raise OptionError(f"{fault}: {exc.strerror}; allowed: a file with a private key") from exc
    except UnknownKeyType as exc:
        raise OptionError(
            f"{fault}: it is of a type that paramiko does not know (keys on a security token are)"
        ) from exc
    except TypeError as exc:
        raise OptionError(
            f"{fault}: a passphrase protects it; give private_key_passphrase, or let an agent hold the key"
        ) from exc
    except Exception as exc:
        why = "it is not a private key that paramiko can read (RSA, ECDSA or Ed25519; not one on a security token)"
        raise OptionError(f"{fault}: {why}{', or the passphrase is wrong' if passphrase else ''}") from exc


def _load(path: Path, passphrase: str | None) -> Any:
    """With the passphrase only where one is asked for: the library takes it amiss where none is."""
    try:
        return paramiko.PKey.from_path(path)
    except TypeError:
        if passphrase is None:
            raise
    # As bytes, which it wants for every kind of key.
    return paramiko.PKey.from_path(path, passphrase.encode("utf-8"))  # type: ignore[arg-type]


def defaults(folder: Path, passphrase: str | None) -> list[Any]:
    """The usable keys among those that ssh tries unasked. One that cannot be used is passed over, as ssh does."""
    found = []
    for name in DEFAULT_NAMES:
        if (folder / name).is_file():
            with contextlib.suppress(OptionError):
                found.append(load(folder / name, passphrase))
    return found


@contextlib.contextmanager
def agent_keys(wanted: bool) -> Iterator[Sequence[Any]]:
    """The keys of the SSH agent, for one session: two sessions must not speak to an agent over one connection."""
    if not wanted:
        yield ()
        return
    agent = paramiko.Agent()
    try:
        yield agent.get_keys()
    finally:
        agent.close()
