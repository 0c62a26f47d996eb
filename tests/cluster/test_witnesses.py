"""What the two logs are read as, on lines like the real ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.cluster.audit import read_audit_log
from tests.cluster.proxy_log import applied, parse

SYNCS = """\
I1231 23:59:59.500000      55 proxier.go:690] "Syncing iptables rules" ipFamily="IPv4"
I1231 23:59:59.510000      55 proxier.go:690] "Syncing iptables rules" ipFamily="IPv6"
I1231 23:59:59.540000      55 proxier.go:640] "SyncProxyRules complete" ipFamily="IPv6" elapsed="30ms"
I0101 00:00:00.250000      55 proxier.go:640] "SyncProxyRules complete" ipFamily="IPv4" elapsed="750ms"
I0101 00:00:01.000000      55 proxier.go:690] "Syncing iptables rules" ipFamily="IPv4"
""".splitlines()


def entry(verb: str, resource: str, name: str, second: int, body: object = None, subresource: str = "") -> str:
    stamp = f"2026-03-01T10:00:{second:02d}"
    content = {
        "verb": verb,
        "user": {"username": "someone"},
        "objectRef": {"resource": resource, "namespace": "n", "name": name, "subresource": subresource},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": f"{stamp}.000001Z",
        "stageTimestamp": f"{stamp}.000002Z",
        "requestObject": body,
    }
    return json.dumps(content) + "\n"


def endpoints(**ready: bool) -> object:
    return {
        "endpoints": [
            {
                "addresses": ["10.244.0.2"],
                "conditions": {"ready": now, "serving": True, "terminating": not now},
                "targetRef": {"name": pod},
            }
            for pod, now in ready.items()
        ]
    }


def test_only_syncs_of_ipv4_that_have_ended_count_and_the_turn_of_the_year_is_no_obstacle() -> None:
    (sync,) = parse(SYNCS, datetime(2027, 1, 1, tzinfo=UTC))
    assert sync.started == datetime(2026, 12, 31, 23, 59, 59, 500000, tzinfo=UTC).timestamp()
    assert round(sync.ended - sync.started, 6) == 0.75


def test_a_sync_that_was_under_way_when_the_slice_was_written_does_not_apply_it() -> None:
    syncs = parse(SYNCS, datetime(2027, 1, 1, tzinfo=UTC))
    assert applied(syncs, syncs[0].started) == syncs[0].ended
    assert applied(syncs, syncs[0].started + 0.001) is None


def test_the_slice_writes_of_a_termination_are_found_and_an_unfinished_line_is_left_for_later(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(
        entry("update", "endpointslices", "s", 1, endpoints(a=True, b=True))
        + entry("delete", "pods", "a", 2)
        + entry("update", "endpointslices", "s", 3, endpoints(a=False, b=True))
        + entry("update", "endpointslices", "s", 4, endpoints(b=True))
        + entry("create", "pods", "b", 5, subresource="eviction")
        + entry("delete", "pods", "c", 6)[:20]
    )
    audit = read_audit_log(log)
    assert [(d.pod, d.verb) for d in audit.deletions] == [("a", "delete"), ("b", "evict")]
    deletion, lost_ready, left = audit.deletion_of("a"), audit.lost_ready("a"), audit.left_slice("a")
    assert deletion is not None
    assert lost_ready is not None
    assert left is not None
    assert [round(w.written - deletion.received, 6) for w in (lost_ready, left)] == [1.000001, 2.000001]
    assert audit.left_slice("b") is None
