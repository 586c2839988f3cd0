import { describe, expect, it } from "vitest";
import {
  makeComponent,
  makeLivePod,
  makePodSeen,
  POLICY,
  makeProvisioning,
  makeRecord,
  makeRunning,
  makeSnapshot,
  makeSpec,
  START_MS,
} from "../../test/samples.ts";
import { getRecordPhase, planSession } from "./plan-session.ts";
import type { SessionRecord, TerminalKind } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";
import { transitionRecord } from "./transition-record.ts";

const PAIR = makeSpec({
  components: [
    makeComponent("driver", "driver"),
    makeComponent("server-0", "server"),
    makeComponent("server-1", "server"),
    makeComponent("client-0", "client"),
    makeComponent("client-1", "client"),
  ],
});

/** Two servers and two clients; the components named have pods. */
function pair(created: readonly string[]): SessionRecord {
  const { events } = makeProvisioning([]);
  const base = makeRecord({ reservationId: "r-1", events }, PAIR);
  const components = base.components.map((status) => ({
    ...status,
    node: `node-${status.name}`,
    ...(created.includes(status.name) ? { podUid: `uid-${status.name}`, state: "CREATED" as const } : {}),
  }));
  return { ...base, components };
}

function made(world: Partial<Snapshot>): string[] {
  return planSession(makeSnapshot(world), POLICY).flatMap((step) =>
    step.kind === "create-pod" ? [step.component.name] : [],
  );
}

function concluded(world: Partial<Snapshot>): (TerminalKind | undefined)[] {
  return planSession(makeSnapshot(world), POLICY).flatMap((step) =>
    step.kind === "conclude" ? [step.verdict.kind] : [],
  );
}

const verdict = (kind: TerminalKind) => ({ kind, atMs: START_MS, description: "", reason: "" }) as const;
const live = makeLivePod(makePodSeen("driver"), { containers: ["main", "side"] });

it("each group is started in parallel", () => {
  const servers = ["server-0", "server-1"];
  expect(made({ record: pair([]) })).toEqual(servers);
  expect(made({ record: pair(servers), pods: servers.map((name) => makePodSeen(name)) })).toEqual([
    "client-0",
    "client-1",
  ]);
});

it("readiness belongs to its own component", () => {
  const created = pair(["server-0", "server-1"]);
  const twice = [makePodSeen("server-0"), makePodSeen("server-0")];
  expect(made({ record: created, pods: twice })).toEqual([]);
  expect(made({ record: created, pods: [...twice, makePodSeen("server-1")] })).toEqual(["client-0", "client-1"]);
});

it("a time limit of 0 is no limit, while provisioning and while running", () => {
  const unlimited = { spec: makeSpec({ timeoutMs: 0 }) };
  const nowMs = Number.MAX_SAFE_INTEGER;
  const pods = ["driver", "client-0", "server-0"].map((name) => makePodSeen(name));
  expect(concluded({ record: makeProvisioning(["server-0"], unlimited), nowMs })).toEqual([]);
  expect(concluded({ record: makeRunning(unlimited), pods, nowMs })).toEqual([]);
});

it("queue time does not count towards the time limit", () => {
  const late = START_MS + 80_000_000;
  const events = makeProvisioning([]).events.map((event) =>
    event.kind === "QUEUE" ? event : { ...event, atMs: late },
  );
  const accepted = makeProvisioning([], { events });
  expect(concluded({ record: accepted, nowMs: late + 899_999 })).toEqual([]);
  expect(concluded({ record: accepted, nowMs: late + 900_000, livePods: [] })).toEqual(["ERROR"]);
});

describe("a terminal event is final", () => {
  it.each<TerminalKind>(["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"])("%s", (kind) => {
    const cleaned = makeRunning({ verdict: verdict(kind), logsCollected: true, podsDeleted: true, released: true });
    const over = transitionRecord(cleaned, { kind: "finish", atMs: START_MS + 9, warnings: [], because: "cleaned-up" });
    expect(over.events.at(-1)?.kind).toBe(kind);
    const other = verdict(kind === "DONE" ? "ERROR" : "DONE");
    for (const record of [cleaned, over]) {
      const again = transitionRecord(record, { kind: "conclude", verdict: other, because: "TIMEOUT" });
      expect(again.verdict?.kind).toBe(kind);
    }
    expect(transitionRecord(over, { kind: "record", event: other, because: "driver-ended" })).toBe(over);
    expect(planSession(makeSnapshot({ record: { ...over, cancelRequested: true } }), POLICY)).toEqual([]);
  });
});

it("trouble with logs or deletion is a warning on the result, not a second result", () => {
  let now = makeRunning({ verdict: verdict("DONE") });
  const warnings = [{ code: "LOGS_LOST", message: "bench-driver/main: away" }] as const;
  now = transitionRecord(now, { kind: "logs-read", pod: "bench-driver", warnings, resultJson: '{"qps":1}' });
  now = transitionRecord(now, { kind: "confirm-logs-read", warnings: [], because: "none-left" });
  const late = START_MS + POLICY.cleanupLimitMs + now.spec.killAfterMs;
  const steps = planSession(
    makeSnapshot({ record: now, nowMs: late, livePods: [{ ...live, deleting: true }] }),
    POLICY,
  );
  for (const step of steps) if (step.kind === "finish") now = transitionRecord(now, step);
  expect(now.resultJson).toBe('{"qps":1}');
  expect(now.warnings.map(({ code }) => code)).toEqual(["LOGS_LOST", "PODS_NOT_GONE"]);
  expect(now.events.map(({ kind }) => kind)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
});

it("logs of every container of every pod are stored also when the session failed", () => {
  const livePods = [live, makeLivePod(makePodSeen("server-0"))];
  for (const kind of ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const) {
    expect(planSession(makeSnapshot({ record: makeRunning({ verdict: verdict(kind) }), livePods }), POLICY)).toEqual([
      { kind: "collect-logs", pods: livePods, because: "session-over" },
    ]);
  }
});

describe("cancel works in every state", () => {
  const cancelRequested = true;
  it.each<[string, Partial<Snapshot>]>([
    ["QUEUE, not asked yet", { record: makeRecord({ cancelRequested }) }],
    [
      "QUEUE, granted",
      { record: makeRecord({ cancelRequested }), reservation: { state: "granted", id: "r", machines: [] } },
    ],
    ["PROVISION, no pod yet", { record: makeProvisioning([], { cancelRequested }) }],
    [
      "PROVISION, some pods",
      { record: makeProvisioning(["server-0"], { cancelRequested }), pods: [makePodSeen("server-0")] },
    ],
    ["RUN", { record: makeRunning({ cancelRequested }) }],
  ])("%s", (_state, world) => {
    expect(concluded(world)).toEqual(["CANCELLED"]);
    expect(made(world)).toEqual([]);
  });

  it("during a clean-up, the outcome stays and the clean-up continues", () => {
    const ending = makeRunning({ verdict: verdict("DONE"), logsCollected: true, cancelRequested });
    const steps = planSession(makeSnapshot({ record: ending, livePods: [live], nowMs: START_MS + 2000 }), POLICY);
    expect(steps.map((step) => step.kind)).toEqual(["explain-wait", "delete-pod"]);
  });
});

it.each([
  [["bench-client-0"], "only logs of bench-client-0 were kept: away", ["LOGS_LOST", "RESULT_LOST", "PODS_NOT_GONE"]],
  [
    ["bench-client-0", "bench-driver"],
    "only logs of bench-client-0, bench-driver were kept: away",
    ["LOGS_LOST", "PODS_NOT_GONE"],
  ],
  [[], "no log was kept: away", ["LOGS_LOST", "RESULT_LOST", "PODS_NOT_GONE"]],
])("a clean-up that ends with only the logs of %j names those", (logsRead, message, codes) => {
  const over = makeRunning({ verdict: verdict("DONE"), logsRead });
  const nowMs = START_MS + POLICY.cleanupLimitMs + over.spec.killAfterMs + 1000;
  const steps = planSession(makeSnapshot({ record: over, nowMs, trouble: "away" }), POLICY);
  const warnings = steps.flatMap((step) => (step.kind === "finish" ? step.warnings : []));
  expect(warnings.map(({ code }) => code)).toEqual(codes);
  expect(warnings[0]?.message).toBe(message);
});

it("names the current phase of a session", () => {
  const ended = makeRunning({ verdict: verdict("DONE") });
  expect(getRecordPhase(makeRecord())).toBe("queue");
  expect(getRecordPhase(makeProvisioning([]))).toBe("provision");
  expect(getRecordPhase(makeRunning())).toBe("run");
  expect(getRecordPhase(ended)).toBe("clean up");
  expect(getRecordPhase({ ...ended, finishedAtMs: START_MS + 9 })).toBe("over");
});
