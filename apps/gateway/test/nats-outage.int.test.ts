import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openBrowser, startGatewayWorld, type Gateway, type GatewayWorld, type Streamed } from "./gateway-world.ts";

/** Reads that are answered within this time did not wait for the timeout of their call, which is ten times as long. */
const SOON_MS = 5000;

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({ listPools: () => ({ pools: [{ name: "a" }] }) });
  gateway = await world.start({ GATEWAY_CALL_TIMEOUT_MS: "50000", GATEWAY_WATCH_POLL_MS: "10000" });
});

afterAll(() => world[Symbol.asyncDispose]());

const kinds = (stream: Streamed): string[] => stream.events().map(({ event }) => event);
const isStale = (stream: Streamed) => (): boolean => kinds(stream).at(-1) === "stale";

it("stays ready while NATS is away, reports lists as stale, refuses requests without a wait, and recovers", async () => {
  await using watch = await gateway.stream("/v1/pools?watch=true");
  await until("the list arrives", () => kinds(watch).includes("synced"));
  await world.nats.kill();
  const lostMs = performance.now();
  await until("the list is stale", isStale(watch));
  expect(performance.now() - lostMs).toBeLessThan(SOON_MS);
  expect(watch.events().at(-1)?.data).toMatchObject({ status: 503, code: "UNAVAILABLE" });

  for (const ask of [
    () => gateway.ask("/v1/pools"),
    () => gateway.ask("/v1/audit"),
    () => gateway.ask("/v1/sessions/a/cancel", { method: "POST" }),
  ]) {
    const { headers, json } = await ask();
    expect(json).toMatchObject({ status: 503, code: "UNAVAILABLE" });
    expect(Number(headers["retry-after"])).toBeGreaterThan(0);
  }
  expect(performance.now() - lostMs).toBeLessThan(SOON_MS);
  expect((await gateway.ask("/v1/pools?watch=true&unknown=1")).status).toBe(400);
  await using unknown = await gateway.stream("/v1/nodes?watch=true");
  await until("a list that was never read is stale", isStale(unknown));

  expect(await gateway.ask("/readyz", { token: null })).toMatchObject({
    status: 200,
    json: { status: "ok", warning: "NATS is away" },
  });
  expect([gateway.missing(), gateway.warnings()]).toEqual([[], ["NATS is away"]]);
  expect((await gateway.ask("/auth/methods", { token: null })).status).toBe(200);

  await world.nats.start();
  await until("the gateway answers again", async () => (await gateway.ask("/v1/pools")).status === 200);
  await until("the list is current", () => kinds(watch).at(-1) === "synced");
  expect((await gateway.ask("/readyz")).json).toEqual({ status: "ok" });
  expect(gateway.warnings()).toEqual([]);
});

it("listens before NATS answers: it serves pages and sign-in, is not ready, answers requests with 503, and then serves them", async () => {
  await world.nats.kill();
  const late = await world.start({ GATEWAY_WATCH_POLL_MS: "100" }, "listening");
  expect((await late.ask("/healthz", { token: null })).status).toBe(200);
  expect(await late.ask("/readyz", { token: null })).toMatchObject({
    status: 503,
    json: { status: "the gateway waits for NATS", warning: "NATS is away" },
  });
  expect((await late.ask("/queues/a", { token: null })).headers["content-type"]).toBe("text/html; charset=utf-8");
  const browser = openBrowser(late);
  const signedIn = await browser.ask("/auth/session", { method: "POST", body: { token: late.token } });
  expect(signedIn.status).toBe(200);
  expect((await late.ask("/v1/pools", { token: "unknown" })).status).toBe(401);

  const headers = { "idempotency-key": "early" };
  for (const ask of [
    () => browser.ask("/v1/pools"),
    () => late.ask("/v1/pools/a"),
    () => late.ask("/v1/audit"),
    () => late.ask("/v1/sessions/a/logs/driver"),
    () => late.ask("/v1/sessions/a/cancel", { method: "POST" }),
    () => late.ask("/v1/sessions", { method: "POST", body: { name: "a" }, headers }),
  ]) {
    const { headers: answered, json } = await ask();
    expect(json).toMatchObject({
      status: 503,
      code: "UNAVAILABLE",
      detail: expect.stringContaining("NATS") as unknown,
    });
    expect(Number(answered["retry-after"])).toBeGreaterThan(0);
  }
  await using watch = await late.stream("/v1/pools?watch=true");
  await until("the list is stale", isStale(watch));
  expect(watch.events().at(-1)?.data).toMatchObject({ status: 503, code: "UNAVAILABLE" });

  await world.nats.start();
  await until("the gateway is ready", async () => (await late.ask("/readyz")).status === 200);
  expect((await late.ask("/readyz")).json).toEqual({ status: "ok" });
  expect((await browser.ask("/v1/pools")).json).toMatchObject({ items: [{ name: "a" }] });
  await until("the list is current", () => kinds(watch).at(-1) === "synced");
  expect([late.missing(), late.warnings()]).toEqual([[], []]);
});

it("stops while it waits for NATS", async () => {
  await world.nats.kill();
  const late = await world.start({}, "listening");
  await late[Symbol.asyncDispose]();
  await world.nats.start();
});
