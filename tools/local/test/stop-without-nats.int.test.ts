import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SERVICES, type ServiceName } from "@muster/repo/services";
import { startTestNats, until, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ELASTIC } from "../src/elastic.ts";
import type { Child } from "../src/child.ts";
import type { Replica } from "../src/stack.ts";
import {
  buildSessionUntilFile,
  startWorld,
  submitSession,
  waitForSession,
  listEventNames,
  type World,
} from "./stack-world.ts";

const LONG = { timeoutMs: 120_000, everyMs: 50 };
/** A service allows itself 20 s to stop, and a slow machine takes some seconds of them. */
const SOON_MS = 15_000;

describe("while NATS is unreachable", { timeout: 400_000 }, () => {
  let nats: TestNats;
  let world: World;
  beforeAll(async () => {
    nats = await startTestNats();
    world = await startWorld({ nats, elastic: ELASTIC, pools: { drivers: 1, workers: 2 } });
    // A session in flight, whose next step needs NATS.
    await submitSession(world, "long", buildSessionUntilFile(join(dirname(world.stack.kubeconfig), "never")));
    await waitForSession(world, "long", "runs", (session) => listEventNames(session).includes("RUN"));
    await nats.kill();
  }, 300_000);
  afterAll(async () => {
    await nats.start();
    await world[Symbol.asyncDispose]();
    await nats[Symbol.asyncDispose]();
  }, 60_000);

  /** The log lines of this process; the next process appends to the same file. */
  const lines = async (service: ServiceName, pid: number): Promise<readonly Record<string, unknown>[]> =>
    (await readFile(join(dirname(world.stack.kubeconfig), `logs/${service}-0.log`), "utf8"))
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ instance }) => String(instance).includes(`-${pid}-`));

  const replicaOf = (service: ServiceName): Replica => {
    const found = world.stack.replicas.find((replica) => replica.service === service);
    if (found === undefined) throw new Error(`${service} is missing`);
    return found;
  };

  /** Stops the process by SIGTERM, and returns its log lines. */
  const stopped = async (service: ServiceName, child: Child): Promise<readonly Record<string, unknown>[]> => {
    const startMs = performance.now();
    process.kill(child.pid, "SIGTERM");
    const how = await child.exited;
    const soon = performance.now() - startMs < SOON_MS;
    expect({ how, soon }).toEqual({ how: "exit code 0", soon: true });
    await until(
      "the last line of its log",
      async () => (await lines(service, child.pid)).at(-1)?.["msg"] === "stopped",
    );
    return lines(service, child.pid);
  };

  it.each(SERVICES)("%s exits soon with 0 on SIGTERM, also when it has not reached NATS yet", async (service) => {
    const replica = replicaOf(service);
    const child = replica.current();
    const logs = async (matches: (line: Record<string, unknown>) => boolean) =>
      (await lines(service, replica.current().pid)).some(matches);
    await until("it has logged the disconnect", () => logs(({ status }) => status === "disconnected"), LONG);
    const words = await stopped(service, child);
    expect(words.filter(({ level }) => level === "error")).toEqual([]);
    // The service cannot release the session in flight, and logs that.
    if (service === "session-controller")
      expect(words).toContainEqual(expect.objectContaining({ status: "abandoned" }));

    await until("it is restarted", () => replica.current() !== child, LONG);
    await until("the new process tries NATS", () => logs(({ msg }) => msg === "started"), LONG);
    await stopped(service, replica.current());
  });
});
