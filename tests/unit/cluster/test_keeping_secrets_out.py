"""What may not be kept is not kept, and what diagnosis needs is."""

from __future__ import annotations

import time

import pytest

from loadtest.cluster.logs import LONGEST_LINE, LineCleaner
from loadtest.cluster.mask import mask, mask_command
from loadtest.cluster.trim import trim

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"got {JWT} here", "got *** here"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer ***"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"),
        ("bearer abcdef123456", "bearer ***"),
        ("password=hush, user=me", "password=***, user=me"),
        ('{"db_password": "two words", "n": 1}', '{"db_password": ***, "n": 1}'),
        ("API_KEY: 'hush'", "API_KEY: ***"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
        ("postgres://me:hush@db:5432/shop", "postgres://***@db:5432/shop"),
        ("Set-Cookie: sid=abc; Path=/", "Set-Cookie: ***"),
        ("token ghp_0123456789abcdefghijABCDEFGHIJ", "token ***"),
        ("GET /?access_token=hush&page=2", "GET /?access_token=***&page=2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "***\nafter"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "SIGTERM received, draining 3 connections",
        'Readiness probe failed: Get "http://10.1.2.3:8080/ready": connection refused',
        'MountVolume.SetUp failed for volume "x" : secret "foo" not found',
        "GET /basket 200 12ms pod=web-5d4f-abcde",
        "GET http://10.1.2.3:8080/a@b",
    ],
)
def test_what_diagnosis_needs_is_left_as_it_is(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("text", ["x" * 100_000, "secret" * 20_000, "-eyJ" * 1_000, "a:" * 50_000, "Cookie " * 10_000])
def test_masking_takes_linear_time(text: str) -> None:
    began = time.process_time()
    mask(text)
    assert time.process_time() - began < 0.5


def test_the_value_after_a_flag_that_names_a_secret_is_masked() -> None:
    command = ["app", "--db-password", "hush", "--token=hush", "--port", "80", "--secret", "-v"]

    assert mask_command(command) == ["app", "--db-password", "***", "--token=***", "--port", "80", "--secret", "-v"]


def test_values_of_env_variables_are_left_out_and_their_names_stay() -> None:
    container = {
        "name": "web",
        "image": "shop:1",
        "env": [{"name": "PASSWORD", "value": "hush"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "envFrom": [{"secretRef": {"name": "db"}}],
        "volumeMounts": [{"mountPath": "/secret"}],
        "args": ["--token", "hush"],
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
        "readinessProbe": {"httpGet": {"path": "/", "httpHeaders": [{"name": "Authorization", "value": "hush"}]}},
    }
    pod = {"spec": {"containers": [container], "volumes": [{"name": "x"}], "terminationGracePeriodSeconds": 30}}
    deployment = {"spec": {"template": pod, "strategy": {"rollingUpdate": {"maxSurge": 1}}}}

    for trimmed in (trim(pod), trim(deployment)["spec"]["template"]):
        (kept,) = trimmed["spec"]["containers"]
        assert "hush" not in str(trimmed)
        assert kept["env"] == [{"name": "PASSWORD"}, {"name": "IP"}]
        assert kept["envFrom"] == container["envFrom"]
        assert kept["lifecycle"] == container["lifecycle"]
        assert kept["readinessProbe"]["httpGet"] == {"path": "/", "httpHeaders": [{"name": "Authorization"}]}
        assert "volumeMounts" not in kept
        assert "volumes" not in trimmed["spec"]
        assert trimmed["spec"]["terminationGracePeriodSeconds"] == 30
    assert trim(deployment)["spec"]["strategy"] == deployment["spec"]["strategy"]


def test_annotations_lose_last_applied_configurations_long_texts_and_secrets() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "hush",
        "vault.hashicorp.com/agent-inject-token": "hush",
        "checksum/config": "x" * 300,
        "note": "password=hush",
        "deployment.kubernetes.io/revision": "7",
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z",
    }

    assert trim({"metadata": {"annotations": annotations}})["metadata"]["annotations"] == {
        "vault.hashicorp.com/agent-inject-token": "***",
        "note": "password=***",
        "deployment.kubernetes.io/revision": "7",
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z",
    }


def test_managed_fields_keep_who_and_when() -> None:
    entry = {"manager": "kubelet", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    trimmed = trim({"metadata": {"managedFields": [entry | {"fieldsV1": {"f:status": {}}}]}})

    assert trimmed["metadata"]["managedFields"] == [{"manager": "kubelet", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]


def test_labels_stay_and_messages_are_masked_and_cut() -> None:
    labels = {"env": "prod", "message": "password=x", "app": "web"}
    terminated = {"exitCode": 1, "message": "token=hush " + "x" * 5000}
    trimmed = trim({"metadata": {"labels": labels}, "status": {"state": {"terminated": terminated}}})

    assert trimmed["metadata"]["labels"] == labels
    assert trimmed["status"]["state"]["terminated"]["message"].startswith("token=*** ")
    assert len(trimmed["status"]["state"]["terminated"]["message"]) == 1024


def test_trimming_leaves_the_object_alone() -> None:
    pod = {"metadata": {"annotations": {"secret": "hush"}}, "spec": {"containers": [{"env": [{"name": "A", "value": "b"}]}]}}
    before = repr(pod)
    trim(pod)

    assert repr(pod) == before


def test_a_private_key_in_a_log_is_masked_from_its_first_line_to_its_last() -> None:
    cleaner = LineCleaner()
    lines = [b"T a", b"T -----BEGIN PRIVATE KEY-----", b"T MIIEvQ", b"T -----END PRIVATE KEY-----", b"T b"]

    assert [cleaner.clean(line)[1] for line in lines] == ["a", "***", "***", "***", "b"]


def test_a_log_line_is_cut_and_its_odd_bytes_are_replaced() -> None:
    stamp, text = LineCleaner().clean(b"2026-01-01T00:00:00Z \x1b[31m\xff" + b"x" * 9000 + b"\r")

    assert stamp == "2026-01-01T00:00:00Z"
    assert text.startswith("\x1b[31m�x")
    assert len(text) == LONGEST_LINE
