from softmrc.cli.pages import SETTING, VARIABLE, wants_huge_pages


def test_only_commands_that_simulate() -> None:
    assert wants_huge_pages(["sim", "run", "two-hosts"], {})
    assert wants_huge_pages(["bench", "sim"], {})
    assert wants_huge_pages(["paper", "--quick"], {})
    for other in ([], ["bench"], ["bench", "transport"], ["send", "sim"], ["--help"]):
        assert not wants_huge_pages(other, {})


def test_what_the_user_says_about_the_allocator_stays() -> None:
    assert not wants_huge_pages(["sim", "list"], {VARIABLE: "glibc.malloc.check=1"})


def test_the_second_start_is_the_last() -> None:
    assert not wants_huge_pages(["sim", "list"], {VARIABLE: SETTING})
