import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { makeClient } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { AuditService, streams } from "@muster/proto";
import { findFreePort, until } from "@muster/testkit";
import { jetstreamManager } from "@nats-io/jetstream";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayProcess } from "./gateway-process.ts";
import { openStream, startGatewayWorld, type Gateway, type GatewayWorld } from "./gateway-world.ts";

type Change = { readonly name: string; readonly status: number; readonly code: string; readonly sequence: number };
type Listed = { readonly items: readonly Change[]; readonly continue: string; readonly lastSequence: number };

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({
    cancelSession: ({ name }) => ({ session: { name } }),
    scaleReplicaSet: ({ name }) => ({ set: { record: { name } } }),
  });
  gateway = await world.start();
});

afterAll(() => world[Symbol.asyncDispose]());

const cancel = async (name: string, at = gateway): Promise<number> =>
  (await at.ask(`/v1/sessions/${name}/cancel`, { method: "POST" })).status;

async function list(query = ""): Promise<Listed> {
  const { status, json, text } = await gateway.ask(`/v1/audit${query}`);
  expect(status, text).toBe(200);
  return json as Listed;
}

const shown = ({ items }: Listed): string[] => items.map(({ name, status }) => `${name} ${status}`);

it("lists the newest changes from old to new, and older ones page by page", async () => {
  const { lastSequence } = await list();
  const all = Array.from({ length: 25 }, (_, index) => `page-${index}`);
  for (const name of all) expect(await cancel(name)).toBe(200);
  const pages: string[][] = [];
  for (let page = ""; pages.length < 5;) {
    const listed = await list(`?limit=10${page === "" ? "" : `&continue=${page}`}`);
    pages.unshift(listed.items.flatMap(({ name, sequence }) => (sequence > lastSequence ? [name] : [])));
    page = listed.continue;
    if (page === "") break;
  }
  expect(pages.at(-1)).toEqual(all.slice(15));
  expect(pages.flat()).toEqual(all);
});

it("filters by user, resource, name and time, and continues after a number", async () => {
  await cancel("early");
  const { lastSequence } = await list();
  const body = { replicasDesired: 2 };
  expect((await gateway.ask("/v1/replica-sets/web/scale", { method: "POST", body })).status).toBe(200);
  await cancel("one");
  await cancel("two");
  const later = `after=${lastSequence}`;
  expect(shown(await list(`?${later}`))).toEqual(["web 200", "one 200", "two 200"]);
  expect(shown(await list(`?${later}&resource=replicasets`))).toEqual(["web 200"]);
  expect(shown(await list(`?${later}&resource=sessions&name=two`))).toEqual(["two 200"]);
  expect(shown(await list(`?${later}&user=missing`))).toEqual([]);
  const [change] = (await list("?limit=1")).items;
  const user = (change as Change & { readonly user: string }).user;
  expect(shown(await list(`?${later}&user=${encodeURIComponent(user)}`))).toEqual(["web 200", "one 200", "two 200"]);
  expect(shown(await list(`?sinceMs=${Date.now() + 3_600_000}`))).toEqual([]);
  const first = await list(`?${later}&limit=1`);
  expect([shown(first), shown(await list(`?after=${first.lastSequence}`))]).toEqual([
    ["web 200"],
    ["one 200", "two 200"],
  ]);
});

it("answers with the newest changes if the stream that a follower has read is lost", async () => {
  await cancel("after-the-loss");
  const { lastSequence } = await list();
  const listed = await list(`?after=${lastSequence + 1000}&name=after-the-loss`);
  expect([shown(listed), listed.lastSequence]).toEqual([["after-the-loss 200"], lastSequence]);
});

it.each([
  ["limit=501", "limit"],
  ["continue=x", "continue"],
  ["resource=Sessions", "resource"],
  ["watch=true", "watch"],
  ["unknown=1", "unknown"],
])("refuses the query %s with its field", async (query, field) => {
  const { status, json } = await gateway.ask(`/v1/audit?${query}`);
  expect([status, json]).toMatchObject([400, { code: "INVALID_REQUEST", field }]);
});

/** Sends a cancellation, and resolves once the service has it; the service answers after `held`. */
async function cancelHeld(url: string, tokenFile: string) {
  const asked = Promise.withResolvers<undefined>();
  const held = Promise.withResolvers<undefined>();
  world.answers["cancelSession"] = async ({ name }) => {
    asked.resolve(undefined);
    await held.promise;
    return { session: { name } };
  };
  const headers = { authorization: `Bearer ${(await readFile(tokenFile, "utf8")).trim()}` };
  const leaving = new AbortController();
  const failed = request(url, { method: "POST", headers, signal: leaving.signal }).then(
    () => "answered",
    () => "broken",
  );
  await asked.promise;
  return { failed, held, leave: () => leaving.abort() };
}

it("records a change before the service is called, and keeps the record if the gateway ends before the outcome", async () => {
  const tokenFile = join(world.directory, "token-of-killed");
  await using killed = await startGatewayProcess(world.nats, { GATEWAY_TOKEN_FILE: tokenFile });
  const { failed, held } = await cancelHeld(`${killed.url}/v1/sessions/lost/cancel`, tokenFile);
  const { lastSequence } = await list();
  expect(shown(await list("?name=lost"))).toEqual(["lost 0"]);
  // A follower gets the change once, when its outcome is known.
  expect(shown(await list(`?after=${lastSequence - 1}`))).toEqual([]);
  await killed.kill();
  expect(await failed).toBe("broken");
  held.resolve(undefined);
  expect(shown(await list("?name=lost"))).toEqual(["lost 0"]);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
});

it("records the outcome of a change whose client disconnects before its gateway stops", async () => {
  const tokenFile = join(world.directory, "token-of-stopped");
  const stopped = await startGatewayProcess(world.nats, { GATEWAY_TOKEN_FILE: tokenFile });
  const { failed, held, leave } = await cancelHeld(`${stopped.url}/v1/sessions/late/cancel`, tokenFile);
  leave();
  expect(await failed).toBe("broken");
  const ended = stopped[Symbol.asyncDispose]();
  await until("the gateway has stopped listening", () =>
    request(`${stopped.url}/healthz`).then(
      ({ body }) => body.dump().then(() => false),
      () => true,
    ),
  );
  held.resolve(undefined);
  await ended;
  expect(shown(await list("?name=late"))).toEqual(["late 200"]);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
});

it("records the outcome of a change whose client disconnects before the answer", async () => {
  const tokenFile = join(world.directory, "token");
  const { failed, held, leave } = await cancelHeld(`${gateway.url}/v1/sessions/left/cancel`, tokenFile);
  leave();
  expect(await failed).toBe("broken");
  expect(shown(await list("?name=left"))).toEqual(["left 0"]);
  held.resolve(undefined);
  await until("the outcome is recorded", async () => shown(await list("?name=left"))[0] !== "left 0");
  expect(shown(await list("?name=left"))).toEqual(["left 200"]);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
});

it("completes the event of a change with its outcome, including a refusal by the service", async () => {
  world.answers["cancelSession"] = ({ name }) => throwFault({ code: "not_found", kind: "session", id: String(name) });
  expect(await cancel("missing")).toBe(404);
  world.answers["cancelSession"] = ({ name }) => ({ session: { name } });
  expect((await list("?name=missing")).items).toMatchObject([{ name: "missing", status: 404, code: "NOT_FOUND" }]);
});

it.each([
  ["the client behind a trusted proxy", "127.0.0.0/8", "192.0.2.7"],
  ["the proxy itself where none is trusted", "10.0.0.1", "127.0.0.1"],
])("records from where a change comes: %s", async (_, proxies, address) => {
  const proxied = await world.start({ GATEWAY_TRUSTED_PROXIES: proxies });
  const headers = { "x-forwarded-for": "192.0.2.7" };
  await proxied.ask("/v1/sessions/forwarded/cancel", { method: "POST", headers });
  expect((await list("?name=forwarded")).items.at(-1)).toMatchObject({ status: 200, address });
});

it("calls no service for a change that the audit does not accept", async () => {
  const jsm = await jetstreamManager(world.bus.connection);
  const { name, subjects } = streams.apiAudit;
  await jsm.streams.update(name, { subjects: ["muster.api.elsewhere"] });
  const asked = world.received.length;
  const status = await cancel("unrecorded");
  await jsm.streams.update(name, { subjects: [...subjects] });
  expect([status, world.received.length]).toEqual([503, asked]);
  expect(await cancel("recorded")).toBe(200);
});

it("publishes an outcome again until the audit accepts it, and answers its client meanwhile", async () => {
  const { failed, held } = await cancelHeld(`${gateway.url}/v1/sessions/again/cancel`, join(world.directory, "token"));
  const jsm = await jetstreamManager(world.bus.connection);
  const { name, subjects } = streams.apiAudit;
  await jsm.streams.update(name, { subjects: ["muster.api.elsewhere"] });
  held.resolve(undefined);
  expect(await failed).toBe("answered");
  await jsm.streams.update(name, { subjects: [...subjects] });
  await until("the outcome is recorded", async () => shown(await list("?name=again"))[0] === "again 200");
  world.answers["cancelSession"] = ({ name: of }) => ({ session: { name: of } });
});

it("keeps refusals separately, so that no number of them removes a change", async () => {
  await cancel("kept");
  const changes = await world.bus.streamState(streams.apiAudit.name);
  const jsm = await jetstreamManager(world.bus.connection);
  const maxBytes = 10_000;
  await jsm.streams.update(streams.apiRefusals.name, { max_bytes: maxBytes });
  const refused = async (index: number): Promise<number> =>
    (await gateway.ask(`/v1/sessions/refused-${index}/cancel`, { method: "POST", body: { wrong: 1 } })).status;
  for (let index = 0; index < 60; index += 1) expect(await refused(index)).toBe(400);
  expect(await world.bus.streamState(streams.apiAudit.name)).toEqual(changes);
  expect(shown(await list("?name=kept"))).toEqual(["kept 200"]);
  const state = await world.bus.streamState(streams.apiRefusals.name);
  expect(state?.bytes).toBeLessThanOrEqual(maxBytes);
  expect(shown(await list("?refused=true&limit=2"))).toEqual(["refused-58 400", "refused-59 400"]);
});

it("gives the same answers over NATS", async () => {
  await cancel("over-nats");
  const { changes } = await makeClient(world.bus, AuditService).listChanges({ name: "over-nats" });
  expect(changes).toMatchObject([{ name: "over-nats", method: "CancelSession", status: 200, verb: "update" }]);
});

it("measures answers by route and status, counts refusals, and exports its use of the limits", async () => {
  const port = await findFreePort();
  await using counting = await startGatewayProcess(world.nats, {
    GATEWAY_TOKEN_FILE: join(world.directory, "token-of-counting"),
    MUSTER_HTTP_ADDR: `127.0.0.1:${port}`,
    GATEWAY_FAILED_TOKENS_BURST: "2",
    GATEWAY_FAILED_TOKENS_PER_MINUTE: "1",
  });
  const statuses: number[] = [];
  for (let index = 0; index < 4; index += 1) {
    const { statusCode, body } = await request(`${counting.url}/v1/pools`, { headers: { authorization: "Bearer x" } });
    await body.dump();
    statuses.push(statusCode);
  }
  expect(statuses).toEqual([401, 401, 429, 429]);
  await until("both refusals are counted", async () => {
    const text = await (await request(`http://127.0.0.1:${port}/metrics`)).body.text();
    const count = (status: string) =>
      new RegExp(`muster_gateway_refusals_total\\{muster_gateway_status="${status}"[^}]*\\} 2`).test(text);
    return count("401") && count("429");
  });
  world.answers["listPools"] = () => ({ pools: [{ name: "a" }] });
  const token = (await readFile(join(world.directory, "token-of-counting"), "utf8")).trim();
  await using watch = await openStream(`${counting.url}/v1/pools?watch=true`, { authorization: `Bearer ${token}` });
  await until("the list arrives", () => watch.text().includes("event: synced"));
  const valueOf = async (series: string): Promise<string | undefined> => {
    const text = await (await request(`http://127.0.0.1:${port}/metrics`)).body.text();
    return new RegExp(`^${series}[^}]*\\} (\\d+)$`, "m").exec(text)?.[1];
  };
  const answers = (status: number): Promise<string | undefined> =>
    valueOf(
      `http_server_request_duration_count\\{http_request_method="GET",http_response_status_code="${status}",http_route="/v1/pools"`,
    );
  expect([await answers(401), await answers(429)]).toEqual(["2", "2"]);
  expect(await valueOf("muster_gateway_streams\\{")).toBe("1");
  expect(await valueOf("muster_gateway_watched_lists\\{")).toBe("1");
  expect(Number(await valueOf("muster_gateway_watched_size\\{"))).toBeGreaterThan(10);
  expect(await valueOf("muster_gateway_audit_waiting\\{")).toBe("0");
  await watch[Symbol.asyncDispose]();
  await until("the watch is over", async () => (await valueOf("muster_gateway_streams\\{")) === "0");
  // The time of a watch states nothing about the gateway.
  expect(await answers(200)).toBeUndefined();
});
