import { connect } from "node:net";
import { throwFault } from "@muster/faults";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  PROTOCOLS,
  startGatewayWorld,
  writeCertificate,
  type Gateway,
  type GatewayWorld,
  type Protocol,
  type Streamed,
} from "./gateway-world.ts";
import { openRawRequest, openRawRequests } from "./raw-request.ts";

const QUICK = { GATEWAY_WATCH_POLL_MS: "20", GATEWAY_STREAM_CHECK_MS: "100", GATEWAY_STREAM_STALL_MS: "500" };

let world: GatewayWorld;
let gateway: Gateway;
let sessions: Map<string, number>;

/** Starts a gateway of the protocol for each test of a suite. */
function prepare(protocol: Protocol): void {
  beforeAll(async () => {
    world = await startGatewayWorld(
      {
        listSessions: ({ continue: from }) => {
          // The list has two pages, so that a watch must read both.
          const all = [...sessions].map(([name, revision]) => ({ name, revision }));
          return from === ""
            ? { sessions: all.slice(0, 1), continue: all.length > 1 ? "1" : "" }
            : { sessions: all.slice(1) };
        },
      },
      protocol,
    );
  });

  afterAll(() => world[Symbol.asyncDispose]());

  // Each test starts a new gateway, without earlier lists.
  beforeEach(async () => {
    sessions = new Map([
      ["a", 1],
      ["b", 1],
    ]);
    gateway = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "3" });
  });

  afterEach(() => gateway[Symbol.asyncDispose]());
}

const shown = (stream: Streamed) =>
  stream.events().map(({ event, data }) => {
    const { name, revision } = data as { name?: string; revision?: number };
    return name === undefined ? event : `${event} ${name}@${revision}`;
  });
const lastId = (stream: Streamed): string => stream.events().findLast(({ id }) => id !== undefined)?.id ?? "";
const isSynced = (stream: Streamed) => () => shown(stream).includes("synced");

const encoder = new TextEncoder();

function logOf(pieces: readonly string[]) {
  return ({ offset, waitMs }: Record<string, unknown>) => {
    const text = pieces.join("");
    const at = Number(offset);
    const ends = pieces.reduce<number[]>((all, piece) => [...all, (all.at(-1) ?? 0) + piece.length], []);
    const end = ends.find((each) => each > at) ?? text.length;
    return {
      chunk: encoder.encode(text.slice(at, end)),
      nextOffset: end,
      complete: end === text.length && waitMs !== 0,
    };
  };
}

describe.each(PROTOCOLS)("over %s", (protocol) => {
  prepare(protocol);

  it("writes the whole list, and then each change", async () => {
    await using stream = await gateway.stream("/v1/sessions?watch=true");
    expect([stream.status, stream.type]).toEqual([200, "text/event-stream; charset=utf-8"]);
    await until("the list arrives", isSynced(stream));
    expect(shown(stream)).toEqual(["reset", "added a@1", "added b@1", "synced"]);
    sessions.set("a", 2);
    await until("the change arrives", () => shown(stream).length > 4);
    sessions.set("c", 1);
    await until("the new session arrives", () => shown(stream).length > 5);
    sessions.delete("b");
    await until("the deletion arrives", () => shown(stream).length > 6);
    expect(shown(stream).slice(4)).toEqual(["modified a@2", "added c@1", "deleted b@1"]);
  });

  it("gives a client that reconnects all that it has missed, and nothing else", async () => {
    let id: string;
    {
      await using stream = await gateway.stream("/v1/sessions?watch=true");
      await until("the list arrives", isSynced(stream));
      id = lastId(stream);
    }
    sessions.set("a", 2);
    await using other = await gateway.stream("/v1/sessions?watch=true");
    await until(
      "the gateway has seen it",
      () => shown(other).includes("modified a@2") || shown(other).includes("added a@2"),
    );
    await using again = await gateway.stream("/v1/sessions?watch=true", { "last-event-id": id });
    await until("the change arrives", () => shown(again).length > 0);
    expect(shown(again)).toEqual(["modified a@2"]);
  });

  it("stays open beyond the timeouts of requests, and outside the limit of concurrent ones", async () => {
    const strict = await world.start({ ...QUICK, GATEWAY_REQUEST_TIMEOUT_MS: "100", GATEWAY_REQUESTS_MAX: "1" });
    await using one = await strict.stream("/v1/sessions?watch=true");
    await using other = await strict.stream("/v1/sessions?watch=true");
    await until("both streams are served", () => isSynced(one)() && isSynced(other)());
    const lines = () => one.text().split(": alive").length;
    // The stream writes a line per 100 ms of silence; a request would be cut off after 1100 ms.
    await until("the stream was silent for 1.5 s", () => lines() > 15);
    expect([one.over(), (await strict.ask("/v1/sessions?limit=1")).status]).toEqual([undefined, 200]);
  });

  it("ends the watch of a list that no later request can read, with the reason", async () => {
    world.answers["listJobs"] = () =>
      throwFault({ code: "invalid_request", field: "namespace", reason: "is not served" });
    await using stream = await gateway.stream("/v1/jobs/elsewhere?watch=true");
    await until("the stream is over", () => stream.over() !== undefined);
    expect(stream.events()).toMatchObject([{ event: "closed", data: { code: "INVALID_REQUEST", field: "namespace" } }]);
  });

  it("ends a watch whose client reads too slowly, with the reason TOO_SLOW, which requires a new list", async () => {
    const trouble = "x".repeat(400_000);
    // The answer has 24 MB, which exceeds the buffers of the kernel.
    world.answers["listNodes"] = ({ continue: from }) => {
      const number = Number(from) + 1;
      return { nodes: [{ name: `n-${number}`, trouble }], continue: number < 60 ? String(number) : "" };
    };
    const one = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "1" });
    await using raw = openRawRequest(one, { path: "/v1/nodes?watch=true" });
    raw.pause();
    await until("the stream is served", async () => (await one.ask("/v1/sessions?watch=true")).status === 429);
    await until(
      "the gateway has ended the stream",
      async () => (await one.ask("/v1/sessions?watch=true")).status === 200,
    );
    raw.resume();
    await until("the reason arrives", () => raw.text().includes("TOO_SLOW"));
    expect(raw.text()).toContain("event: closed");
    // The list was cut, so its position is empty: the next connection begins with a new list.
    expect([...raw.text().matchAll(/^id: (.*)$/gm)].at(-1)?.[1]).toBe("");
  });

  it("limits the streams of one user", async () => {
    const limited = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "1" });
    const stream = await limited.stream("/v1/sessions?watch=true");
    await until("the stream is served", isSynced(stream));
    const refused = await limited.ask("/v1/sessions?watch=true");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "10"]);
    await stream[Symbol.asyncDispose]();
    await until("a slot is free again", async () => (await limited.ask("/v1/sessions?watch=true")).status === 200);
  });

  it("streams a log unchanged, including control characters", async () => {
    world.answers["getLogs"] = logOf(["first\u001b[31m\n", "sec\0ond\n", "<script>\n"]);
    await using stream = await gateway.stream("/v1/sessions/echo/logs/driver?container=main");
    await until("the stream is over", () => stream.over() !== undefined);
    expect([stream.type, stream.over()]).toEqual(["text/plain; charset=utf-8", "ended"]);
    expect(stream.text()).toBe("first\u001b[31m\nsec\0ond\n<script>\n");
    expect(world.received.find(({ method }) => method === "getLogs")?.request).toMatchObject({
      name: "echo",
      component: "driver",
      container: "main",
    });
    // No browser renders the log as a page.
    const { headers } = await gateway.ask("/v1/sessions/echo/logs/driver");
    expect(headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" });
  });

  it("follows a log to its end, across an outage of its service", async () => {
    const whole = logOf(["one\n", "two\n", "three\n"]);
    let failures = 2;
    world.answers["getJobLogs"] = (request) => {
      if (Number(request["offset"]) > 4 && failures > 0) {
        failures -= 1;
        throwFault({ code: "conflict", id: "log", expectedRevision: 1, actualRevision: 2 });
      }
      return { ...whole(request), run: "r-1" };
    };
    await using stream = await gateway.stream("/v1/jobs/default/train/logs/worker-0?follow=true&kind=Job");
    await until("the stream is over", () => stream.over() !== undefined);
    expect([stream.over(), stream.text()]).toEqual(["ended", "one\ntwo\nthree\n"]);
    expect(world.received.findLast(({ method }) => method === "getJobLogs")?.request).toMatchObject({
      key: { kind: "Job", namespace: "default", name: "train" },
      run: "r-1",
    });
  });

  it("breaks the connection if a log cannot be read to its end", async () => {
    const whole = logOf(["one\n", "two\n"]);
    world.answers["getLogs"] = (request) =>
      request["offset"] === 0 ? whole(request) : throwFault({ code: "not_found", kind: "log", id: "driver" });
    await using stream = await gateway.stream("/v1/sessions/echo/logs/driver");
    await until("the stream is over", () => stream.over() !== undefined);
    expect([stream.over(), stream.text()]).toEqual(["broken", "one\n"]);
  });
});

describe("over any protocol", () => {
  prepare("HTTP/1.1");

  it("reports a job that stops matching the selector of the watch as deleted", async () => {
    const labels = new Map([["train", "team=a"]]);
    world.answers["listJobs"] = ({ labelSelector }) => {
      const names = [...labels].filter(([, each]) => each === labelSelector).map(([name]) => name);
      return { jobs: names.map((name) => ({ key: { kind: "Job", namespace: "default", name } })) };
    };
    await using stream = await gateway.stream("/v1/jobs/default?watch=true&labelSelector=team%3Da");
    await until("the list is there", isSynced(stream));
    labels.set("train", "team=b");
    await until("the job is gone", () => shown(stream).length > 3);
    expect(stream.events().map(({ event }) => event)).toEqual(["reset", "added", "synced", "deleted"]);
  });

  it("names the namespace of watched jobs of a job-controller of the last release, whose keys have none", async () => {
    world.answers["listJobs"] = () => ({ jobs: [{ key: { kind: "Job", name: "train" } }], namespace: "team-a" });
    await using stream = await gateway.stream("/v1/jobs?watch=true");
    await until("the list arrives", isSynced(stream));
    expect(stream.events()[1]).toMatchObject({ event: "added", data: { key: { name: "train", namespace: "team-a" } } });
  });

  it.each(["0123456789ab-5", "nonsense", "-1"])("sends the whole list again after the unknown event %s", async (id) => {
    await using stream = await gateway.stream("/v1/sessions?watch=true", { "last-event-id": id });
    await until("the list arrives", isSynced(stream));
    expect(shown(stream)).toEqual(["reset", "added a@1", "added b@1", "synced"]);
  });

  it("sends the whole list again after a reconnection to another gateway", async () => {
    let id: string;
    {
      await using first = await world.start(QUICK);
      await using stream = await first.stream("/v1/sessions?watch=true");
      await until("the list arrives", isSynced(stream));
      id = lastId(stream);
    }
    await using stream = await gateway.stream("/v1/sessions?watch=true", { "last-event-id": id });
    await until("the list arrives", isSynced(stream));
    expect(shown(stream)[0]).toBe("reset");
    // A client that disconnects during this list must not continue at its old position at the first gateway.
    expect(stream.events()[0]?.id).toBe("");
  });

  it("reports a stale list while its service is unavailable, and then the changes", async () => {
    await using stream = await gateway.stream("/v1/sessions?watch=true");
    await until("the list arrives", isSynced(stream));
    const before = world.answers["listSessions"]!;
    world.answers["listSessions"] = () =>
      throwFault({ code: "conflict", id: "x", expectedRevision: 1, actualRevision: 2 });
    await until("the list is stale", () => shown(stream).includes("stale"));
    sessions.set("a", 2);
    world.answers["listSessions"] = before;
    await until("the list is current", () => shown(stream).at(-1) === "synced");
    expect(shown(stream).slice(4)).toEqual(["stale", "modified a@2", "synced"]);
  });

  it("keeps a watch open while NATS is unavailable for longer than any limit, and then continues it", async () => {
    const limits = { ...QUICK, GATEWAY_CALL_TIMEOUT_MS: "500", GATEWAY_REQUEST_TIMEOUT_MS: "100" };
    const plain = await world.start(limits);
    const secure = await world.start({ ...limits, ...(await writeCertificate(world.directory)) });
    await using one = await plain.stream("/v1/sessions?watch=true");
    await using other = await secure.stream("/v1/sessions?watch=true");
    const both = [one, other];
    await until("the lists arrive", () => both.every((stream) => isSynced(stream)()));
    await world.nats.kill();
    await until("the lists are stale", () => both.every((stream) => shown(stream).includes("stale")));
    // A client of NATS with the usual limit of 10 attempts gives up within 12 s, and its pauses have grown to their 2 s. The limits of streams and calls, which
    // are longer by default, are shortened above, so a longer outage passes no further one. The gateway checks a stream, and writes a line, every 100 ms.
    const lines = (stream: Streamed) => stream.text().split(": alive").length;
    const before = both.map(lines);
    await until("15 s have passed", () => both.every((stream, at) => lines(stream) > before[at]! + 150));
    sessions.set("a", 2);
    await world.nats.start();
    const changes = (stream: Streamed) =>
      shown(stream)
        .slice(4)
        .filter((each) => !["stale", "synced"].includes(each));
    await until("the lists are current", () =>
      both.every((stream) => changes(stream).length > 0 && shown(stream).at(-1) === "synced"),
    );
    expect(both.map(changes)).toEqual([["modified a@2"], ["modified a@2"]]);
    expect(both.map((stream) => stream.over())).toEqual([undefined, undefined]);
  });

  it("serves 1,000 watches at once from one read of their list, and other requests meanwhile", async () => {
    // All watches are of one user at one address, whose limits are lower.
    const limits = { GATEWAY_USER_STREAMS_MAX: "1000", GATEWAY_REQUESTS_BURST: "2000", GATEWAY_REQUESTS_MAX: "8000" };
    const large = await world.start(limits);
    const watches = openRawRequests(large, 1000, { path: "/v1/sessions?watch=true" });
    await until("each watch has the list", () => watches.every((watch) => watch.text().includes("event: synced")));
    expect((await large.ask("/v1/sessions?watch=true")).status).toBe(429);
    expect((await large.ask("/v1/sessions")).status).toBe(200);
    world.received.length = 0;
    sessions.set("c", 1);
    await until("each watch has the change", () => watches.every((watch) => watch.text().includes('"name":"c"')));
    expect(world.received.length).toBeLessThan(watches.length / 2);
    expect(watches.filter((watch) => watch.isOver())).toEqual([]);
    for (const each of watches) await each[Symbol.asyncDispose]();
  });

  it("refuses pages of a watched list", async () => {
    for (const field of ["limit", "continue"]) {
      const { json } = await gateway.ask(`/v1/sessions?watch=true&${field}=1`);
      expect(json).toMatchObject({ status: 400, field });
    }
  });

  it.each([
    ["/v1/sessions?watch=true", "text/event-stream; charset=utf-8"],
    ["/v1/sessions/echo/logs/driver?follow=true", "text/plain; charset=utf-8"],
  ])("answers HEAD of %s without a stream", async (path, type) => {
    const limited = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "1" });
    const socket = connect(limited.port, "127.0.0.1");
    let text = "";
    socket.setEncoding("utf8").on("data", (part: string) => (text += part));
    const common = `host: x\r\nauthorization: Bearer ${limited.token}\r\n\r\n`;
    socket.write(`HEAD ${path} HTTP/1.1\r\n${common}GET /healthz HTTP/1.1\r\n${common}`);
    await until("the next request of the connection is answered", () => text.includes('"status":"ok"'));
    expect(text).toMatch(/^HTTP\/1.1 200 OK/);
    expect(text).toContain(`content-type: ${type}`);
    expect((await limited.ask("/v1/sessions?watch=true")).status).toBe(200);
    expect((await limited.ask(`${path}&unknown=1`, { method: "HEAD" })).status).toBe(400);
    socket.destroy();
  });

  it("follows the log of a job from before its first run to the end of its last one", async () => {
    let asked = 0;
    // As in the service, a log that has not begun is refused without a wait, and `complete` is then the end of one run.
    world.answers["getJobLogs"] = ({ waitMs, offset, run }) => {
      const isFollowed = Number(waitMs) > 0;
      asked += 1;
      if (asked === 1) return isFollowed ? {} : throwFault({ code: "not_found", kind: "log", id: "train/worker-0" });
      const piece = (text: string, id: string) => ({ chunk: encoder.encode(text), nextOffset: text.length, run: id });
      if (run === "") return { ...piece("failed\n", "a"), complete: !isFollowed };
      if (run === "a") return { ...piece("repeated\n", "b"), complete: !isFollowed };
      return { nextOffset: offset, run, complete: true };
    };
    await using stream = await gateway.stream("/v1/jobs/default/train/logs/worker-0?follow=true");
    await until("the stream is over", () => stream.over() !== undefined);
    expect([stream.status, stream.over(), stream.text()]).toEqual([200, "ended", "failed\nrepeated\n"]);
  });

  it("answers a log that does not exist with a problem", async () => {
    world.answers["getLogs"] = () => throwFault({ code: "not_found", kind: "log", id: "driver" });
    expect((await gateway.ask("/v1/sessions/echo/logs/driver")).json).toMatchObject({ status: 404, code: "NOT_FOUND" });
  });
});
