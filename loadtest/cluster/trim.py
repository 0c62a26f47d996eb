"""What of an object may be kept (pure).

Left out: the values of env variables, everything mounted, what fields each manager owns, last-applied configurations,
annotations and headers that are named like secrets, long annotations. Command lines and messages are kept with what looks
like a token masked. All else stays: diagnosis needs status, strategy, lifecycle, probes, grace, ports, labels, images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadtest.cluster.mask import MASK, mask, mask_command, names_a_secret

_LEFT_OUT = frozenset({"volumes", "volumeMounts", "volumeDevices", "imagePullSecrets", "binaryData", "stringData"})
_AS_THEY_ARE = frozenset({"labels", "matchLabels", "nodeSelector"})
_ANNOTATIONS_LEFT_OUT = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_LONGEST_ANNOTATION = 256
_LONGEST_MESSAGE = 1024
_NO_FIELDS = frozenset({"fieldsV1", "fieldsType"})


def trim(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a Kubernetes object that may be kept. The object itself is not changed."""
    return {key: _trimmed(key, value) for key, value in obj.items() if key not in _LEFT_OUT}


def _trimmed(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        if key in _AS_THEY_ARE:
            return value
        return _annotations(value) if key == "annotations" else trim(value)
    if isinstance(value, list):
        return _trimmed_list(key, value)
    if key == "message" and isinstance(value, str):
        return mask(value)[:_LONGEST_MESSAGE]
    return value


def _trimmed_list(key: str, items: list[Any]) -> list[Any]:
    if key == "env":
        return [{"name": item.get("name")} for item in items if isinstance(item, dict)]
    if key == "httpHeaders":  # of a probe or a hook: may hold an Authorization
        return [{"name": item.get("name")} for item in items if isinstance(item, dict)]
    if key == "managedFields":
        return [{k: v for k, v in item.items() if k not in _NO_FIELDS} for item in items if isinstance(item, dict)]
    if key in {"command", "args"}:
        return mask_command([str(item) for item in items])
    return [trim(item) if isinstance(item, dict) else item for item in items]


def _annotations(annotations: Mapping[str, Any]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in annotations.items():
        text = str(value)
        if key in _ANNOTATIONS_LEFT_OUT or len(text) > _LONGEST_ANNOTATION:
            continue
        kept[key] = MASK if names_a_secret(key) else mask(text)
    return kept
