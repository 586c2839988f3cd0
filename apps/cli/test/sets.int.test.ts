import { connectNats, serveMethods, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { FarmService, muster as wire } from "@muster/proto";
import { startTestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { reachServices, type Reached } from "./reach.ts";
import { inProcess } from "./in-process.ts";

type WireSet = wire.farm.v1.ReplicaSet.$Properties;
type WireRecord = wire.farm.v1.ReplicaSetRecord.$Properties;

let reached: Reached;
const served = new AsyncDisposableStack();
const sets = new Map<string, WireSet>();
/** The requests that change a set, as the farm received them. */
const asked: unknown[] = [];

const { HEALTH_READY } = wire.health.v1.Health;

function setOf(name: string): WireSet {
  const pods = ["a", "b"].map((node) => ({ node, pod: `${name}-${node}`, health: HEALTH_READY, eligible: true }));
  const record = { name, uid: `uid-of-${name}`, spec: { podId: "web", replicasDesired: 2, templateJson: "{}" } };
  return { record, replicas: pods, replicasDesired: 2, healthy: 2, eligibleNodes: 3, farm: "farm-1" };
}

function find(name: string): WireSet {
  return sets.get(name) ?? throwFault({ code: "not_found", kind: "replica set", id: name });
}

/** Answers as a farm does, with the set after a change of its record. */
function changed(name: string, change: Partial<WireRecord>, call: object, rest: Partial<WireSet> = {}) {
  asked.push(call);
  const set = { ...find(name), ...rest };
  const next = { ...set, record: { ...set.record, ...change } };
  sets.set(name, next);
  return Promise.resolve({ set: next });
}

const roll = { id: "web-2", oldSet: "web", newSet: "web-2", replicasDesired: 2, minimumReplicas: 1, oldDesired: 2 };

const HANDLERS: Handlers<typeof FarmService> = {
  applyReplicaSet: ({ name, spec, dryRun, replace }) => {
    if (spec?.pool === "none") throwFault({ code: "invalid_request", field: "spec.pool", reason: "does not exist" });
    if (dryRun) return Promise.resolve({ set: setOf(name), outcome: sets.has(name) ? "UNCHANGED" : "CREATED" });
    asked.push({ apply: name, replace });
    sets.set(name, setOf(name));
    return Promise.resolve({ set: setOf(name), outcome: "CREATED" });
  },
  getReplicaSet: ({ name }) => Promise.resolve().then(() => ({ set: find(name) })),
  listReplicaSets: ({ labelSelector }) => {
    const found = [...sets.values()].filter(({ record }) => labelSelector === "" || record?.name === "web");
    return Promise.resolve({ sets: found, unreadable: [{ name: "odd", because: "too new" }] });
  },
  explainReplicaSet: ({ name }) =>
    Promise.resolve({
      ...{
        set: find(name),
        nodesKnown: true,
        nodes: [
          { node: "a", code: "REPLICA" },
          { node: "z", code: "CORDONED" },
        ],
      },
      explanation: { phase: "READY", reasons: [{ code: "READY", message: "all are ready", next: "" }] },
    }),
  scaleReplicaSet: ({ name, replicasDesired, expected }) =>
    changed(name, {}, { scale: replicasDesired, expected }, { replicasDesired }),
  enableReplicaSet: ({ name, enabled }) => changed(name, { disabled: !enabled }, { enabled }),
  deleteReplicaSet: ({ name, force, keepPods }) => {
    const deleted = changed(name, { deletion: { keepPods, atMs: 1 } }, { delete: name, force, keepPods });
    sets.delete(name);
    return deleted;
  },
  transferNode: ({ name, node, newNode }) =>
    changed(name, { transfer: { oldNode: node, newNode, because: "asked" } }, { transfer: node, newNode }),
  holdTransfers: ({ name, hold, because }) =>
    changed(name, { transfersHeld: hold ? { by: "ada", because, atMs: 1 } : null }, { hold, because }),
  createRoll: ({ oldSet, newSet, spec, replicasDesired, minimumReplicas, leaveOld, rollDelayMs }) => {
    const numbers = { replicasDesired, minimumReplicas, rollDelayMs };
    asked.push({ roll: oldSet, newSet, hasSpec: spec !== undefined, ...numbers, leaveOld });
    return Promise.resolve({ roll: { record: { ...roll, leaveOld, rollDelayMs } } });
  },
  getRoll: ({ id }) => throwFault({ code: "not_found", kind: "rolling update", id }),
  listRolls: () => Promise.resolve({ rolls: [{ record: roll }] }),
  changeRoll: ({ change, minimumReplicas }) => {
    asked.push({ change, minimumReplicas });
    return Promise.resolve({ roll: { record: roll } });
  },
  listAudit: ({ name, limit }) => {
    const record = { id: "1", eventType: "SCALED", eventDetails: '{"by":"ada"}', timestampMs: 0, replicaSet: name };
    return Promise.resolve({ records: name === "quiet" ? [] : [record].slice(0, limit) });
  },
};

beforeAll(async () => {
  const server = served.use(await startTestNats());
  reached = served.use(await reachServices(server));
  const bus = served.use(await connectNats({ url: server.url, token: server.token, name: "farm" }));
  served.use(await serveMethods(bus, FarmService, HANDLERS, { version: "1.0.0", description: "for a test" }));
});
afterAll(() => served.disposeAsync());
beforeEach(() => {
  sets.clear();
  for (const name of ["web", "quiet"]) sets.set(name, setOf(name));
  asked.length = 0;
});

function documentOf(name: string, ...lines: string[]): string {
  const spec = ["replicas: 2", "podId: web", ...(lines.length === 0 ? ['nodeSelector: ""'] : lines)];
  const template = "template: { spec: { containers: [{ name: main, image: i }] } }";
  const head = ["apiVersion: muster.dev/v1", "kind: PinnedReplicaSet", `metadata: { name: ${name} }`, "spec:"];
  return [...head, ...[...spec, template].map((line) => `  ${line}`), ""].join("\n");
}

function muster(line: string, file = "") {
  return inProcess(line.split(" "), { url: reached.url, token: reached.token, file });
}

it.each<[line: string, out: string, call?: object | undefined, code?: number, err?: string]>([
  ["scale web --replicas 3", "replica-set/web scaled: 3 wanted, 2 placed, 2 ready", { scale: 3 }],
  [
    "scale rs/web --replicas 0 --current-replicas 2",
    "replica-set/web scaled: 0 wanted, 2 placed, 2 ready",
    { scale: 0, expected: 2 },
  ],
  ["enable rs web", "replica-set/web enabled: 2 wanted, 2 placed, 2 ready", { enabled: true }],
  ["disable web", "replica-set/web disabled: its 2 pods stay as they are", { enabled: false }],
  [
    "transfer web --from a",
    "replica-set/web leaves a, and needs another node; `muster wait replica-set/web --for=condition=Transferring=false` waits for the end",
    { transfer: "a", newNode: "" },
  ],
  [
    "transfer web --hold --because repair",
    "replica-set/web leaves no node until `muster transfer web --release`",
    { hold: true, because: "repair" },
  ],
  ["transfer web --release", "replica-set/web may leave nodes again", { hold: false, because: "" }],
  [
    "transfer web",
    "",
    undefined,
    2,
    "error: one of --from NODE, --hold and --release is needed\nhint: `muster describe rs web` shows the nodes that it is on",
  ],
  ["audit web", "TIME                      EVENT   DETAILS\n1970-01-01T00:00:00.000Z  SCALED  by=ada"],
  ["audit quiet", "quiet has no audit records yet"],
  ["audit wob", "TIME                      EVENT   DETAILS\n1970-01-01T00:00:00.000Z  SCALED  by=ada"],
  ["scale wob --replicas 1", "", { scale: 1 }, 4, 'error: replica set wob does not exist\nhint: did you mean "web"?'],
  ["delete web --wait --force", "replica-set/web deleted", { delete: "web", force: true, keepPods: false }],
  [
    "delete web --orphan",
    "replica-set/web is being deleted, and its pods stay",
    { delete: "web", force: true, keepPods: true },
  ],
  ["wait rs/web --for=condition=Ready", "replica-set/web condition met"],
  [
    "explain rs/web",
    "replica-set web READY\n  all are ready\nowner: farm-1\n\nNODE  WHAT      POD    HEALTH  WHY\na     REPLICA   web-a  READY\nz     CORDONED  -      -",
  ],
  ["get rs -l team=a", expect.stringMatching(/^NAME[^\n]*\nweb [^\n]*$/) as string],
  ["get rs", expect.stringMatching(/NAME[^]*web +READY +2 +2 +2 +3[^]*odd +UNREADABLE[^]*too new/) as string],
  [
    "roll web --to web-2 --minimum 1 --canary 1 --delay 5s",
    "roll/web-2 started: web -> web-2: 2 replicas, at least 1 ready at all times, 5s between two steps; web stays, with what is left\n`muster roll status web-2` follows it",
    {
      roll: "web",
      newSet: "web-2",
      hasSpec: false,
      replicasDesired: 1,
      minimumReplicas: 1,
      rollDelayMs: 5000,
      leaveOld: true,
    },
  ],
  [
    "roll web --minimum 1",
    "",
    undefined,
    2,
    "error: the new set is missing\nhint: muster roll web -f FILE --minimum 1, or --to NAME of an existing set",
  ],
  [
    "roll undo web --minimum 1",
    "roll/web-2 moves back to the old set: web -> web-2: 2 replicas, at least 1 ready at all times; web goes at the end",
    { change: "UNDO", minimumReplicas: 1 },
  ],
  [
    "roll pause web-2",
    "roll/web-2 is paused: both sets stay unchanged until `muster roll resume web-2`",
    { change: "PAUSE" },
  ],
  ["roll status rs/web --no-follow -o json", expect.stringContaining('"id": "web-2"') as string],
])("muster %s", async (line, out, call, code = 0, err = "") => {
  const ended = await muster(line);
  expect(ended.err.join("\n")).toBe(err);
  expect(ended.out.join("\n")).toEqual(out);
  expect(ended.code).toBe(code);
  expect(asked).toEqual(call === undefined ? [] : [expect.objectContaining(call)]);
});

it("applies the sets of a file once all are valid, and waits until they are ready", async () => {
  const wrong = await muster("apply -f f", `${documentOf("a")}---\n${documentOf("b", "pool: none")}`);
  expect(wrong).toMatchObject({ code: 2, out: [] });
  expect(wrong.err[0]).toBe("error: f:16:9: spec.pool: does not exist");
  expect(asked).toEqual([]);
  const applied = await muster("apply -f f --wait --replace", documentOf("a"));
  expect(applied).toMatchObject({ code: 0, out: ["replica-set/a created", "replica-set/a ready"] });
  expect(asked).toEqual([{ apply: "a", replace: true }]);
  const dry = await muster("apply -f f --dry-run", documentOf("a"));
  expect(dry.out).toEqual(["replica-set/a unchanged (dry run: nothing was done)"]);
});

it("rolls to the set of a file with the same pod id", async () => {
  const file = documentOf("web-2");
  expect(await muster("roll web -f f --minimum 1 --replicas 3 -o json", file)).toMatchObject({ code: 0, err: [] });
  expect(asked).toEqual([
    expect.objectContaining({ hasSpec: true, newSet: "web-2", replicasDesired: 3, leaveOld: false }),
  ]);
  const other = await muster("roll web -f f --minimum 1", file.replace("podId: web", "podId: other"));
  expect(other).toMatchObject({
    code: 2,
    err: [expect.stringContaining('web-2 has pod id "other"'), expect.anything()],
  });
  const two = await muster("roll web -f f --minimum 1", `${file}---\n${documentOf("web-3")}`);
  expect(two.err).toEqual(["error: f has 2 documents; one is needed"]);
});

it("reports that a roll was undone if its new set is smaller than desired", async () => {
  const { code, err } = await muster("roll status web-2");
  expect(code).toBe(1);
  expect(err.join("\n")).toContain("roll web-2 did not complete");
});
