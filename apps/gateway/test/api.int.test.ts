import { throwFault, type Fault } from "@muster/faults";
import { muster } from "@muster/proto";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { startGatewayWorld, type Asking, type Gateway, type GatewayWorld } from "./gateway-world.ts";

const { SESSION_EVENT_KIND_RUN } = muster.session.v1.SessionEventKind;
const { LEASE_PHASE_ACTIVE } = muster.provision.v1.LeasePhase;

const SESSION = {
  name: "echo",
  uid: "u-1",
  revision: 3,
  createdAtMs: 1_767_225_600_000,
  events: [{ kind: SESSION_EVENT_KIND_RUN, atMs: 1_767_225_601_000, description: "started" }],
};
const MANIFEST = { apiVersion: "muster.dev/v1", kind: "Job", metadata: { name: "train" } };

const LOCAL_USER: unknown = expect.stringMatching(/^local:/);

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld();
  gateway = await world.start();
});

afterAll(() => world[Symbol.asyncDispose]());

beforeEach(() => {
  world.received.length = 0;
});

const fails = (fault: Fault) => () => throwFault(fault);

it("returns one session, with names of enums and fields that are zero", async () => {
  world.answers["getSession"] = () => ({ session: SESSION });
  const { status, headers, json } = await gateway.ask("/v1/sessions/echo");
  expect(status).toBe(200);
  expect(headers["content-type"]).toBe("application/json; charset=utf-8");
  expect(json).toMatchObject({ name: "echo", revision: 3, cancelRequested: false, warnings: [] });
  expect(json).toHaveProperty("events", [{ kind: "RUN", atMs: 1_767_225_601_000, description: "started", reason: "" }]);
  expect(world.received).toMatchObject([{ method: "getSession", request: { name: "echo" } }]);
});

it("returns markup in any text as JSON, which no browser renders", async () => {
  const markup = `<script>alert(1)</script><img src=x onerror="alert(2)">`;
  world.answers["getSession"] = () => ({
    session: { ...SESSION, name: markup, events: [{ kind: SESSION_EVENT_KIND_RUN, description: markup }] },
  });
  world.answers["cancelSession"] = () => throwFault({ code: "invalid_request", field: markup, reason: markup });
  const session = await gateway.ask("/v1/sessions/echo");
  expect(session.json).toMatchObject({ name: markup, events: [{ description: markup }] });
  const refused = await gateway.ask("/v1/sessions/echo/cancel", { method: "POST" });
  expect(refused.json).toMatchObject({ status: 400, field: markup });
  const missing = await gateway.ask(`/v1/${encodeURIComponent(markup)}`);
  expect(missing.status).toBe(404);
  for (const { headers } of [session, refused, missing]) {
    expect(headers["content-type"]).toMatch(/^application\/(problem\+)?json/);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    });
  }
});

it("answers a known version without a body", async () => {
  world.answers["getSession"] = () => ({ session: SESSION });
  const { headers } = await gateway.ask("/v1/sessions/echo");
  const known = { "if-none-match": `"other", W/${String(headers["etag"])}` };
  const same = await gateway.ask("/v1/sessions/echo", { headers: known });
  expect([same.status, same.text, same.headers["etag"]]).toEqual([304, "", headers["etag"]]);
  world.answers["getSession"] = () => ({ session: { ...SESSION, revision: 4 } });
  const changed = await gateway.ask("/v1/sessions/echo", { headers: known });
  expect([changed.status, changed.headers["etag"] === headers["etag"]]).toEqual([200, false]);
});

it("answers a known version of a list without a body", async () => {
  world.answers["listPools"] = () => ({ pools: [{ name: "a" }] });
  const { headers } = await gateway.ask("/v1/pools");
  const known = { "if-none-match": String(headers["etag"]) };
  const same = await gateway.ask("/v1/pools", { headers: known });
  expect([same.status, same.text, same.headers["etag"]]).toEqual([304, "", headers["etag"]]);
  world.answers["listPools"] = () => ({ pools: [{ name: "a", held: 1 }] });
  const changed = await gateway.ask("/v1/pools", { headers: known });
  expect([changed.status, changed.json]).toMatchObject([200, { items: [{ name: "a", held: 1 }] }]);
});

it("passes limit and continue to a service with pages", async () => {
  world.answers["listLeases"] = () => ({ leases: [{ record: { order: { id: "1-1" } } }], continue: "1-1" });
  const { json } = await gateway.ask("/v1/leases?limit=1&continue=0-9&user=ada&phase=ACTIVE");
  expect(json).toMatchObject({ items: [{ record: { order: { id: "1-1" } } }], continue: "1-1", unreadable: [] });
  expect(world.received).toMatchObject([
    { request: { limit: 1, continue: "0-9", user: "ada", phase: LEASE_PHASE_ACTIVE } },
  ]);
});

it("cuts a list that its service returns in one reply", async () => {
  world.answers["listPools"] = () => ({ pools: [{ name: "c" }, { name: "a" }, { name: "b" }] });
  const names = async (query: string) => {
    const { json } = await gateway.ask(`/v1/pools${query}`);
    const { items, continue: next } = json as { items: { name: string }[]; continue: string };
    return { names: items.map(({ name }) => name), next };
  };
  expect(await names("?limit=2")).toEqual({ names: ["a", "b"], next: "b" });
  expect(await names("?limit=2&continue=b")).toEqual({ names: ["c"], next: "" });
  expect(await names("")).toEqual({ names: ["a", "b", "c"], next: "" });
});

it("finds one item in a list with pages", async () => {
  world.answers["listQueues"] = ({ continue: from }) =>
    from === ""
      ? { queues: [{ queue: { name: "a" } }], continue: "a" }
      : { queues: [{ queue: { name: "b" }, pending: 2 }] };
  expect((await gateway.ask("/v1/queues/b")).json).toMatchObject({ queue: { name: "b" }, pending: 2 });
  expect((await gateway.ask("/v1/queues/c")).json).toMatchObject({ status: 404, code: "NOT_FOUND" });
});

it("requests only the one item of a list from the service", async () => {
  world.answers["listNodes"] = ({ name }) => ({
    nodes: ["a", "b"].map((each) => ({ name: each })).filter((each) => each.name === name),
  });
  world.answers["listMachines"] = ({ node }) => ({ machines: [{ node, pool: "a" }] });
  expect((await gateway.ask("/v1/nodes/b")).json).toMatchObject({ name: "b" });
  expect((await gateway.ask("/v1/machines/m")).json).toMatchObject({ node: "m", pool: "a" });
  expect((await gateway.ask("/v1/nodes?name=a")).json).toMatchObject({ items: [{ name: "a" }], continue: "" });
});

it("shows what queues use, and leaves out the quota of resources without a limit", async () => {
  const gpu = { pool: "h100", resource: "nvidia.com/gpu", nominal: 8, quota: 8, used: 10, borrowed: 2 };
  const pods = { pool: "h100", resource: "pods", used: 10, borrowed: 0 };
  const usage = { queue: "team-a", parent: "company", resources: [gpu, pods], pending: 1, admitted: 2 };
  world.answers["listUsage"] = () => ({ usage: [{ ...usage, shareMillionths: 200_000 }], continue: "team-a" });
  const expected = { ...usage, shareMillionths: 200_000 };
  const page = await gateway.ask("/v1/usage?limit=1");
  expect([page.status, page.json]).toEqual([200, { items: [expected], continue: "team-a" }]);
  const one = await gateway.ask("/v1/usage/team-a");
  expect([one.status, one.json]).toEqual([200, expected]);
  expect(world.received).toMatchObject([
    { method: "listUsage", request: { limit: 1, queue: "" } },
    { method: "listUsage", request: { queue: "team-a" } },
  ]);
});

it("has the events of a session", async () => {
  world.answers["getSession"] = ({ name }) => ({
    session: {
      name,
      events: [
        { kind: 1, atMs: 5 },
        { kind: 2, atMs: 7 },
      ],
    },
  });
  const { status, json } = await gateway.ask("/v1/sessions/echo/events");
  expect([status, json]).toEqual([
    200,
    {
      events: [
        { kind: "QUEUE", atMs: 5, description: "", reason: "" },
        { kind: "ACCEPT", atMs: 7, description: "", reason: "" },
      ],
    },
  ]);
});

it("builds the key of a job from the namespace, the name and the kind", async () => {
  world.answers["explainJob"] = () => ({ explanation: { phase: "QUEUED" } });
  const { json } = await gateway.ask("/v1/jobs/default/train/explain?kind=TFJob");
  expect(json).toMatchObject({ phase: "QUEUED" });
  expect(world.received).toMatchObject([{ request: { key: { namespace: "default", name: "train", kind: "TFJob" } } }]);
});

it("names the namespace of jobs of a job-controller of the last release, whose keys have none", async () => {
  const job = { key: { kind: "Job", name: "train" } };
  world.answers["listJobs"] = () => ({ jobs: [job], namespace: "team-a" });
  world.answers["getJob"] = () => ({ job });
  const named = { key: { kind: "Job", name: "train", namespace: "team-a" } };
  for (const path of ["/v1/jobs", "/v1/jobs/team-a"])
    expect((await gateway.ask(path)).json).toMatchObject({ items: [named] });
  expect((await gateway.ask("/v1/jobs/team-a/train")).json).toMatchObject(named);
});

it("finds one reservation by its owner", async () => {
  world.answers["getReservation"] = () => ({ reservation: { id: "r-1" } });
  expect((await gateway.ask("/v1/reservations/session/echo")).json).toMatchObject({ id: "r-1" });
  expect(world.received).toMatchObject([{ request: { owner: { kind: "session", id: "echo" } } }]);
});

it("refuses sessions of other namespaces, for which it has checked no right", async () => {
  const elsewhere = { namespace: "team-a", name: "bench" };
  for (const path of ["/v1/sessions", "/v1/plan/sessions", "/v1/sessions/bench/cancel"]) {
    const { status, json } = await gateway.ask(path, { method: "POST", body: { elsewhere } });
    expect([path, status]).toEqual([path, 400]);
    expect(JSON.stringify(json)).toContain("elsewhere");
  }
  for (const path of ["/v1/sessions", "/v1/sessions/bench", "/v1/sessions/bench/explain"])
    expect([path, (await gateway.ask(`${path}?elsewhere=team-a`)).status]).toEqual([path, 400]);
  expect(world.received).toEqual([]);
});

it("submits a manifest in the namespace of the path", async () => {
  world.answers["submitJob"] = () => ({ job: { state: "QUEUED" }, warnings: ["slow"] });
  const { status, json } = await gateway.ask("/v1/jobs/default", { method: "POST", body: MANIFEST });
  expect([status, json]).toMatchObject([200, { job: { state: "QUEUED" }, warnings: ["slow"] }]);
  const { manifestJson, requestId } = world.received[0]!.request;
  expect(JSON.parse(manifestJson as string)).toEqual({
    ...MANIFEST,
    metadata: { name: "train", namespace: "default" },
  });
  expect(requestId).toMatch(/^[0-9a-f-]{36}$/);
});

it("refuses a manifest for another namespace than the path's", async () => {
  const body = { ...MANIFEST, metadata: { name: "train", namespace: "other" } };
  for (const path of ["/v1/jobs/default", "/v1/plan/jobs/default"]) {
    const { json } = await gateway.ask(path, { method: "POST", body });
    expect(json).toMatchObject({ status: 400, code: "INVALID_REQUEST", field: "metadata.namespace" });
  }
  expect(world.received).toEqual([]);
});

it("plans without an effect", async () => {
  world.answers["applyReplicaSet"] = () => ({ set: { name: "web" }, outcome: "CREATED" });
  const { json } = await gateway.ask("/v1/plan/replica-sets", { method: "POST", body: { name: "web", spec: {} } });
  expect(json).toMatchObject({ outcome: "CREATED" });
  expect(world.received).toMatchObject([{ request: { name: "web", dryRun: true, by: LOCAL_USER } }]);
});

it("plans a session without submitting it", async () => {
  const session = { name: "echo", waitingCode: "POOL_AVAILABILITY", waitingBecause: "8 are needed" };
  world.answers["checkSession"] = () => ({ session });
  const body = { name: "echo", spec: { components: [{ name: "driver", pool: "gpu" }] } };
  expect((await gateway.ask("/v1/plan/sessions", { method: "POST", body })).json).toMatchObject({ session });
  expect(world.received).toMatchObject([{ method: "checkSession", request: body }]);
});

it("deletes with the options of the query, and names the user", async () => {
  world.answers["deleteReplicaSet"] = () => ({ set: { name: "web" } });
  world.answers["terminateNode"] = () => ({ node: { name: "n-1" } });
  await gateway.ask("/v1/replica-sets/web?keepPods=true", { method: "DELETE" });
  await gateway.ask("/v1/nodes/n-1", { method: "DELETE" });
  expect(world.received).toMatchObject([
    { request: { name: "web", keepPods: true, force: false } },
    { request: { name: "n-1", requestedBy: LOCAL_USER } },
  ]);
});

it.each([
  ["a field that does not exist", "/v1/sessions", { name: "x", spec: { component: [] } }, "spec.component"],
  [
    "a value of another type",
    "/v1/sessions",
    { name: "x", spec: { components: [{ readyPort: "80" }] } },
    "spec.components[0].readyPort",
  ],
  ["a field that the gateway sets", "/v1/sessions", { name: "x", requestId: "1" }, "requestId"],
  ["a field that the path sets", "/v1/replica-sets/web/scale", { name: "other" }, "name"],
  ["a field that the method sets", "/v1/replica-sets", { name: "x", dryRun: true }, "dryRun"],
  ["a body that is a list", "/v1/sessions", [], "body"],
  ["a body that is not JSON", "/v1/sessions", "{", "body"],
  ["a key that changes all objects", "/v1/sessions", '{"__proto__":{"name":"x"}}', "body"],
])("refuses %s, and names the field", async (_what, path, body, field) => {
  const { status, headers, json } = await gateway.ask(path, { method: "POST", body });
  expect([status, headers["content-type"]]).toEqual([400, "application/problem+json"]);
  expect(json).toMatchObject({ status: 400, code: "INVALID_REQUEST", field });
  expect(world.received).toEqual([]);
});

it.each([
  ["/v1/sessions?limit=0", "limit"],
  ["/v1/sessions?limit=501", "limit"],
  ["/v1/sessions?limit=ten", "limit"],
  ["/v1/sessions?limit=1&limit=2", "limit"],
  ["/v1/sessions?lmit=1", "lmit"],
  ["/v1/sessions/echo?uid=1", "uid"],
  ["/v1/leases?phase=DONE", "phase"],
  ["/v1/replica-sets/web?force=1", "force"],
])("refuses the query of %s", async (path, field) => {
  const method = path.includes("force") ? "DELETE" : "GET";
  expect((await gateway.ask(path, { method })).json).toMatchObject({ status: 400, field });
  expect(world.received).toEqual([]);
});

it("converts a fault of a service into a problem, with the time of the next attempt", async () => {
  const fault = { code: "limit_exceeded", what: "the queue", limit: 5, retryAfterMs: 1500 } as const;
  world.answers["submitSession"] = fails(fault);
  const { status, headers, json } = await gateway.ask("/v1/sessions", { method: "POST", body: { name: "x" } });
  expect([status, headers["retry-after"]]).toEqual([429, "2"]);
  expect(json).toEqual({
    type: "urn:muster:problem:limit-exceeded",
    title: "Limit exceeded",
    status: 429,
    detail: "the queue is over its limit of 5; try again in 1.5 s",
    code: "LIMIT_EXCEEDED",
    retryAfterMs: 1500,
    fault,
  });
});

it.each(["missing", null, "Basic"])("refuses a request with the token %s", async (token) => {
  const { status, headers, json } = await gateway.ask("/v1/sessions", { token });
  expect([status, headers["www-authenticate"]]).toEqual([401, 'Bearer realm="muster"']);
  expect(json).toMatchObject({ code: "UNAUTHENTICATED" });
  expect(world.received).toEqual([]);
});

it("lists the methods of a path that serves others", async () => {
  const { status, headers } = await gateway.ask("/v1/pools/a", { method: "DELETE" });
  expect([status, headers["allow"]]).toEqual([405, "GET, HEAD"]);
});

it("answers HEAD as GET without a body", async () => {
  world.answers["getSession"] = () => ({ session: SESSION });
  const { status, headers, text } = await gateway.ask("/v1/sessions/echo", { method: "HEAD" });
  expect([status, text, typeof headers["etag"]]).toEqual([200, "", "string"]);
});

it("answers a path that does not exist with a problem", async () => {
  expect((await gateway.ask("/v1/pods")).json).toMatchObject({ status: 404, detail: "path /v1/pods does not exist" });
});

it("reports health and readiness to everyone, and nothing else without a token", async () => {
  expect(await gateway.ask("/healthz", { token: null })).toMatchObject({ status: 200, json: { status: "ok" } });
  expect(await gateway.ask("/readyz", { token: null })).toMatchObject({ status: 200, json: { status: "ok" } });
});

it("sets security headers on every answer", async () => {
  const asked: readonly (readonly [path: string, asking?: Asking])[] = [
    ["/healthz"],
    ["/readyz"],
    ["/openapi.json"],
    ["/auth/methods"],
    ["/v1/pools"],
    ["/v1/nowhere"],
    ["/v1/sessions/%zz"],
    [`/v1/${"a".repeat(10_000)}`],
    ["/v1/pools", { token: null }],
    ["/v1/pools", { method: "DELETE" }],
    ["/v1/sessions", { method: "POST", body: "{" }],
    ["/v1/sessions", { method: "POST", body: "x".repeat(2_000_000) }],
  ];
  for (const [path, asking] of asked) {
    const { headers } = await gateway.ask(path, asking);
    expect(headers, path.slice(0, 40)).toMatchObject({
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
      "cache-control": "private, no-cache",
    });
  }
});

it("creates a token file that only its owner can read, keeps it, and never logs the token", async () => {
  const { stat } = await import("node:fs/promises");
  expect((await stat(`${world.directory}/token`)).mode & 0o777).toBe(0o600);
  const other = await world.start();
  expect(other.token).toBe(gateway.token);
  await other.ask("/v1/sessions", { token: "a-wrong-token" });
  const lines = [...gateway.logged, ...other.logged].join("\n");
  expect(lines).toContain("serving the API");
  expect(lines).not.toContain(gateway.token);
  expect(lines).not.toContain("a-wrong-token");
});

it.each(["/v1/sessions/echo/log", "/v1/jobs/default/train/log?component="])(
  "refuses %s, which names no component",
  async (path) => {
    const { json } = await gateway.ask(path);
    expect(json).toMatchObject({ status: 400, code: "INVALID_REQUEST", field: "component" });
    expect(world.received).toEqual([]);
  },
);
