import { RESOURCES, buildRoutes } from "@muster/gateway-api";
import { makeKubeCalls, loadKube, type KubeCalls, type KubeObject } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import {
  startGatewayWorld,
  writeCertificate,
  type Gateway,
  type GatewayWorld,
  type Protocol,
  type Streamed,
} from "./gateway-world.ts";

/** The right that each method of each path needs. `default` is the namespace of the installation and of the paths below. */
const NEEDS: Readonly<Record<string, string>> = {
  "GET /v1/sessions": "list sessions in default",
  "GET /v1/sessions/:name": "get sessions in default",
  "GET /v1/sessions/:name/events": "get sessions in default",
  "GET /v1/sessions/:name/explain": "get sessions in default",
  "GET /v1/sessions/:name/logs/:component": "get sessions/log in default",
  "POST /v1/sessions": "create sessions in default",
  "POST /v1/plan/sessions": "create sessions in default",
  "POST /v1/sessions/:name/cancel": "update sessions in default",
  "DELETE /v1/sessions/:name": "delete sessions in default",
  "GET /v1/jobs": "list jobs in all",
  "GET /v1/jobs/:namespace": "list jobs in default",
  "GET /v1/jobs/:namespace/:name": "get jobs in default",
  "GET /v1/jobs/:namespace/:name/explain": "get jobs in default",
  "GET /v1/jobs/:namespace/:name/events": "get jobs in default",
  "GET /v1/jobs/:namespace/:name/logs/:component": "get jobs/log in default",
  "POST /v1/jobs/:namespace": "create jobs in default",
  "POST /v1/plan/jobs/:namespace": "create jobs in default",
  "POST /v1/jobs/:namespace/:name/cancel": "update jobs in default",
  "POST /v1/jobs/:namespace/:name/suspend": "update jobs in default",
  "POST /v1/jobs/:namespace/:name/resume": "update jobs in default",
  "GET /v1/replica-sets": "list replicasets in default",
  "GET /v1/replica-sets/:name": "get replicasets in default",
  "GET /v1/replica-sets/:name/explain": "get replicasets in default",
  "GET /v1/replica-sets/:name/events": "get replicasets in default",
  "POST /v1/replica-sets": "create+update replicasets in default",
  "POST /v1/plan/replica-sets": "create replicasets in default",
  "PUT /v1/replica-sets/:name": "create+update replicasets in default",
  "POST /v1/replica-sets/:name/scale": "update replicasets in default",
  "POST /v1/replica-sets/:name/enable": "update replicasets in default",
  "POST /v1/replica-sets/:name/transfer": "update replicasets in default",
  "POST /v1/replica-sets/:name/hold": "update replicasets in default",
  "DELETE /v1/replica-sets/:name": "delete replicasets in default",
  "GET /v1/leases": "list leases in default",
  "GET /v1/leases/:id": "get leases in default",
  "GET /v1/leases/:id/explain": "get leases in default",
  "GET /v1/leases/:id/events": "get leases in default",
  "POST /v1/leases": "create leases in default",
  "POST /v1/plan/leases": "create leases in default",
  "POST /v1/leases/renew": "update leases in default",
  "POST /v1/leases/end": "delete leases in default",
  "GET /v1/pools": "list pools in cluster",
  "GET /v1/pools/:name": "get pools in cluster",
  "GET /v1/nodes": "list nodes in cluster",
  "GET /v1/nodes/:name": "get nodes in cluster",
  "DELETE /v1/nodes/:name": "delete nodes in cluster",
  "GET /v1/reservations": "list reservations in default",
  "GET /v1/reservations/:kind/:id": "get reservations in default",
  "GET /v1/reservations/:kind/:id/explain": "get reservations in default",
  "GET /v1/queues": "list queues in cluster",
  "GET /v1/queues/:name": "get queues in cluster",
  "GET /v1/usage": "list queues in cluster",
  "GET /v1/usage/:queue": "get queues in cluster",
  "GET /v1/sessions/:name/next": "get sessions in default",
  "GET /v1/sessions/:name/log": "get sessions/log in default",
  "GET /v1/jobs/:namespace/:name/next": "get jobs in default",
  "GET /v1/jobs/:namespace/:name/log": "get jobs/log in default",
  "GET /v1/rolls": "list rolls in default",
  "GET /v1/rolls/:id": "get rolls in default",
  "POST /v1/rolls": "create rolls in default and update+delete replicasets in default",
  "POST /v1/rolls/:id/change": "update rolls in default",
  "GET /v1/engines/:engine": "get leases in default",
  "GET /v1/machines": "list nodes in cluster",
  "GET /v1/machines/:node": "get nodes in cluster",
  "GET /v1/demand/:kind/:id": "get reservations in default",
  "GET /v1/audit": "list audits in cluster",
  "GET /v1/versions": "list versions in cluster",
};

/** Following a list needs another right than reading it. */
const WATCHES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(NEEDS)
    .filter(([key, need]) => need.startsWith("list ") && !["GET /v1/audit", "GET /v1/versions"].includes(key))
    .map(([key, need]) => [`${key}?watch=true`, need.replace("list ", "watch ")]),
);
/** HEAD needs the right of GET. */
const HEADS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({ ...NEEDS, ...WATCHES })
    .filter(([key]) => key.startsWith("GET "))
    .map(([key, need]) => [key.replace("GET ", "HEAD "), need]),
);
const ALL = { ...NEEDS, ...WATCHES, ...HEADS };

type Grant = {
  readonly verbs: readonly string[];
  readonly resources: readonly string[];
  readonly in: string;
  /** Absent for all objects. */
  readonly names?: readonly string[];
};

const EVERYTHING = ["get", "list", "watch", "create", "update", "delete"];
const WORK = ["sessions", "sessions/log", "jobs", "jobs/log", "replicasets", "rolls", "leases", "reservations"];
const SHARED = ["pools", "nodes", "queues", "audits", "versions"];
const ROLES: Readonly<Record<string, readonly Grant[]>> = {
  none: [],
  viewer: [
    { verbs: ["get", "list"], resources: WORK, in: "default" },
    { verbs: ["get", "list"], resources: SHARED, in: "cluster" },
  ],
  follower: [
    { verbs: ["watch"], resources: ["sessions", "jobs"], in: "default" },
    { verbs: ["get"], resources: ["jobs/log"], in: "default" },
  ],
  watcher: [{ verbs: ["watch"], resources: ["jobs"], in: "default" }],
  submitter: [{ verbs: ["create"], resources: ["sessions", "jobs"], in: "default" }],
  maker: [{ verbs: ["create"], resources: WORK, in: "default" }],
  operator: [{ verbs: ["get", "list", "update", "delete"], resources: WORK, in: "default" }],
  janitor: [{ verbs: ["delete"], resources: ["nodes"], in: "cluster" }],
  foreigner: [{ verbs: EVERYTHING, resources: WORK, in: "other" }],
  admin: [{ verbs: EVERYTHING, resources: [...WORK, ...SHARED], in: "cluster" }],
};

/** Whether a role grants a right; a role of the whole cluster grants it everywhere. */
function isGranted(role: string, need: string): boolean {
  const rights = need.split(" and ").flatMap((each) => {
    const [verbs = "", resource = "", , place] = each.split(" ");
    return verbs.split("+").map((verb) => ({ verb, resource, place }));
  });
  return rights.every(({ verb, resource, place }) =>
    ROLES[role]!.some(
      (grant) =>
        grant.verbs.includes(verb) && grant.resources.includes(resource) && ["cluster", place].includes(grant.in),
    ),
  );
}

/** The rights to roll from set `a` to set `b`. */
const ROLLER: readonly Grant[] = [
  { verbs: ["create"], resources: ["rolls"], in: "default" },
  { verbs: ["update"], resources: ["replicasets"], in: "default", names: ["a", "b"] },
  { verbs: ["delete"], resources: ["replicasets"], in: "default", names: ["a"] },
];

const RBAC = "rbac.authorization.k8s.io/v1";

/** Creates a service account with the rights of the role, and returns a token of it. */
async function makeAccount(calls: KubeCalls, role: string, grants: readonly Grant[]): Promise<string> {
  const accounts = { apiVersion: "v1", plural: "serviceaccounts", namespace: "default" };
  await calls.create(accounts, { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: role } });
  const subjects = [{ kind: "ServiceAccount", name: role, namespace: "default" }];
  for (const [index, { in: place, verbs, resources, names }] of grants.entries()) {
    const prefix = place === "cluster" ? "Cluster" : "";
    const at = place === "cluster" ? {} : { namespace: place };
    const kind = `${prefix}Role`;
    const name = `${role}-${index}`;
    const rules = [{ apiGroups: ["muster.dev"], resources, verbs, ...(names && { resourceNames: names }) }];
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind, name };
    const object = { apiVersion: RBAC, kind, metadata: { name }, rules } as KubeObject;
    await calls.create({ apiVersion: RBAC, plural: `${kind.toLowerCase()}s`, ...at }, object);
    const binding = { apiVersion: RBAC, kind: `${kind}Binding`, metadata: { name }, roleRef, subjects } as KubeObject;
    await calls.create({ apiVersion: RBAC, plural: `${kind.toLowerCase()}bindings`, ...at }, binding);
  }
  const asked = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", metadata: { name: role }, spec: {} };
  const made = await calls.create<KubeObject & { readonly status?: { readonly token: string } }>(accounts, asked, {
    subresource: "token",
  });
  return made.status!.token;
}

it("lists a right for every method of every path", () => {
  expect(
    buildRoutes(RESOURCES)
      .map(({ http, path }) => `${http} ${path}`)
      .toSorted(),
  ).toEqual(Object.keys(NEEDS).toSorted());
});

describe.each(API_SERVERS)("with $title", ({ skip, start }) => {
  let server: TestApiServer;
  let calls: KubeCalls;
  let world: GatewayWorld;
  let gateway: Gateway;
  let secure: Gateway;
  const tokens = new Map<string, string>();

  beforeAll(async () => {
    if (skip) return;
    server = await start();
    calls = makeKubeCalls(loadKube(server.kubeconfig));
    const other = { apiVersion: "v1", kind: "Namespace", metadata: { name: "other" } };
    await calls.create({ apiVersion: "v1", plural: "namespaces" }, other);
    for (const [role, grants] of Object.entries({ ...ROLES, roller: ROLLER }))
      tokens.set(role, await makeAccount(calls, role, grants));
    world = await startGatewayWorld({ listPools: () => ({ pools: [{ name: "x" }] }) });
    gateway = await world.start({ MUSTER_KUBECONFIG: server.kubeconfig });
    secure = await world.start({ MUSTER_KUBECONFIG: server.kubeconfig, ...(await writeCertificate(world.directory)) });
    // A real server applies new roles after a delay.
    const review = { apiVersion: "authorization.k8s.io/v1", plural: "subjectaccessreviews" };
    await until("the roles are effective", async () => {
      const resourceAttributes = { group: "muster.dev", resource: "queues", verb: "get" };
      const spec = { user: "system:serviceaccount:default:admin", resourceAttributes };
      const asked = { apiVersion: review.apiVersion, kind: "SubjectAccessReview", metadata: {}, spec } as KubeObject;
      const made = await calls.create<KubeObject & { readonly status?: { readonly allowed: boolean } }>(review, asked);
      return made.status?.allowed === true;
    });
  });

  afterAll(async () => {
    if (skip) return;
    await world[Symbol.asyncDispose]();
    await calls[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  it
    .skipIf(skip)
    .each<[string, Protocol]>([
      ...Object.keys(ROLES).map((role): [string, Protocol] => [role, "HTTP/1.1"]),
      ["none", "HTTP/2"],
      ["admin", "HTTP/2"],
    ])("allows the role %s exactly its rights over %s", async (role, protocol) => {
    const found: Record<string, boolean> = {};
    // Lists that are watched are read at any time.
    const asked = (): number => world.received.filter(({ method }) => !method.startsWith("list")).length;
    for (const key of Object.keys(ALL)) {
      const [method = "", pattern = ""] = key.split(" ");
      const path = pattern.replace(":namespace", "default").replace(":kind", "session").replaceAll(/:\w+/g, "x");
      const before = asked();
      const { status } = await (protocol === "HTTP/2" ? secure : gateway).ask(path, {
        method: method as "GET",
        token: tokens.get(role)!,
        ...(method.startsWith("P") && { body: {} }),
      });
      expect(status, key).not.toBe(401);
      found[key] = status !== 403;
      if (status === 403) expect(asked(), `${key} reaches a service`).toBe(before);
    }
    expect(found).toEqual(Object.fromEntries(Object.entries(ALL).map(([key, need]) => [key, isGranted(role, need)])));
  });

  it.skipIf(skip).each<[string, object, string | undefined]>([
    ["both sets", { oldSet: "a", newSet: "b" }, undefined],
    ["the new set", { oldSet: "a", newSet: "c" }, "update replicasets c"],
    ["the old set", { oldSet: "c", newSet: "b" }, "update replicasets c"],
    ["sets that it does not name", {}, "update replicasets"],
    ["the end of the old set", { oldSet: "b", newSet: "a" }, "delete replicasets b"],
    ["an old set that it keeps", { oldSet: "b", newSet: "a", leaveOld: true }, undefined],
    ["a set that it creates", { oldSet: "a", newSet: "b", spec: {} }, "create replicasets"],
    ["a set of a template", { oldSet: "a", newSet: "b", templateJson: "{}" }, "create replicasets"],
    ["no template", { oldSet: "a", newSet: "b", templateJson: "", spec: null }, undefined],
  ])("requires the rights of a rollout on %s", async (_, body, missing) => {
    const audited = await world.followAudit();
    const rolls = () => world.received.filter(({ method }) => method === "createRoll").length;
    const before = rolls();
    const { status, json } = await gateway.ask("/v1/rolls", { method: "POST", token: tokens.get("roller")!, body });
    if (missing === undefined) {
      expect(status).not.toBe(403);
      return;
    }
    const detail = `cannot ${missing} in namespace default of the API group`;
    expect([status, json]).toMatchObject([403, { detail: expect.stringContaining(detail) as unknown }]);
    expect(rolls()).toBe(before);
    expect(await audited()).toMatchObject([{ status: 403, code: "FORBIDDEN", verb: "create", resource: "rolls" }]);
  });

  it.skipIf(skip)("names the missing right, and does not reveal whether the object exists", async () => {
    const { status, json } = await gateway.ask("/v1/sessions/secret/cancel", {
      method: "POST",
      token: tokens.get("viewer")!,
    });
    expect(status).toBe(403);
    expect(json).toMatchObject({
      code: "FORBIDDEN",
      detail:
        "user system:serviceaccount:default:viewer cannot update sessions secret in namespace default of the API group muster.dev",
    });
  });

  it.skipIf(skip)("refuses a token that is unknown to the cluster", async () => {
    const { status, text } = await gateway.ask("/v1/pools", { token: "eyJhbGciOiJub25lIn0.e30.x" });
    expect(status).toBe(401);
    expect(text).not.toContain("eyJ");
  });

  it.skipIf(skip)("accepts the owner of the local token beside the cluster", async () => {
    expect((await gateway.ask("/v1/pools")).status).toBe(200);
  });

  it.skipIf(skip)("has one audit event for each change, whatever its outcome", async () => {
    const audited = await world.followAudit();
    world.answers["cancelSession"] = () => ({ session: { name: "echo" } });
    const ask = (role: string, method: "GET" | "POST", path: string, body?: unknown) =>
      gateway.ask(path, { method, token: tokens.get(role)!, ...(body !== undefined && { body }) });
    await ask("admin", "POST", "/v1/sessions/echo/cancel");
    await ask("viewer", "POST", "/v1/sessions/echo/cancel");
    await ask("admin", "POST", "/v1/jobs/default", { metadata: { name: "train" }, spec: 1 });
    await ask("admin", "POST", "/v1/replica-sets", { name: "web", wrong: 1 });
    await ask("admin", "POST", "/v1/plan/replica-sets", { name: "web" });
    await ask("admin", "GET", "/v1/pools");
    const found = await audited();
    const admin = { user: "system:serviceaccount:default:admin", namespace: "default", address: "127.0.0.1" };
    expect(found).toMatchObject([
      { ...admin, verb: "update", resource: "sessions", name: "echo", method: "CancelSession", status: 200, code: "" },
      { ...admin, verb: "create", resource: "jobs", name: "train", method: "SubmitJob", status: 500, code: "INTERNAL" },
      { user: "system:serviceaccount:default:viewer", name: "echo", status: 403, code: "FORBIDDEN" },
      { ...admin, resource: "replicasets", name: "web", status: 400, code: "INVALID_REQUEST" },
    ]);
    const sent = world.received.findLast(({ method }) => method === "cancelSession");
    expect(found[0]).toMatchObject({ requestId: sent?.request["requestId"], groups: expect.any(Array) as unknown });
  });

  it.skipIf(skip)("limits the rate of one user only, and reports when to retry", async () => {
    const limited = await world.start({
      MUSTER_KUBECONFIG: server.kubeconfig,
      GATEWAY_REQUESTS_PER_SECOND: "1",
      GATEWAY_REQUESTS_BURST: "2",
    });
    const ask = (role: string) => limited.ask("/v1/pools", { token: tokens.get(role)! });
    const answered = [await ask("viewer"), await ask("viewer"), await ask("viewer")];
    expect(answered.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answered[2]!.headers["retry-after"]).toBe("1");
    expect(answered[2]!.json).toMatchObject({ code: "LIMIT_EXCEEDED", retryAfterMs: expect.any(Number) as unknown });
    expect((await ask("admin")).status).toBe(200);
  });

  it.skipIf(skip)(
    "ends a stream whose right was withdrawn, or whose token is no longer valid, with the reason",
    async () => {
      const limits = { MUSTER_KUBECONFIG: server.kubeconfig, GATEWAY_STREAM_CHECK_MS: "500" };
      const plain = await world.start(limits);
      const quick = await world.start({ ...limits, ...(await writeCertificate(world.directory)) });
      const open = (role: string, at: Gateway) =>
        at.stream("/v1/sessions?watch=true", { authorization: `Bearer ${tokens.get(role)!}` });
      await using withdrawn = await open("follower", plain);
      await using removed = await open("admin", quick);
      expect([withdrawn.status, removed.status]).toEqual([200, 200]);
      await calls.delete({ apiVersion: RBAC, plural: "rolebindings", namespace: "default" }, "follower-0");
      await calls.delete({ apiVersion: "v1", plural: "serviceaccounts", namespace: "default" }, "admin");
      await until("both streams are over", () => withdrawn.over() !== undefined && removed.over() !== undefined);
      expect(withdrawn.events().at(-1)).toMatchObject({ event: "closed", data: { code: "FORBIDDEN" } });
      expect(removed.events().at(-1)).toMatchObject({ event: "closed", data: { code: "UNAUTHENTICATED" } });
    },
  );

  it.skipIf(skip)(
    "refuses of several lists those that the user may not watch, and all only where none is left",
    async () => {
      const quick = await world.start({ MUSTER_KUBECONFIG: server.kubeconfig, GATEWAY_STREAM_CHECK_MS: "500" });
      const bearer = (role: string) => ({ authorization: `Bearer ${tokens.get(role)!}` });
      const lists = "/v1/watch?resource=pools&resource=leases";
      expect((await quick.ask(lists, { token: tokens.get("none")! })).json).toMatchObject({ code: "FORBIDDEN" });
      world.answers["listLeases"] = () => ({ leases: [] });
      world.answers["listJobs"] = () => ({ jobs: [] });
      const list = `${lists}&resource=jobs/default`;
      const idOf = (from: Streamed): string => /.*^id: (\S*)$/ms.exec(from.text())?.[1] ?? "";
      await using local = await quick.stream(list);
      await until("the stream has a position in each list", () => idOf(local).split(".").length === 3);
      await using stream = await quick.stream(list, { ...bearer("watcher"), "last-event-id": idOf(local) });
      const closed = () => stream.events().filter(({ event }) => event === "closed");
      await until("two lists are refused", () => closed().length === 2);
      expect(closed()).toMatchObject([
        { data: { resource: "pools", problem: { code: "FORBIDDEN" } } },
        { data: { resource: "leases", problem: { code: "FORBIDDEN" } } },
      ]);
      expect(stream.over()).toBeUndefined();
      // The stream has no position in refused lists, and receives each whole once its user may watch it.
      await until("the stream keeps one position", () => /\n\nid: [^\s.]+\n\n/.test(stream.text()));
      await calls.delete({ apiVersion: RBAC, plural: "rolebindings", namespace: "default" }, "watcher-0");
      await until("the last list is closed", () => stream.over() !== undefined);
      expect(closed().at(-1)).toMatchObject({ data: { resource: "jobs/default", problem: { code: "FORBIDDEN" } } });
    },
  );

  it.skipIf(skip)("logs no token", () => {
    const lines = gateway.logged.join("\n");
    for (const token of [...tokens.values(), gateway.token]) expect(lines).not.toContain(token);
  });
});
