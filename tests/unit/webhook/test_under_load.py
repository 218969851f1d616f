"""Through every step of a rotation, real clients over real TLS are answered: none is ever turned
away."""

import asyncio
import io
import json
import ssl
import time

import aiohttp
import pytest
from aiohttp import web

from cede.api.objects import MUTATING_WEBHOOKS, SECRETS
from tests.unit.webhook.certificates.test_keeper import (
    Clock,
    Watched,
    configure,
    handshake,
    heard,
    held_by,
    published,
    replica,
    settle,
)
from tests.unit.webhook.test_rules import TEAM, a_job
from tests.unit.webhook.test_server import review
from webhook.certificates.keeper import (
    CONFIGURATION,
    HOSTS,
    SECRET,
    issue_ca,
    issue_leaf,
    secret_data,
)
from webhook.certificates.rotation import CA_LIFE_S, DAY_S, LEAF_LIFE_S, SETTLE_S, Held
from webhook.server import MUTATE, application

# of its life is over
OLD_S = 0.7
BODY = json.dumps(review(a_job(8, "2-8"))).encode()


class ApiServers:
    """Two of them ask all the time, each on connections of its own. One has just read the
    configuration, one is a step behind."""

    def __init__(self, server: Watched, port: int) -> None:
        self.server = server
        self.port = port
        self.now = self.before = self._bundle()
        self.answered = {"fresh": 0, "behind": 0}
        self.answer = asyncio.Event()

    def _bundle(self) -> str:
        [bundle] = published(self.server)
        return bundle

    def step(self) -> None:
        self.before, self.now = self.now, self._bundle()

    async def ask(self, name: str) -> None:
        """For ever. Raises whatever a connection that is not trusted, or an answer that is none,
        raises."""
        while True:
            trust = ssl.create_default_context(cadata=self.now if name == "fresh" else self.before)
            trust.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                url = f"https://127.0.0.1:{self.port}{MUTATE}"
                async with session.post(
                    url, data=io.BytesIO(BODY), server_hostname=HOSTS[0]
                ) as response:
                    assert (await response.json())["response"]["allowed"]
            self.answered[name] += 1
            self.answer.set()

    async def both_answered_again(self) -> None:
        before = dict(self.answered)
        async with asyncio.timeout(20):
            while any(self.answered[name] < before[name] + 2 for name in before):
                self.answer.clear()
                await self.answer.wait()


def worn(now: float) -> Held:
    """A CA and a certificate issued so long ago that both are due, and still good by every
    clock."""
    ca = issue_ca(now - CA_LIFE_S * OLD_S)
    return Held(ca, issue_leaf(ca, now - LEAF_LIFE_S * OLD_S))


async def test_while_certificate_and_ca_are_replaced_every_request_is_answered() -> None:
    held = worn(time.time())
    async with Watched() as server:
        configure(server)
        server.put(
            SECRETS,
            {"metadata": {"name": SECRET[1], "namespace": SECRET[0]}, "data": secret_data(held)},
        )
        async with replica(server, clock := Clock()) as (keeper, context):
            # served, then published
            for _ in range(2):
                await keeper.reconcile()
            runner = web.AppRunner(application(lambda namespace: TEAM), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            asking = ApiServers(server, runner.addresses[0][1])
            async with asyncio.TaskGroup() as tasks:
                clients = [tasks.create_task(asking.ask(name)) for name in asking.answered]
                for _ in range(12):
                    await asking.both_answered_again()
                    await keeper.reconcile()
                    await heard(server, keeper)
                    asking.step()
                    clock.now += SETTLE_S + 1
                    new = held_by(server)
                    if (
                        new.ca != held.ca
                        and not new.previous_ca
                        and published(server) == {new.bundle}
                    ):
                        break
                await asking.both_answered_again()
                for client in clients:
                    client.cancel()
            await runner.cleanup()
            assert new.ca != held.ca
            assert not new.previous_ca, "the whole rotation was gone through"
            assert new.leaf != held.leaf


async def test_nobody_is_ready_before_its_certificate_is_trusted() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, Clock()) as (keeper, _):
            steps = []
            for _ in range(6):
                await keeper.reconcile()
                hooks = (server.get(MUTATING_WEBHOOKS, CONFIGURATION) or {})["webhooks"]
                trusted = all("caBundle" in hook["clientConfig"] for hook in hooks)
                assert trusted or not keeper.serves
                steps.append(keeper.serves)
            assert steps[-1], "and ready in the end"


async def test_nobody_stays_ready_with_a_certificate_that_has_expired() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, clock := Clock()) as (keeper, _):
            await settle(server, keeper)
            assert keeper.serves
            # and nobody has renewed it: no rights, say
            clock.now += LEAF_LIFE_S + 1
            assert not keeper.serves


async def test_nobody_is_ready_while_no_configuration_could_trust_it() -> None:
    async with Watched() as server, replica(server, Clock()) as (keeper, _):
        await settle(server, keeper)
        assert not keeper.serves
        configure(server)
        await heard(server, keeper)
        await settle(server, keeper)
        assert keeper.serves


@pytest.mark.parametrize(
    "off_s", [20 * DAY_S, -2 * CA_LIFE_S], ids=["issued in the future", "expired long ago"]
)
async def test_what_no_clock_of_today_accepts_is_replaced_and_nobody_is_ready_before(
    off_s: float,
) -> None:
    issued = time.time() + off_s
    old = issue_ca(issued)
    async with Watched() as server:
        configure(server)
        data = secret_data(Held(old, issue_leaf(old, issued)))
        server.put(SECRETS, {"metadata": {"name": SECRET[1], "namespace": SECRET[0]}, "data": data})
        async with replica(server, Clock()) as (keeper, context):
            await keeper.reconcile()
            assert not keeper.serves
            await heard(server, keeper)
            await settle(server, keeper)
            assert held_by(server).ca != old
            assert keeper.serves
            handshake(context, held_by(server).bundle)


async def test_two_clocks_days_apart_come_to_rest_on_one_certificate() -> None:
    ahead = Clock()
    ahead.now += 20 * DAY_S
    async with Watched() as server:
        configure(server)
        async with (
            replica(server, ahead) as (fast, first),
            replica(server, Clock()) as (right, second),
        ):
            await settle(server, fast)
            await settle(server, fast, right)
            for context in (first, second):
                handshake(context, held_by(server).bundle)


@pytest.mark.parametrize(
    "skew_s", [-600.0, 600.0], ids=["its clock is behind", "its clock is ahead"]
)
async def test_a_certificate_issued_on_a_skewed_clock_is_good_on_every_other(skew_s: float) -> None:
    clock = Clock()
    clock.now += skew_s
    async with Watched() as server:
        configure(server)
        async with replica(server, clock) as (keeper, context):
            for _ in range(6):
                await keeper.reconcile()
            runner = web.AppRunner(application(lambda namespace: TEAM), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            asking = ApiServers(server, runner.addresses[0][1])
            async with asyncio.TaskGroup() as tasks:
                clients = [tasks.create_task(asking.ask(name)) for name in asking.answered]
                await asking.both_answered_again()
                for client in clients:
                    client.cancel()
            await runner.cleanup()
