"""The file that leads the browser to the page."""

import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cede.dashboard.redirect import redirect_file

ADDRESS = "http://127.0.0.1:4711/#token=a-secret_&x"


def path_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def test_only_its_owner_reads_it_and_it_leads_to_the_page() -> None:
    with redirect_file(ADDRESS) as url:
        file = path_of(url)
        assert "a-secret" not in url
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert 'url=http://127.0.0.1:4711/#token=a-secret_&amp;x"' in file.read_text()


def test_nothing_of_it_stays() -> None:
    with redirect_file(ADDRESS) as url:
        folder = path_of(url).parent
    assert not folder.exists()
