"""A database of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.database import Database
from tests.harness import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    folder = postgres.programs()
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres.server(folder) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """It is empty."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    with database.transaction() as connection:
        if request.param == "postgresql":
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    yield database
    database.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/ledger.db")
    yield database
    database.close()
