"""The page as a person has it, in headless Chromium. `CEDE_SCREENSHOTS` names a folder for
pictures."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cede.api.objects import ALLOCATIONS, CESSIONS, JOBS
from deploy.demo.browser import Browser, chromium, chromium_running, new_page
from tests.builders.shared_cluster import allocation, job, put_progress
from tests.builders.take_backs import cession
from tests.fakes.api_faults import drops
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import STATEMENT, Reader
from tests.unit.cede_cli.dashboard.conftest import dashboard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not chromium(), reason="needs Chromium: make test-browser"),
]
DESKTOP, PHONE = (1280, 1000), (390, 844)
LIVE = "document.getElementById('connection').dataset.state === 'live'"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with chromium_running() as address:
        yield address


@pytest.fixture
async def page(address: str, server: ApiServer, reader: Reader) -> AsyncIterator[Browser]:
    """The page, live; at the end no script has failed and its policy has refused nothing."""
    async with new_page(address) as shown:
        await shown.resize(*DESKTOP)
        await shown.open(reader.address)
        await shown.until(f"{LIVE} && document.querySelectorAll('#jobs tbody tr').length")
        yield shown
        assert [error for error in shown.errors if " 400 " not in error] == []


async def keep(page: Browser, name: str) -> None:
    """Writes a picture where one is wanted."""
    if folder := os.environ.get("CEDE_SCREENSHOTS"):
        await page.settle()
        (Path(folder) / f"{name}.png").write_bytes(await page.screenshot())


async def choose(page: Browser, name: str, value: str) -> None:
    """As if a person chose it from a list."""
    chosen = f"document.getElementById('{name}')"
    await page.evaluate(f"{chosen}.value = '{value}'; {chosen}.dispatchEvent(new Event('change'))")


async def cells(page: Browser, table: str, heading: str) -> list[str]:
    """The cells of the row whose heading ends so."""
    return list(
        await page.evaluate(
            f"[...[...document.querySelectorAll('#{table} tbody tr')]"
            f".find((row) => row.cells[0].innerText.endsWith('{heading}')).cells]"
            r".map((cell) => cell.innerText.trim().replace(/\s+/g, ' '))"
        )
    )


async def test_teams_and_jobs_are_tables_with_numbers(page: Browser) -> None:
    assert await cells(page, "teams", "research") == [
        *("research", "a100-80g", "8", "12", "0", "4", "1")
    ]
    gpt = await cells(page, "jobs", "gpt-7b")
    assert gpt[:8] == [
        *("research / gpt-7b", "Running", "↓ smaller than desired: 4"),
        *("8", "2-8", "4,120", "–", "4,100"),
    ]
    assert gpt[9:] == [
        "training 50",
        "It ceded 8 → 4 pods for vision/serve-ranker (ReclaimOwnQuota), 13 min ago, and lost no "
        "step.",
    ]
    assert await page.evaluate("document.title") == "Cede · here"
    await keep(page, "light")


async def test_the_token_leaves_the_address_and_survives_a_reload(page: Browser) -> None:
    assert await page.evaluate("location.hash") == ""
    await page.evaluate("window.isOld = true")
    await page.send("Page.reload")
    await page.until(f"!window.isOld && {LIVE}")


async def test_a_change_arrives_without_a_reload(page: Browser, server: ApiServer) -> None:
    await page.evaluate("window.isOld = true")
    await page.evaluate("document.querySelectorAll('#takes details')[1].open = true")
    server.put(JOBS, job("speech", "tts", 2, desired=6, sizes="2-8")[0])
    server.put(
        CESSIONS,
        cession(
            *("now", "robotics/policy-net", ("speech/tts", 6, 2)), phase="Asked", stages_s=(1,)
        ),
    )
    await page.until("document.querySelector('#takes').innerText.includes('speech/tts 6 → 2')")
    await page.until(
        "document.getElementById('news').textContent === "
        "'robotics/policy-net takes capacity from speech/tts 6 → 2'"
    )
    assert (await cells(page, "jobs", "tts"))[2].endswith("2")
    put_progress(server, "speech", "tts", step=900, loss=1.25)
    await page.until("/900\\s+1.25\\s+0/.test(document.getElementById('jobs').innerText)")
    assert await page.evaluate("window.isOld && document.querySelectorAll('#takes [open]').length")


async def test_a_take_back_opens_to_its_explanation_by_keyboard(page: Browser) -> None:
    await page.evaluate("document.querySelectorAll('#takes summary')[1].focus()")
    await page.press("Enter", "\r")
    await page.until("document.querySelectorAll('#takes [open] .body').length === 1")
    text = await page.evaluate("document.querySelector('#takes .body').innerText")
    assert "vision/serve-ranker lacks 4 nvidia.com/gpu of a100-80g" in text
    assert "shrinking research/ablation-17 from 8 to 4 would have cost nothing as well" in text
    assert "Ceded\t3 s" in text
    await page.prefer("dark")
    await keep(page, "dark")


async def test_a_job_opens_to_its_explanation_as_text(page: Browser) -> None:
    await page.evaluate(
        "[...document.querySelectorAll('#jobs th button')]"
        ".find((button) => button.textContent === 'gpt-7b').focus()"
    )
    await page.press("Enter", "\r")
    await page.until("document.querySelectorAll('#job-sentences li').length === 2")
    sentences = await page.evaluate("document.getElementById('job-sentences').innerText")
    assert sentences.split("\n") == ["gpt-7b runs.", "<b>It</b> is no markup."]
    assert await page.evaluate("document.activeElement.id") == "job-title"
    await keep(page, "job")
    await page.press("Escape")
    await page.until("!document.getElementById('job').open")
    assert await page.evaluate("document.activeElement.textContent") == "gpt-7b"


async def test_what_the_cluster_holds_becomes_no_markup(page: Browser, server: ApiServer) -> None:
    evil = "<img src=x onerror=alert(1)>"
    server.put(CESSIONS, cession("evil", f"vision/{evil}", (f"speech/{evil}", 6, 2), why=evil))
    await page.until(f"document.getElementById('takes').innerText.includes('{evil}')")
    await page.evaluate("document.querySelectorAll('#takes details').forEach((i) => i.open = true)")
    assert await page.evaluate("document.images.length") == 1


async def test_the_filter_is_reached_by_a_key_and_finds_by_every_word(page: Browser) -> None:
    await page.press("/", "/")
    await page.until("document.activeElement.id === 'search'")
    for letter in "research gpt":
        await page.press(letter, letter)
    await page.until("document.querySelectorAll('#jobs tbody tr').length === 1")
    assert await page.evaluate("document.getElementById('jobs-count').textContent") == "1 of 8"


async def test_columns_sort_and_say_so(page: Browser) -> None:
    for order, first in (("ascending", "ablation-18"), ("descending", "detector")):
        await page.evaluate("document.querySelector('[data-sort=size]').click()")
        assert await page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
        sort = await page.evaluate("document.querySelector('[aria-sort]').ariaSort")
        top = await page.evaluate("document.querySelector('#jobs tbody th button').textContent")
        assert (sort, top) == (order, first)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_has_contrast(page: Browser, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 to 1, of all colours that texts have on what is below them."""
    await page.prefer(scheme)
    await page.settle()
    ratios = await page.evaluate(
        """(() => {
          const style = getComputedStyle(document.documentElement);
          const canvas = document.createElement('canvas').getContext('2d');
          const light = (name) => {
            canvas.fillStyle = style.getPropertyValue(name);
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
              const value = part / 255;
              return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
          };
          const ratio = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b));
          return [['--ink', '--paper'], ['--ink', '--card'], ['--soft', '--paper'],
            ['--soft', '--card'], ['--bad', '--card'], ['--bad', '--bad-back'],
            ['--ink', '--note-back'], ['--borrowed', '--card']].map((pair) =>
              [pair.join(' on '), ratio(...pair)]);
        })()"""
    )
    assert [pair for pair, ratio in ratios if ratio < 4.5] == []


async def test_it_fits_a_phone_and_nothing_is_lost(page: Browser) -> None:
    await page.resize(*PHONE)
    await page.until("innerWidth === 390")
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    await keep(page, "phone")
    await page.evaluate(
        "[...document.querySelectorAll('#jobs th button')]"
        ".find((button) => button.textContent === 'gpt-7b').click()"
    )
    facts = await page.evaluate("document.getElementById('job-facts').innerText")
    assert {"Desired", "8", "Last save", "4,100", "training 50"} <= set(facts.split("\n"))
    await page.until("document.querySelectorAll('#job-sentences li').length === 2")
    await keep(page, "phone-job")


async def test_every_control_and_region_has_a_name(page: Browser) -> None:
    await page.evaluate("document.querySelectorAll('#takes details').forEach((i) => i.open = true)")
    tree = await page.send("Accessibility.getFullAXTree")
    roles = ("button", "textbox", "searchbox", "combobox", "region", "dialog", "table", "link")
    nameless = [
        node["role"]["value"]
        for node in tree["nodes"]
        if not node.get("ignored")
        and node.get("role", {}).get("value") in roles
        and not node.get("name", {}).get("value")
    ]
    assert nameless == []


async def test_what_is_wrong_is_said_above_and_goes(page: Browser, server: ApiServer) -> None:
    problem = "its namespace belongs to others: choose another"
    server.put(ALLOCATIONS, allocation("speech", problem=problem))
    await page.until("document.getElementById('attention-title').textContent.startsWith('1 thing')")
    text = await page.evaluate("document.getElementById('attention-list').textContent")
    assert text == f"ComputeAllocation speech: Ready is False (Reason): {problem}"
    assert await page.evaluate("document.querySelector('.problem').textContent") == "not ready"
    server.script("GET", "/version", *[drops()] * 20)
    await page.until(
        "document.getElementById('trouble').innerText"
        ".startsWith('Not up to date: the API server is not reachable')"
    )
    await page.until("document.getElementById('trouble').hidden")
    server.put(ALLOCATIONS, allocation("speech"))
    await page.until("document.getElementById('attention').hidden")


async def test_a_page_whose_server_has_ended_says_so(address: str, server: ApiServer) -> None:
    async with new_page(address) as shown:
        async with dashboard(server) as reader:
            await shown.open(reader.address)
            await shown.until(LIVE)
        await shown.until("document.getElementById('connection').dataset.state === 'lost'")
        text = await shown.evaluate("document.getElementById('connection-text').textContent")
        assert text == "cede dashboard has ended"


async def test_days_that_were_not_recorded_are_gaps(page: Browser) -> None:
    await page.until("document.querySelectorAll('#history tbody tr').length === 2")
    days = "[...document.querySelectorAll('#history tbody tr:last-child .day-bar')]"
    assert await page.evaluate(f"{days}.map((day) => day.className)") == [
        *("day-bar", "day-bar partial", "day-bar gap")
    ]
    text = await page.evaluate(f"{days}[2].textContent")
    assert text == "2026-11-22: not recorded (10 h not recorded: the API server was silent)"
    note = await page.evaluate("document.getElementById('history-note').textContent")
    assert note == "Accelerator-hours of 3 days (UTC), 16 h of them not recorded"
    assert (await cells(page, "history", "vision"))[3:] == ["672", "488", "0", "156", "28"]
    await choose(page, "history-span", "2026-11-20")
    assert (await cells(page, "history", "vision"))[3:] == ["384", "288", "0", "96", "0"]


async def test_the_statement_of_a_month_is_a_table_and_a_file(page: Browser) -> None:
    await page.until("document.querySelectorAll('#statement tbody tr').length === 3")
    assert await cells(page, "statement", "vision") == [
        *("vision", "a100-80g", "672", "488", "0", "156", "28", "0", "12.5", "0", "0")
    ]
    lost = "Array.from(document.querySelectorAll('#statement td:last-child'), (c) => c.textContent)"
    assert await page.evaluate(lost) == ["≥ 1.5", "0", "unknown"], "what nobody knows is no 0"
    note = "document.getElementById('statement-note').textContent"
    assert await page.evaluate(note) == (
        "Accelerator-hours of the month (UTC), without 496 h that were not recorded"
    )
    link = "document.getElementById('statement-csv')"
    assert await page.evaluate(f"{link}.download") == "cede-2026-11.csv"
    content = f"decodeURIComponent({link}.href.slice({link}.href.indexOf(',') + 1))"
    assert await page.evaluate(content) == STATEMENT
    await page.evaluate(f"{link}.focus()")
    await page.press("Enter", "\r")
    await choose(page, "statement-month", "2026-10")
    assert await page.evaluate(note) == "Nothing was recorded in this month."


async def test_a_question_is_answered_as_text(page: Browser) -> None:
    await choose(page, "whatif-question", "drain")
    assert await page.evaluate("document.getElementById('whatif-manifest').offsetParent === null")
    await page.evaluate("document.getElementById('whatif-nodes').focus()")
    await page.press("Enter", "\r")
    await page.until("document.getElementById('whatif-problem').textContent.includes('no node')")
    for letter in "n1":
        await page.press(letter, letter)
    await page.press("Enter", "\r")
    await page.until(
        "document.getElementById('whatif-answer').textContent === 'drain <b>changes</b> nothing.'"
    )
    await keep(page, "whatif")
