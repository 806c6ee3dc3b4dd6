"""Turns a stated preference into one memory write for the current user."""

from __future__ import annotations


def execute(parameters: dict, context: dict | None = None, config: dict | None = None) -> dict:
    user_id = (context or {}).get("userId") or "anonymous"
    original = parameters["preference"].strip()
    category = parameters.get("category", "general").strip().lower() or "general"
    preference = {"content": as_statement(original), "category": category}
    return {
        "output": {"success": True, "message": "偏好记录成功", "preference": preference},
        "format": "object",
        "status": "success",
        "memoryWrites": [
            {
                "ownerType": "user",
                "ownerId": user_id,
                "type": "preference",
                "importance": parameters.get("importance", 3),
                "content": preference["content"],
                "metadata": {"category": category, "originalPreference": original},
            }
        ],
    }


def as_statement(preference: str) -> str:
    """The preference as a sentence about the user, in the language it was given in."""
    if preference.lower().startswith(("the user", "user ", "用户")):
        return preference
    if any("\u4e00" <= character <= "\u9fff" for character in preference):
        return "用户" + preference.removeprefix("我")
    return f"The user said: {preference}"
