import { connect } from "node:net";
import { throwFault } from "@muster/faults";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { openBrowser, startGatewayWorld, type Gateway, type GatewayWorld, type Streamed } from "./gateway-world.ts";

const QUICK = { GATEWAY_WATCH_POLL_MS: "20", GATEWAY_STREAM_CHECK_MS: "100", GATEWAY_STREAM_STALL_MS: "500" };
const BOTH = "/v1/watch?resource=sessions&resource=pools";

let world: GatewayWorld;
let gateway: Gateway;
let sessions: Map<string, number>;
let pools: Map<string, number>;

beforeAll(async () => {
  world = await startGatewayWorld();
});

afterAll(() => world[Symbol.asyncDispose]());

beforeEach(async () => {
  sessions = new Map([["s", 1]]);
  pools = new Map([["p", 1]]);
  world.answers["listSessions"] = () => ({ sessions: [...sessions].map(([name, revision]) => ({ name, revision })) });
  world.answers["listPools"] = () => ({ pools: [...pools].map(([name, executorsMax]) => ({ name, executorsMax })) });
  gateway = await world.start(QUICK);
});

afterEach(() => gateway[Symbol.asyncDispose]());

type Data = {
  readonly resource?: string;
  readonly item?: { readonly name: string };
  readonly problem?: { readonly code: string };
};

/** Returns the events of each list, in their order. */
function shown(stream: Streamed): Readonly<Record<string, readonly string[]>> {
  const events = stream.events().map(({ event, data }) => {
    const { resource = "all", item, problem } = data as Data;
    return { resource, text: [event, item?.name ?? problem?.code].filter(Boolean).join(" ") };
  });
  const byList = Map.groupBy(events, ({ resource }) => resource);
  return Object.fromEntries([...byList].map(([list, each]) => [list, each.map(({ text }) => text)]));
}

const isSynced = (stream: Streamed, ...lists: readonly string[]): boolean =>
  lists.every((list) => shown(stream)[list]?.at(-1) === "synced");

/** Returns the last id as a browser stores it: an id without data counts too. */
const lastId = (stream: Streamed): string =>
  stream
    .text()
    .split("\n")
    .findLast((line) => line.startsWith("id: "))
    ?.slice("id: ".length) ?? "";

it("writes several lists, and the changes of each with the name of the list", async () => {
  await using stream = await gateway.stream(BOTH);
  expect([stream.status, stream.type]).toEqual([200, "text/event-stream; charset=utf-8"]);
  await until("the lists arrive", () => isSynced(stream, "sessions", "pools"));
  const whole = { sessions: ["reset", "added s", "synced"], pools: ["reset", "added p", "synced"] };
  expect(shown(stream)).toEqual(whole);
  sessions.set("t", 1);
  await until("the change arrives", () => shown(stream)["sessions"]!.length > 3);
  pools.delete("p");
  await until("the other change arrives", () => shown(stream)["pools"]!.length > 3);
  expect(shown(stream)).toEqual({
    sessions: [...whole.sessions, "added t"],
    pools: [...whole.pools, "deleted p"],
  });
});

it("gives a reconnecting client exactly the events that it missed of each list", async () => {
  let id: string;
  {
    await using stream = await gateway.stream(BOTH);
    await until("the lists arrive", () => isSynced(stream, "sessions", "pools"));
    sessions.set("t", 1);
    await until("the change arrives", () => shown(stream)["sessions"]!.length > 3);
    await until("its position arrives", () => stream.text().endsWith(`id: ${lastId(stream)}\n\n`));
    id = lastId(stream);
  }
  pools.set("q", 1);
  sessions.set("u", 1);
  await using other = await gateway.stream(BOTH);
  const has = (list: string, text: string) => shown(other)[list]?.includes(text) === true;
  await until("the gateway has read the change", () => has("sessions", "added u") && has("pools", "added q"));
  await using again = await gateway.stream(BOTH, { "last-event-id": id });
  await until("the client has the changes", () => Object.keys(shown(again)).length === 2);
  expect(shown(again)).toEqual({ sessions: ["added u"], pools: ["added q"] });
});

it("sends a list whole that the client lacks, and the others from their positions", async () => {
  let id: string;
  {
    await using stream = await gateway.stream("/v1/watch?resource=pools");
    await until("the list arrives", () => isSynced(stream, "pools"));
    id = lastId(stream);
  }
  pools.set("q", 1);
  await using stream = await gateway.stream(BOTH, { "last-event-id": id });
  await until(
    "the client has both lists",
    () => isSynced(stream, "sessions") && (shown(stream)["pools"]?.length ?? 0) > 0,
  );
  expect(shown(stream)).toEqual({ sessions: ["reset", "added s", "synced"], pools: ["added q"] });
});

it("continues the watch of one list from the position of a watch of several", async () => {
  let id: string;
  {
    await using stream = await gateway.stream(BOTH);
    await until("the lists arrive", () => isSynced(stream, "sessions", "pools"));
    id = lastId(stream);
  }
  sessions.set("t", 1);
  await using stream = await gateway.stream("/v1/sessions?watch=true", { "last-event-id": id });
  await until("the client has the change", () => stream.events().length > 0);
  expect(stream.events()).toMatchObject([{ event: "added", data: { name: "t" } }]);
});

it("keeps the positions in the other lists while one is sent whole", async () => {
  await using stream = await gateway.stream(BOTH);
  await until("the lists arrive", () => isSynced(stream, "sessions", "pools"));
  const resets = stream.events().filter(({ event }) => event === "reset");
  // The second list begins with the position in the first, and without one in itself.
  expect(resets.map(({ id = "" }) => id.split(".").filter((each) => each !== "").length)).toEqual([0, 1]);
  expect(lastId(stream).split(".").length).toBe(2);
});

it("reports which list is stale, and ends only the list that cannot be read", async () => {
  world.answers["listJobs"] = () =>
    throwFault({ code: "invalid_request", field: "namespace", reason: "is not served" });
  await using stream = await gateway.stream(`${BOTH}&resource=jobs/elsewhere`);
  await until("the lists arrive", () => isSynced(stream, "sessions", "pools") && "jobs/elsewhere" in shown(stream));
  world.answers["listPools"] = () => throwFault({ code: "conflict", id: "x", expectedRevision: 1, actualRevision: 2 });
  await until("the list is stale", () => shown(stream)["pools"]!.length > 3);
  sessions.set("t", 1);
  await until("the other list continues", () => shown(stream)["sessions"]!.length > 3);
  expect(shown(stream)).toEqual({
    sessions: ["reset", "added s", "synced", "added t"],
    pools: ["reset", "added p", "synced", "stale UNAVAILABLE"],
    "jobs/elsewhere": ["closed INVALID_REQUEST"],
  });
  expect(stream.over()).toBeUndefined();
});

it("drops the position in a list that it ends, so that a reconnecting client receives this list whole", async () => {
  await using stream = await gateway.stream(BOTH);
  await until("the lists arrive", () => isSynced(stream, "sessions", "pools"));
  world.answers["listPools"] = () => throwFault({ code: "invalid_request", field: "x", reason: "is not served" });
  await until("the list is closed", () => shown(stream)["pools"]!.at(-1) === "closed INVALID_REQUEST");
  const id = lastId(stream);
  world.answers["listPools"] = () => ({ pools: [{ name: "p" }] });
  await using again = await gateway.stream(BOTH, { "last-event-id": id });
  await until("the list arrives", () => isSynced(again, "pools"));
  expect([id.split(".").length, shown(again)]).toEqual([1, { pools: ["reset", "added p", "synced"] }]);
});

it("checks the session again before the list that follows a slowly read one", async () => {
  const trouble = "x".repeat(400_000);
  // The answer has 24 MB, which exceeds the buffers of the kernel.
  world.answers["listNodes"] = ({ continue: from }) => {
    const number = Number(from) + 1;
    return { nodes: [{ name: `n-${number}`, trouble }], continue: number < 60 ? String(number) : "" };
  };
  const short = { GATEWAY_SESSION_MS: "3000", GATEWAY_STREAM_CHECK_MS: "2000", GATEWAY_STREAM_STALL_MS: "60000" };
  const slow = await world.start({ ...short, GATEWAY_WATCH_POLL_MS: "60000" });
  const path = "/v1/watch?resource=nodes&resource=pools";
  // The feeds of both lists stay for the next client.
  await using first = await slow.stream(path);
  await until("the lists arrive", () => isSynced(first, "nodes", "pools"));
  const browser = openBrowser(slow);
  expect((await browser.ask("/auth/session", { method: "POST", body: { token: slow.token } })).status).toBe(200);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const socket = connect(slow.port, "127.0.0.1");
  socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: ${cookie}\r\n\r\n`);
  socket.pause();
  await until("the session is over", async () => (await browser.ask("/v1/sessions")).status === 401);
  let tail = "";
  const found = new Set<string>();
  socket.setEncoding("utf8").on("data", (part: string) => {
    tail = (tail + part).slice(-200_000);
    for (const [name] of tail.matchAll(/^HTTP.1.1 \d+|"resource":"\w+","(item|problem)"/g)) found.add(name);
  });
  socket.resume();
  await until("the stream is over", () => tail.includes("UNAUTHENTICATED"));
  expect([...found].filter((name) => !name.includes("nodes"))).toEqual([
    "HTTP/1.1 200",
    '"resource":"pools","problem"',
  ]);
  socket.destroy();
});

it("counts each list against the rate of its user", async () => {
  const limits = { GATEWAY_REQUESTS_PER_SECOND: "1", GATEWAY_REQUESTS_BURST: "3" };
  const limited = await world.start({ ...QUICK, ...limits });
  expect((await limited.ask(BOTH)).status).toBe(200);
  const refused = await limited.ask(BOTH);
  expect([refused.status, refused.json]).toMatchObject([429, { code: "LIMIT_EXCEEDED" }]);
});

it("takes one slot of a stream", async () => {
  const limited = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "1" });
  await using stream = await limited.stream(BOTH);
  await until("the stream is served", () => isSynced(stream, "sessions", "pools"));
  expect((await limited.ask(BOTH)).status).toBe(429);
});

const many = Array.from({ length: 17 }, (_, at) => `resource=jobs/n-${at}`).join("&");

it.each([
  ["", "resource", "0 lists"],
  ["?resource=lists", "resource", '"lists" is no list that can be watched'],
  ["?resource=audit", "resource", '"audit" is no list that can be watched'],
  ["?resource=jobs/a/b", "resource", "is no list that can be watched"],
  ["?resource=jobs/..", "namespace", "letters"],
  ["?resource=sessions&resource=sessions", "resource", "more than once"],
  [`?${many}`, "resource", "17 lists"],
  ["?resource=sessions&limit=1", "limit", "unknown"],
])("refuses the query %s", async (query, field, reason) => {
  const { status, json } = await gateway.ask(`/v1/watch${query}`);
  expect([status, json]).toMatchObject([400, { code: "INVALID_REQUEST", field }]);
  expect((json as { readonly detail: string }).detail).toContain(reason);
});

it("answers HEAD without a stream, and refuses methods that change", async () => {
  const limited = await world.start({ ...QUICK, GATEWAY_USER_STREAMS_MAX: "1" });
  const { status, headers } = await limited.ask(BOTH, { method: "HEAD" });
  expect([status, headers["content-type"]]).toEqual([200, "text/event-stream; charset=utf-8"]);
  expect((await limited.ask(BOTH)).status).toBe(200);
  const refused = await limited.ask(BOTH, { method: "POST", body: {} });
  expect([refused.status, refused.headers["allow"]]).toEqual([405, "GET, HEAD"]);
});

it("requires a user", async () => {
  expect((await gateway.ask(BOTH, { token: null })).status).toBe(401);
});
