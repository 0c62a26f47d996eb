"""From a kubeconfig to a connected `Api`: the only file that imports the `kubernetes` package.

The package reads the kubeconfig (several files joined by `:` too), finds credentials (tokens, client certificates, exec
plugins) and sets up TLS. It takes over a second to import, so that happens inside `connect`.

What is wrong with the file or the flags is a `UsageError`; what is wrong with the cluster or a credential plugin is a
`ClusterError`. Texts of the package are never passed on: it puts whole kubeconfig entries, tokens included, into some.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from loadtest.cluster.client import Api
from loadtest.errors import ClusterError, UsageError

IN_CLUSTER = "in-cluster"
"""The context's name when a pod's own service account is used, which no kubeconfig was needed for."""

DEFAULT_KUBECONFIG = "~/.kube/config"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # "Accessing the Kubernetes API from a Pod"


async def connect(kubeconfig: str | None = None, context: str | None = None, *, user_agent: str = "rollout-loadtest") -> Api:
    """An API server as kubectl would choose it. Nothing is sent yet, but an exec plugin may run.

    Args:
        kubeconfig: path, or several joined as in `$KUBECONFIG`; None or "": `~/.kube/config`, and where that does not
            exist the service account of the pod that this runs in.
        context: name of a context, or None: the file's current one.
        user_agent: as sent to the API server.

    Raises:
        UsageError: no such file, not a kubeconfig, no such context.
        ClusterError: the credentials could not be got.
    """
    # The package logs what a credential plugin printed, and logging without a handler prints it on stderr.
    logging.getLogger("kubernetes").addHandler(logging.NullHandler())
    if not kubeconfig and _only_an_account():
        return _in_cluster(user_agent)
    paths = kubeconfig or DEFAULT_KUBECONFIG
    shown = paths if kubeconfig else DEFAULT_KUBECONFIG
    config = _read(paths, shown)
    return await _connect(config, shown, _choose(config, context, shown), user_agent)


def _only_an_account() -> bool:
    return not Path(DEFAULT_KUBECONFIG).expanduser().exists() and (_ACCOUNT / "token").exists()


def _read(paths: str, shown: str) -> Any:
    """The merged kubeconfig, as the package's node."""
    from kubernetes.aio.config.kube_config import KubeConfigMerger

    found = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not found:
        raise UsageError(f"there is no kubeconfig at {shown}", "give one with --kubeconfig, or set KUBECONFIG")
    try:
        merged = KubeConfigMerger(os.pathsep.join(found)).config
    except OSError as error:
        raise UsageError(f"cannot read the kubeconfig {shown}: {(error.strerror or 'no access').lower()}") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{shown}{line}: this is no YAML", "kubectl config view shows what kubectl reads") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, AttributeError, KeyError, ValueError) as error:
        raise _garbage(shown) from error
    if merged is None or not isinstance(merged.value, dict):
        raise _garbage(shown)
    return merged


def _choose(config: Any, context: str | None, shown: str) -> str:
    """The name of the context to use."""
    names = [entry.value.get("name") for entry in config.value.get("contexts", []) if isinstance(entry.value, dict)]
    known = ", ".join(sorted(str(name) for name in names)) or "none"
    if context:
        if context not in names:
            raise UsageError(f"there is no context {context!r} in {shown}", f"known: {known}")
        return context
    current = config.value.get("current-context")
    if not current:
        raise UsageError(f"{shown} has no current context", f"choose one with --context; known: {known}")
    if current not in names:
        raise UsageError(f"the current context {str(current)!r} of {shown} does not exist", f"known: {known}")
    return str(current)


async def _connect(config: Any, shown: str, context: str, user_agent: str) -> Api:
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import ConfigException
    from kubernetes.aio.config.kube_config import KubeConfigLoader

    configuration = Configuration()
    try:
        loader = KubeConfigLoader(config_dict=config, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
        entry = loader.current_context["context"]
        user = _user(config, entry.get("user"))
        plugin = (user.get("exec") or {}).get("command") if isinstance(user.get("exec"), dict) else None
        client = ApiClient(configuration=configuration)
    except ConfigException as error:
        raise UsageError(
            f"the context {context!r} of {shown} is not complete",
            "its cluster, its user, or a file that one of them names is missing",
        ) from error
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"a certificate or key of context {context!r} in {shown} cannot be used") from error
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise _garbage(shown) from error
    if plugin and "BearerToken" not in configuration.api_key and not configuration.cert_file:
        await client.close()
        raise ClusterError(
            f"the credential plugin {str(plugin)!r} of context {context!r} gave no credentials",
            f"see what it says: kubectl --context {context} auth whoami",
        )
    client.user_agent = user_agent
    return Api(
        client,
        context=context,
        namespace=str(entry.get("namespace") or "default"),
        server=_without_user(configuration.host),
        renew=_renewal(loader, configuration) if plugin else None,
    )


def _renewal(loader: Any, configuration: Any) -> Callable[[], Awaitable[bool]]:
    """Runs the exec plugin again: its tokens live for minutes (those of EKS for fifteen), a run may last longer."""

    async def renew() -> bool:
        before = configuration.api_key.get("BearerToken")
        loader.__dict__.pop("exec_plugin_expiry", None)
        if not await loader.load_from_exec_plugin() or "token" not in loader.__dict__:
            return False
        configuration.api_key["BearerToken"] = loader.token
        return bool(loader.token != before)

    return renew


def _in_cluster(user_agent: str) -> Api:
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
        namespace = (_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        client = ApiClient(configuration=configuration)
    except (ConfigException, OSError) as error:
        raise ClusterError("this pod's service account cannot be used", "give a kubeconfig with --kubeconfig") from error
    client.user_agent = user_agent
    return Api(client, context=IN_CLUSTER, namespace=namespace or "default", server=_without_user(configuration.host))


def _user(config: Any, name: object) -> dict[str, Any]:
    for entry in config.value.get("users", []):
        if entry.value.get("name") == name:
            return dict(entry.value.get("user") or {})
    return {}


def _garbage(shown: str) -> UsageError:
    return UsageError(f"{shown} is not a kubeconfig", "kubectl config view shows what kubectl reads")


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
