"""Signing in and out, in headless Chromium."""

from collections.abc import Iterator

import pytest

from deploy.demo.browser import chromium, chromium_running, new_page
from tests.fakes.people import People
from tests.unit.cede_cli.dashboard.people.conftest import Site
from tests.unit.cede_cli.dashboard.test_in_a_browser import LIVE, keep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("quick"),
    pytest.mark.skipif(not chromium(), reason="needs Chromium: make test-browser"),
]


@pytest.fixture(scope="module")
def devtools() -> Iterator[str]:
    with chromium_running() as address:
        yield address


async def test_a_person_signs_in_sees_their_page_and_signs_out(
    devtools: str, local_site: Site, people: People
) -> None:
    token = people.add("ada", ("research",))
    await local_site.page(token)
    async with new_page(devtools) as shown:
        await shown.open(local_site.url)
        await shown.until("location.pathname === '/sign-in' && document.getElementById('token')")
        await keep(shown, "sign-in")
        await shown.evaluate("document.getElementById('token').value = 'wrong'")
        await shown.evaluate("document.querySelector('button').click()")
        await shown.until("document.getElementById('refused').offsetParent !== null")
        await shown.evaluate(f"document.getElementById('token').value = '{token}'")
        await shown.evaluate("document.querySelector('button').click()")
        await shown.until(f"{LIVE} && document.querySelectorAll('#jobs tbody tr').length")
        await shown.until("document.getElementById('person').textContent === 'ada'")
        names = await shown.evaluate(
            "[...document.querySelectorAll('#jobs tbody small')].map((name) => name.textContent)"
        )
        assert set(names) == {"research / ", "50"}
        assert await shown.evaluate("document.cookie") == ""
        await shown.evaluate("document.getElementById('sign-out').click()")
        await shown.until("location.pathname === '/sign-in'")
        await shown.open(local_site.url)
        await shown.until("location.pathname === '/sign-in'")
