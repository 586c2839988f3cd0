import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { connectNats, openDeadLetters } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { subjects } from "@muster/proto";
import { STANDARD, type ServiceName } from "@muster/repo/services";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { LEASE_IMAGE } from "./lease-cases.ts";
import { openLeaseDisks } from "./lease-disks.ts";
import { storeEnv } from "./lease-programs.ts";
import { startLeaseRun, ofStack } from "./lease-run.ts";
import { runMuster } from "./muster-run.ts";
import { describeRollingSuite } from "./rolling-suite.ts";
import {
  CLUSTERS,
  listEventNames,
  expectNothingLeft,
  isFinished,
  buildSessionUntilFile,
  buildSmallSession,
  startWorld,
  submitSession,
  waitForSession,
  type World,
} from "./stack-world.ts";

const GOOD = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"];

const OF_SESSIONS: readonly ServiceName[] = ["watcher", "reservation-manager", "session-controller"];
const KILLED: readonly { readonly who: string; readonly services: readonly ServiceName[] }[] = [
  ...OF_SESSIONS.map((service) => ({ who: `${service} is`, services: [service] })),
  {
    who: "all services that sessions do not need are",
    services: STANDARD.filter((service) => !OF_SESSIONS.includes(service)),
  },
];

/** Each command is a process, and the machine may be slow. */
const LEASES = { timeout: 600_000 };

/** The first replica of each of these services. */
async function killFirst(world: World, services: readonly ServiceName[]): Promise<void> {
  for (const service of services) {
    await world.stack.replicas
      .find((replica) => replica.service === service)
      ?.current()
      .kill();
  }
}

/** Returns false for a temporary refusal; rethrows any other error. */
function isLaterPossible(error: unknown): false {
  const fault = findFault(error);
  if (fault === undefined || !isRetryable(fault)) throw error;
  return false;
}

describe.each(CLUSTERS)("the whole stack on $on, one replica of each service", ({ options }) => {
  const { kubeconfig } = options;
  const isRealCluster = kubeconfig !== undefined;
  const all = new AsyncDisposableStack();
  let world: World;
  beforeAll(async () => {
    // A role that each cluster has; the embedded cluster has the role of slices.
    const own = isRealCluster && {
      ...all.use(await openLeaseDisks(kubeconfig)).env,
      PROVISION_KUBERNETES_ROLE: "edit",
      PROVISION_CONTAINER_POOLS: "workers,drivers",
    };
    const env = { ...storeEnv({ image: LEASE_IMAGE, hasDisk: isRealCluster }), ...own };
    world = all.use(await startWorld({ ...options, env }));
  });
  afterAll(() => all.disposeAsync());

  it("leases one of each type, and removes all their objects", LEASES, async () => {
    await using run = await startLeaseRun(ofStack(world, { isRealCluster }));
    await run.order();
    if (isRealCluster) await run.replacePods();
    await run.end();
  });

  // The tests of the chart cover the rest on a real cluster.
  if (isRealCluster) return;

  it("runs a session from submission to result and leaves no object behind", async () => {
    await submitSession(world, "good", buildSmallSession({ driverSeconds: 0.2 }));
    const session = await waitForSession(world, "good", "is finished", isFinished);
    expect(listEventNames(session)).toEqual(GOOD);
    expect(JSON.parse(session.resultJson)).toEqual({ workers: 2 });
    expect(session.warnings).toEqual([]);
    await expectNothingLeft(world);
  });

  it("allows the key of the command line to read everything, and to resend dead letters", async () => {
    const { code, output } = await runMuster(world, ["doctor"]);
    expect(code, output).toBe(0);
    await using bus = await connectNats({ ...world.stack.nats, name: "test" });
    const letters = openDeadLetters(bus);
    const letterOf = (area: string, after: number) =>
      until(`${area} has a dead letter`, async () => {
        const [found] = await letters.list({ area, after });
        return found ?? false;
      });
    const spoilt = { lease: subjects.orderLease("main", "spoilt") };
    for (const [area, subject] of Object.entries(spoilt)) {
      await bus.publish(subject, new TextEncoder().encode("spoilt"), { messageId: subject });
      const { id } = await letterOf(area, 0);
      // The stream has one message for a subject, and the letter is written before the spoilt one is removed.
      await until("the letter is replayed", () => letters.replay(id).then(() => true, isLaterPossible));
      const returned = await letterOf(area, id);
      expect(await letters.drop(returned.id)).toBe(true);
    }
  });

  it("runs sessions one after another with one executor, and reports why the second waits", async () => {
    const file = join(dirname(world.stack.kubeconfig), "first-may-end");
    await submitSession(world, "first", buildSessionUntilFile(file));
    await waitForSession(world, "first", "runs", (session) => listEventNames(session).includes("RUN"));
    await submitSession(world, "second", buildSmallSession({ driverSeconds: 0.1 }));
    const waiting = await waitForSession(
      world,
      "second",
      "reports why it waits",
      ({ waitingBecause }) => waitingBecause !== "",
    );
    expect(listEventNames(waiting)).toEqual(["QUEUE"]);
    await writeFile(file, "");
    const second = await waitForSession(world, "second", "is finished", isFinished);
    expect(listEventNames(second)).toEqual(GOOD);
    await expectNothingLeft(world);
  });

  it.each(KILLED)("ends a session with the right outcome when $who killed while it runs", async ({ services }) => {
    const name = `kill-${services[0]}`;
    await submitSession(world, name, buildSmallSession({ driverSeconds: 3 }));
    await waitForSession(world, name, "runs", (session) => listEventNames(session).includes("RUN"));
    await killFirst(world, services);
    const session = await waitForSession(world, name, "is finished", isFinished);
    expect(listEventNames(session)).toEqual(GOOD);
    await expectNothingLeft(world);
  });

  it.each(KILLED)(
    "ends a session with the right outcome when $who killed right after the submit",
    async ({ services }) => {
      const name = `early-${services[0]}`;
      await submitSession(world, name, buildSmallSession({ driverSeconds: 0.5 }));
      await killFirst(world, services);
      const session = await waitForSession(world, name, "is finished", isFinished);
      expect(listEventNames(session)).toEqual(GOOD);
      await expectNothingLeft(world);
    },
  );
});

describe("the whole stack on the embedded cluster, two replicas of each service", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld({
      replicas: { watcher: 2, "reservation-manager": 2, "session-controller": 2 },
      env: { SESSION_EXECUTORS: "2" },
    });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  it("runs two sessions concurrently on machines that they do not share", async () => {
    await submitSession(world, "one", buildSmallSession({ driverSeconds: 0.5 }));
    // Pool `drivers` has one machine, so the second waits for it: no machine has two owners.
    await submitSession(world, "two", buildSmallSession({ driverSeconds: 0.5 }));
    const finished = await Promise.all(
      ["one", "two"].map((name) => waitForSession(world, name, "is finished", isFinished)),
    );
    for (const session of finished) expect(listEventNames(session)).toEqual(GOOD);
    await expectNothingLeft(world);
  });

  it("continues in another replica when every first replica is killed", async () => {
    await submitSession(world, "takeover", buildSmallSession({ driverSeconds: 4 }));
    await waitForSession(world, "takeover", "runs", (session) => listEventNames(session).includes("RUN"));
    await killFirst(world, STANDARD);
    const session = await waitForSession(world, "takeover", "is finished", isFinished);
    expect(listEventNames(session)).toEqual(GOOD);
    await expectNothingLeft(world);
  });
});

for (const { options } of CLUSTERS) if (options.kubeconfig !== undefined) describeRollingSuite(options.kubeconfig);
