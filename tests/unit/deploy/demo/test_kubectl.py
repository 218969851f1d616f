"""What the demo reads with kubectl."""

from deploy.demo.kubectl import parse_lines


def test_a_line_that_was_cut_off_is_left_out() -> None:
    assert parse_lines('{"step": 1}\n{"ste\n\n{"step": 2}\n') == [{"step": 1}, {"step": 2}]
