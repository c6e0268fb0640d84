"""How many tokens a request may cost, from its lengths alone; no tokenizer, no text is kept.

The estimate is reserved before the call and corrected by settlement. Bytes per token in common
vocabularies: English prose about 4 to 4.5, program code about 3, Chinese and Japanese about 3 (one
character). Three bytes per token is therefore at or above the true count for these; for random
characters (keys, base64) it may be a third too low, and the difference becomes debt.
"""

from __future__ import annotations

from gateway.domain.chat import ChatRequest, OpaquePart, TextPart, ToolDefinition

BYTES_PER_TOKEN = 3

#: Tokens around a message: role, separators, template words. OpenAI's cookbook counts 3 to 4.
MESSAGE_TOKENS = 8

#: Tokens around a tool call or a tool definition, beyond its own text.
TOOL_TOKENS = 16

#: Largest estimate for one part that is not text: an image's payload says little about its tokens.
OPAQUE_TOKENS_MAX = 16_384


def text_tokens(text: str) -> int:
    """Estimated tokens of a text: its UTF-8 bytes over three, rounded up.

    Also used for a local count when a provider sends no usage.
    """
    length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-length // BYTES_PER_TOKEN)


def estimate_prompt_tokens(chat: ChatRequest) -> int:
    """Estimated tokens of everything that is sent: messages, tool calls, tools, schemas. At least 1."""
    tokens = text_tokens(chat.response_format or "") + sum(map(_tool_tokens, chat.tools))
    for message in chat.messages:
        tokens += MESSAGE_TOKENS + text_tokens(message.name or "")
        for part in message.parts:
            match part:
                case TextPart(text):
                    tokens += text_tokens(text)
                case OpaquePart(_, payload):
                    tokens += min(OPAQUE_TOKENS_MAX, text_tokens(payload))
        for extra in (message.refusal, message.reasoning):
            if extra:
                tokens += text_tokens(extra)
        for call in message.tool_calls:
            tokens += TOOL_TOKENS + text_tokens(call.name) + text_tokens(call.arguments)
    return max(1, tokens)


def estimate_output_tokens(chat: ChatRequest, default_tokens: int) -> int:
    """Most tokens that the answer may have: the allowed output of one choice times `n`.

    `default_tokens` stands in when the client names no bound; the caller must send the same bound
    upstream, or the answer may exceed what was reserved.
    """
    allowed = chat.sampling.max_output_tokens
    return max(1, default_tokens if allowed is None else allowed) * max(1, chat.sampling.n)


def _tool_tokens(tool: ToolDefinition) -> int:
    return (
        TOOL_TOKENS
        + text_tokens(tool.name)
        + text_tokens(tool.description or "")
        + text_tokens(tool.parameters or "")
    )
