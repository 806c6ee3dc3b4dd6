"""Attacks on secrets: the host's environment never enters, granted values never leave."""

from __future__ import annotations

import base64

import pytest

from skillyard.sandbox import Policy


@pytest.mark.row("000-20", "D-13")
@pytest.mark.abuse("E1")
async def test_the_environment_holds_only_what_was_declared(run_script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "canary-secret-value")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")
    result = await run_script(
        """
        found = dict(os.environ)
        others = []
        for pid in ("1", "self", str(os.getppid())) + tuple(str(number) for number in range(2, 4000, 7)):
            try:
                others.append(open(f"/proc/{pid}/environ").read())
            except OSError:
                pass
        answer([found, others])
        """,
        policy=Policy(environment={"UNIT": "celsius", "LANG": "de_DE.UTF-8"}),
    )
    assert result.status == "ok", result.stderr
    names, others = result.value
    assert names["UNIT"] == "celsius"
    assert set(names) <= {
        "PATH", "HOME", "TMPDIR", "LANG", "SKILL_RESULT_FD", "SKILL_PROTOCOL", "UNIT", "PWD", "LC_CTYPE",
    }  # fmt: skip
    assert "canary-secret-value" not in str(others) + str(names)


@pytest.mark.abuse("E4")
async def test_a_secret_that_was_given_does_not_come_back(run_script) -> None:
    secret = "tok-4f9c2a7b1d"
    result = await run_script(
        """
        import base64
        value = os.environ["API_TOKEN"]
        print(value, base64.b64encode(value.encode()).decode())
        sys.stderr.write("a" + value + "b")
        for character in value:
            os.write(1, character.encode())
        answer({"token": value, "note": "it is " + value})
        """,
        policy=Policy(environment={"API_TOKEN": secret}),
    )
    everything = str(result)
    assert result.status == "ok", result.stderr
    assert secret not in everything
    assert base64.b64encode(secret.encode()).decode() not in everything
    assert result.value == {"token": "[redacted]", "note": "it is [redacted]"}


@pytest.mark.abuse("E5")
async def test_values_are_not_on_any_command_line(run_script) -> None:
    import asyncio
    from pathlib import Path

    seen: list[bytes] = []

    async def look() -> None:
        while True:
            for folder in Path("/proc").iterdir():
                if folder.name.isdigit():
                    try:
                        seen.append((folder / "cmdline").read_bytes() + (folder / "environ").read_bytes())
                    except OSError:
                        continue
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    await run_script("time.sleep(0.2)", policy=Policy(environment={"PLAIN": "value-on-the-line"}))
    looking.cancel()
    lines = [line for line in seen if b"value-on-the-line" in line]
    assert not any(b"bwrap" in line or b"launcher" in line for line in lines)
