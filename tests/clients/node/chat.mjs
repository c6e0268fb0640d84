// The usual calls of the official Node client, unmodified. One line of JSON with what came of each.
//
//     TIDEGATE_URL=http://…/v1 TIDEGATE_KEY=… node chat.mjs CALL [JSON]
//
// CALL is a name of `calls` below; JSON holds fields for the request body and, under "headers", for its
// headers; "timeout" and "linger" are milliseconds. What a call throws is told as {"error": {...}} with the name of its class.

import OpenAI from "openai";

const [call, given = "{}"] = process.argv.slice(2);
const { headers, timeout = 20_000, linger = 0, ...fields } = JSON.parse(given);
const client = new OpenAI({
  baseURL: process.env.TIDEGATE_URL,
  apiKey: process.env.TIDEGATE_KEY,
  maxRetries: 0,
  timeout,
});
const body = {
  model: "assistant",
  messages: [{ role: "user", content: "What is a tide gate?" }],
  ...fields,
};
const options = { headers };
const seen = { text: "", roles: [], reasons: [], chunks: 0, usage: null, calls: {}, bareChunks: 0 };

function note(chunk) {
  seen.chunks += 1;
  if (chunk.usage) seen.usage = chunk.usage;
  for (const choice of chunk.choices) {
    if (!("finish_reason" in choice)) seen.bareChunks += 1;
    if (choice.finish_reason !== null) seen.reasons.push(choice.finish_reason);
    if (choice.delta.role) seen.roles.push(choice.delta.role);
    seen.text += choice.delta.content ?? "";
    for (const piece of choice.delta.tool_calls ?? []) {
      const called = (seen.calls[piece.index] ??= { id: "", name: "", arguments: "" });
      called.id += piece.id ?? "";
      called.name += piece.function?.name ?? "";
      called.arguments += piece.function?.arguments ?? "";
    }
  }
}

async function readStream(more = {}) {
  const stream = await client.chat.completions.create({ ...body, stream: true }, { ...options, ...more });
  for await (const chunk of stream) note(chunk);
  return seen;
}

const calls = {
  async plain() {
    const { data, response, request_id } = await client.chat.completions.create(body, options).withResponse();
    return { answer: data, request_id, headers: Object.fromEntries(response.headers) };
  },

  stream: () => readStream(),

  // The helper that puts a stream together again.
  async accumulate() {
    const stream = client.chat.completions.stream({ ...body, stream: true }, options);
    return { answer: await stream.finalChatCompletion() };
  },

  // A tool call, its result, and the answer to it.
  async tools() {
    const first = await client.chat.completions.create(body, options);
    const [call] = first.choices[0].message.tool_calls;
    const second = await client.chat.completions.create({
      ...body,
      tool_choice: "auto",
      messages: [
        ...body.messages,
        first.choices[0].message,
        { role: "tool", tool_call_id: call.id, content: '{"metres":1.5}' },
      ],
    }, options);
    return { first, second };
  },

  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    return { names, one: await client.models.retrieve("assistant") };
  },

  // Leaving a loop early ends the request.
  async leave() {
    const stream = await client.chat.completions.create({ ...body, stream: true }, options);
    for await (const chunk of stream) {
      note(chunk);
      if (seen.text) break;
    }
    return { ...seen, aborted: stream.controller.signal.aborted };
  },

  // AbortController, before the first byte (nothing comes) or between two events.
  async abort() {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    return readStream({ signal: controller.signal });
  },

  async abortPlain() {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    return client.chat.completions.create(body, { ...options, signal: controller.signal });
  },
};

function told(error) {
  return {
    class: error.constructor.name,
    isApiError: error instanceof OpenAI.APIError,
    status: error.status ?? null,
    code: error.code ?? null,
    param: error.param ?? null,
    type: error.type ?? null,
    message: error.message,
    requestID: error.requestID ?? null,
    retryAfter: error.headers?.get("retry-after") ?? null,
  };
}

let result;
try {
  result = await calls[call]();
} catch (error) {
  result = { ...seen, error: told(error) };
}
// The process lives on for a while after a call is left, so that its own end is not what ends the request.
if (linger) await new Promise((done) => setTimeout(done, linger));
console.log(JSON.stringify(result));
