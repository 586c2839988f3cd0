import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { followLog } from "../src/adapters/follow-log.ts";

/** The chunk ends within a character, as chunks of bytes may. */
const EURO = new TextEncoder().encode("€");

let server: Server;
let url: string;
let asked: URLSearchParams[];
let answer: (query: URLSearchParams, reply: ServerResponse) => void;

beforeEach(async () => {
  asked = [];
  server = createServer((request, reply) => {
    const { searchParams } = new URL(request.url ?? "", "http://gateway");
    asked.push(searchParams);
    answer(searchParams, reply);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/log`;
});

afterEach(() => server.close());

function send(reply: ServerResponse, chunk: Uint8Array | string, rest: object): void {
  reply.setHeader("content-type", "application/json");
  reply.end(JSON.stringify({ chunk: Buffer.from(chunk).toString("base64"), complete: false, ...rest }));
}

async function follow(path: string): Promise<{ readonly text: string; readonly states: readonly string[] }> {
  let text = "";
  const states: string[] = [];
  const reader = { onText: (part: string) => (text += part), onState: (state: string) => states.push(state) };
  await followLog(path, reader, new AbortController().signal);
  return { text, states };
}

it("continues a log in its run, after an outage and a restart of the container", async () => {
  const runs = [{ run: "a", text: "one\n" }];
  answer = (query, reply) => {
    const last = { run: query.get("run") ?? "", offset: Number(query.get("offset")) };
    // As in the service, a finished run is followed by the beginning of the next one.
    const next = runs[runs.findIndex(({ run }) => run === last.run) + 1];
    if (asked.length === 2) {
      runs.push({ run: "b", text: "two\n" });
      reply.destroy();
    } else if (last.run === "")
      send(reply, runs.at(-1)!.text.slice(last.offset), { nextOffset: 4, run: runs.at(-1)!.run });
    else if (next !== undefined) send(reply, next.text, { nextOffset: 4, run: next.run });
    else send(reply, "", { nextOffset: 4, run: last.run, complete: true });
  };
  const { text, states } = await follow(`${url}?kind=Job&component=worker-0`);
  expect(text).toBe("one\ntwo\n");
  expect(states).toEqual(["following", "interrupted; it continues by itself", "following", "complete"]);
  for (const query of asked) {
    expect([query.get("kind"), query.get("component")]).toEqual(["Job", "worker-0"]);
    // Without a wait, `complete` would mean the end of one run.
    expect(Number(query.get("waitMs"))).toBeGreaterThan(0);
  }
});

it("sends no run for a log without runs, and joins characters across chunks", async () => {
  answer = (query, reply) => {
    if (query.has("run")) reply.writeHead(400).end();
    else if (query.get("offset") === "0") send(reply, EURO.subarray(0, 1), { nextOffset: 1 });
    else send(reply, EURO.subarray(1), { nextOffset: 3, complete: true });
  };
  expect(await follow(url)).toEqual({ text: "€", states: ["following", "complete"] });
});

it("ends with a refusal of the gateway", async () => {
  answer = (_, reply) => {
    reply.writeHead(403, { "content-type": "application/problem+json" });
    reply.end(JSON.stringify({ status: 403, code: "FORBIDDEN", detail: "no right" }));
  };
  expect(await follow(url)).toEqual({ text: "", states: ["no right"] });
});
