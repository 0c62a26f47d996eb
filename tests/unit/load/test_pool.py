from __future__ import annotations

from loadtest.load.pool import Choice, Pool
from loadtest.model import Lane

NEW, REUSED = Lane


def pool(wanted: int = 0, most: int = 10, *, idle: int = 0) -> Pool[str]:
    made: Pool[str] = Pool(wanted, most)
    for at in range(idle):
        made.add(f"kept-{at}", REUSED)
        made.give_back(f"kept-{at}")
    return made


def test_the_longest_idle_connection_goes_first() -> None:
    connections = pool(idle=3)

    assert connections.take(REUSED) == (Choice.USE, "kept-0")
    connections.give_back("kept-0")
    assert [connections.take(REUSED)[1] for _ in range(3)] == ["kept-1", "kept-2", "kept-0"]


def test_the_new_lane_never_gets_a_kept_connection() -> None:
    assert pool(idle=3).take(NEW) == (Choice.OPEN, None)


def test_when_all_are_busy_another_one_is_opened() -> None:
    connections = pool(idle=1)
    connections.take(REUSED)

    assert connections.take(REUSED) == (Choice.OPEN, None)


def test_beyond_the_limit_over_both_lanes_nothing_is_opened() -> None:
    connections = pool(most=2)
    connections.add("a", NEW)
    connections.add("b", REUSED)

    assert not connections.has_room
    assert connections.take(NEW) == (Choice.ALL_BUSY, None)
    assert connections.take(REUSED) == (Choice.ALL_BUSY, None)


def test_idle_connections_do_not_stand_in_the_way_of_new_ones() -> None:
    connections = pool(most=2, idle=2)

    assert connections.has_room
    assert connections.take(NEW) == (Choice.OPEN, "kept-0")
    connections.add("new", NEW)
    assert connections.kept == 1
    assert connections.take(REUSED) == (Choice.USE, "kept-1")
    assert connections.take(NEW) == (Choice.ALL_BUSY, None)


def test_lost_connections_are_replaced_by_every_second_tick_of_their_lane() -> None:
    connections = pool(wanted=3, idle=1)

    choices = []
    for at in range(6):
        choice, connection = connections.take(REUSED)
        choices.append(choice)
        connection = connection or f"again-{at}"
        if choice is Choice.OPEN:
            connections.add(connection, REUSED)
        connections.give_back(connection)

    assert choices == [Choice.OPEN, Choice.USE, Choice.OPEN, Choice.USE, Choice.USE, Choice.USE]
    assert connections.kept == 3


def test_while_new_connections_fail_those_kept_stay_in_use() -> None:
    connections = pool(wanted=3, idle=1)

    choices = []
    for at in range(6):
        choice, connection = connections.take(REUSED)
        choices.append(choice)
        if choice is Choice.OPEN:
            connections.add(f"refused-{at}", REUSED)
            connections.remove(f"refused-{at}")
        else:
            assert connection is not None
            connections.give_back(connection)

    assert choices == [Choice.OPEN, Choice.USE] * 3


def test_a_closed_connection_is_gone_wherever_it_was() -> None:
    connections = pool(idle=2)
    connections.remove("kept-0")

    assert connections.take(REUSED) == (Choice.USE, "kept-1")
    connections.remove("kept-1")
    assert connections.all() == ()
    assert connections.kept == connections.idle == 0
