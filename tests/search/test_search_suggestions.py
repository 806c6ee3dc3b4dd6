"""Descriptions that are suggested: held-out prompts find the skill, and neighbours keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard import Catalog
from skillyard.search import TriggerCase


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    for name, description in {
        "ledger": "Keeps the books of a small company.",
        "holidays": "Plans holidays: flights, hotels and insurance.",
        "builds": "Compiles programs and reports what is broken.",
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n\nWork carefully.\n")
    return Catalog.discover(roots=[tmp_path])


LEDGER = [
    "reconcile the bank statement of march",
    "reconcile invoices with the bank statement",
    "post the supplier invoices of april",
    "which invoices has the bank not paid",
]


def test_a_suggestion_raises_held_out_prompts_and_harms_no_neighbour(catalog: Catalog) -> None:
    cases = [*(TriggerCase(prompt, ("ledger",)) for prompt in LEDGER), TriggerCase("book hotels", ("holidays",))]
    [suggestion] = catalog.suggest_descriptions(cases)
    assert suggestion.skill == "ledger"
    assert suggestion.after > suggestion.before
    assert (suggestion.held_out, suggestion.neighbours) == (2, 1)
    assert suggestion.description.startswith("Keeps the books of a small company. Also for: ")
    assert set(suggestion.added) <= {word for prompt in LEDGER[::2] for word in prompt.split()}
    assert suggestion.to_dict()["after"] == suggestion.after / 2


def test_what_would_take_a_prompt_from_a_neighbour_is_not_suggested(catalog: Catalog) -> None:
    """The words are those that the other skill is found by."""
    wrong = ["flights hotels insurance"] * 1 + ["hotels flights", "insurance flights hotels", "insurance hotels"]
    cases = [*(TriggerCase(prompt, ("ledger",)) for prompt in wrong), TriggerCase("flights", ("holidays",))]
    assert catalog.suggest_descriptions(cases) == []


def test_few_prompts_or_ones_that_are_found_get_no_suggestion(catalog: Catalog) -> None:
    found = [TriggerCase(f"keeps the books {number}", ("ledger",)) for number in range(4)]
    assert catalog.suggest_descriptions(found) == []
    assert catalog.suggest_descriptions([TriggerCase(prompt, ("ledger",)) for prompt in LEDGER[:3]]) == []
