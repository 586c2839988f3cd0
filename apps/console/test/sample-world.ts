import { enums, type muster } from "@muster/proto";

type Reservation = muster.reservation.v1.Reservation.$Properties;
type Session = muster.session.v1.Session.$Properties;

/** The answers of the services: data of one size, with names of one length. */
export type SampleSize = {
  readonly machines: number;
  readonly work: number;
  /** True for names of the maximum length. */
  readonly long: boolean;
};

const GPU = "gpu";
const MINUTE_MS = 60_000;
const PARTS = 8;

/** Returns a name of the maximum length that begins with the text. */
export function lengthen(text: string): string {
  return `${text}-${"very-long-name-".repeat(3)}x`.slice(0, 60);
}

/** Builds answers of every service, by method name, at one moment. */
export function sampleAnswers({ machines, work, long }: SampleSize, nowMs: number): Record<string, () => object> {
  const name = (text: string): string => (long ? lengthen(text) : text);
  const sessions = Array.from({ length: work }, (_, index) => sampleSession(name(`bench-${index}`), index, nowMs));
  const granted = grantedReservations(Math.floor(machines * 0.7), name, nowMs);
  const held = granted.reduce((sum, { machines: each }) => sum + (each?.length ?? 0), 0);
  const lost = Math.ceil(machines * 0.03);
  return {
    listPools: () => ({
      pools: [
        {
          name: name(GPU),
          capacity: machines - lost,
          held,
          available: machines - lost - held,
          unusable: lost,
          unusableByReason: [{ reason: "NOT_READY", count: lost }],
          waiting: 2,
          elasticMax: machines * 2,
        },
        { name: name("drivers"), capacity: 4, held: 0, available: 4 },
      ],
    }),
    listMachines: () => ({ machines: sampleMachines(name), complete: true }),
    listReservations: () => ({ reservations: [...granted, ...waitingReservations(name, nowMs)] }),
    explainReservation: () => ({ ...sampleWait(), ...sampleOrder(name, nowMs) }),
    listQueues: () => ({ queues: sampleQueues(name) }),
    listNodes: () => ({ nodes: sampleNodes(name, nowMs) }),
    listSessions: () => ({ sessions }),
    listJobs: () => ({ jobs: [sampleJob(name("train"), nowMs), failedJob(name("broken"), nowMs)] }),
    getJob: () => ({ job: { ...sampleJob(name("train"), nowMs), manifestJson: JSON.stringify(JOB_MANIFEST) } }),
    listJobEvents: () => ({ events: jobEvents(name("train"), nowMs) }),
    explainJob: () => ({ explanation: sampleExplanation("job", name("train"), nowMs) }),
    checkSession: () => ({
      session: {
        ...sampleSession("echo", 0, nowMs),
        waitingCode: "POOL_AVAILABILITY",
        waitingBecause: `pool ${name("drivers")} has no machine free now, 1 is needed`,
      },
    }),
    getSession: () => ({ session: sessions[0] ?? sampleSession("bench-0", 0, nowMs) }),
    explainSession: () => ({ explanation: sampleExplanation("session", name("bench-0"), nowMs) }),
    listReplicaSets: () => ({ sets: [sampleSet(name("web"), nowMs)] }),
    getReplicaSet: () => ({ set: sampleSet(name("web"), nowMs) }),
    listAudit: () => ({
      records: [{ id: "1", eventType: "SCALED", eventDetails: '{"by":"ada"}', timestampMs: nowMs - MINUTE_MS }],
    }),
    explainReplicaSet: () => ({ explanation: sampleExplanation("replica-set", name("web"), nowMs) }),
    listLeases: () => ({ leases: [sampleLease("3-1", nowMs)] }),
    getLease: () => ({ lease: sampleLease("3-1", nowMs) }),
    listLeaseHistory: () => ({
      events: [{ id: "3-1.1.1", lease: "3-1", eventType: "ORDERED", message: "ordered", at: time(nowMs - MINUTE_MS) }],
    }),
    explainLease: () => ({ explanation: sampleExplanation("lease", "3-1", nowMs) }),
    getLogs: () => ({ chunk: new TextEncoder().encode(LOG), nextOffset: LOG.length, complete: true }),
    getJobLogs: () => ({
      chunk: new TextEncoder().encode(LOG),
      nextOffset: LOG.length,
      complete: true,
      run: "1",
      pod: "p",
    }),
  };
}

const LOG = Array.from(
  { length: 300 },
  (_, index) => `\u001b[32mstep ${index}\u001b[0m loss ${(3 / (index + 1)).toFixed(4)}\n`,
).join("");
const JOB_MANIFEST = {
  apiVersion: "muster.dev/v1",
  kind: "Job",
  metadata: { name: "train" },
  spec: { replicaSpecs: {} },
};
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

function grantedReservations(machines: number, name: (text: string) => string, nowMs: number): Reservation[] {
  const count = Math.ceil(machines / PARTS);
  return Array.from({ length: count }, (_, index) => ({
    id: `r-${index}`,
    owner: { kind: "session", id: name(`bench-${index}`) },
    state: enums.ReservationState.numbers.GRANTED,
    sequence: index + 1,
    createdAtMs: nowMs - index * MINUTE_MS,
    grantedAtMs: nowMs - index * MINUTE_MS,
    queue: name("research"),
    machines: Array.from({ length: Math.min(PARTS, machines - index * PARTS) }, (__, part) => ({
      component: `w-${part}`,
      pool: name(GPU),
      node: name(`gpu-node-${index * PARTS + part}`),
    })),
  }));
}

function sampleMachines(name: (text: string) => string): object[] {
  const holder = { owner: { kind: "session", id: name("bench-0") }, reservationId: "r-0" };
  const machine = { pool: name(GPU), sharedHolders: [] };
  return [
    { ...machine, node: name("gpu-node-0"), standing: "USABLE", holder },
    { ...machine, node: name("gpu-node-1"), standing: "NOT_READY" },
  ];
}

/** Returns the id of a job in the ledger: its name and a part of its uid. */
function ownerIdOf(job: string): string {
  return `${job}-4b4b0db7d2a7`;
}

function waitingReservations(name: (text: string) => string, nowMs: number): Reservation[] {
  const state = enums.ReservationState.numbers.WAITING;
  const at = { state, createdAtMs: nowMs - 5 * MINUTE_MS, queue: name("research") };
  const pool = name(GPU);
  return [
    {
      ...at,
      id: "w-1",
      sequence: 9001,
      owner: { kind: "job", id: ownerIdOf(name("train")) },
      because: { code: "POOL_AVAILABILITY", pool, requested: 16, available: 3 },
    },
    {
      ...at,
      id: "w-2",
      sequence: 9002,
      priority: 5,
      owner: { kind: "session", id: name("urgent") },
      because: {
        code: "WAITING_FOR_QUOTA",
        queue: name("research"),
        quota: { queue: name("research"), pool, resource: "nvidia.com/gpu", requested: 8, available: 2 },
      },
    },
  ];
}

function sampleQueues(name: (text: string) => string): muster.reservation.v1.QueueState.$Properties[] {
  const amounts = (gpu: number, cpu: number, memory: number): muster.reservation.v1.PoolUse.$Properties[] => [
    { pool: name(GPU), amounts: { "nvidia.com/gpu": gpu, cpu, memory: memory * 2 ** 30 } },
  ];
  return [
    { queue: { name: name("company") }, quota: amounts(64, 512_000, 4096), used: amounts(40, 128_500, 512) },
    {
      queue: { name: name("research"), parent: name("company"), strategy: "BestEffortFIFO" },
      quota: amounts(24, 256_000, 2048),
      used: amounts(32, 128_500, 512),
      borrowed: amounts(8, 0, 0),
      pending: 2,
      admitted: 4,
    },
    { queue: { name: name("idle"), parent: name("company"), strategy: "StrictFIFO" }, problem: "HELD" },
  ];
}

function sampleNodes(name: (text: string) => string, nowMs: number): muster.node.v1.NodeRecord.$Properties[] {
  const { CREATING, CREATED, AVAILABLE, CLAIMED } = enums.NodePhase.numbers;
  const type = { instanceType: "p5.48xlarge", gpus: 8, pricePerHourMicros: 98_320_000 };
  const spec = { ...type, pool: name(GPU), zone: "eu-north-1a", provider: "aws" };
  const since = { phaseSinceMs: nowMs - 2 * MINUTE_MS, createdAtMs: nowMs - 9 * MINUTE_MS };
  return [
    { ...since, name: name("scaled-1"), spec, phase: CREATING, boundTo: `job/${name("train")}/0` },
    {
      ...since,
      name: name("scaled-2"),
      spec: { ...spec, spot: true },
      phase: CREATED,
      troubleCode: "BOOT_REFUSED",
      trouble: "the provider has no capacity in eu-north-1a",
    },
    {
      ...since,
      name: name("scaled-3"),
      spec,
      phase: AVAILABLE,
      idleSinceMs: nowMs - MINUTE_MS,
      kubernetesNode: "ip-10-0-0-3",
    },
    {
      ...since,
      name: name("scaled-4"),
      spec,
      phase: CLAIMED,
      holder: { kind: "session", id: name("bench-0") },
      kubernetesNode: "ip-10-0-0-4",
    },
  ];
}

const KINDS = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"] as const;

function sampleSession(name: string, index: number, nowMs: number): Session {
  const numbers = enums.SessionEventKind.numbers;
  const createdAtMs = nowMs - (index + 5) * MINUTE_MS;
  const isFailed = index % 7 === 3;
  const kinds = KINDS.slice(0, 1 + ((index + 3) % KINDS.length));
  const events = kinds.map((kind, at) => ({
    kind: numbers[kind],
    atMs: createdAtMs + at * 20_000,
    description: "",
    reason: "",
  }));
  const failure = {
    kind: numbers.ERROR,
    atMs: createdAtMs + 90_000,
    description: "component driver ended with code 1",
    reason: "COMPONENT_FAILED",
  };
  const isWaiting = events.length === 1 && !isFailed;
  const isOver = isFailed || events.length === KINDS.length;
  return {
    name,
    uid: `uid-${index}`,
    revision: 7,
    createdAtMs,
    finishedAtMs: isOver ? createdAtMs + 100_000 : 0,
    events: isFailed ? [...events.slice(0, 2), failure] : events,
    components: [
      {
        name: "driver",
        kind: enums.ComponentKind.numbers.DRIVER,
        pool: "drivers",
        node: "d-1",
        pod: `${name}-driver`,
        state: "READY",
      },
      {
        name: "server-0",
        kind: enums.ComponentKind.numbers.SERVER,
        pool: "gpu",
        node: "gpu-node-1",
        pod: `${name}-server-0`,
        state: "READY",
      },
    ],
    spec: { components: [{ name: "driver", kind: 1, pool: "drivers", image: "node:24" }] },
    traceparent: TRACE,
    ...(isWaiting && {
      waitingCode: "POOL_AVAILABILITY",
      waitingBecause: "pool gpu has 3 free machines, and 8 are needed",
    }),
  };
}

function sampleJob(name: string, nowMs: number): muster.job.v1.Job.$Properties {
  const member = (index: number): muster.job.v1.JobMember.$Properties => ({
    component: `worker-${index}`,
    pool: "gpu",
    node: `gpu-node-${index}`,
    pod: `${name}-worker-${index}`,
    state: "RUNNING",
  });
  return {
    key: { kind: "Job", name, namespace: "default" },
    uid: "u1",
    revision: "12",
    state: "RUNNING",
    conditions: [
      { type: "MachinesReserved", isTrue: true, lastTransitionMs: nowMs - 8 * MINUTE_MS },
      { type: "Running", isTrue: true, lastTransitionMs: nowMs - 6 * MINUTE_MS },
    ],
    members: [member(0), member(1), member(2)],
    createdAtMs: nowMs - 15 * MINUTE_MS,
    startedAtMs: nowMs - 8 * MINUTE_MS,
    ownerId: ownerIdOf(name),
    traceparent: TRACE,
  };
}

function failedJob(name: string, nowMs: number): muster.job.v1.Job.$Properties {
  return {
    ...sampleJob(name, nowMs),
    key: { kind: "TFJob", name, namespace: "default" },
    state: "FAILED",
    conditions: [
      {
        type: "Failed",
        isTrue: true,
        reason: "BackoffLimitExceeded",
        message: "worker-0 failed 4 times; 3 are allowed",
        lastTransitionMs: nowMs - MINUTE_MS,
      },
    ],
    finishedAtMs: nowMs - MINUTE_MS,
  };
}

function jobEvents(name: string, nowMs: number): muster.job.v1.JobEvent.$Properties[] {
  return [0, 1, 2].flatMap((index) => [
    {
      atMs: nowMs - (8 - index) * MINUTE_MS,
      type: "Normal",
      reason: "Scheduled",
      message: "assigned to a node",
      count: 1,
      object: `Pod/${name}-worker-${index}`,
    },
    {
      atMs: nowMs - (7 - index) * MINUTE_MS,
      type: "Normal",
      reason: "Started",
      message: "started the container",
      count: 1,
      object: `Pod/${name}-worker-${index}`,
    },
  ]);
}

function sampleSet(name: string, nowMs: number): muster.farm.v1.ReplicaSet.$Properties {
  const { READY, NOT_READY } = enums.Health.numbers;
  return {
    record: {
      name,
      spec: { pool: "gpu", replicasDesired: 3, templateJson: "{}" },
      placements: [
        { node: "n-1", ordinal: 1, sinceMs: nowMs - 50 * MINUTE_MS },
        { node: "n-2", ordinal: 2, sinceMs: nowMs - 20 * MINUTE_MS },
      ],
      trouble: { code: "TOO_FEW_NODES", message: "1 replica has no node", sinceMs: nowMs - MINUTE_MS },
      createdAtMs: nowMs - 60 * MINUTE_MS,
    },
    replicas: [
      { node: "n-1", pod: `${name}-1`, health: READY },
      {
        node: "n-2",
        pod: `${name}-2`,
        health: NOT_READY,
        reason: "ImagePullBackOff",
        message: "the image cannot be pulled",
      },
    ],
    replicasDesired: 3,
    healthy: 1,
  };
}

function sampleLease(id: string, nowMs: number): muster.provision.v1.Lease.$Properties {
  return {
    record: {
      order: { id, engine: "main", user: "8Qw", type: "container", created: time(nowMs - MINUTE_MS) },
      phase: enums.LeasePhase.numbers.ACTIVE,
      expiresAt: time(nowMs + 60 * MINUTE_MS),
    },
    revision: 3,
  };
}

function sampleExplanation(kind: string, name: string, nowMs: number): muster.explain.v1.Explanation.$Properties {
  return {
    kind,
    name,
    phase: "RUN",
    sinceMs: nowMs - MINUTE_MS,
    reasons: [{ code: "RUNNING", message: "the driver runs", next: "Wait, or read its log." }],
    reservation: sampleWait(),
  };
}

function sampleWait(): muster.reservation.v1.ExplainReservationReply.$Properties {
  return {
    code: "POOL_AVAILABILITY",
    message: "16 machines of gpu are needed, and 3 are free",
    pools: [
      {
        pool: "gpu",
        requested: 16,
        available: 3,
        capacity: 40,
        held: 37,
        holders: [{ owner: { kind: "session", id: "bench-0" }, reservationId: "r-0", machines: 37 }],
      },
    ],
  };
}

/** Builds the requests that are served first, and the work that would be preempted. */
function sampleOrder(
  name: (text: string) => string,
  nowMs: number,
): muster.reservation.v1.ExplainReservationReply.$Properties {
  return {
    place: { ahead: 1 },
    requestsAhead: [
      {
        owner: { kind: "session", id: name("urgent") },
        reservationId: "w-2",
        queue: name("research"),
        priority: 5,
        createdAtMs: nowMs - 5 * MINUTE_MS,
        rule: "PRIORITY",
      },
    ],
    requestsAheadMore: 2,
    preemption: {
      victims: [{ owner: { kind: "session", id: name("bench-2") }, reservationId: "r-2", machines: 8 }],
      againAtMs: nowMs + 2 * MINUTE_MS,
    },
  };
}

function time(ms: number): { seconds: number; nanos: number } {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
}
