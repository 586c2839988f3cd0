import { buildResultBytes, type ResultState } from "@muster/leases";
import { verifySignature } from "@muster/leases/keys";
import { until } from "@muster/testkit";
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  makeUser,
  engineSigner,
  openEngineWorld,
  listHistory,
  LONG,
  NS_PER_MS,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
  type EngineProcess,
  type EngineWorld,
} from "./engine-world.ts";
import { startHttpController, toJsonOrder, type HttpController } from "./http-controller.ts";

const user = makeUser();
let world: EngineWorld;
let controller: HttpController;
let engine: EngineProcess;

const start = (): Promise<EngineProcess> =>
  world.startEngine({
    PROVISION_HTTP_URL: controller.url,
    // Longer than any wait of a test.
    PROVISION_HTTP_TIMEOUT_MS: "3600000",
    PROVISION_HTTP_POLL_MS: "50",
    PROVISION_REFUSED_RETRY_MS: "50",
    PROVISION_REFUSED_MAX: "3",
    PROVISION_CAPACITY_CRU: "1000",
  });
const requestsFor = (id: string) => controller.received.filter(({ path }) => path.includes(`/orders/${id}/`));
/** Without repetitions: sending feedback twice under one number is allowed. */
const numbersOf = (id: string) => [...new Set(requestsFor(id).map(({ body }) => body["number"]))];
const received = (id: string, what: "result" | "deleted") =>
  until(
    `${what} of ${id} is reported`,
    () => requestsFor(id).find(({ path }) => path === `/engines/main/orders/${id}/${what}`)?.body,
    LONG,
  );
/** Resolves after two polls that began later. */
async function polledTwice(): Promise<void> {
  const polls = (): number => controller.asked.filter((path) => path.includes("/orders?")).length;
  const before = polls();
  await until("it is polled", () => polls() > before + 2, LONG);
}

beforeAll(async () => {
  controller = await startHttpController();
  world = await openEngineWorld();
  engine = await start();
  await waitUntilReady(world);
}, 300_000);

afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await controller[Symbol.asyncDispose]();
});

it("serves the orders of a controller, and reports a signed result, and the end after a withdrawal", async () => {
  const sent = signOrder(user, { id: "1-1" });
  controller.list(toJsonOrder(sent));
  const result = await received("1-1", "result");
  const [id, type, message, data, state] = ["id", "type", "message", "data", "state"].map((name) =>
    String(result[name]),
  );
  const createdNs = BigInt(String(result["created_ns"]));
  const bytes = buildResultBytes({
    id: id!,
    type: type!,
    message: message!,
    data: data!,
    createdNs,
    state: state as ResultState,
  });
  expect(verifySignature(engineSigner.publicKey, bytes, Buffer.from(String(result["signature"]), "base64"))).toBe(true);
  expect(state).toBe("ok");
  controller.list(toJsonOrder(sent, { to_delete: true }));
  await waitForPhase(world, "1-1", "ENDED");
  await received("1-1", "deleted");
  expect(await listHistory(world, "1-1")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
  const { events } = await world.leases.listLeaseHistory({ id: "1-1", limit: 0, continue: "" });
  const traces = events.map(({ traceparent }) => traceparent.split("-")[1]);
  expect(traces[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(traces).size).toBe(1);
});

it("reports an error for an invalid order, and continues with the next ones", async () => {
  controller.list(toJsonOrder(signOrder(user, { id: "2-1", type: "unheard_of" })));
  controller.list(toJsonOrder({ ...signOrder(user, { id: "2-2" }), signature: new Uint8Array(64) }));
  controller.list({ id: "2-3", type: "debug", duration: 7 });
  controller.list(toJsonOrder(signOrder(user, { id: "2-4", createdNs: NS_PER_MS, durationNs: 1n })));
  controller.list(toJsonOrder(signOrder(user, { id: "2-5" }), { to_delete: true }));
  controller.list(toJsonOrder(signOrder(user, { id: "2-6" })));
  await received("2-6", "result");
  const stats = () => controller.received.findLast(({ path }) => path === "/engines/main/stats")?.body;
  const capacity = { cru: 1000, mru_bytes: null, hru_bytes: null, sru_bytes: null };
  const counted = { engine: "main", counters: { debug: 1 }, used: { cru: 0 }, capacity };
  const isCounted = () => {
    expect(stats()).toMatchObject(counted);
    return true;
  };
  await until("it is counted", isCounted, LONG);
  expect(await received("2-1", "result")).toMatchObject({ state: "error" });
  expect((await received("2-2", "result"))["message"]).toContain("signature");
  expect((await received("2-3", "result"))["message"]).toContain("duration");
  for (const id of ["2-1", "2-2", "2-3", "2-4", "2-5"]) await received(id, "deleted");
  expect(requestsFor("2-4").map(({ path }) => path)).not.toContain("/engines/main/orders/2-4/result");
  for (const id of ["2-2", "2-3", "2-4", "2-5"])
    await expect(world.leases.getLease({ id })).rejects.toMatchObject({ fault: { code: "not_found" } });
});

it.each([
  ["no number", (id: string) => toJsonOrder(signOrder(user, { id }))],
  ["a-b", (id: string) => toJsonOrder(signOrder(user, { id }))],
  ["b/ä?", (id: string) => ({ id, type: "debug", duration: 7 })],
])("reports an error for an entry with the invalid id %j", async (id, entry) => {
  const name = encodeURIComponent(id);
  controller.list(entry(id));
  const result = await received(name, "result");
  expect(result).toMatchObject({ id, state: "error" });
  await received(name, "deleted");
});

it("reports a withdrawn order with an invalid id as deleted", async () => {
  controller.list(toJsonOrder(signOrder(user, { id: "c d" }), { to_delete: true }));
  await received("c%20d", "deleted");
  expect(requestsFor("c%20d").map(({ path }) => path)).toEqual(["/engines/main/orders/c%20d/deleted"]);
});

it("survives pages that repeat, move back, are garbage or are missing", async () => {
  const sent = signOrder(user, { id: "3-1" });
  controller.list(toJsonOrder(sent));
  await received("3-1", "result");
  const page = (lastId: string, ...orders: object[]) => ({ lastId, body: JSON.stringify({ orders }) });
  const answered = toJsonOrder(sent, { result: { created: "2026-01-01T00:00:00Z", data: "{}" } });
  const weather = [page("1", answered), { lastId: "0", body: "<html>" }, page("2", answered, answered), undefined];
  let at = 0;
  controller.answerBy((request, response, { pathname }) => {
    if (!pathname.endsWith("/orders")) return false;
    const answer = weather[at++ % weather.length];
    if (answer === undefined) request.socket.destroy();
    else response.setHeader("x-last-id", answer.lastId).end(answer.body);
    return true;
  });
  await until("all of it came twice", () => at > 16, LONG);
  const last = controller.asked.findLast((path) => path.includes("/orders?"));
  controller.answerBy(() => false);
  const from = (path = ""): number => Number(/from=(\d+)/.exec(path)?.[1]);
  expect(from(last)).toBe(14);
  controller.list(toJsonOrder(signOrder(user, { id: "3-2" })));
  await received("3-2", "result");
  expect(numbersOf("3-1")).toEqual([1]);
  expect(await listHistory(world, "3-1")).toEqual(["ORDERED", "PROVISIONED"]);
});

it("reports everything once an unavailable controller is back, and serves other sources in the meantime", async () => {
  controller.list(toJsonOrder(signOrder(user, { id: "4-1" })));
  controller.list(toJsonOrder(signOrder(user, { id: "4-2" })));
  controller.answerBy(({ method }, response) => {
    if (method === "GET") return false;
    response.writeHead(503).end();
    return true;
  });
  for (const id of ["4-1", "4-2"]) await waitForPhase(world, id, "ACTIVE");
  await sendOrder(world, signOrder(user, { id: "4-3" }));
  await waitForPhase(world, "4-3", "ACTIVE");
  await world.leases.endLease({ requestId: "e", end: signEnd(user, "4-2") });
  await waitForPhase(world, "4-2", "ENDED");
  expect([...requestsFor("4-1"), ...requestsFor("4-2"), ...requestsFor("4-3")]).toEqual([]);
  controller.answerBy(() => false);
  await received("4-1", "result");
  await received("4-2", "deleted");
});

it("abandons feedback that a controller refuses, and records that in the history of the lease", async () => {
  controller.answerBy(({ method }, response, { pathname }) => {
    if (method === "GET" || !pathname.includes("/5-1/")) return false;
    response.writeHead(422).end("no such thing");
    return true;
  });
  controller.list(
    toJsonOrder(signOrder(user, { id: "5-1" }), { result: { created: "2026-01-01T00:00:00Z", data: "{}" } }),
  );
  controller.list(toJsonOrder(signOrder(user, { id: "5-2" })));
  await received("5-2", "result");
  await until(
    "it is given up",
    async () => (await listHistory(world, "5-1")).filter((type) => type === "ANSWER_REFUSED").length === 2,
    LONG,
  );
  controller.answerBy(() => false);
  const { events } = await world.leases.listLeaseHistory({ id: "5-1", limit: 0, continue: "" });
  expect(events.at(-1)?.message).toContain("422");
  expect(await readPhase(world, "5-1")).toBe("ACTIVE");
});

it("publishes the history of a lease while its controller reads the feedback without answering", async () => {
  const silent: ServerResponse[] = [];
  controller.answerBy(({ method }, response, { pathname }) => {
    if (method === "GET" || !pathname.includes("/8-1/")) return false;
    silent.push(response);
    return true;
  });
  controller.list(toJsonOrder(signOrder(user, { id: "8-1" })));
  await until("feedback is in flight", () => silent.length > 0, LONG);
  await world.leases.endLease({ requestId: "e", end: signEnd(user, "8-1") });
  const isPublished = async (): Promise<boolean> => (await listHistory(world, "8-1")).includes("DECOMMISSIONED");
  await until("its end is published", isPublished, LONG);
  controller.answerBy(() => false);
  for (const response of silent) response.writeHead(204).end();
  await received("8-1", "deleted");
});

it("reports what a dead engine had written but not reported", async () => {
  const before = controller.asked.length;
  // The source receives the feedback and does not answer, so the engine cannot know whether it was received.
  controller.answerBy(({ method }) => method === "PUT");
  controller.list(toJsonOrder(signOrder(user, { id: "7-1" })));
  await waitForPhase(world, "7-1", "ACTIVE");
  await until(
    "feedback is in flight",
    () => controller.asked.slice(before).some((path) => path.includes("/7-1/")),
    LONG,
  );
  await engine.kill();
  controller.answerBy(() => false);
  engine = await start();
  expect(await received("7-1", "result")).toMatchObject({ state: "ok", number: 1 });
  expect(await listHistory(world, "7-1")).toEqual(["ORDERED", "PROVISIONED"]);
});

it("polls everything again at a start, and neither creates nor reports known leases again", async () => {
  const known = signOrder(user, { id: "6-1" });
  controller.list(toJsonOrder(known, { result: { created: "2026-01-01T00:00:00Z", data: "{}" } }));
  await received("6-1", "result");
  await until("its lease is reported", async () => {
    const { lease } = await world.leases.getLease({ id: "6-1" });
    return lease?.record?.feedback?.result === false;
  });
  await engine.stop();
  const polls = controller.asked.length;
  engine = await start();
  await until(
    "it begins at the beginning",
    () => controller.asked.slice(polls).some((path) => path.includes("?from=0&")),
    LONG,
  );
  await until(
    "all was taken",
    () => world.logLines.filter((line) => line.includes("all earlier orders")).length > 1,
    LONG,
  );
  await polledTwice();
  expect(numbersOf("6-1")).toEqual([1]);
  expect(await listHistory(world, "6-1")).toEqual(["ORDERED", "PROVISIONED"]);
  expect(world.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
