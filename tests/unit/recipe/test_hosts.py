"""Lists of hosts in every form that schedulers print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.errors import RecipeError
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.hosts import expand
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Site


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("linux[1,2]", "linux1 linux2"),
        ("alpha,beta,gamma", "alpha beta gamma"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[9-10]", "n9 n10"),
        ("a[1-2,5]-ib,head", "a1-ib a2-ib a5-ib head"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("user@host", "user@host"),
        ("[fe80::1]", "[fe80::1]"),
        ("10.0.0.[1-3]", "10.0.0.1 10.0.0.2 10.0.0.3"),
    ],
)
def test_lists(text, names):
    """C29: without scontrol."""
    assert expand(text) == names.split()


@pytest.mark.parametrize("text", ["n[1-2", "n]1[", "n[2-1]", "n[a-b]", "n[]", "a,,b", "", "n[0-99999999]", "n[[1]]"])
def test_lists_that_are_none(text):
    with pytest.raises(ValueError, match=r"brackets|no number|range|empty name"):
        expand(text)


@given(st.text(alphabet="ab[]0123-, .:", max_size=12))
def test_any_text_is_names_or_one_error(text):
    try:
        names = expand(text)
    except ValueError:
        return
    assert names and all(names)


def site(text: str) -> Site:
    return read_text(text, Site, source="site.yaml").value


def problem(text: str) -> str:
    with pytest.raises(RecipeError) as caught:
        site(text)
    return str(caught.value)


def test_an_ssh_site_names_its_nodes():
    assert site("launcher: {ssh: {hosts: ['n[1-3]']}}\nnodes: 2").launcher.ssh.host_names() == ("n1", "n2", "n3")
    assert site("launcher: {ssh: {hosts: [one]}}").nodes == 1
    assert "say nodes: 3 or fewer" in problem("launcher: {ssh: {hosts: ['n[1-3]']}}\nnodes: 4")
    assert "nodes is 1, but ssh.hosts lists 2" in problem("launcher: {ssh: {hosts: [a, b]}}")
    assert "named more than once: a" in problem("launcher: {ssh: {hosts: [a, a]}}\nnodes: 2")
    assert "site.yaml:1:25: launcher.ssh.hosts" in problem("launcher: {ssh: {hosts: ['n[1-']}}\nnodes: 2")


def test_a_resolved_site_reads_back():
    given = site("launcher: {slurm: {options: [--qos=high], time_limit: 3:00:00}}\nnodes: 16\nengine: [ft_launcher]")
    assert site(resolved_text(given)) == given
    assert given.launcher.slurm.time_limit == "3:00:00"


def test_one_launcher():
    assert "name exactly one of: local, ssh, slurm, kubernetes" in problem("launcher: {local: {}, slurm: {}}")


@pytest.mark.parametrize("host", ["-oProxyCommand=evil", "' '", '"a\\nb"'])
def test_a_host_is_never_an_option(host):
    assert "launcher.ssh.hosts[0]" in problem(f"launcher: {{ssh: {{hosts: [{host}]}}}}")
