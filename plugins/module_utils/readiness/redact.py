# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Takes secrets and control characters out of what leaves the node."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

MASK = "********"
# Longer texts are cut before they are searched: a file of a hostile node must not cost minutes.
SEARCHED = 8192
# Short texts are looked at once: thousands of nodes tell the same names, words and sentences over and over.
REMEMBERED = 256

# A name that ends in a word for a secret, and its value in any of the shapes command lines, environments, JSON and
# YAML give it: --api-key VALUE, HF_TOKEN=VALUE, "password": "VALUE".
_WORD = (
    r"(?:api[-_]?key|account[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|token|secret|password|passwd|pwd|passphrase"
    r"|credentials?|auth)"
)
# Compiled when first needed, which on most nodes is never; re keeps them.
_PATTERNS = (
    # All of it up to the last @: a token alone is a secret as well, and a password may hold colons and @.
    (r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^/\s\"']*@", r"\1" + MASK + "@"),
    (r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)?\s*)[^\s\"',;]+", r"\1" + MASK),
    (r"(?i)\b(bearer\s+)[^\s\"',;]+", r"\1" + MASK),
    (
        r"(?i)([a-z0-9_.-]{0,64}" + _WORD + r"[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
        r"\1" + MASK,
    ),
    (r"(?i)(--?[a-z0-9-]{0,64}" + _WORD + r"\s+)(\"[^\"]*\"|'[^']*'|[^\s\"'-][^\s]*)", r"\1" + MASK),
    (r"(?i)([a-z0-9_.-]{0,64}(?:pass|sig)=)[^\s\"',;&]+", r"\1" + MASK),
    # netrc, and `docker login -p VALUE`: elsewhere these words stand in sentences.
    (r"(?i)\b(login\s+\S+\s+password\s+)\S+", r"\1" + MASK),
    (r"(?i)\b(login\b[^\n]{0,200}?\s-p[\s=]*)\S+", r"\1" + MASK),
    # Known by their beginning: tokens of Hugging Face, OpenAI, GitHub, GitLab, Slack, NVIDIA, npm and AWS, and JWTs.
    (r"\b(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|nvapi-|npm_)[A-Za-z0-9_-]{8,}", MASK),
    (r"\b(AKIA|ASIA)[A-Z0-9]{12,}[A-Za-z0-9_-]*", MASK),
    (r"\beyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]+){1,2}", MASK),
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", MASK),
)
# Every one of the patterns needs one of these, in small letters.
_SUSPECT = (
    "://",
    "auth",
    "bearer",
    "key",
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "pass=",
    "sig=",
    "credential",
    "login",
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "nvapi-",
    "npm_",
    "akia",
    "asia",
    "eyj",
)
# Everything a terminal could take for a command, and the direction marks that make text read as something else.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]")


def redact(text: str) -> str:
    """``text`` with secrets masked and control characters shown as ``?``."""
    # Of Ansible's own kinds of text none is remembered: it would be given in the place of a plain one equal to it.
    if text.__class__ is str and len(text) <= REMEMBERED:
        return _remembered(text)
    return _redacted(text)


@functools.lru_cache(maxsize=1 << 15)
def _remembered(text: str) -> str:
    return _redacted(text)


def _redacted(text: str) -> str:
    # A report holds thousands of texts and hardly a secret: one cheap look spares most of them the dear ones.
    small = text.lower()
    if any(word in small for word in _SUSPECT):
        for pattern, mask in _PATTERNS:
            text = re.sub(pattern, mask, text)
    return plain(text)


def plain(text: str) -> str:
    """``text`` with control characters shown as ``?``; enough for a name the site has given, which is no secret."""
    # str.isprintable() is false for every character _CONTROL knows, and for a few harmless ones.
    return text if text.isprintable() else _CONTROL.sub("?", text)


def redact_all(value: Any, limit: int = 2000) -> Any:
    """A JSON value with every text in it redacted, and cut at ``limit`` characters."""
    if isinstance(value, str):
        # Cut only after redaction: a cut through a secret would hide the pattern and show a part of it.
        clean = redact(_within_reach(value))
        return clean if len(clean) <= limit else clean[:limit] + "…"
    if isinstance(value, dict):
        return {redact(_within_reach(key)): redact_all(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [redact_all(item, limit) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers, and readers of a report stop at them.
        return str(value)
    return value


def _within_reach(text: str) -> str:
    """``text`` as it is, or, of one too long to search through, its beginning up to a space."""
    if len(text) <= SEARCHED:
        return text
    # The last word may be half a secret, which no pattern would know.
    head, space, _half = text[:SEARCHED].rpartition(" ")
    return (head if space else "") + " …"
