from __future__ import annotations

import pytest

from skills_core.runs.models import CLIENT, ModelSpec, ModelUnavailableError, open_model, parse_model
from tests.model_endpoint import ModelEndpoint


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("client", ModelSpec(CLIENT, "")),
        ("anthropic:some-model", ModelSpec("anthropic", "some-model")),
        ("openai:org/model:tag", ModelSpec("openai", "org/model:tag")),
        ("http://127.0.0.1:1/v1#a", ModelSpec("openai-compatible", "a", "http://127.0.0.1:1/v1")),
        ("https://host/v1/#a/b:c", ModelSpec("openai-compatible", "a/b:c", "https://host/v1")),
    ],
)
def test_a_model_is_named_by_provider_or_address(text: str, spec: ModelSpec) -> None:
    assert parse_model(text) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no model"),
        ("gpt", "names no model"),
        ("openai:", "names no model"),
        (":x", "names no model"),
        ("http://host/v1", "which model"),
        ("http://#x", "HOST"),
        ("http://[::1#x", "HOST"),
        ("http://host:99999/v1#x", "HOST"),
        ("https://user:hunter2@host/v1#x", "model_key"),
    ],
)
def test_an_invalid_model_name_is_an_error_with_the_expected_form(text: str, says: str) -> None:
    with pytest.raises(ModelUnavailableError, match=says) as error:
        parse_model(text)
    assert "hunter2" not in str(error.value)


def test_a_model_is_shown_as_it_was_written() -> None:
    for text in ("client", "openai:gpt", "http://host/v1#a"):
        assert str(parse_model(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [("nosuch:model", "nosuch:model"), ("anthropic:some-model", "ANTHROPIC_API_KEY"), ("groq:x", "groq")],
)
def test_a_provider_that_is_unknown_or_lacks_its_key_is_an_error_that_names_it(
    text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ModelUnavailableError, match=says):
        open_model(parse_model(text))


async def test_a_providers_key_is_never_sent_to_another_address(
    endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic_ai import ModelRequest  # noqa: PLC0415 - it takes a second
    from pydantic_ai.direct import model_request  # noqa: PLC0415

    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    endpoint.script = ["hello"]
    for key in (None, "own-key"):
        async with open_model(parse_model(endpoint.model), key) as model:
            await model_request(model, [ModelRequest.user_text_prompt("hi")])
    assert [headers["authorization"] for headers in endpoint.headers] == ["Bearer none", "Bearer own-key"]


async def test_the_address_of_openai_is_where_its_own_variable_says(
    endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic_ai import ModelRequest  # noqa: PLC0415 - it takes a second
    from pydantic_ai.direct import model_request  # noqa: PLC0415

    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.address)
    endpoint.script = ["hello"]
    async with open_model(parse_model("openai-chat:any")) as model:
        response = await model_request(model, [ModelRequest.user_text_prompt("hi")])
    assert response.text == "hello"
    assert endpoint.headers[0]["authorization"] == "Bearer sk-env"
