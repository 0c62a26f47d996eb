"""Takes out of texts what looks like a secret, before anything is kept.

It is a net with holes, not a proof: it knows the shapes that tokens commonly have, and words that commonly stand before a
password. What must surely not be kept (env values, Secrets) is not kept at all; see `trim`.
"""

from __future__ import annotations

import re

MASK = "***"

_WORDS = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credentials?|session[-_]?id)"

_SHAPES = re.compile(
    r"-----BEGIN[A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END[A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"  # JWT: a JSON header in base64url
    r"|\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{12,}"  # AWS key ids
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bsk-[\w-]{20,}"
    r"|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}"
)
_AUTHORIZATION = re.compile(r"(?i)\b((?:authorization\"?\s*[:=]\s*\"?)?\b(?:bearer|basic))(\s+)([\w+/=.~-]{6,})")
_COOKIE = re.compile(r"(?i)\b((?:set-)?cookie\"?\s*[:=]\s*\"?)([^\r\n\"]+)")
_USERINFO = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]{0,20}://)([^/\s:@]*:[^/\s@]+)@")
_NAMED = re.compile(  # bounded, and begun at the word itself: a long line of letters must not take quadratic time
    rf"(?i)({_WORDS}[\w.-]{{0,32}}[\"']?\s{{0,4}}(?:=>|[:=])\s{{0,4}})(\"(?:[^\"\\]|\\.)+\"|'[^']+'|[^\s\"',;&}}]+)"
)
_SECRET_WORD = re.compile(rf"(?i){_WORDS}|auth(?:orization)?$|cookie")
_FLAG = re.compile(rf"(?i)^--?[\w.-]*{_WORDS}[\w.-]*$")


def mask(text: str) -> str:
    """The same text with everything that looks like a secret replaced by `***`."""
    text = _SHAPES.sub(MASK, text)
    text = _AUTHORIZATION.sub(rf"\1\2{MASK}", text)
    text = _COOKIE.sub(rf"\1{MASK}", text)
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def names_a_secret(key: str) -> bool:
    """Whether a key (of an annotation, a header, a flag) says that its value is a secret."""
    return _SECRET_WORD.search(key) is not None


def mask_command(words: list[str]) -> list[str]:
    """A command line with secrets masked, the value after a flag such as `--password` included."""
    out: list[str] = []
    hide_next = False
    for word in words:
        out.append(MASK if hide_next and not word.startswith("-") else mask(word))
        hide_next = _FLAG.match(word) is not None
    return out
