"""The steps that both probes support, and the form of results."""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import windlass
from windlass import clock, conditions, config, log
from windlass import random as host_random

Step = dict[str, Any]
Carry = Callable[[Step], Any]

LEVELS = {"trace": log.TRACE, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

_state = 0


class Ended(Exception):
    """A step that ends the call with an outcome."""

    def __init__(self, outcome: windlass.RequeueAfter | windlass.RequeueBackoff) -> None:
        super().__init__()
        self.outcome = outcome


class Named(Exception):
    """An exception of a class that the plugin defines."""


def results_of(steps: list[Step], table: dict[str, Carry]) -> list[dict[str, Any]]:
    """Carries out the steps, one after the other."""
    return [result_of(step, table) for step in steps]


def result_of(step: Step, table: dict[str, Carry]) -> dict[str, Any]:
    carry = table.get(step["call"])
    if carry is None:
        return {"error": {"message": f"this probe has no step {step['call']}"}}
    if step["call"] in ENDING:
        return {"ok": carry(step)}
    try:
        return {"ok": carry(step)}
    except Unsupported:
        return {"unsupported": True}
    except windlass.ApiError as error:
        return {"error": error_of(error)}
    except ExceptionGroup as group:
        return {"error": {"errors": [error_of(error) for error in group.exceptions]}}
    except windlass.http.HttpError as error:
        return {"error": {"reason": str(error.reason), "message": error.message}}
    except windlass.NotAvailable as error:
        return {"error": {"message": str(error)}}


class Unsupported(Exception):
    """The language does not support this step."""


def error_of(error: BaseException) -> dict[str, Any]:
    """An API error with WIT's names."""
    assert isinstance(error, windlass.ApiError), repr(error)
    return {
        "code": error.code,
        "reason": str(error.reason),
        "statusReason": error.status_reason,
        "message": error.message,
        "retryAfterMs": error.retry_after_ms,
        "verb": error.verb,
        "resource": error.resource,
        "object": None if error.object is None else target_out(error.object),
    }


def target_out(target: windlass.ObjectRef) -> dict[str, Any]:
    return {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "namespace": target.namespace,
        "name": target.name,
        "uid": target.uid,
    }


def target_in(target: dict[str, Any]) -> windlass.ObjectRef:
    return windlass.ObjectRef(
        target["apiVersion"], target["kind"], target["name"], target.get("namespace"), target.get("uid")
    )


def request_of(request: windlass.Request, has_object: bool) -> dict[str, Any]:
    return {
        "controller": request.controller,
        "namespace": request.namespace,
        "name": request.name,
        "uid": request.uid,
        "deleting": request.deleting,
        "attempt": request.attempt,
        "traceId": request.trace_id,
        "hasObject": has_object,
    }


# --- Log, time, randomness ---


def log_log(step: Step) -> None:
    log.write(step["level"], step["message"], [tuple(pair) for pair in step.get("fields") or []])


def logger(step: Step) -> None:
    fields = {key: value for key, value in step.get("fields") or []}
    logging.getLogger("conformance").log(LEVELS[step["level"]], "%s", step["message"], extra=fields)


def stdout(step: Step) -> None:
    print(step["text"], end="")


def stderr(step: Step) -> None:
    print(step["text"], end="", file=sys.stderr)


def config_get(step: Step) -> Any:
    return config.get()


def clock_now(step: Step) -> Any:
    now = clock.now()
    return {"seconds": now.seconds, "nanoseconds": now.nanoseconds}


def language_now(step: Step) -> Any:
    return time.time_ns() // 1_000_000


def random_bytes(step: Step) -> Any:
    return list(host_random.bytes(step["length"]))


def language_random(step: Step) -> Any:
    return [random.randrange(1000) for _ in range(8)]


def language_order(step: Step) -> Any:
    return list({f"k{number}" for number in range(50)})


def language(step: Step) -> Any:
    return {
        "exceptions": _catches(),
        "generators": sum(number for number in range(4)) == 6,
        "asyncio": asyncio.run(_gathers()) == [1, 2],
        "datetime": datetime.datetime.now(datetime.timezone.utc) >= clock.Timestamp(1, 0).datetime(),
        "strptime": datetime.datetime.strptime("2026-11-22", "%Y-%m-%d").day == 22,
        "uuid": uuid.uuid4().version == 4,
        "secrets": len(secrets.token_bytes(5)) == 5,
        "threads-are-refused": _refuses(threading.Thread(target=print).start, "one thread"),
        "late-imports-are-refused": _refuses(_import_late, "top of app.py"),
    }


def _catches() -> bool:
    try:
        [][1]
    except IndexError:
        return True
    return False


async def _gathers() -> list[int]:
    async def number(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async with asyncio.timeout(60):
        return list(await asyncio.gather(number(1), number(2)))


def _import_late() -> None:
    import wave  # noqa: F401


def _refuses(act: Callable[[], object], because: str) -> bool:
    try:
        act()
    except (OSError, ImportError) as error:
        return because in str(error)
    return False


def echo(step: Step) -> Any:
    return step["value"]


def state(step: Step) -> int:
    global _state
    _state += 1
    return _state


def conditions_set(step: Step) -> Any:
    new = conditions.condition(step["type"], step["status"], step["reason"], step.get("message") or "")
    return conditions.updated(step["conditions"], new, generation=step.get("generation"))


def owner_reference(step: Step) -> Any:
    return windlass.owner_reference(step["object"])


def open_file(step: Step) -> Any:
    with open(step["path"]) as file:
        return file.read()


def connect(step: Step) -> Any:
    host, _, port = step["address"].rpartition(":")
    socket.create_connection((host, int(port or 0))).close()


def sleep(step: Step) -> None:
    time.sleep(step["ms"] / 1000)


# --- The steps that end a call ---


def requeue_after(step: Step) -> None:
    raise Ended(windlass.requeue_after(step["ms"] / 1000))


def requeue_backoff(step: Step) -> None:
    raise Ended(windlass.requeue_with_backoff())


def fail(step: Step) -> None:
    failures = [_failure(failure) for failure in step["failures"]]
    if "message" in step:
        raise ExceptionGroup(step["message"], failures)
    windlass.Failures(failures).raise_any()


def _failure(failure: dict[str, Any]) -> Exception:
    if "transient" in failure:
        after = failure.get("afterMs")
        return windlass.Transient(failure["transient"], retry_after=None if after is None else after / 1000)
    if "terminal" in failure:
        return windlass.Terminal(failure["terminal"])
    value = failure["api"]
    return windlass.ApiError(
        windlass.Reason(value["reason"]),
        value["message"],
        code=value["code"],
        status_reason=value["statusReason"],
        retry_after_ms=value.get("retryAfterMs"),
        verb=value["verb"],
        resource=value["resource"],
        object=None if value.get("object") is None else target_in(value["object"]),
    )


def raise_(step: Step) -> None:
    deeper(step["message"])


def deeper(message: str) -> None:
    deepest(message)


def deepest(message: str) -> None:
    raise ValueError(message)


def spin(step: Step) -> None:
    while True:
        pass


def grow(step: Step) -> None:
    held = []
    while True:
        held.append(bytearray(1 << 20))


def recurse(step: Step) -> None:
    recurse(step)


COMMON: dict[str, Carry] = {
    "log.log": log_log,
    "logger": logger,
    "stdout": stdout,
    "stderr": stderr,
    "config.get": config_get,
    "clock.now": clock_now,
    "language.now": language_now,
    "random.bytes": random_bytes,
    "language.random": language_random,
    "language.order": language_order,
    "language": language,
    "echo": echo,
    "state": state,
    "conditions.set": conditions_set,
    "owner-reference": owner_reference,
    "open-file": open_file,
    "connect": connect,
    "sleep": sleep,
    "requeue-after": requeue_after,
    "requeue-backoff": requeue_backoff,
    "fail": fail,
    "raise": raise_,
    "spin": spin,
    "grow": grow,
    "recurse": recurse,
}

ENDING = {"requeue-after", "requeue-backoff", "fail", "propagate", "wrap", "raise", "spin", "grow", "recurse"}
