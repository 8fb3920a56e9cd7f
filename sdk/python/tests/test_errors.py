"""How an exception is reported to the host."""

from __future__ import annotations

import datetime
import unittest

import windlass
from windlass import ApiError, Failures, ObjectRef, Reason, Terminal, Transient, failures_of


def conflict() -> ApiError:
    return ApiError(
        Reason.CONFLICT,
        "the object has been modified",
        verb="patch",
        resource="deployments.apps/scale",
        object=ObjectRef("apps/v1", "Deployment", "shop", "prod"),
    )


def because(text: str, cause: BaseException) -> ValueError:
    error = ValueError(text)
    error.__cause__ = cause
    return error


def messages(error: BaseException) -> list[str]:
    return [failure.message for failure in failures_of(error)]


class FailuresOfTest(unittest.TestCase):
    def test_an_api_error_is_reported_unchanged(self) -> None:
        error = conflict()
        [failure] = failures_of(error)
        self.assertEqual((failure.kind, failure.error, failure.message), ("api", error, "the object has been modified"))
        self.assertEqual((error.code, error.status_reason), (409, "Conflict"))
        told = "patch deployments.apps/scale Deployment prod/shop: Conflict: the object has been modified"
        self.assertEqual(repr(error), f"ApiError({told!r})")

    def test_a_wrapped_api_error_keeps_its_class_and_adds_context(self) -> None:
        error = conflict()
        try:
            try:
                raise error
            except ApiError as cause:
                raise ValueError("while rolling out") from cause
        except ValueError as wrapped:
            [failure] = failures_of(wrapped)
        self.assertEqual((failure.kind, failure.error), ("api", error))
        self.assertEqual(failure.message, "while rolling out: the object has been modified")
        self.assertIsNone(failure.uncaught)

    def test_an_api_error_that_is_only_handled_does_not_count(self) -> None:
        try:
            try:
                raise conflict()
            except ApiError:
                {}["key"]  # type: ignore[index]
        except KeyError as mistake:
            [failure] = failures_of(mistake)
            self.assertEqual((failure.kind, failure.message, failure.uncaught), ("transient", "KeyError: 'key'", mistake))

    def test_the_members_of_a_group_are_reported_one_by_one(self) -> None:
        group = ExceptionGroup("several", [conflict(), ExceptionGroup("more", [Terminal("never"), Transient("later")])])
        kinds = [failure.kind for failure in failures_of(group)]
        self.assertEqual(kinds, ["api", "terminal", "transient"])
        wrapped = ValueError("wrapped")
        wrapped.__cause__ = group
        self.assertEqual([failure.kind for failure in failures_of(wrapped)], kinds)

    def test_wrapping_texts_are_reported_without_repeats(self) -> None:
        error = conflict()
        what = "the object has been modified"
        self.assertEqual(messages(because(f"the shop: {error}", error)), [f"the shop: {what}"])
        self.assertEqual(messages(because("settings", because(f"the shop ({error.message})", error))), [f"settings: the shop ({what})"])
        self.assertEqual(messages(because("settings", because("the shop", Transient("later")))), ["settings: the shop: later"])
        self.assertEqual(messages(because("the shop", KeyError("a"))), ["ValueError: the shop: 'a'"])
        never = Terminal("never")
        never.__cause__ = ValueError("no port")
        self.assertEqual(messages(never), ["never: no port"])
        group = ExceptionGroup("both", [because("the shop", error), never])
        self.assertEqual(messages(group), [f"both: the shop: {what}", "both: never: no port"])
        self.assertEqual(messages(because("so", group)), [f"so: both: the shop: {what}", "so: both: never: no port"])
        self.assertEqual(messages(because(f"so: {group}", group)), [f"so: both: the shop: {what}", "so: both: never: no port"])
        with self.assertRaises(ExceptionGroup) as raised:
            Failures([error, never]).raise_any()
        self.assertEqual(messages(because("so", raised.exception)), [f"so: {what}", "so: never: no port"])
        rest = raised.exception.subgroup(Terminal)
        assert rest is not None
        self.assertEqual(messages(rest), ["never: no port"])

    def test_notes_are_reported_after_the_text(self) -> None:
        def noted(error: BaseException, *notes: str) -> BaseException:
            for note in notes:
                error.add_note(note)
            return error

        what = "the object has been modified"
        error = noted(conflict(), "while applying\n  the Deployment", "once more")
        all_of_it = f"{what} (while applying the Deployment; once more)"
        self.assertEqual(messages(error), [all_of_it])
        self.assertEqual(messages(because(f"the shop: {error}", error)), [f"the shop: {all_of_it}"])
        self.assertEqual(messages(noted(because("the shop", error), "at night")), [f"the shop (at night): {all_of_it}"])
        self.assertEqual(messages(noted(because(f"the shop: {error}", error), "at night")), [f"the shop: {all_of_it} (at night)"])
        self.assertEqual(messages(noted(Terminal("never"), "no port")), ["never (no port)"])
        self.assertEqual(messages(noted(Terminal(), "no port")), ["no port"])
        self.assertEqual(messages(noted(ValueError("odd"), "no port")), ["ValueError: odd (no port)"])
        self.assertEqual(messages(because("the shop", noted(ValueError("odd"), "no port"))), ["ValueError: the shop: odd (no port)"])
        group = noted(ExceptionGroup("both", [error, Terminal("never")]), "at night")
        self.assertEqual(messages(group), [f"both (at night): {all_of_it}", "both (at night): never"])
        with self.assertRaises(ExceptionGroup) as raised:
            Failures([error, Terminal("never")]).raise_any()
        self.assertEqual(messages(noted(raised.exception, "at night")), [f"at night: {all_of_it}", "at night: never"])

    def test_a_text_contained_by_chance_is_still_reported(self) -> None:
        for outer, inner, told in (
            ("cannot read workshop", "shop", "cannot read workshop: shop"),
            ("cannot read shop-1", "shop", "cannot read shop-1: shop"),
            ("cannot read shop.prod", "shop", "cannot read shop.prod: shop"),
            ("the shop was lost", "shop", "the shop was lost: shop"),
            ("after 30 s", "0 s", "after 30 s: 0 s"),
            ("größer", "r", "größer: r"),
            ("so", "", "so"),
            ("cannot read workshop: shop", "shop", "cannot read workshop: shop"),
            ("shop: cannot be read", "shop", "shop: cannot be read"),
            ("cannot read 'shop'", "shop", "cannot read 'shop'"),
            ("shop; shop-1", "shop", "shop; shop-1"),
            ("no file a/shop/b", "shop", "no file a/shop/b: shop"),
            ("cannot boot: no disk-full-flag", "disk full", "cannot boot: no disk-full-flag: disk full"),
            ("ramdisk full", "disk full", "ramdisk full: disk full"),
            ("cannot read “shop”", "shop", "cannot read “shop”: shop"),
            ("no words", " ", "no words:  "),
            ("cannot boot because disk full, as ever", "disk full", "cannot boot because disk full, as ever"),
            ("cannot read - shop", "shop", "cannot read - shop"),
            ("cannot read: shop.", "shop", "cannot read: shop."),
            ("two:\nshop\ntill", "shop", "two:\nshop\ntill"),
            ("shop", "shop", "shop"),
        ):
            with self.subTest(outer):
                self.assertEqual(messages(because(outer, Transient(inner))), [told])
        self.assertEqual(messages(because("shop: shop", because("shop", Transient("closed")))), ["shop: shop: closed"])
        error = ApiError(Reason.INVALID, "port", verb="get", resource="pods")
        self.assertEqual(messages(because("import of ports", error)), ["import of ports: port"])
        self.assertEqual(messages(because(f"port: {error}", error)), ["port: port"])
        self.assertEqual(messages(ExceptionGroup("transport", [Terminal("port")])), ["transport: port"])

    def test_the_cause_of_a_group_is_reported_with_each_member(self) -> None:
        group = ExceptionGroup("both", [conflict(), Terminal("never")])
        group.__cause__ = because("no network", Transient("reset"))
        told = [(failure.kind, failure.message) for failure in failures_of(group)]
        what = "the object has been modified"
        self.assertEqual(told, [("api", f"both: no network: reset: {what}"), ("terminal", "both: no network: reset: never")])
        self.assertEqual(messages(because("so", group))[1], "so: both: no network: reset: never")
        with self.assertRaises(ExceptionGroup) as raised:
            Failures([conflict(), Terminal("never")]).raise_any()
        raised.exception.__cause__ = Transient("reset")
        self.assertEqual(messages(raised.exception), [f"reset: {what}", "reset: never"])

    def test_a_member_may_be_raised_from_its_own_group(self) -> None:
        group = ExceptionGroup("both", [ValueError("odd"), conflict(), Terminal("never")])
        group.exceptions[0].__cause__ = group
        what = "the object has been modified"
        for error, texts in (
            (group, ["both: ValueError: odd", f"both: {what}", "both: never"]),
            (group.exceptions[0], ["odd: both: ValueError: odd", f"odd: both: {what}", "odd: both: never"]),
        ):
            failures = failures_of(error)
            self.assertEqual([(failure.kind, failure.message) for failure in failures], list(zip(["transient", "api", "terminal"], texts)))
            self.assertIs(failures[0].uncaught, group.exceptions[0])

    def test_an_exception_in_two_members_is_reported_twice(self) -> None:
        error = conflict()
        group = ExceptionGroup("both", [because("one", error), because("two", ExceptionGroup("more", [error]))])
        what = "the object has been modified"
        self.assertEqual(messages(group), [f"both: one: {what}", f"both: two: more: {what}"])

    def test_any_other_exception_is_transient_and_logged(self) -> None:
        error = ZeroDivisionError("division by zero")
        [failure] = failures_of(error)
        self.assertEqual((failure.kind, failure.message), ("transient", "ZeroDivisionError: division by zero"))
        self.assertIs(failure.uncaught, error)
        self.assertIsNone(failures_of(Transient("too early"))[0].uncaught)

    def test_a_transient_failure_keeps_its_delay_wrapped_and_in_a_group(self) -> None:
        busy, soon = Transient("busy", retry_after=30), Transient("not yet", retry_after=datetime.timedelta(milliseconds=1500))
        self.assertEqual((str(busy), busy.retry_after_ms, soon.retry_after_ms), ("busy", 30_000, 1500))
        group = ExceptionGroup("both", [because("the shop", busy), Transient("later"), soon])
        told = [(failure.kind, failure.message, failure.retry_after_ms) for failure in failures_of(because("so", group))]
        self.assertEqual(
            told,
            [
                ("transient", "so: both: the shop: busy", 30_000),
                ("transient", "so: both: later", None),
                ("transient", "so: both: not yet", 1500),
            ],
        )
        with self.assertRaises(ExceptionGroup) as raised:
            Failures([busy, Terminal("never"), conflict()]).raise_any()
        self.assertEqual([failure.retry_after_ms for failure in failures_of(raised.exception)], [30_000, None, None])
        busy.__cause__ = conflict()
        [failure] = failures_of(busy)
        self.assertEqual((failure.kind, failure.retry_after_ms), ("transient", 30_000))
        self.assertEqual(failure.message, f"busy: {busy.__cause__}")

    def test_a_subclass_of_transient_may_have_a_delay(self) -> None:
        class Bare(Transient):
            def __init__(self) -> None:
                pass

        class Slow(Transient):
            def __init__(self, name: str) -> None:
                super().__init__(f"{name} is slow", retry_after=60)

        self.assertIsNone(failures_of(Bare())[0].retry_after_ms)
        [failure] = failures_of(Slow("shop"))
        self.assertEqual((failure.message, failure.retry_after_ms), ("shop is slow", 60_000))
        with self.assertRaises(TypeError):
            Transient("busy", retry_after="30")  # type: ignore[arg-type]

    def test_a_malformed_http_request_is_terminal_and_a_denied_one_waits_for_the_policy(self) -> None:
        asked = windlass.http.Request("GET", "https://a.dev/x?token=secret")
        refused = windlass.http.failed(asked, windlass.http.HttpReason.INVALID_REQUEST, "no host")
        self.assertEqual(failures_of(refused)[0].kind, "terminal")
        self.assertEqual(str(refused), "GET https://a.dev/x: invalid-request: no host")
        dns = windlass.http.failed(asked, windlass.http.HttpReason.DNS, "unknown")
        self.assertEqual(failures_of(dns)[0].kind, "transient")
        try:
            raise RuntimeError("cannot ask") from windlass.http.failed(asked, windlass.http.HttpReason.NOT_GRANTED, "no rule")
        except RuntimeError as error:
            [denied] = failures_of(error)
        self.assertEqual((denied.kind, denied.message), ("api", "cannot ask: no rule"))
        assert denied.error is not None
        self.assertEqual((denied.error.reason, denied.error.status_reason), (Reason.NOT_GRANTED, "NotGranted"))

    def test_an_exception_may_be_its_own_cause(self) -> None:
        error = ValueError("round")
        error.__cause__ = error
        self.assertEqual(len(failures_of(error)), 1)

    def test_an_exception_without_a_text_is_still_reported(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise SystemExit("no text")

        class MuteTerminal(Mute, Terminal):
            pass

        unknown = "(its text cannot be read)"
        self.assertEqual(failures_of(Mute())[0].message, f"{Mute.__qualname__}: {unknown}")
        self.assertEqual((failures_of(MuteTerminal())[0].kind, failures_of(MuteTerminal())[0].message), ("terminal", unknown))
        wrapping = Mute()
        wrapping.__cause__ = conflict()
        self.assertEqual(failures_of(wrapping)[0].message, f"{unknown}: the object has been modified")
        self.assertEqual(failures_of(ApiError(Reason.OTHER, Mute()))[0].message, unknown)  # type: ignore[arg-type]

    def test_an_unreportable_member_does_not_affect_the_others(self) -> None:
        class Rootless(Exception):
            @property
            def __cause__(self) -> BaseException:  # type: ignore[override]
                raise KeyError("no cause")

        odd = Rootless("odd")
        failures = failures_of(ExceptionGroup("all", [conflict(), because("inner", odd), Terminal("never")]))
        self.assertEqual([failure.kind for failure in failures], ["api", "transient", "terminal"])
        self.assertEqual(failures[1].message, "all: ValueError: inner (the rest cannot be reported: KeyError: 'no cause')")
        self.assertIsInstance(failures[1].uncaught, KeyError)
        self.assertEqual(failures[2].message, "all: never")

    def test_an_api_error_names_the_request_and_the_object(self) -> None:
        self.assertEqual(
            str(conflict()),
            "patch deployments.apps/scale Deployment prod/shop: Conflict: the object has been modified",
        )


class CollectingTest(unittest.TestCase):
    def test_a_failure_does_not_stop_further_attempts(self) -> None:
        tried, failures = [], Failures()
        for number in range(3):
            with failures:
                tried.append(number)
                raise Transient(str(number))
        self.assertEqual(tried, [0, 1, 2])
        with self.assertRaises(ExceptionGroup) as raised:
            failures.raise_any()
        self.assertEqual([failure.message for failure in failures_of(raised.exception)], ["0", "1", "2"])

    def test_a_single_failure_is_raised_unchanged(self) -> None:
        Failures([None, {}]).raise_any()
        with self.assertRaises(ApiError):
            Failures([None, conflict()]).raise_any()


if __name__ == "__main__":
    unittest.main()
