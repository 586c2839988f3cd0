import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "@muster/testkit";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { followLists, type ListPlaces } from "../src/adapters/follow-lists.ts";

let server: Server;
let requests: IncomingMessage[];
let answer: (reply: ServerResponse, number: number) => void;
let seen: string[];
let places: ListPlaces;
let stop: AbortController;

beforeEach(async () => {
  [requests, seen, places, stop] = [[], [], { lastEventId: "" }, new AbortController()];
  server = createServer((request, reply) => {
    requests.push(request);
    answer(reply, requests.length);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  // Pages use relative addresses, which the test completes with its own host.
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init));
});

afterEach(() => {
  stop.abort();
  vi.unstubAllGlobals();
  server.closeAllConnections();
  server.close();
});

function follow(...names: readonly string[]): Promise<void> {
  const reader = {
    onOpen: () => seen.push("opened"),
    onEvent: (list: string, event: { readonly kind: string; readonly item?: unknown }) =>
      seen.push([list, event.kind, ...("item" in event ? [JSON.stringify(event.item)] : [])].join(" ")),
    onLost: ({ code }: { readonly code: string }) => seen.push(code),
  };
  return followLists(names, places, reader, stop.signal);
}

function begin(reply: ServerResponse): ServerResponse {
  reply.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
  return reply;
}

it("requests all lists together, and continues each from its position", async () => {
  answer = (reply, number) => {
    begin(reply);
    if (number > 1) return;
    reply.write('event: reset\nid: \ndata: {"resource":"jobs"}\n\n');
    // A chunk may end at any byte.
    reply.write('event: added\ndata: {"resource":"jobs","item":"o');
    reply.write('ne"}\n\nevent: synced\nid: a-1\ndata: {"resource":"jobs"}\n\n: alive\n\n');
    reply.end("id: a-2.b-1\n\n");
  };
  const following = follow("jobs", "replica-sets");
  await until("the connection is restored", () => requests.length === 2);
  await until("the connection is open", () => seen.at(-1) === "opened");
  expect(seen).toEqual(["opened", "jobs reset", 'jobs added "one"', "jobs synced", "UNREACHABLE", "opened"]);
  expect(requests.map(({ url }) => url)).toEqual(Array(2).fill("/v1/watch?resource=jobs&resource=replica-sets"));
  expect(requests.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "a-2.b-1"]);
  stop.abort();
  await following;
});

it("reports a connection without bytes as lost, although nothing has closed it, and opens another one", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    answer = (reply) => void begin(reply).write(": alive\n\n");
    void follow("jobs");
    await vi.waitFor(() => expect(seen).toEqual(["opened"]));
    await vi.waitFor(async () => {
      await vi.advanceTimersByTimeAsync(10_000);
      expect(requests.length).toBe(2);
    });
    expect(seen.slice(0, 2)).toEqual(["opened", "UNREACHABLE"]);
  } finally {
    vi.useRealTimers();
  }
});

it("shows why the gateway refuses all lists", async () => {
  answer = (reply) => {
    reply.writeHead(401, { "content-type": "application/problem+json" });
    reply.end(JSON.stringify({ status: 401, code: "UNAUTHENTICATED", detail: "the token has expired" }));
  };
  void follow("jobs");
  await until("the lists are refused", () => seen.length > 0);
  expect(seen).toEqual(["UNAUTHENTICATED"]);
});

it("requests a list again that the gateway has closed, and keeps all positions meanwhile", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    answer = (reply) => {
      const problem = { status: 403, code: "FORBIDDEN", detail: "no right" };
      begin(reply).write(`event: closed\ndata: ${JSON.stringify({ resource: "jobs", problem })}\n\nid: b-1\n\n`);
    };
    void follow("jobs", "pools");
    await vi.waitFor(() => expect(places.lastEventId).toBe("b-1"));
    expect([requests.length, seen]).toEqual([1, ["opened", "jobs closed"]]);
    await vi.advanceTimersByTimeAsync(30_000);
    await vi.waitFor(async () => {
      await vi.advanceTimersByTimeAsync(1000);
      expect(requests.length).toBe(2);
    });
    expect(requests[1]?.headers["last-event-id"]).toBe("b-1");
    expect(seen).not.toContain("UNREACHABLE");
  } finally {
    vi.useRealTimers();
  }
});
