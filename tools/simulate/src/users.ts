import { setTimeout as sleep } from "node:timers/promises";
import { buildSession } from "@muster/chaos/build-session";
import type { Phase, Shape } from "@muster/chaos/plan-shapes";
import { describeFault, FaultError, faultOf, isRetryable } from "@muster/faults";
import { recordCodec } from "@muster/session-controller/messages";
import { cancel, submit, type RequestDeps, type Submission } from "@muster/session-controller/requests";
import { eventOf, isFinished, type SessionRecord } from "@muster/session-controller/session";
import { CONFIG, type Desks } from "./replicas/session-controller.ts";
import type { Process } from "./task-queue.ts";
import type { World } from "./world.ts";

/** What users were told. */
export type Diary = {
  readonly acknowledged: Set<string>;
  readonly refused: Map<string, string>;
};

const PATIENCE_MS = 5000;
const AGAIN_MS = 300;
const LOOK_MS = 20;
/** Users are one process that nothing happens to. */
const USERS: Process = { name: "users", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };

/** Submits every session at its time, and cancels those whose shape says so. */
export function startUsers(world: World, desks: Desks, shapes: readonly Shape[], diary: Diary): void {
  world.time.as(USERS, () => {
    for (const shape of shapes) {
      setTimeout(() => {
        for (let times = shape.submitTwice ? 2 : 1; times > 0; times -= 1)
          void insist(world, desks, diary, shape, "submit");
        if (shape.cancel !== undefined) void cancelWhen(world, desks, diary, shape, shape.cancel);
      }, shape.submitAtMs);
    }
  });
}

async function cancelWhen(
  world: World,
  desks: Desks,
  diary: Diary,
  shape: Shape,
  { phase, afterMs }: NonNullable<Shape["cancel"]>,
): Promise<void> {
  for (;;) {
    const record = recordOf(world, shape.name);
    if (diary.refused.has(shape.name) || (record !== undefined && isFinished(record))) return;
    if (record !== undefined && isReached(record, phase)) break;
    await sleep(LOOK_MS);
  }
  await sleep(afterMs);
  await insist(world, desks, diary, shape, "cancel");
}

/** Asks some replica, again and again until it is answered, as the command line does. */
async function insist(
  world: World,
  desks: Desks,
  diary: Diary,
  shape: Shape,
  what: "submit" | "cancel",
): Promise<void> {
  const { name } = shape;
  const submission: Submission = {
    requestId: `submit-${name}`,
    name,
    draft: { scenarioJson: "", ttlMs: 0, workerPort: 0, ...draftOf(shape) },
  };
  const policy = { defaults: CONFIG.defaults, limits: CONFIG.limits };
  const work = (desk: RequestDeps): Promise<unknown> =>
    what === "submit" ? submit(desk, policy, submission) : cancel(desk, name);
  for (;;) {
    try {
      await ask(world, desks, `${what} ${name}`, work);
      if (what === "submit") diary.acknowledged.add(name);
      world.trace.note(USERS.name, `${what} ${name} is acknowledged`);
      return;
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined) throw error;
      world.trace.note(USERS.name, `${what} ${name}: ${describeFault(fault)}`);
      if (!isRetryable(fault)) {
        diary.refused.set(name, describeFault(fault));
        return;
      }
      await sleep(AGAIN_MS);
    }
  }
}

/** One request to one replica: it may never arrive, and its answer may be lost with the replica. */
function ask(
  world: World,
  desks: Desks,
  what: string,
  work: (desk: RequestDeps) => Promise<unknown>,
): Promise<unknown> {
  const { network, random } = world;
  return new Promise((resolve, reject) => {
    setTimeout(
      () => reject(new FaultError({ code: "deadline_exceeded", operation: what, timeoutMs: PATIENCE_MS })),
      PATIENCE_MS,
    );
    network.send("nats", what, () => {
      const [first, ...rest] = desks;
      if (first === undefined) return;
      const [replica, desk] = random.pick([first, ...rest]);
      network.bring(replica.process, () => {
        work(desk).then(
          (result) => network.send("nats", `answer to ${what}`, () => network.bring(USERS, () => resolve(result))),
          (error: unknown) =>
            network.bring(USERS, () => reject(error instanceof Error ? error : new Error(String(error)))),
        );
      });
    });
  });
}

const decoded = new WeakMap<Uint8Array, SessionRecord>();

/** Decodes what is stored, each once. */
export function decodeRecord(bytes: Uint8Array): SessionRecord {
  const known = decoded.get(bytes);
  if (known !== undefined) return known;
  const record = recordCodec.decode(bytes);
  decoded.set(bytes, record);
  return record;
}

export function recordOf({ sessions }: Pick<World, "sessions">, name: string): SessionRecord | undefined {
  const kept = sessions.entries.get(name);
  return kept === undefined ? undefined : decodeRecord(kept.bytes);
}

function isReached(record: SessionRecord, phase: Phase): boolean {
  switch (phase) {
    case "queued":
      return true;
    case "accepted":
      return eventOf(record, "ACCEPT") !== undefined;
    case "provisioning":
      return record.components.some(({ podUid }) => podUid !== "");
    case "running":
      return eventOf(record, "RUN") !== undefined;
    case "cleaning-up":
      return record.verdict !== undefined;
  }
}

function draftOf(shape: Shape) {
  const { components, ...rest } = buildSession(shape);
  const none = { args: [], env: [], workingDir: "", templateJson: "" };
  return { ...rest, components: components.map((component) => ({ ...none, ...component })) };
}
