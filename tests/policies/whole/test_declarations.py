"""Policies that decide in whole numbers are short declarations and keep the contract."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING

import pytest
from tests.seeds import sampled

from apportion.policies import WHOLE, Policy, get_policy, policy_table
from apportion.testing import check_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY = [policy for kind in WHOLE.values() for policy in kind]


def without_docstrings(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if isinstance(child, ast.stmt) and not is_text:
            yield child


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_a_declaration_has_at_most_fifteen_lines(policy: type[Policy]) -> None:
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(policy))).body
    assert isinstance(made, ast.ClassDef)
    checks = "__post_init__"  # of fields; they are no part of the problem
    own = without_docstrings(made)
    made.body = [each for each in own if getattr(each, "name", "") != checks]
    for each in made.body:
        if isinstance(each, ast.FunctionDef):
            each.body = list(without_docstrings(each))
    body = ast.unparse(made).split("):\n", 1)[1]
    lines = [line for line in body.splitlines() if line.strip()]
    assert len(lines) <= 15, "\n".join(lines)


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_a_declaration_displays_its_problem(policy: type[Policy]) -> None:
    assert policy.integral
    assert "::\n" in (policy.__doc__ or "")
    row = policy_table().set_index("name").loc[policy.name]
    assert str(row.problem).startswith(("max over", "min over", "lex max over"))
    assert str(row.source) == policy.source
    assert type(get_policy(policy.name)) is policy


@pytest.mark.parametrize("name", sampled(["sia", "pollux", "deepboot", "optimus"], 2))
def test_elastic_policies_keep_the_contract(name: str) -> None:
    check_policy(name)
