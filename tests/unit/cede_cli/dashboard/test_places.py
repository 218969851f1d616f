"""Places are bounded, in all and for each person, and become free."""

from contextlib import ExitStack

import pytest

from cede.dashboard.places import Full, Places


def test_one_person_takes_the_places_of_no_other() -> None:
    places = Places(3, 2, "pages are open", "close one")
    with ExitStack() as stack:
        for person in ("ada", "ada"):
            stack.enter_context(places.take(person))
        with pytest.raises(Full, match=r"^2 of your pages are open: close one$"):
            stack.enter_context(places.take("ada"))
        stack.enter_context(places.take("bob"))
        with pytest.raises(Full, match=r"^3 pages are open: close one$"):
            stack.enter_context(places.take("eve"))


def test_a_place_becomes_free_also_after_a_fault() -> None:
    places = Places(1, 1, "pages are open", "close one")
    for _ in range(2):
        with pytest.raises(LookupError), places.take("ada"):
            raise LookupError
    with places.take("bob"):
        pass


def test_who_has_no_place_is_not_remembered() -> None:
    places = Places(1, 1, "pages are open", "close one")
    with places.take("ada"), pytest.raises(Full), places.take("bob"):
        pass
    assert not places._taken
