import type { EventContext } from "@muster/bus";
import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import { fakeWorld } from "../test/fake-world.ts";
import { POLICY } from "../test/samples.ts";
import { executeMessage } from "./execute-message.ts";
import type { ExecutorDeps } from "./executor.ts";

const never = new AbortController().signal;
const MESSAGE_POLICY = { session: POLICY, queue: { ackWaitMs: 60_000, failuresMost: 3 } };
const defect = () => {
  throw new TypeError("undefined is not a function");
};

/** Delivers the message as the stream would, until it is ended; says how it ended and after how many deliveries. */
async function delivered(
  world: ReturnType<typeof fakeWorld>,
  broken: Partial<ExecutorDeps>,
  most = 10,
): Promise<{ readonly attempts: number; readonly end: string }> {
  const deps = { ...world.deps("a"), ...broken };
  for (let attempt = 1; attempt <= most; attempt += 1) {
    let end = "";
    const delivery: EventContext = {
      subject: "run",
      sequence: 1,
      attempt,
      working: () => undefined,
      ack: () => Promise.resolve(),
      retry: () => undefined,
      giveUp: (reason) => {
        end = `buried: ${reason}`;
      },
    };
    try {
      await executeMessage(deps, MESSAGE_POLICY, { name: "bench", uid: "u-1" }, delivery, never);
      return { attempts: attempt, end };
    } catch {
      // Delivered again.
    }
  }
  return { attempts: most, end: "never ended" };
}

it("buries the command of a session that always fails, and the session ends as INTERNAL_ERROR with everything cleaned up", async () => {
  const world = fakeWorld({ behave: () => ({}) });
  const brokenOnceItRuns: Partial<ExecutorDeps> = {
    pods: (record) => (record.events.length > 2 && record.components.some((c) => c.podUid !== "") ? defect() : []),
  };
  const { attempts, end } = await delivered(world, brokenOnceItRuns);
  expect({ attempts, end }).toEqual({
    attempts: 3,
    end: "buried: failed 3 times, at last because undefined is not a function",
  });
  expect(world.record().verdict).toMatchObject({ kind: "INTERNAL_ERROR" });
  expect(world.made).toHaveLength(1);
  expect(await delivered(world, brokenOnceItRuns)).toEqual({ attempts: 1, end: "" });
  expect(world.record().events.at(-1)).toMatchObject({
    kind: "INTERNAL_ERROR",
    description: "the session cannot be run: failed 3 times, at last because undefined is not a function",
  });
  expect(world.state.held).toBe(false);
  expect([...world.pods.values()].every(({ alive }) => !alive)).toBe(true);
});

it("leaves a session to the sweep whose clean-up always fails, too", async () => {
  const world = fakeWorld();
  const broken = { act: defect };
  expect((await delivered(world, broken)).attempts).toBe(3);
  expect((await delivered(world, broken)).attempts).toBe(3);
  expect(world.record()).toMatchObject({ podsDeleted: true, released: false });
  expect(world.record().finishedAtMs).toBeGreaterThan(0);
  expect(world.record().warnings.map(({ code }) => code)).toEqual(["NOT_RELEASED"]);
  expect(await delivered(world, broken)).toEqual({ attempts: 1, end: "" });
});

it("looks once in each sweep, and buries nothing again, where not even the end can be written", async () => {
  const world = fakeWorld();
  const broken = { save: () => Promise.reject(new FaultError({ code: "internal", operation: "writing" })) };
  expect((await delivered(world, broken)).end).toMatch(/^buried: failed 3 times/);
  expect(await delivered(world, broken)).toEqual({ attempts: 1, end: "" });
  expect(await delivered(world, broken)).toEqual({ attempts: 1, end: "" });
  expect(await delivered(world, {})).toEqual({ attempts: 1, end: "" });
  expect(world.record().finishedAtMs).toBeGreaterThan(0);
});

it("counts no trouble that may pass", async () => {
  const world = fakeWorld();
  const away = () => Promise.reject(new FaultError({ code: "unavailable", dependency: "nats", retryAfterMs: 0 }));
  expect(await delivered(world, { load: away })).toEqual({ attempts: 10, end: "never ended" });
  expect(world.record().verdict).toBeUndefined();
});
