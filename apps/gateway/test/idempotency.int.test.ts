import { randomBytes, randomUUID } from "node:crypto";
import { throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { openKeptRequests } from "../src/adapters/kept-requests.ts";
import { startGatewayWorld, type Answered, type Gateway, type GatewayWorld } from "./gateway-world.ts";

const DAY_MS = 24 * 3_600_000;
const STREAM = `KV_${buckets.apiRequests}`;

let world: GatewayWorld;
let gateway: Gateway;
let other: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld();
  gateway = await world.start();
  other = await world.start();
});

afterAll(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  world.received.length = 0;
  let revision = 0;
  world.answers["submitSession"] = ({ name }) => ({ session: { name, revision: (revision += 1) } });
});

function submit(at: Gateway, key: string | undefined, body: object = { name: "echo" }): Promise<Answered> {
  const headers = key === undefined ? {} : { "idempotency-key": key };
  return at.ask("/v1/sessions", { method: "POST", body, headers });
}

const requestIds = (): unknown[] => world.received.map(({ request }) => request["requestId"]);

it("gives the same request with the same key the same answer at every gateway, and calls the service once", async () => {
  const key = randomUUID();
  const first = await submit(gateway, key);
  expect([first.status, first.json]).toMatchObject([200, { session: { name: "echo", revision: 1 } }]);
  for (const at of [gateway, other]) {
    const repeated = await submit(at, key);
    expect([repeated.status, repeated.text]).toEqual([200, first.text]);
    expect(repeated.headers["content-type"]).toBe(first.headers["content-type"]);
  }
  expect(requestIds()).toHaveLength(1);
});

it("calls the service for each request without a key, and for each key", async () => {
  for (const key of [undefined, undefined, randomUUID(), randomUUID()]) await submit(gateway, key);
  expect(new Set(requestIds()).size).toBe(4);
});

it("refuses another request with the same key, at every gateway, with an audit event", async () => {
  const key = randomUUID();
  await submit(gateway, key);
  const audited = await world.followAudit();
  const refused = await submit(other, key, { name: "other" });
  expect([refused.status, refused.json]).toMatchObject([422, { code: "IDEMPOTENCY_KEY_REUSED" }]);
  const elsewhere = { method: "POST", body: { name: "echo" }, headers: { "idempotency-key": key } } as const;
  expect((await other.ask("/v1/replica-sets", elsewhere)).status).toBe(422);
  expect(requestIds()).toHaveLength(1);
  expect((await audited()).at(-1)).toMatchObject({
    status: 422,
    code: "IDEMPOTENCY_KEY_REUSED",
    resource: "replicasets",
  });
});

it("repeats a refusal of the service, but not an outage", async () => {
  const key = randomUUID();
  world.answers["submitSession"] = () =>
    throwFault({ code: "limit_exceeded", what: "the queue", limit: 5, retryAfterMs: 1000 });
  expect((await submit(gateway, key)).status).toBe(429);
  world.answers["submitSession"] = () => throwFault({ code: "already_exists", kind: "session", id: "echo" });
  const refused = await submit(other, key);
  expect([refused.status, refused.headers["content-type"]]).toEqual([409, "application/problem+json"]);
  world.answers["submitSession"] = () => ({ session: { name: "echo" } });
  const repeated = await submit(gateway, key);
  expect([repeated.status, repeated.text, repeated.headers["content-type"]]).toEqual([
    409,
    refused.text,
    "application/problem+json",
  ]);
  // The service recognizes the second attempt as the same request.
  const [first, second, ...more] = requestIds();
  expect([first, more]).toEqual([second, []]);
});

it("gives concurrent requests at two gateways one answer, and the service one request id", async () => {
  const key = randomUUID();
  const open = Promise.withResolvers<undefined>();
  let revision = 0;
  world.answers["submitSession"] = async () => {
    const own = (revision += 1);
    await open.promise;
    return { session: { name: "echo", revision: own } };
  };
  const both = [submit(gateway, key), submit(other, key)];
  await until("the service has both requests", () => world.received.length === 2);
  open.resolve(undefined);
  const [one, two] = await Promise.all(both);
  expect([one?.status, one?.text]).toEqual([200, two?.text]);
  expect(new Set(requestIds()).size).toBe(1);
});

it("refuses invalid keys, and ignores the header if the request creates nothing", async () => {
  for (const key of ["", "a key", "k".repeat(256), "schlüssel"]) {
    const { status, json } = await submit(gateway, key);
    expect([key, status, json]).toMatchObject([key, 400, { code: "INVALID_REQUEST", field: "Idempotency-Key" }]);
  }
  expect(requestIds()).toEqual([]);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
  const headers = { "idempotency-key": "same" };
  for (const name of ["one", "two"])
    expect((await gateway.ask(`/v1/sessions/${name}/cancel`, { method: "POST", headers })).status).toBe(200);
});

it("treats changes of different objects with one key as different requests, with an audit event each", async () => {
  const audited = await world.followAudit();
  world.answers["changeRoll"] = ({ id }) => ({ roll: { id } });
  world.answers["deleteSession"] = ({ name }) => ({ session: { name } });
  const headers = { "idempotency-key": "once" };
  const change = (id: string, body: object) => gateway.ask(`/v1/rolls/${id}/change`, { method: "POST", headers, body });
  const drop = (query: string) => gateway.ask(`/v1/sessions/a${query}`, { method: "DELETE", headers });
  await change("a", { change: "PAUSE" });
  await change("b", { change: "PAUSE" });
  await change("a", { change: "RESUME" });
  await drop("");
  await drop("?uid=1");
  expect((await audited()).map(({ name, status }) => [name, status])).toEqual([
    ["a", 200],
    ["b", 200],
    ["a", 200],
    ["a", 200],
    ["a", 200],
  ]);
  expect(new Set(requestIds()).size).toBe(5);
});

it("gives a repeated change the same request id, and each attempt an audit event", async () => {
  const audited = await world.followAudit();
  const headers = { "idempotency-key": "again" };
  const cancel = () => gateway.ask("/v1/sessions/a/cancel", { method: "POST", headers });
  world.answers["cancelSession"] = () => throwFault({ code: "internal", operation: "cancel" });
  expect((await cancel()).status).toBe(500);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
  expect((await cancel()).status).toBe(200);
  expect((await audited()).map(({ status }) => status)).toEqual([500, 200]);
  expect(new Set(requestIds()).size).toBe(1);
});

it("keeps no answer to an invalid request, and shortens the named field", async () => {
  const key = randomUUID();
  const wrong = await submit(gateway, key, { ["x".repeat(100_000)]: 1 });
  expect([wrong.status, wrong.text.length < 2000]).toEqual([400, true]);
  expect(wrong.json).toMatchObject({ code: "INVALID_REQUEST", field: `${"x".repeat(252)}…` });
  world.answers["submitSession"] = () => throwFault({ code: "invalid_request", field: "name", reason: "it is short" });
  for (const at of [gateway, other]) expect((await submit(at, randomUUID())).status).toBe(400);
  const same = randomUUID();
  for (const at of [gateway, other]) await submit(at, same);
  expect(world.received).toHaveLength(4);
});

it("keeps no answer over 64 KiB, and requests it from the service again", async () => {
  const [key, name] = [randomUUID(), randomBytes(100_000).toString("hex")];
  world.answers["submitSession"] = () => ({ session: { name } });
  for (const at of [gateway, other]) expect((await submit(at, key)).status).toBe(200);
  const [first, second, ...more] = requestIds();
  expect([first, more]).toEqual([second, []]);
});

it("refuses new keys of a user whose share of the bucket is used up, and serves other users and known keys", async () => {
  const kept = await openKeptRequests(world.bus.connection, { warn: () => undefined });
  const busy = { name: "busy", uid: undefined, groups: [] };
  const answer = { status: 200, body: randomBytes(40_000).toString("hex") };
  const fill = async (): Promise<void> => {
    for (let n = 0; n < 1000; n += 1) {
      const begun = await kept.begin(busy, `key-${n}`, "digest");
      if (begun.kind === "open") await begun.keep(answer);
    }
  };
  await expect(fill()).rejects.toMatchObject({
    fault: { code: "limit_exceeded", limit: 16 * 1024 * 1024, retryAfterMs: expect.any(Number) as unknown },
  });
  expect(await kept.begin(busy, "key-0", "digest")).toEqual({ kind: "answered", answer });
  expect(await kept.begin({ ...busy, name: "calm" }, "key-0", "digest")).toMatchObject({ kind: "open" });
  expect((await world.bus.streamState(STREAM))!.bytes).toBeLessThan(18 * 1024 * 1024);
});

it("keeps answers for a day, up to a limit, and then refuses keys with the time of the next attempt", async () => {
  const ask = async (verb: string, request: object): Promise<{ readonly config: Record<string, unknown> }> => {
    const reply = await world.bus.connection.request(`$JS.API.STREAM.${verb}.${STREAM}`, JSON.stringify(request));
    return reply.json();
  };
  const { config } = await ask("INFO", {});
  expect(config).toMatchObject({ max_age: DAY_MS * 1_000_000, max_bytes: 128 * 1024 * 1024, discard: "new" });
  await ask("UPDATE", { ...config, max_bytes: 1 });
  const refused = await submit(gateway, randomUUID());
  expect([refused.status, refused.json]).toMatchObject([429, { code: "LIMIT_EXCEEDED", retryAfterMs: 60_000 }]);
  expect(requestIds()).toEqual([]);
  expect((await submit(gateway, undefined)).status).toBe(200);
  await ask("UPDATE", config);
  expect((await submit(gateway, randomUUID())).status).toBe(200);
});
