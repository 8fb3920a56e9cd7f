"""A host for unit tests, which answers from memory and records what a plugin does.

    class ShopTest(unittest.TestCase):
        def test_a_shop_gets_its_settings(self) -> None:
            with windlass.testing.Host() as host:
                host.reconcile(app.reconcile, shop)
                self.assertEqual(host.get("v1", "ConfigMap", "shop", "default")["data"], {"currency": "EUR"})

        def test_a_conflict_is_passed_on(self) -> None:
            with windlass.testing.Host() as host:
                host.fail("apply", windlass.Reason.CONFLICT)
                with self.assertRaises(windlass.ApiError):
                    host.reconcile(app.reconcile, shop)

It is no API server: an apply merges, and every declared or undeclared kind is in the cache. Objects are validated and defaulted if the test
defines their kind: `Host(crds=…)`. With an object goes what it controls. For the whole, `windlass dev` runs the plugin on a real one.
"""

from __future__ import annotations

from ._double import Host
from ._records import LogLine, MetricValue, Write
from ._requests import composition_request, request

__all__ = ["Host", "LogLine", "MetricValue", "Write", "composition_request", "request"]
