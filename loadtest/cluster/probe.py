"""Does anything speak HTTP there? One GET, by hand, so that nothing repeats it or follows it elsewhere."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from urllib.parse import urlsplit

_LONGEST_STATUS_LINE = 8192


async def probe(
    url: str, *, timeout_s: float = 2.0, user_agent: str = "rollout-loadtest", only_ok: bool = False
) -> tuple[bool, str]:
    """Asks a URL once. Any HTTP answer counts, a 503 too: whether the app is well is not the question here.

    A connection that is accepted and then closed does not count: proxies accept before they dial.

    Args:
        url: what is asked.
        timeout_s: for the connection and the first line of the answer.
        user_agent: says who asks.
        only_ok: an answer of 400 or more does not count: where somebody else may sit at that address, such as a gateway
            that answers for every address it does not know.

    Returns:
        (whether an HTTP answer began, what happened in a few words)
    """
    try:
        async with asyncio.timeout(timeout_s):
            line = await _status_line(url, user_agent)
    except TimeoutError:
        return False, f"no answer within {timeout_s:g} s"
    except ssl.SSLError:
        return False, "no TLS"
    except socket.gaierror:
        return False, "its name is not known"
    except OSError as error:
        # Not strerror: asyncio puts its own words and the address there.
        return False, os.strerror(error.errno).lower() if error.errno else "no connection"
    except ValueError:
        return False, "no URL that can be tried"
    parts = line.decode("latin-1").split()
    if len(parts) >= 2 and parts[0].startswith("HTTP/") and parts[1].isdecimal():
        return int(parts[1]) < 400 or not only_ok, f"answered with status {parts[1]}"
    return False, "closed without an HTTP answer" if not line else "does not speak HTTP"


async def _status_line(url: str, user_agent: str) -> bytes:
    parts = urlsplit(url)
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False  # reachable or not is the question, and addresses have no certificates
        context.verify_mode = ssl.CERT_NONE
    port = parts.port or (443 if context else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, limit=_LONGEST_STATUS_LINE)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        writer.write(
            f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nUser-Agent: {user_agent}\r\n"
            "Accept: */*\r\nConnection: close\r\n\r\n".encode("latin-1")
        )
        try:
            return await reader.readline()
        except ValueError:  # longer than any status line
            return b"-"
    finally:
        writer.transport.abort()
