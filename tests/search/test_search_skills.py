"""Finding skills for a request: real matches only, in any spelling and language, with reasons."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_growth import growth_of

from skillyard.catalog import SkillCatalog
from skillyard.errors import InvalidInput
from skillyard.search import SearchIndex, find_relevant_skills, named_skills, search_skills
from skillyard.search.words import compounds, runs, words


@dataclass(frozen=True)
class FakeSkill:
    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    display_name: str | None = None
    status: str = "ok"
    model_invocable: bool = True

    @property
    def offered(self):
        return self.status == "ok" and self.model_invocable

    @property
    def slug(self):
        return self.name.lower().replace(" ", "-").replace("_", "-")

    @property
    def id(self):
        return f"user:{self.slug}"


SKILLS = [
    FakeSkill("pdf", "Extract text and tables from PDF files, merge and split documents, fill forms."),
    FakeSkill("xlsx", "Create and edit Excel spreadsheets with formulas and charts."),
    FakeSkill("pdf-tools", "Command line helpers around documents."),
    FakeSkill(
        "query-weather",
        "查询任意城市的天气预报",
        keywords=("天气", "forecast"),
        phrases=("query_weather", "what is it like outside"),
    ),
    FakeSkill("email-sequence", "Write a series of emails to customers."),
    FakeSkill("FrontendDesign", "Build beautiful web pages with React."),
    FakeSkill("c", "Compile and debug programs."),
]


def found(query, skills=SKILLS, **options):
    return [match.skill.name for match in search_skills(skills, query, **options)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("merge two PDFs into one", "pdf"),
        ("I need charts in an excel sheet", "xlsx"),
        ("EXTRACTING TABLES", "pdf"),
        ("writing emails", "email-sequence"),
        ("frontend for my shop", "FrontendDesign"),
        ("front-end for my shop", "FrontendDesign"),
        ("front end design", "FrontendDesign"),
        ("北京天气怎么样", "query-weather"),
        ("ｅｘｃｅｌ spreadsheet", "xlsx"),
        ("forecast for tomorrow", "query-weather"),
    ],
)
def test_the_skill_with_the_words_of_the_request_is_found(query, best):
    assert found(query)[0] == best


@pytest.mark.row("D-15")
@pytest.mark.parametrize(
    "query", ["bake a chocolate cake", "你好世界", "", "   ", "the and of", "!!!", "please help me with this"]
)
def test_an_unrelated_request_finds_nothing_even_without_a_threshold(query):
    assert found(query) == []
    assert found(query, min_confidence=0) == []


@pytest.mark.row("D-15")
def test_a_faint_resemblance_is_shown_as_unsure_and_left_out_on_request():
    query = "organize a birthday party with balloons, games, customers, music, invitations and a magician"
    faint = search_skills(SKILLS, query)
    assert [(match.skill.name, match.sure) for match in faint] == [("email-sequence", False)]
    assert found(query, min_confidence=faint[0].confidence + 0.01) == []
    assert search_skills(SKILLS, "merge PDF files into one")[0].sure


@pytest.mark.row("D-16")
def test_a_short_word_inside_another_is_no_match():
    skills = [FakeSkill("ml", "Train models.", keywords=("ai",), phrases=("ai",)), FakeSkill("mail", "Send email.")]
    assert found("send an email", skills) == ["mail"]
    assert found("help with ai", skills) == ["ml"]


@pytest.mark.row("D-16", "000-13")
def test_an_intent_of_one_letter_matches_nothing():
    skills = [FakeSkill("odd", "Does odd things.", phrases=("a",), keywords=("e",))]
    assert found("a cake", skills) == []
    assert found("e", skills) == []


@pytest.mark.row("D-16", "000-13")
@pytest.mark.parametrize("query", ["please query the weather in Paris", "query weather", "Query-Weather now", "queryWeather()"])
def test_a_snake_case_intent_matches_prose(query):
    match = search_skills([FakeSkill("sky", "Looks up.", phrases=("query_weather",))], query)[0]
    assert match.confidence >= 0.9
    assert "phrase:query_weather" in match.matched


@pytest.mark.row("D-16", "000-13")
def test_a_phrase_matches_one_way_only():
    skills = [FakeSkill("sky", "Looks up.", phrases=("tell me what the sky over the mountains is like",))]
    whole = search_skills(skills, "please tell me what the sky over the mountains is like")[0]
    part = search_skills(skills, "mountains")
    assert whole.confidence >= 0.9
    assert all(match.confidence < 0.9 for match in part)


@pytest.mark.row("000-13")
def test_a_phrase_of_one_word_counts_in_a_short_request_only():
    skills = [FakeSkill("bugs", "Finds causes.", phrases=("debug",))]
    assert search_skills(skills, "debug this program")[0].confidence >= 0.7
    long = "yesterday our cat wrote twelve poems nobody could debug while singing under water"
    assert all(match.confidence < 0.7 for match in search_skills(skills, long))


@pytest.mark.row("000-13")
@pytest.mark.parametrize("phrase", ["write about", "write"])
def test_a_phrase_of_one_word_does_not_put_a_skill_before_one_that_has_more_of_the_request(phrase):
    skills = [
        FakeSkill("essays", "Long texts about anything.", phrases=(phrase,)),
        FakeSkill("newsletters", "Write a newsletter for subscribers by email."),
    ]
    assert found("write a newsletter", skills)[0] == "newsletters"
    assert found("write", skills)[0] == "essays"


def test_an_amount_of_money_names_no_skill():
    skills = [FakeSkill("15", "Puzzles with tiles."), FakeSkill("ads", "Plan paid advertising within a budget.")]
    assert found("plan paid ads, $15k/month", skills)[0] == "ads"


@pytest.mark.row("000-13", "D-16")
def test_a_chinese_phrase_is_found_inside_a_sentence():
    match = search_skills([FakeSkill("sky", "x", phrases=("查询天气",))], "请帮我查询天气谢谢")[0]
    assert match.confidence >= 0.9
    assert found("今天天气", [FakeSkill("sky", "查询任意城市的天气预报")]) == ["sky"]
    assert found("数据库", [FakeSkill("sky", "查询任意城市的天气预报")]) == []


@pytest.mark.parametrize(
    "query",
    [
        "pdf",
        "PDF",
        "use the pdf skill",
        "run $pdf on this",
        "/pdf now",
        "do it with `pdf`",
        "user:pdf",
        "pdf技能",
        "the skill pdf please",
    ],
)
def test_a_named_skill_is_on_top_with_full_confidence(query):
    best = search_skills(SKILLS, query)[0]
    assert (best.skill.name, best.confidence, best.matched[0]) == ("pdf", 1.0, "name:pdf")


def test_a_compound_name_written_out_names_its_skill():
    assert named_skills(SKILLS, "convert this using pdf-tools and then mail it") == ("user:pdf-tools",)
    assert named_skills(SKILLS, "$xlsx and `pdf`, please") == ("user:pdf", "user:xlsx")
    assert named_skills(SKILLS, "what is the path /usr/xlsx and cost of 5$") == ()
    assert named_skills(SKILLS, "merge my pdf files") == ()
    assert named_skills(SKILLS, "") == ()
    assert found("c") == ["c"]
    assert named_skills(SearchIndex(SKILLS), "use $c here") == ("user:c",)


def test_skills_a_model_may_not_call_are_never_found():
    skills = [FakeSkill("pdf", "x", status="denied"), FakeSkill("pdf-two", "pdf", model_invocable=False)]
    assert search_skills(skills, "pdf") == []
    assert named_skills(skills, "$pdf") == ()
    assert len(SearchIndex(skills)) == 0


def test_matches_say_why():
    skills = [FakeSkill("pdf-tools", "Merges documents.", keywords=("forms",), phrases=("fill in a form",))]
    match = search_skills(skills, "merging pdf and fill in a form")[0]
    assert match.matched == (
        "name:pdf",
        "phrase:fill in a form",
        "keyword:forms",
        "keyword:fill in a form",
        "description:merges",
    )
    assert match.to_dict() == {
        "id": "user:pdf-tools",
        "name": "pdf-tools",
        "confidence": match.confidence,
        "sure": match.sure,
        "matched": list(match.matched),
    }


def test_as_many_are_shown_as_were_asked_for_however_unsure():
    many = [FakeSkill(f"tool-{number}", f"Handles invoice number {number} of customers.") for number in range(30)]
    for limit in (5, 12, 30):
        assert len(search_skills(many, "paint a landscape for my customers", limit=limit)) == limit


def test_the_limit_and_the_threshold_hold():
    many = [FakeSkill(f"pdf-{number}", "Reads pdf files.") for number in range(30)]
    assert len(search_skills(many, "reads pdf")) == 10
    assert len(search_skills(many, "reads pdf", limit=3)) == 3
    assert search_skills(many, "reads pdf", min_confidence=1) == []


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"min_confidence": 2}, {"min_confidence": -0.1}])
def test_a_wrong_option_is_refused_with_a_hint(wrong):
    with pytest.raises(InvalidInput) as caught:
        search_skills(SKILLS, "pdf", **wrong)
    assert caught.value.hint


@pytest.mark.row("D-28")
def test_two_indexes_know_nothing_of_each_other():
    one, two = SearchIndex(SKILLS[:1]), SearchIndex(SKILLS[1:2])
    assert [match.skill.name for match in search_skills(one, "pdf excel")] == ["pdf"]
    assert [match.skill.name for match in search_skills(two, "pdf excel")] == ["xlsx"]


@given(query=st.text(max_size=200), text=st.text(max_size=200))
def test_any_text_can_be_searched_with_any_text(query, text):
    skills = [FakeSkill(text or "x", text, keywords=(text,), phrases=(text,)), *SKILLS]
    matches = search_skills(skills, query)
    confidences = [match.confidence for match in matches]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0 <= confidence <= 1 for confidence in confidences)
    assert all(match.matched for match in matches)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("merging merged merges merge", ["merg"] * 4),
        ("files categories boxes classes", ["fil", "category", "box", "class"]),
        ("parseJSONFile", ["parsejsonfil", "pars", "json", "fil"]),
        ("snake_case-name", ["snak", "cas", "nam"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("画", ["画"]),
        ("Café résumé", ["caf", "resum"]),
        ("отчёты отчётов отчёта загрузка загрузить", ["отчет"] * 3 + ["загруз"] * 2),
        ("a b c", []),
    ],
)
def test_words_meet_in_their_common_form(text, expected):
    assert words(text) == expected


def test_compounds_and_runs():
    assert compounds("front-end and a-b-c web_app") == ["frontend", "webapp"]
    assert runs("merge 天气预报 now") == ["merge", "天气", "气预", "预报", "now"]


def test_a_real_catalog_is_searched(skills_root, make_skill):
    make_skill(skills_root, "pdf", description="Extract text from PDF files.")
    make_skill(skills_root, "broken", raw=b"---\nnothing here about pdf")
    matches = search_skills(SkillCatalog.discover(roots=[skills_root], cache=False), "extract pdf text")
    assert [match.skill.name for match in matches] == ["pdf"]


_PUMPS = [
    "a",
    "A1",
    "ab ",
    "a-",
    ".a",
    "skill ",
    "the a skill ",
    "合并",
    "部a",
    "$",
    "$a",
    "`a",
    "ab-cd ",
    " ",
    "/",
    "é",
    "skill named ",
    "技能",
]
_DECLARED = SKILLS + [
    FakeSkill(f"same-{number}", phrases=("ab " * 200, "合并" * 100), keywords=("ab " * 50,)) for number in range(20)
]


@pytest.mark.abuse("G22")
@pytest.mark.parametrize("ask", ["search", "named", "relevant"])
@pytest.mark.parametrize("pump", _PUMPS)
def test_a_request_is_read_in_time_that_grows_with_it(ask, pump):
    index = SearchIndex(_DECLARED)
    asked = {
        "search": lambda text: search_skills(index, text),
        "named": lambda text: named_skills(index, text),
        "relevant": lambda text: find_relevant_skills(_DECLARED, text),
    }[ask]
    search_skills(index, "merge")  # what is made once is made now
    assert growth_of(asked, lambda size: pump * (size // len(pump)), 4_500) < 9


def test_what_is_behind_the_limit_of_a_request_counts_for_nothing():
    within, behind = "x " * 9_000 + "pdf", "x " * 10_001 + "pdf"
    assert [match.skill.name for match in search_skills(SKILLS, within)] == [
        match.skill.name for match in search_skills(SKILLS, "x pdf")
    ]
    assert search_skills(SKILLS, behind) == []


def test_a_name_is_found_by_every_spelling_of_it_by_the_first_request_and_by_the_hundredth():
    skills = [
        FakeSkill("pdf", display_name="Portable Documents"),
        FakeSkill("xlsx"),
        FakeSkill("Café Menu"),
        FakeSkill("a_b", display_name="Weekly Report"),
    ]
    asked = {("pdf", "portabl", "document"): [0], ("xlsx",): [1], ("caf", "menu"): [2], ("weekly", "report"): [3], ("pdf",): []}
    for request, right in asked.items():
        index = SearchIndex(skills)
        assert [index.named(request) for _ in range(5)] == [right] * 5, request  # looked through at first, then in a table
