import { findFault } from "@muster/faults";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openController, makeHttpPoll } from "../src/adapters/controller.ts";
import { openHttpFeedback } from "../src/adapters/feedback.ts";
import { makeOrder } from "./a-lease.ts";
import { startHttpController, toJsonOrder, type HttpController } from "./http-controller.ts";

const never = new AbortController().signal;

describe("a controller over HTTP", () => {
  let server: HttpController;
  let nowMs = 0;
  let failures: string[] = [];
  const open = (changes: { timeoutMs?: number; maxBytes?: number } = {}) =>
    openController(
      { url: `${server.url}/`, token: "hush", timeoutMs: 60_000, maxBytes: 4096, ...changes },
      () => nowMs,
    );
  const poll = (from: bigint, controller = open()) =>
    makeHttpPoll({ controller, engine: "main", failed: (what, reason) => failures.push(`${what}: ${reason}`) })(
      from,
      never,
    );
  const send = (controller = open()) =>
    openHttpFeedback(controller, "main").send(
      { id: "1-1", source: "http", number: 3, result: undefined, deleted: true },
      never,
    );

  const limits = () => server.asked.map((path) => path.split("limit=")[1]);

  beforeEach(async () => {
    server = await startHttpController();
    nowMs = 0;
    failures = [];
  });
  afterEach(() => server[Symbol.asyncDispose]());

  it("reads a page of orders as they were signed, without the unreadable ones", async () => {
    const order = makeOrder({ data: '{"a":1.0, "b": "é"}', createdNs: 1_500_000_000n, durationNs: 2n ** 63n - 1n });
    let authorization: string | undefined;
    server.answerBy(({ headers }) => {
      ({ authorization } = headers);
      return false;
    });
    server.list(toJsonOrder(order));
    server.list({ id: "2-1", type: "debug" });
    server.list(toJsonOrder(order, { id: "3-1", duration: 5 }));
    server.list("no order at all");
    server.list(toJsonOrder(order, { to_delete: true, result: { created: "2026-01-01T00:00:00Z", data: "{}" } }));
    const page = await poll(0n);
    expect(page).toMatchObject({
      kind: "page",
      lastId: 5n,
      isLast: false,
      orders: [
        { order, withdrawn: false, isAnswered: false },
        { order, withdrawn: true, isAnswered: true },
      ],
      unreadable: [{ id: "2-1" }, { id: "3-1" }, { id: "" }],
    });
    expect(server.asked).toEqual(["/engines/main/orders?from=0&limit=200"]);
    expect(authorization).toBe("Bearer hush");
  });

  it("treats neither a missing answer nor an error as a page", async () => {
    server.answerBy((_request, response) => {
      response.writeHead(404, { "x-last-id": "900" }).end("{}");
      return true;
    });
    expect(await poll(7n)).toEqual({ kind: "failed" });
    server.answerBy((request) => {
      request.socket.destroy();
      return true;
    });
    expect(await poll(7n)).toMatchObject({ kind: "failed" });
    server.answerBy(() => true);
    expect(await poll(7n, open({ timeoutMs: 50 }))).toEqual({ kind: "failed" });
    await server[Symbol.asyncDispose]();
    expect(await poll(7n)).toMatchObject({ kind: "failed" });
    server = await startHttpController();
    expect(failures.map((each) => each.split(":")[0])).toEqual(["refused", "away", "away", "away"]);
  });

  it.each<[string, string]>([
    ["no JSON", "<html>busy</html>"],
    ["no page", '{"orders":7}'],
    ["larger than the maximum", JSON.stringify({ orders: ["x".repeat(5000)] })],
  ])("requests smaller pages after one that is %s, and then skips the one bad order", async (_what, body) => {
    server.answerBy((_request, response) => {
      response.setHeader("x-last-id", "8").end(body);
      return true;
    });
    expect(await poll(7n)).toEqual({ kind: "unreadable", lastId: 8n });
    expect(limits()).toEqual(["200", "25", "4", "1", "1"]);
    expect(failures).toHaveLength(1);
  });

  it("skips one order that its number identifies, without polling twice", async () => {
    server.answerBy((_request, response) => {
      response.setHeader("x-last-id", "7").end("<html>");
      return true;
    });
    expect(await poll(7n)).toEqual({ kind: "unreadable", lastId: 7n });
    expect(limits()).toEqual(["200", "25", "4", "1"]);
  });

  it.each<[string, string, string]>([
    ["an order that can be read", "9", '{"orders":[]}'],
    ["the number of another order", "10", "<html>"],
    ["no number", "soon", "<html>"],
  ])("skips nothing if the number that a broken page gives has %s", async (_what, lastId, body) => {
    server.answerBy((_request, response, url) => {
      const isFirst = url.searchParams.get("from") === "7";
      response.setHeader("x-last-id", isFirst ? "9" : lastId).end(isFirst ? "<html>" : body);
      return true;
    });
    expect(await poll(7n)).toEqual({ kind: "unreadable", lastId: undefined });
    expect(failures).toHaveLength(1);
    expect(failures[0]).toContain("x-last-id 9");
  });

  it("skips nothing while the number cannot be verified", async () => {
    server.answerBy((_request, response, url) => {
      if (url.searchParams.get("from") === "7") response.setHeader("x-last-id", "9").end("<html>");
      else response.writeHead(500).end();
      return true;
    });
    expect(await poll(7n)).toMatchObject({ kind: "failed" });
  });

  it("does not know the next id after a page without one", async () => {
    server.answerBy((_request, response) => {
      response.setHeader("x-last-id", "soon").end('{"orders":[]}');
      return true;
    });
    expect(await poll(7n)).toEqual({ kind: "unreadable", lastId: undefined });
  });

  it("backs off for as long as the controller asks, with all polls and feedback", async () => {
    const controller = open();
    server.answerBy((_request, response) => {
      response.writeHead(429, { "retry-after": "120" }).end();
      return true;
    });
    expect(await poll(1n, controller)).toEqual({ kind: "failed", retryAfterMs: 120_000 });
    server.answerBy(() => false);
    nowMs = 119_999;
    expect(await poll(1n, controller)).toEqual({ kind: "failed", retryAfterMs: 1 });
    await expect(send(controller)).rejects.toMatchObject({ fault: { code: "unavailable", retryAfterMs: 1 } });
    expect(server.asked).toHaveLength(1);
    nowMs = 120_000;
    expect(await poll(1n, controller)).toMatchObject({ kind: "page" });
    await send(controller);
    expect(server.received).toEqual([{ path: "/engines/main/orders/1-1/deleted", body: { number: 3 } }]);
  });

  it("backs off for a moment after a timeout, with queued calls, too", async () => {
    const controller = open({ timeoutMs: 5000 });
    server.answerBy(() => true);
    const sent = await Promise.allSettled(Array.from({ length: 100 }, () => send(controller)));
    const faults = sent.map((each) => (each.status === "rejected" ? findFault(each.reason)?.code : undefined));
    // The engine sends this many requests concurrently.
    expect(faults.filter((code) => code === "deadline_exceeded")).toHaveLength(32);
    expect(faults.filter((code) => code === "unavailable")).toHaveLength(68);
    server.answerBy(() => false);
    nowMs = 5000;
    await expect(send(controller)).resolves.toBeUndefined();
  });

  it.each<[number, object]>([
    [400, { code: "invalid_request" }],
    [409, { code: "invalid_request" }],
    [401, { code: "unavailable" }],
    [500, { code: "unavailable" }],
    [503, { code: "unavailable" }],
  ])("an answer %i to feedback is %o", async (status, fault) => {
    server.answerBy((_request, response) => {
      response.writeHead(status).end("no");
      return true;
    });
    await expect(send()).rejects.toMatchObject({ fault });
  });

  it.each(["", ".", ".."])("reports nothing about an order with the id %j, which a path cannot name", async (id) => {
    const answer = { id, source: "http", number: 0, result: undefined, deleted: true };
    await expect(openHttpFeedback(open(), "main").send(answer, never)).rejects.toMatchObject({
      fault: { code: "invalid_request", field: "id" },
    });
    expect(server.asked).toEqual([]);
  });

  it("treats an order that the controller does not know as deleted", async () => {
    server.answerBy((_request, response) => {
      response.writeHead(404).end();
      return true;
    });
    await send();
  });
});
