import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { muster as wire, NodeService, ReservationService } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { inProcess } from "./in-process.ts";

const Phase = wire.node.v1.NodePhase;
const now = Date.now();

const NODES: readonly wire.node.v1.NodeRecord.$Properties[] = [
  {
    name: "e-1",
    spec: { pool: "elastic", instanceType: "large", spot: true, zone: "z1" },
    phase: Phase.NODE_PHASE_CLAIMED,
    createdAtMs: now - 125_000,
    kubernetesNode: "node-e-1",
    boundTo: "r-7",
    holder: { kind: "session", id: "bench" },
  },
  {
    name: "e-2",
    spec: { pool: "elastic", instanceType: "large" },
    phase: Phase.NODE_PHASE_CREATING,
    createdAtMs: now - 3000,
    boundTo: "r-8",
    trouble: "the provider is out of large",
  },
  {
    name: "g-1",
    spec: {
      pool: "gpu",
      instanceType: "huge",
      terminate: { code: "IDLE", message: "no work needs it", atMs: now, drainUntilMs: now + 120_000 },
    },
    phase: Phase.NODE_PHASE_AVAILABLE,
    createdAtMs: now - 7_500_000,
    idleSinceMs: now - 300_000,
  },
  {
    name: "g-2",
    spec: {
      pool: "gpu",
      instanceType: "huge",
      terminate: { code: "BOOT_FAILED", message: "out of huge", atMs: now, drainUntilMs: now },
    },
    phase: Phase.NODE_PHASE_TERMINATED,
    createdAtMs: now - 7_500_000,
    trouble: "out of huge",
  },
];

let server: TestNats;
let bus: NatsBus;
const ended: string[] = [];
const callers: string[] = [];
/** The dump of a leader that has not decided yet. */
let undecided = "";
const served = new AsyncDisposableStack();

const HANDLERS: Handlers<typeof NodeService> = {
  // A page contains one node, so that the command must request the next.
  listNodes: ({ pool, continue: from }) => {
    const all = NODES.filter(({ spec }) => pool === "" || spec?.pool === pool);
    const index = from === "" ? 0 : all.findIndex(({ name }) => name === from);
    return Promise.resolve({ nodes: all.slice(index, index + 1), continue: all[index + 1]?.name ?? "" });
  },
  dumpNodes: () =>
    Promise.resolve({
      leader: "scaler-0",
      term: 4,
      nodes: 3,
      loops: [
        {
          name: "pool",
          intervalMs: 7000,
          rounds: 12,
          failures: 1,
          lastStartedAtMs: now - 2000,
          lastDurationMs: 31,
          meanDurationMs: 28,
          error: "the ledger does not answer",
        },
        { name: "scan", intervalMs: 60_000 },
      ],
      unavailable: [
        { provider: "local", instanceType: "large", zone: "z2", message: "no capacity", untilMs: now + 300_000 },
      ],
      pools: [
        {
          pool: "elastic",
          max: 8,
          standby: 1,
          booting: [{ instanceType: "large", spot: true, count: 2, sinceMs: now - 40_000 }],
          blockedCode: "UNAVAILABLE",
          blockedMessage: "no capacity for large in z2",
        },
      ],
      bindings: [{ demand: "r-7", node: "e-1" }],
      bindingsMore: 3,
      undecided,
      ...(undecided !== "" && { pools: [] }),
    }),
  explainDemand: () => Promise.resolve({}),
  terminateNode: ({ name, requestedBy }) => {
    callers.push(requestedBy);
    const node = NODES.find((one) => one.name === name) ?? throwFault({ code: "not_found", kind: "node", id: name });
    ended.push(name);
    return Promise.resolve({ node });
  },
};

const notAsked = (): never => throwFault({ code: "internal", operation: "not asked for here" });

const OWNERS = ["a", "b", "c"].map((id) => ({ kind: "job", id }));

const LEDGER: Handlers<typeof ReservationService> = {
  reserve: notAsked,
  checkReservation: notAsked,
  unreserve: notAsked,
  acceptPreemption: notAsked,
  requeue: notAsked,
  limitConcurrency: notAsked,
  getReservation: notAsked,
  listReservations: notAsked,
  listDemand: notAsked,
  explainReservation: notAsked,
  listPools: () =>
    Promise.resolve({
      pools: [
        { name: "static", capacity: 2, held: 1, unusable: 1, unusableByReason: [{ reason: "CORDONED", count: 1 }] },
      ],
    }),
  listQueues: () => Promise.resolve({ queues: [] }),
  listUsage: notAsked,
  listMachines: () =>
    Promise.resolve({
      machines: [
        {
          ...{ node: "node-e-1", pool: "elastic", standing: "SHARED" },
          allocatable: { cpu: 4000, pods: 110 },
          free: { cpu: 500, pods: 107 },
          sharedHolders: OWNERS.map((owner) => ({ owner, reservationId: owner.id, machines: 1, sinceMs: now })),
          foreign: { pods: 1, requests: { cpu: 500 }, examples: ["default/web"] },
        },
        { node: "rack-0", pool: "static", standing: "CORDONED", toleratedStanding: "FREE" },
        {
          ...{ node: "rack-1", pool: "static", standing: "HELD" },
          holder: { owner: OWNERS[0], reservationId: "a", machines: 1, sinceMs: now },
        },
      ],
    }),
};

beforeAll(async () => {
  server = await startTestNats();
  bus = await connectNats({ url: server.url, token: server.token, name: "scaler" });
  served.use(await serveMethods(bus, NodeService, HANDLERS, { version: "1.0.0", description: "for a test" }));
});
afterAll(async () => {
  await served.disposeAsync();
  await bus[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  ended.length = 0;
  callers.length = 0;
  undecided = "";
});

const muster = (args: readonly string[], answer?: string) =>
  inProcess(args, { url: server.url, token: server.token, ...(answer !== undefined && { answer }) });

describe("muster nodes", () => {
  it("lists every node with its purpose and its trouble", async () => {
    const { code, out } = await muster(["nodes"]);
    expect(code).toBe(0);
    expect(out[0]).toMatch(/^NAME +POOL +TYPE +SPOT +ZONE +PHASE +AGE +HELD BY \/ BOUND TO +TROUBLE$/);
    expect(out[1]).toMatch(/^e-1 +elastic +large +yes +z1 +CLAIMED +2m\d\ds +session\/bench$/);
    expect(out[2]).toMatch(/^e-2 +elastic +large +no +- +CREATING +\d+\.\ds +r-8 +the provider is out of large$/);
    expect(out[3]).toMatch(/^g-1 +gpu +huge +no +- +AVAILABLE +2h05m +- +ends: IDLE: no work needs it$/);
    expect(out).toHaveLength(4);
  });

  it("lists deleted nodes only with --all, and shows a reason once", async () => {
    const { out } = await muster(["nodes", "--all"]);
    expect(out[4]).toMatch(/^g-2 .* TERMINATED .* ends: BOOT_FAILED: out of huge$/);
  });

  it("reports a misspelt command, and suggests the nearest one", async () => {
    const { code, err } = await muster(["nodes", "terminte", "e-1"]);
    expect(err.slice(0, 2).join("\n").split("\n").slice(0, 2)).toEqual([
      "error: unknown command 'terminte'",
      "(Did you mean terminate?)",
    ]);
    expect([code, ended]).toEqual([2, []]);
  });

  it("shows its commands, options and examples", async () => {
    const { out } = await muster(["nodes", "--help"]);
    for (const part of ["list ", "dump ", "terminate ", "--pool", "--all", "--output", "Examples:"])
      expect(out.join("\n")).toContain(part);
  });

  it("lists the nodes of one pool, and reports a pool without nodes", async () => {
    expect((await muster(["nodes", "-p", "gpu"])).out).toHaveLength(2);
    expect((await muster(["nodes", "list", "--pool", "none"])).out).toEqual(["no nodes in pool none"]);
  });

  it("prints stable names and times for programs", async () => {
    const { out } = await muster(["nodes", "-o", "json"]);
    const [first, , third] = JSON.parse(out.join("\n")) as Record<string, unknown>[];
    expect(first).toMatchObject({ name: "e-1", phase: "CLAIMED", holder: "session/bench", boundTo: "r-7", spot: true });
    expect(first?.["createdAt"]).toBe(new Date(now - 125_000).toISOString());
    expect(first).not.toHaveProperty("terminate");
    expect(first).toMatchObject({ reason: "" });
    expect(third).toMatchObject({
      reason: "ends: IDLE: no work needs it",
      terminate: { code: "IDLE", drainUntil: new Date(now + 120_000).toISOString() },
    });
    expect((await muster(["nodes", "-p", "gpu", "-o", "yaml"])).out.join("\n")).toContain("phase: AVAILABLE");
  });
});

describe("muster nodes, with the machine states of the ledger", () => {
  const ledger = new AsyncDisposableStack();
  beforeAll(
    async () =>
      void ledger.use(await serveMethods(bus, ReservationService, LEDGER, { version: "1.0.0", description: "" })),
  );
  afterAll(() => ledger.disposeAsync());

  it("shows how many owners hold parts of a node", async () => {
    const { out } = await muster(["nodes"]);
    expect(out.join("\n")).toMatch(/^e-1 .* CLAIMED +SHARED +\S+ +3 owners/m);
  });

  it("lists the machines that the scaler did not create", async () => {
    const { out } = await muster(["nodes"]);
    expect(out.at(-1)).toMatch(/^rack-1 +static +- +- +- +STATIC +HELD +- +job\/a/);
    expect((await muster(["get", "nodes"])).code).toBe(2);
  });

  it("shows a tainted node without a cordon as TAINTED, and counts it for its pool; programs get the ledger's CORDONED", async () => {
    expect((await muster(["nodes"])).out.join("\n")).toMatch(/^rack-0 .* STATIC +TAINTED /m);
    expect((await muster(["pools"])).out[1]).toMatch(/^static .* 1 TAINTED$/);
    const { out } = await muster(["nodes", "-o", "json"]);
    const machines = (JSON.parse(out.join("\n")) as { name: string; machine?: object }[]).filter(
      ({ name }) => name === "rack-0",
    );
    expect(machines).toMatchObject([{ machine: { standing: "CORDONED", cordoned: false } }]);
  });

  it("prints every owner, the amounts and the foreign pods for programs", async () => {
    const { out } = await muster(["nodes", "-o", "json"]);
    const [first, second] = JSON.parse(out.join("\n")) as unknown[];
    expect(second).not.toHaveProperty("machine");
    expect(first).toMatchObject({
      name: "e-1",
      machine: {
        standing: "SHARED",
        sharedHolders: ["job/a", "job/b", "job/c"].map((owner) => ({ owner, since: new Date(now).toISOString() })),
        allocatable: { cpu: 4000, pods: 110 },
        free: { cpu: 500, pods: 107 },
        foreign: { pods: 1, requests: { cpu: 500 }, examples: ["default/web"] },
      },
    });
  });
});

describe("muster nodes dump", () => {
  it("shows the loops, each shortage with its duration, the pools, and the owner of each node", async () => {
    const { code, out } = await muster(["nodes", "dump"]);
    const text = out.join("\n");
    expect(text).toMatch(/^leader scaler-0, term 4, 3 nodes\n/);
    expect(text).toMatch(/^pool +7\.0s +12 +1 +\d+\.\ds ago +31ms +28ms +the ledger does not answer$/m);
    expect(text).toMatch(/^scan +1m00s +0 +0 +never +0ms +0ms$/m);
    expect(text).toMatch(/^elastic +8 +1 +2 large \(spot\) for \d+\.\ds +UNAVAILABLE: no capacity for large in z2$/m);
    expect(text).toMatch(/^large +local +no +z2 .* (?:5m00s|4m5\ds) +no capacity$/m);
    expect(text).toMatch(/^r-7 +e-1\nand 3 more$/m);
    expect(code).toBe(0);
  });

  it("reports why a leader has decided nothing yet, instead of an empty decision", async () => {
    undecided = "the watcher has not reported lately which nodes exist";
    const text = (await muster(["nodes", "dump"])).out.join("\n");
    expect(text).toContain(`\nno node is created or ended yet: ${undecided}\n`);
    expect(text).toContain("\nthe scaling of pools is not decided yet");
  });

  it("prints the dump for programs", async () => {
    const { out } = await muster(["nodes", "dump", "-o", "json"]);
    expect(JSON.parse(out.join("\n"))).toMatchObject({
      leader: "scaler-0",
      loops: [
        { name: "pool", interval: "7s", meanDuration: "28ms", lastStartedAt: new Date(now - 2000).toISOString() },
        { name: "scan" },
      ],
      unavailable: [{ instanceType: "large", until: new Date(now + 300_000).toISOString() }],
      pools: [{ pool: "elastic", max: 8, blocked: { code: "UNAVAILABLE" }, booting: [{ count: 2 }] }],
      bindings: [{ demand: "r-7", node: "e-1" }],
    });
  });
});

describe("muster nodes terminate", () => {
  it("asks for confirmation at a terminal, and changes nothing without a yes", async () => {
    for (const answer of ["", "n", "yess"]) {
      const { code, err } = await muster(["nodes", "terminate", "e-1"], answer);
      expect([code, err.at(0), err.at(-1)]).toEqual([
        130,
        expect.stringMatching(/^End node e-1 \(CLAIMED, held by session\/bench\)\?/),
        "nothing was done",
      ]);
    }
    expect(ended).toEqual([]);
    const { code, out } = await muster(["nodes", "terminate", "e-1"], "Y");
    expect(out).toEqual(["node e-1 will end: it is CLAIMED, held by session/bench; `muster nodes` shows its progress"]);
    expect([code, ended]).toEqual([0, ["e-1"]]);
    expect(callers).toEqual([expect.stringMatching(/^.+@.+$/)]);
  });

  it("asks no confirmation for an unknown node, and suggests the nearest name", async () => {
    const { code, err } = await muster(["nodes", "terminate", "e-11"], "y");
    expect(err).toEqual(["error: node e-11 does not exist", 'hint: did you mean "e-1"?']);
    expect((await muster(["nodes", "terminate", "other"], "y")).err).toEqual([
      "error: node other does not exist",
      "hint: `muster nodes` shows those that exist",
    ]);
    expect([code, ended]).toEqual([4, []]);
  });

  it("does not ask with --yes, and stops without a terminal", async () => {
    const { code, err } = await muster(["nodes", "terminate", "e-2"]);
    expect(err.join("\n")).toContain("hint: --yes ends the node without asking");
    expect([code, ended]).toEqual([2, []]);
    const sure = await muster(["nodes", "terminate", "e-2", "--yes", "-o", "json"]);
    expect(JSON.parse(sure.out.join("\n"))).toMatchObject({ name: "e-2" });
    expect([sure.code, ended]).toEqual([0, ["e-2"]]);
  });

  it("reports the refusal, and the command that lists names", async () => {
    const { code, err } = await muster(["nodes", "terminate", "e-9", "--yes"]);
    expect(err).toEqual([expect.stringContaining("e-9"), "hint: `muster nodes` shows those that exist"]);
    expect(code).toBe(4);
  });
});

it("completes commands of `nodes` and names of nodes, and offers nothing if neither is valid", async () => {
  const offers = async (...words: string[]) => (await muster(["__complete", "--", ...words])).out;
  expect(await offers("nodes", "")).toEqual(["list", "dump", "terminate"]);
  expect(await offers("nodes", "terminate", "e-")).toEqual(["e-1", "e-2"]);
  expect(await offers("nodes", "terminate", "e-1", "")).toEqual([]);
});
