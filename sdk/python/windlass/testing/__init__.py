"""A host in memory for unit tests, which records what a plugin does.

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

It is not an API server: an apply merges fields, and the cache contains every kind, even if it is not declared. Objects
are validated and defaulted if the test defines their kind: `Host(crds=…)`. Deleting an object also deletes the objects
that it controls. `windlass dev` runs the plugin on a real API server.

"""

from __future__ import annotations

from ._double import Host
from ._records import LogLine, MetricValue, Write
from ._requests import composition_request, request

__all__ = ["Host", "LogLine", "MetricValue", "Write", "composition_request", "request"]
