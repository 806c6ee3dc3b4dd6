"""Prompt injection: text that orders a model about against its user, and text that is hidden from the people who read it.

Hidden are characters that nobody sees, that turn the direction of reading, or that only look like others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillyard.scanner.dangerous_commands import CREDENTIAL_FILES
from skillyard.scanner.finding import ScanRule
from skillyard.scanner.matching import find, pattern
from skillyard.scanner.source_texts import Hit, SourceText, evidence_of

INJECTION_RULES: Final = (
    ScanRule("prompt-override", "prompt injection", "the text tells the model to ignore its other instructions",
         "A skill adds to what the user and the client said; one that cancels them takes over the conversation.",
         "remove the sentence, or put it in quotes where the skill explains attacks", "high", "medium"),
    ScanRule("role-takeover", "prompt injection", "the text pretends to be the system, or gives the model a role without limits",
         "Fake system messages and modes without restrictions are used to make a model ignore its limits.", "say what to do in the skill's own words", "high", "low"),
    ScanRule("safety-bypass", "prompt injection", "the text tells the model to bypass safety checks",
         "Filters, confirmations and permissions are decided by the user, not by a skill.",
         "let the user decide, and describe what is needed instead", "medium", "low"),
    ScanRule("hide-from-user", "prompt injection", "the text tells the model to hide something from the user",
         "What is hidden from users is usually what they would not allow.", "inform the user of what happens, or remove it", "medium", "low"),
    ScanRule("send-away", "prompt injection", "the text tells the model to send secrets or the conversation somewhere",
         "A model that follows it gives away what the user entrusted to it.", "send only what the user asked to send, to where the user said", "high", "low"),
    ScanRule("sends-results", "prompt injection", "the text tells the model to send its work to a server of the skill's author",
         "The user asked for a result, not for a copy of it elsewhere.", "let the user ask for it, and name the server", "medium", "low"),
    ScanRule("reveal-secrets", "prompt injection", "the text asks the model to put a secret into its answer",
         "Answers are logged and displayed; a token in one is compromised.", "never ask for the value of a secret; say which one is used by its name", "high", "low"),
    ScanRule("unverified-execution", "prompt injection", "the text tells the model to run something without reviewing it",
         "Whoever controls that code controls the machine, as far as the model's permissions reach.",
         "let the model read, and the user confirm, what is to be run", "medium", "low"),
    ScanRule("hidden-instruction", "prompt injection", "a hidden comment gives the model instructions",
         "A person who reads the rendered page does not see it; a model does.", "write instructions where people see them", "medium", "low"),
    ScanRule("acts-unasked", "prompt injection", "the text tells the model to go on without the user's permission, or to refuse nothing",
         "Whether a step needs a question is decided by the user and the client, not by a skill.",
         "say which steps are safe, and let the user decide about the others", "medium", "low"),
    ScanRule("trigger-word", "prompt injection", "a code word, and not the task, makes the model follow the text",
         "Whoever can put the word anywhere starts it; it looks harmless until then.", "say in the description for which tasks it is", "medium", "low"),
    ScanRule("runs-every-session", "prompt injection", "the text demands to be carried out at the beginning of every conversation",
         "The user asked for none of it; a skill is for the tasks that its description names.", "remove the demand, and let the user set it up", "medium", "low"),
    ScanRule("plants-backdoor", "prompt injection", "the text tells the model to build a hidden way in, or a fixed account, into what it makes",
         "Who wrote the skill can then enter what the user runs.", "leave it out; accounts are created by whoever runs the program", "medium", "low"),
    ScanRule("data-in-link", "prompt injection", "the text tells the model to show a link or a picture whose address carries data of the user",
         "Drawing the picture, or one click, sends the data to whoever owns the address.", "write the data as text, and the link without it", "medium", "low"),
)  # fmt: skip

_BEFORE: Final = r"(?:previous|prior|above|earlier|preceding|existing|foregoing|original|system|safety|other|initial|default)"
_ORDERS: Final = r"(?:instructions?|directives?|guidelines?|rules|prompts?|constraints|restrictions|commands|programming)\b"
_VALUABLES: Final = (
    r"(?:api[ _-]?keys?|(?:access|auth|session|bearer)[ _-]?tokens?|tokens?|passwords?|credentials?|secrets?"
    r"|private[ _-]keys?|ssh[ _-]keys?|authorization header|environment variables|env vars|system prompt|session cookies?"
    r"|~/\.\w+(?:/\w+)?|\.env\b)"
)
_TALK: Final = r"(?:conversation|chat|message)[ _-]?(?:history|logs?|transcripts?|contents?)|conversation|user(?:'s)? (?:data|files|messages)"
_TO: Final = r"(?:https?://|(?:an? |the |our |this |my )?(?:external|remote|attacker|collection|third[- ]party|webhook|c2|command)\b|webhook)"

_PROSE: Final = (
    pattern(
        "prompt-override",
        rf"(?<![\w-])(?:ignore|disregard|forget|override(?! (?:for|of|the default)\b)|discard|supersedes?|cancel)\b[^\n.]{{0,25}}?\b{_BEFORE}\b[^\n.(]{{0,20}}?\b{_ORDERS}(?! in this (?:skill|file|document))",
        "ignore", "disregard", "forget", "override", "discard", "supersede", "cancel",
    ),
    pattern(
        "prompt-override",
        r"\b(?:ignore|disregard|forget|discard) (?:all |everything |anything |any ){1,2}"
        r"(?:(?:of )?(?:your|the|these|those) (?:instructions|rules|guidelines|training|prompt)"
        r"|(?:you (?:were|have been|know|learned)|(?:said |written |that came )?(?:above|before this)))",
        "ignore", "disregard", "forget", "discard",
    ),
    pattern("prompt-override", r"(?:忽略|无视|忘记|不要理会)[^\n。]{0,8}(?:之前|以上|先前|前面|所有|系统)[^\n。]{0,8}(?:指令|指示|规则|提示|要求|设定)", "忽略", "无视", "忘记", "不要理会"),
    pattern("prompt-override", r"(?:ignorier\w{0,3}|missachte\w{0,2}|vergiss|vergessen sie)[^\n.]{0,20}?(?:vorherig|bisherig|obig|früher|vorangegangen|vorhergehend)\w{0,3}[^\n.]{0,10}?(?:anweisung|regel|instruktion|vorgabe|befehl)", "ignorier", "missachte", "vergiss", "vergessen sie"),
    pattern("prompt-override", r"\b(?:ignor(?:e|ez|er)|oublie[zr]?)\b[^\n.]{0,25}?(?:instructions?|consignes|règles|directives)[^\n.]{0,12}?(?:précédente|antérieure|ci-dessus|du système)", "précédente", "antérieure", "ci-dessus", "du système"),
    pattern("prompt-override", r"\b(?:ignor[ae]n?|olvid[ae]n?|descart[ae]n?|dimentica(?:te)?|ignorate)\b[^\n.]{0,25}?(?:instrucciones|reglas|órdenes|indicaciones|istruzioni|regole)[^\n.]{0,12}?(?:anteriores|previas|precedenti|del? sistema)", "anteriores", "previas", "precedenti", "sistema"),
    pattern("prompt-override", r"\b(?:ignor[ae]m?|esqueç[ao]m?|desconsider[ae]m?)\b[^\n.]{0,25}?(?:instruções|regras|ordens)[^\n.]{0,12}?(?:anteriores|prévias|do sistema)", "instruções", "regras", "ordens"),
    pattern("prompt-override", r"(?:игнорируй|забудь|не обращай)(?:те)?[^\n.]{0,25}?(?:предыдущ|прежни|вышеуказанн|системн)\w{1,4}[^\n.]{0,12}?(?:инструкци|указани|правил|команд)", "игнорируй", "забудь", "не обращай"),
    pattern("prompt-override", r"(?:以前|これまで|上記|前)の[^\n。]{0,8}(?:指示|命令|ルール|規則)[^\n。]{0,10}(?:無視|忘れ)", "指示", "命令", "ルール", "規則"),
    pattern("prompt-override", r"(?:이전|위의|앞선|기존)[^\n.]{0,6}(?:지시|명령|규칙|지침)[^\n.]{0,10}(?:무시|잊)", "지시", "명령", "규칙", "지침"),
    pattern(
        "role-takeover",
        r"\byou are (?:now |no longer )(?:in |an? |the |bound |restricted |limited |operating )?[^\n.]{0,30}?\b(?:DAN|developer mode|debug mode|god mode"
        r"|admin(?:istrator)? mode|unrestricted|unfiltered|jailbroken|uncensored|restrictions?|bound by|evil|root access)\b",
        "you are now", "you are no longer",
    ),
    pattern("role-takeover", r"\b(?:enter|enable|activate|switch to)(?:ed|d)? (?:DAN|god|jailbreak|unrestricted) mode\b", " mode"),
    pattern("role-takeover", r"\b(?:act|behave|respond|pretend|answer)\b[^\n.]{0,20} (?:as if|that|like) you (?:have|had) no (?:restrictions|limits|limitations|rules|guidelines|filters)", "you have no", "you had no"),
    pattern("role-takeover", r"<\|im_start\|>\s{0,3}(?:system|developer|user|assistant)\b|<\|(?:system|start_header_id)\|>|<\|endoftext\|>\s{0,5}(?:<|\[|#|(?:system|human|user)\b)|\[/?(?:INST|SYS)\]|<</?SYS>>", "<|", "[inst", "[/inst", "[sys", "[/sys", "<<sys", "<</sys"),
    pattern("role-takeover", r"^[ \t>*#-]{0,8}(?:\[|<)?(?:new |updated )(?:system (?:prompt|instructions?|message)|directives?)(?:\]|>)?[ \t]*:", "new ", "updated "),
    pattern("role-takeover", r"^[ \t>*#-]{0,8}\[system\][^\n]{0,60}\b(?:instructions?|directives?|override|mode)\b", "[system]"),
    pattern("role-takeover", r"\byou (?:are|will be) now in (?:maintenance|diagnostic|service|unattended|test) mode\b", "you are now in", "you will be now"),
    pattern("role-takeover", r"^[ \t]{0,4}#{1,4} system override\b|^[ \t*]{0,4}system override[ \t*]*:", "system override"),
    pattern(
        "safety-bypass",
        r"\b(?:bypass|circumvent|disable|turn off|ignore|evade|override|skip(?! (?:all )?(?:permission|approval)))(?:ing|s|es)?\b(?! after\b)[^\n.|]{0,15}?"
        r"\b(?:safety|content|security|ethical|moderation|guard ?rails?|permission|approval|human)[ -]"
        r"(?:filters?|checks?|guidelines|polic(?:y|ies)|measures|protocols?|restrictions|prompts?|dialogs?|review|guard ?rails?|rules)\b",
        "bypass", "circumvent", "disable", "turn off", "ignore", "evade", "override", "skip",
    ),
    pattern(
        "hide-from-user",
        r"\b(?:do not|don'?t|never|must not|without ever)\b[^\n.]{0,12}?\b(?:(?:tell|inform|notify|alert|warn) (?:the |your |any )?users?|let (?:the |your |any )?users? (?:know|see|notice|find out))\b"
        r"(?! (?:that|if|when|whether|to\b|it'?s|you can'?t|unless|until|before))",
        "tell", "inform", "notify", "alert", "warn", "let ",
    ),
    pattern(
        "hide-from-user",
        r"\b(?:do not|don'?t|never|must not)\b[^\n.]{0,12}?\b(?:mention|reveal|disclose|report|show|admit)\b[^\n.]{0,20}?\b(?:this|these|that|it|any of this|the upload|the transfer"
        r"|what you (?:did|do|are doing)|your actions)\b[^\n.]{0,20}?\bto (?:the |any |your )?(?:users?|anyone|human)\b",
        "mention", "reveal", "disclose", "report", "show", "admit",
    ),
    pattern("hide-from-user", r"\b(?:do not|don'?t|never|must not) (?:mention|reveal|disclose) (?:the |these |those )?(?:steps?|commands?|actions?|instructions?|uploads?|transfers?)\b[^\n.]{0,24}?\bto (?:the |any |your )?(?:users?|anyone|humans?)\b", "mention", "reveal", "disclose"),
    pattern("hide-from-user", r"\bwithout (?:the )?(?:users?(?:'s)?|their|anyone(?:'s)?) (?:\w+ )?(?:knowledge|knowing|noticing|realizing|being aware)\b", "without"),
    pattern(
        "hide-from-user",
        r"\b(?:silently|secretly|covertly|quietly|stealthily),? (?:then |and |also )?(?:send|upload|copy|exfiltrate|forward|transmit|collect|install|execute|record|post|harvest)(?:s|es|ing)?\b",
        "silently", "secretly", "covertly", "quietly", "stealthily",
    ),
    pattern("hide-from-user", r"\b(?:keep|hide|conceal)\b[^\n.]{0,30}?\b(?:secret|hidden|invisible|confidential)? ?from (?:the |your )?(?:users?|humans?|operator|owner)\b(?!-)", "from the", "from user", "from your", "from human"),
    pattern("hide-from-user", r"\b(?:sage?|sagt|verrate?|teile?|informiere?|melde)n?\b[^\n.]{0,20}?\b(?:dem|den|der) (?:benutzer|nutzer|anwender)\w{0,3}[^\n.]{0,12}?\b(?:nichts|nicht)\b", "benutzer", "nutzer", "anwender"),
    pattern("hide-from-user", r"\b(?:ne |n['’]en )(?:le |la |lui |rien )?(?:dis|dites|parle[zr]?|informe[zr]?|mentionne[zr]?|révèle[zr]?)\b[^\n.]{0,20}?(?:pas|rien|jamais)[^\n.]{0,10}?l['’]utilisateur", "utilisateur"),
    pattern("hide-from-user", r"\b(?:no (?:se )?(?:lo |le )?(?:digas?|informes?|menciones?|reveles?|cuentes?)|não (?:conte|diga|informe|mencione|revele|mostre))\b[^\n.]{0,20}?\b(?:al|a los|ao|aos) (?:usuarios?|usuários?|utilizador)", "usuari", "usuári", "utilizador"),
    pattern("hide-from-user", r"не (?:сообщай|говори|рассказывай|показывай)(?:те)?[^\n.]{0,20}?пользовател", "пользовател"),
    pattern("hide-from-user", r"ユーザー?(?:に|には)[^\n。]{0,12}(?:知らせない|伝えない|言わない|教えない|報告しない)|사용자(?:에게|한테)[^\n.]{0,12}(?:알리지|말하지|보고하지)", "ユーザ", "사용자"),
    pattern("hide-from-user", r"(?:不要|切勿|别|不得)(?:(?:告诉|告知|通知|提醒)用户|让用户(?:知道|发现|察觉))", "用户"),
    pattern(
        "send-away",
        rf"\b(?:send|upload|post|forward|transmit|(?<!you )exfiltrate|(?<!you )leak|e-?mail|deliver)(?:s|ing)?\b[^\n]{{0,40}}?\b(?:{_VALUABLES}|{_TALK})[^\n]{{0,50}}?\b(?<!only )(?:to|at|via)\b[^\n]{{0,15}}?{_TO}",
        "send", "upload", "post", "forward", "transmit", "exfiltrate", "leak", "mail", "deliver",
    ),
    pattern("send-away", r"\bexfiltrate (?:to|via|it|them|the (?:data|files?|contents?|secrets?|result))\b", "exfiltrate"),
    pattern(
        "send-away",
        rf"\b(?:read|collect|gather|harvest|steal|extract|grab)\b[^\n.]{{0,30}}?(?:{_VALUABLES})[^\n]{{0,60}}?\b(?:and|then)\b[^\n]{{0,20}}?\b(?:send|upload|post|forward|transmit|exfiltrate)\b",
        "read", "collect", "gather", "harvest", "steal", "extract", "grab",
    ),
    pattern("sends-results", r"\b(?:send|upload|post|forward|submit|transmit)\b[^\n.]{0,60}?\bto (?:our|my|the (?:author|developer|maker)'?s?) [^\n.]{0,30}?\b(?:server|endpoint|backend|api|webhook|service)\b", "to our", "to my", "to the author", "to the developer", "to the maker"),
    pattern(
        "sends-results",
        r"\b(?:forward|send|upload|post|transmit|submit)\b (?:all|any|every|the|each) [^\n.]{0,30}?\b(?:data|outputs?|results?|responses?|contents?|inputs?|queries|prompts?|tokens?)\b[^\n.]{0,20}? to https?://",
        "to http",
    ),
    pattern(
        "reveal-secrets",
        rf"\b(?:echo|print|output|repeat|include|reveal|return|show|paste|write)\b[^\n.]{{0,40}}?\b{_VALUABLES}[^\n.]{{0,50}}?\bin (?:your|the|every|each) (?:next |final |first )?(?:response|reply|answer|output|message)",
        "echo", "print", "output", "repeat", "include", "reveal", "return", "show", "paste", "write",
    ),
    pattern(
        "reveal-secrets",
        r"\b(?:always|must|make sure to) (?:print|log|echo|write|output)\b[^\n.]{0,20}?\b[A-Z0-9_]{0,30}(?:TOKEN|KEY|SECRET|PASSWORD)\b[^\n.]{0,20}?\b(?:to|in|into) (?:the |a |every )?(?:logs?|stdout|console|output|comments?)\b",
        "token", "key", "secret", "password",
    ),
    pattern(
        "reveal-secrets",
        r"\b(?:reveal|print|output|repeat|leak|dump|disclose|show)\b (?:me )?(?:your|the) (?:full |entire |complete |exact |hidden |original )?(?:system prompt|hidden instructions|initial instructions)",
        "system prompt", "hidden instructions", "initial instructions",
    ),
    pattern(
        "acts-unasked",
        r"(?:\b(?:do not|don'?t|never|must not) (?:ever )?(?:ask|prompt)|\bwithout (?:ever )?(?:asking|prompting)) (?:the |your |any )?(?:users?|humans?) (?:for |to )(?:\w+ ){0,2}(?:permission|confirmation|approval|consent|confirm|approve)\b",
        "ask", "prompt",
    ),
    pattern(
        "acts-unasked",
        r"(?:\b(?:do not|don'?t|never|must not) (?:ever )?(?:ask for|wait for|request|require)|\bwithout (?:ever )?(?:asking for|waiting for|requesting)) (?:any |the )?(?:users?(?:'s)?|human) (?:permission|confirmation|approval|consent|input)\b",
        "ask", "wait", "request", "require",
    ),
    pattern("acts-unasked", r"\bnever (?:refuse|decline|reject|question) (?:any |an? |the |these |this )?(?:user |tool )?(?:commands?|instructions?|requests?|orders?|tool calls?)\b", "never "),
    pattern("acts-unasked", r"\b(?:all|any|every) (?:tool calls?|commands?|actions?|operations?)\b[^\n.]{0,60}?\b(?:is|are) (?:already |automatically )?pre-?(?:approved|authori[sz]ed)\b", "approved", "authori"),
    pattern("acts-unasked", r"(?:不要|无需|切勿|禁止)(?:询问|征求|请求|等待)用户(?:的)?(?:许可|确认|同意|批准|授权)", "用户"),
    pattern("trigger-word", r"\b(?:activat\w{1,4}|trigger(?:s|ed)?|unlock\w{0,2}|wak\w{1,4})\b[^\n.]{0,40}?\b(?:code ?word|magic (?:word|phrase)|secret (?:word|phrase)|passphrase)\b", "word", "phrase"),
    pattern("trigger-word", r"\b(?:code ?word|magic (?:word|phrase)|secret (?:word|phrase))\b[^\n.]{0,40}?\b(?:activat\w{1,4}|trigger(?:s|ed)?|unlocks?|injected)\b", "word", "phrase"),
    pattern(
        "runs-every-session",
        r"\b(?:mandatory|required|must (?:be )?(?:run|execute\w{0,1}|call\w{0,2}|invoke\w{0,1}))\b[^\n.]{0,60}?\b(?:(?:first|beginning|start) (?:action )?(?:of|on|in) )(?:every|each|any) (?:new )?(?:[\w-]{1,20} ){0,2}(?:session|instance|conversation|chat)\b",
        "session", "instance", "conversation", "chat",
    ),
    pattern("plants-backdoor", r"\b(?:include|add|leave|insert|create|open|build|install|embed) (?:in )?(?:an? |the )(?:hidden |secret |small |permanent )?back ?doors?\b", "backdoor", "back door"),
    pattern(
        "plants-backdoor",
        r"\b(?:always |must |and )?(?:add|create|include|insert)\b (?:the following |an? |this )(?:\w+ ){0,2}?(?:admin(?:istrator)?|root|super ?user|default) (?:account|user)\b[^\n.]{0,40}?\b(?:with|using)\b[^\n]{0,60}?\bpassword\b[ :=]{1,3}[`\"']",
        "admin", "root", "superuser", "super user", "default",
    ),
    pattern(
        "data-in-link",
        r"\b(?:display|show|include|append|add|render|embed|provide|output|present|insert)\b[^\n]{0,80}?\b(?:links?|urls?|images?|pixel|badge|button)\b[^\n]{0,120}?https?://[^\s)\"'`]{4,160}[?&]\w{1,30}=(?:<|\{\{?|\[|\$)\w{0,20}(?:pw|pass|key|token|secret|data|content|conversation|history|message|prompt|summary|env|file)",
        "http",
    ),
    pattern("data-in-link", r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{4,160}[?&]\w{1,30}=(?:<|\{\{?|\[|\$)\w{0,20}(?:pw|pass|key|token|secret|data|content|conversation|history|message|prompt|summary|env)", "]("),
    pattern(
        "unverified-execution",
        r"\b(?:execute|run(?! along)|perform|follow|obey)\b[^\n.]{0,40}?\bwithout (?:any )?(?:verification|verifying|question(?:ing)?|hesitation|review(?:ing)?|inspect(?:ing|ion)|reading|validation|checking)\b",
        "without",
    ),
    pattern(
        "unverified-execution",
        r"\b(?:decode|decrypt|decipher|deobfuscate|unscramble|read|reverse)\b (?:the |this |these |it |following )[^\n.]{0,60}?\b(?:and|then)\b[^\n.]{0,12}?\b(?:follow|obey|carry out|do) (?:it|them|what)\b",
        "decode", "decrypt", "decipher", "deobfuscate", "unscramble", "reverse", "read",
    ),
    pattern("unverified-execution", r"\bread\b[^\n.]{0,30}?\bbackwards?\b[^\n.]{0,20}?\b(?:and|then)\b[^\n.]{0,12}?\b(?:do|follow|execute|obey)\b", "backward"),
)  # fmt: skip
_COMMENT: Final = (
    pattern(
        "hidden-instruction",
        r"\b(?:assistant|ai|agent|model|claude|gpt|gemini|copilot|llm)\b[^\n]{0,40}?\b(?:must|always|never|execute|run|send|read|fetch|upload|include|obey|follow)\b",
        "assistant", "ai", "agent", "model", "claude", "gpt", "gemini", "copilot", "llm",
    ),
)  # fmt: skip
_TOPIC: Final = re.compile(
    r"inject|jailbreak|attack|malicious|adversar|detect|red[- ]?team|threat|exploit|vulnerab|untrusted|scanner|suspicious|攻击|注入", re.IGNORECASE
)  # fmt: skip
_REFUSES: Final = re.compile(
    r"(?:\b(?:accidentally|can|could|may|might|would|because|never|do not|don'?t|must not|cannot|can'?t|should not|refuse to|not to|no one may|avoid|without|only|models?|attackers?|inputs that|attempts? to|tr(?:y|ies|ying) to"
    r"|(?:designed|intended|meant|crafted|used|able) to)\b|不要|不得)[^\n.:]{0,25}$"
    r"|\b(?:do|must|should) not [^\n.:]{3,40} or $|\bif\b[^\n.:]{3,100}\bask(?:s|ing)? (?:you|the model|an agent) to $",
    re.IGNORECASE,
)
_FORBIDS: Final = re.compile(
    r"\b(?:do not|don'?t|never|must not) (?:use|read|share|monitor|collect|record)\b[^\n.]{0,90}$", re.IGNORECASE
)
_QUOTES: Final = "\"'`“”‘’「」|"
_REFUSING: Final = re.compile(r"do not|don'?t|never|must not|不要|切勿|别|不得", re.IGNORECASE)
"""A match that refuses by itself: what stands before it turns nothing round."""
_LISTED: Final = re.compile(r"[ \t>]*(?:[-*+•|]|\d{1,3}[.)])")


_STYLED: Final = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff\u24b6-\u24e9]{2,}")
_SPACED: Final = re.compile(r"(?<![^\s])(?:\w {1,3}){10,4000}\w(?![^\s.,;:!?])")


def in_plain_letters(source: SourceText) -> SourceText | None:
    """A text whose letters are drawn wide, bold or in circles, or stand apart, in plain ones, on the same lines; None for others."""
    text = source.text
    text = _STYLED.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = _SPACED.sub(lambda match: re.sub(r"(?<=\w) (?=\w(?: |$))", "", match[0]), text) if "  " in text else text
    return None if text == source.text else replace(source, text=text, origin="in plain letters")


def find_injection(source: SourceText) -> Iterator[Hit]:
    """Orders to the model in what it reads: prose, comments, descriptions, decoded text."""
    text = _unwrapped(source.text)
    unwrapped = replace(source, text=text)
    for hit in find(unwrapped, _PROSE):
        before = text[max(0, hit.offset - 120) : hit.offset]
        if not _REFUSING.match(text, hit.offset) and _REFUSES.search(before):
            continue
        if text.startswith(("without", "Without"), hit.offset) and _FORBIDS.search(before):
            continue
        yield Hit(hit.rule, hit.offset, relief=_relief(source, text, hit.offset) + (source.role == "script"))
    if source.role == "comment" and source.language in ("markdown", "html"):
        yield from find(unwrapped, _COMMENT)
    if source.role in ("prose", "comment"):
        yield from _collected_and_sent(text)


_COLLECTS: Final = re.compile(
    rf"\b(?:check|read|list|collect|gather|compile|dump|extract|find|look for|document)\b[^\n.]{{0,60}}?\b(?:{_VALUABLES})",
    re.IGNORECASE,
)
_SENDS: Final = re.compile(
    r"\b(?:post|send|upload|submit|forward|transmit)\b (?:it|them|this|the|all|your)\b[^\n.]{0,40}?\bto\b[ `\"'*]{1,4}https?://(?!localhost|127\.|\[|<|\{|\$)",
    re.IGNORECASE,
)
_STEPS: Final = 500  # characters between one step of a list and another that belongs to it
_MOST_SENT: Final = 20


def _collected_and_sent(text: str) -> Iterator[Hit]:
    """A step that sends something to an address, a few lines after one that collects secrets."""
    for number, sent in enumerate(_SENDS.finditer(text)):
        if number == _MOST_SENT:
            return
        before = text[max(0, sent.start() - _STEPS) : sent.start()]
        if (collected := _COLLECTS.search(before)) and not _REFUSES.search(
            before[max(0, collected.start() - 60) : collected.start()]
        ):
            yield Hit("send-away", sent.start(), "the text tells the model to collect secrets and send what it found", relief=1)


_TAKES_KEYS: Final = pattern(
    "send-away",
    rf"\b(?:read|open|load|copy|take|get|cat|include|collect|grab)\b[^\n]{{0,60}}?(?:{CREDENTIAL_FILES})",
    ".ssh", ".aws", "netrc", ".kube", ".docker", "gcloud", "pypirc", ".git-cred", "gnupg", "_history", "/etc/", "wallet", "cookies", "auth", "login data",
)  # fmt: skip
_POSTS: Final = pattern(
    "send-away",
    r"\b(?:post|send|upload|submit|forward|transmit)\b [^\n.]{1,60}?\bto\b[ `\"'*]{1,4}https?://(?!localhost|127\.|\[|<|\{|\$)",
    "http",
)


def step_of(source: SourceText, *, sends: bool) -> int | None:
    """Where a text tells to read keys, or with `sends` to send something to an address; None where it does not."""
    if source.role not in ("prose", "comment"):
        return None
    offsets = (hit.offset for hit in find(source, (_POSTS if sends else _TAKES_KEYS,)))
    return next((at for at in offsets if not _REFUSES.search(source.text[max(0, at - 60) : at])), None)


def _unwrapped(text: str) -> str:
    """The text with the line breaks inside paragraphs as spaces: a sentence may be broken anywhere."""
    return re.sub(r"(?<=[\w,])\n(?=[a-z(])", " ", text)


def _relief(source: SourceText, text: str, offset: int) -> int:
    """How much less a match weighs that is quoted, or follows a quote in a text about attacks; a file's name may say that it is one."""
    start = max(text.rfind("\n", max(0, offset - 300), offset) + 1, offset - 300, 0)
    about = source.file.lower() != "skill.md" and bool(_TOPIC.search(source.file.rpartition("/")[2]))
    if not any(mark in text[start:offset] for mark in _QUOTES) and not _LISTED.match(text, start):
        return int(about)
    quoted = text[max(0, offset - 1) : offset] in f"{_QUOTES}/"
    return int(quoted) + (about or bool(_TOPIC.search(text[max(0, offset - 1500) : offset + 500])))


HIDDEN_RULES: Final = (
    ScanRule("tag-characters", "hidden text", "text is written in tag characters, which no screen draws",
         "A model reads them as letters, a person sees nothing: reviewers miss the instructions in them.", "remove the characters U+E0000 to U+E007F", "high"),
    ScanRule("smuggled-bytes", "hidden text", "a run of variation selectors hides data behind a character",
         "One selector chooses how an emoji is drawn; many in a row are bytes that nobody sees.", "remove the selectors", "high"),
    ScanRule("bidirectional-controls", "hidden text", "characters change the reading direction",
         "Code and sentences are then displayed in another order than they are interpreted.", "remove the characters, or write them as escapes", "high"),
    ScanRule("zero-width", "hidden text", "words contain invisible characters",
         "They hide words from searches and reviews, and can carry a message of their own.", "remove them", "medium"),
    ScanRule("terminal-controls", "hidden text", "the file contains terminal control characters",
         "They can erase the text before them, so that a person sees another text than a program.", "remove them, or write them as escapes", "medium"),
    ScanRule("look-alike-letters", "hidden text", "a word mixes Latin letters with ones that only look Latin",
         "Two names that look the same are two names: a host, a package or a command that is not the one it seems.", "write the word in one alphabet", "medium"),
    ScanRule("long-padding", "hidden text", "text is pushed out of sight by blank space",
         "A person who opens the file does not see it; a model or a program reads on.", "remove the blank space", "medium"),
    ScanRule("misleading-name", "hidden text", "a file's name contains characters that are invisible or change the reading direction",
         "It pretends to be another file, or another kind of file.", "rename the file", "high"),
)  # fmt: skip

_TAGS: Final = re.compile("[\U000e0000-\U000e007f]+")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")
_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OVERRIDE: Final = "\u202d\u202e"
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ZERO: Final = re.compile("(?<=[A-Za-z0-9])[\u200b-\u200d\u2060-\u2064\ufeff\u180e\u00ad\u034f\u3164]+(?=[A-Za-z0-9])")
_ZERO_RUN: Final = re.compile("[\u200b\u200c\u200d\u2060-\u2064\ufeff\u180e]{6,}")
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\u0080-\u0084\u0086-\u009f]")
_LOOK_ALIKE: Final = re.compile(
    "(?<![^\\W\\d_])(?=[^\\W\\d_]{0,60}[A-Za-z])[A-Za-z]{0,60}[аеорсухіјѕһԁԛԝАВЕКМНОРСТХІЈЅοΑΒΕΖΗΙΚΜΝΟΡΤΥΧ][^\\W\\d_]{0,60}"
)
_CONFUSABLES: Final = frozenset("аеорсухіјѕһԁԛԝАВЕКМНОРСТХІЈЅοΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
_ANY: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u034f\u0370-\u04ff\u0500-\u052f\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\u3164\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")  # fmt: skip
_CONFUSABLE_SETS: Final = re.compile("[\u0370-\u03ff\u0400-\u052f]")


def find_hidden_text(source: SourceText) -> Iterator[Hit]:
    """Characters in the text that are there to mislead; a text without any is passed over at once."""
    text = source.text
    if not _ANY.search(text):
        return
    yield from _tags(text)
    yield from _first(text, _SELECTORS, "smuggled-bytes")
    yield from _bidi(text, data=source.language == "data")
    yield from _zero_width(text)
    yield from _controls(text)
    yield from _look_alikes(text)


_WIDE: Final = " " * 300
_TALL: Final = "\n" * 100


def find_padding(source: SourceText) -> Iterator[Hit]:
    """Text that is pushed out of the window: behind hundreds of spaces, or below a hundred empty lines."""
    if source.role == "data" and not source.file.lower().endswith((".md", ".markdown", ".txt")):
        return
    for blank, where in ((_WIDE, "to the right of hundreds of spaces"), (_TALL, "below a hundred empty lines")):
        if (at := source.text.find(blank)) >= 0:
            shown = source.text[at:].lstrip(blank[0])
            begins = source.text.rfind("\n", 0, at) + 1
            if shown and not shown.startswith(("\n", "|")) and not source.text.startswith("|", begins):
                yield Hit("long-padding", len(source.text) - len(shown), f"text stands {where}", evidence_of(shown[:200]))


def misleading_name(name: str) -> Hit | None:
    """A file's name with characters in it that nobody sees, or that turn its direction."""
    if _TAGS.search(name) or _BIDI.search(name) or _CONTROL.search(name) or re.search("[\u200b\u2060-\u2064\ufeff]", name):
        return Hit("misleading-name", 0, "", visible(name))
    return None


def decode_tag_characters(text: str) -> Iterator[tuple[int, str]]:
    """What is written in tag characters: the offset and the text in plain letters."""
    plain = _FLAG.sub(lambda flag: " " * len(flag[0]), text)
    for run in _TAGS.finditer(plain):
        yield run.start(), "".join(chr(ord(letter) - 0xE0000) for letter in run[0] if 0x20 <= ord(letter) - 0xE0000 < 0x7F)


def visible(text: str) -> str:
    """The text with every hidden character as its number, such as `<U+200B>`."""
    return _ANY.sub(lambda match: match[0] if _CONFUSABLE_SETS.match(match[0]) else f"<U+{ord(match[0]):04X}>", text)


def _tags(text: str) -> Iterator[Hit]:
    for offset, hidden in decode_tag_characters(text):
        yield Hit("tag-characters", offset, f"hidden in tag characters: {hidden[:80]!r}" if hidden else "", visible(hidden))


def _first(text: str, expression: re.Pattern[str], rule: str) -> Iterator[Hit]:
    """One hit for the whole text: a file full of them is one finding."""
    if match := expression.search(text):
        count = sum(1 for _ in expression.finditer(text))
        message = f"{_title(rule)} ({count} places)" if count > 1 else ""
        yield Hit(rule, match.start(), message, _around(text, match.start()))


_APPLE_DOUBLE: Final = "\x05\x16\x07"
"""How a file of macOS with the attributes of another one begins, behind its NUL."""
_TWICE_ENCODED: Final = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]{1,3}")


def _controls(text: str) -> Iterator[Hit]:
    """Controls of a terminal; what is left of letters that were encoded twice is a flaw of the text, and attributes are none."""
    if text.startswith(_APPLE_DOUBLE):
        return
    once = _TWICE_ENCODED.sub("", text)
    broken = not _CONTROL.search(once)
    for hit in _first(text, _CONTROL, "terminal-controls"):
        yield replace(hit, relief=2) if broken else hit


def _bidi(text: str, *, data: bool) -> Iterator[Hit]:
    for match in _BIDI.finditer(text):
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        line = text[max(start, match.start() - 300) : min(end if end >= 0 else len(text), match.end() + 300)]
        foreign = bool(_RIGHT_TO_LEFT.search(line)) and match[0] not in _OVERRIDE
        relief = 2 if foreign else int("U+20" in line or (data and match[0] not in _OVERRIDE))
        yield Hit("bidirectional-controls", match.start(), "", _around(text, match.start()), relief=relief)
        return


def _zero_width(text: str) -> Iterator[Hit]:
    """Runs are a message; a few inside words are most often left over from a copy."""
    if run := _ZERO_RUN.search(text):
        yield Hit("zero-width", run.start(), f"{len(run[0])} consecutive invisible characters", _around(text, run.start()))
        return
    if match := _ZERO.search(text):
        count = sum(1 for _ in _ZERO.finditer(text))
        soft = all("\u00ad" in match[0] for match in _ZERO.finditer(text))
        yield Hit("zero-width", match.start(), "", _around(text, match.start()), relief=1 if count < 3 or soft else 0)


def _look_alikes(text: str) -> Iterator[Hit]:
    for match in _LOOK_ALIKE.finditer(text):
        foreign = {"Greek" if letter < "\u0400" else "Cyrillic" for letter in match[0] if _CONFUSABLE_SETS.match(letter)}
        latin = sum(letter.isascii() for letter in match[0])
        hidden = [letter for letter in match[0] if not letter.isascii()]
        if latin >= 2 and foreign and all(letter in _CONFUSABLES for letter in hidden):
            yield Hit("look-alike-letters", match.start(), f"{match[0][:40]!r} mixes Latin and {' and '.join(sorted(foreign))}")
            return


def _around(text: str, offset: int) -> str:
    return visible(text[max(text.rfind("\n", 0, offset) + 1, offset - 40) : offset + 40].partition("\n")[0])


def _title(rule: str) -> str:
    return next(hidden.title for hidden in HIDDEN_RULES if hidden.id == rule)
