import { setTimeout as sleep } from "node:timers/promises";
import { buildSession } from "@muster/chaos/build-session";
import { DRIVERS, type Phase, type SessionShape } from "@muster/chaos/plan-shapes";
import { describeFault, FaultError, findFault, isRetryable } from "@muster/faults";
import { recordCodec } from "@muster/session-controller/messages";
import {
  cancelSession,
  submitSession,
  type RequestDeps,
  type SessionSubmission,
} from "@muster/session-controller/requests";
import { findEvent, isFinished, type SessionRecord } from "@muster/session-controller/session";
import { CONFIG, type RequestTargets } from "./replicas/session-controller.ts";
import type { Process } from "./task-queue.ts";
import type { World } from "./world.ts";

/** The answers that users received. */
export type UserAnswers = {
  readonly acknowledged: Set<string>;
  readonly refused: Map<string, string>;
};

const PATIENCE_MS = 5000;
const RETRY_MS = 300;
const POLL_MS = 20;
/** All users are one process without faults. */
const USERS: Process = { name: "users", alive: true, frozenUntilMs: 0, clockOffsetMs: 0 };

/** A session to submit. With `isShared`, its components get parts of machines. `otherPools`: further pools that its driver accepts. */
export type UserSession = SessionShape & { readonly isShared?: boolean; readonly otherPools: readonly string[] };

/** Submits every session at its time, and cancels those with a planned cancellation. */
export function startUsers(
  world: World,
  targets: RequestTargets,
  shapes: readonly UserSession[],
  answers: UserAnswers,
): void {
  world.time.as(USERS, () => {
    for (const shape of shapes) {
      setTimeout(() => {
        for (let times = shape.submitTwice ? 2 : 1; times > 0; times -= 1)
          void sendUntilAnswered(world, targets, answers, shape, "submit");
        if (shape.cancel !== undefined) void cancelWhen(world, targets, answers, shape, shape.cancel);
      }, shape.submitAtMs);
    }
  });
}

async function cancelWhen(
  world: World,
  targets: RequestTargets,
  answers: UserAnswers,
  shape: UserSession,
  { phase, afterMs }: NonNullable<SessionShape["cancel"]>,
): Promise<void> {
  for (;;) {
    const record = readRecord(world, shape.name);
    if (answers.refused.has(shape.name) || (record !== undefined && isFinished(record))) return;
    if (record !== undefined && isReached(record, phase)) break;
    await sleep(POLL_MS);
  }
  await sleep(afterMs);
  await sendUntilAnswered(world, targets, answers, shape, "cancel");
}

/** Sends the request to random replicas until one answers, like the command line. */
async function sendUntilAnswered(
  world: World,
  targets: RequestTargets,
  answers: UserAnswers,
  shape: UserSession,
  verb: "submit" | "cancel",
): Promise<void> {
  const { name } = shape;
  const submission: SessionSubmission = {
    requestId: `submit-${name}`,
    name,
    draft: { scenarioJson: "", queue: "", topology: "", ttlMs: 0, workerPort: 0, ...buildDraft(shape) },
  };
  const policy = { defaults: CONFIG.defaults, limits: CONFIG.limits, poolLabel: CONFIG.kube.poolLabel };
  const work = (target: RequestDeps): Promise<unknown> =>
    verb === "submit" ? submitSession(target, policy, submission) : cancelSession(target, { name });
  for (;;) {
    try {
      await send(world, targets, `${verb} ${name}`, work);
      if (verb === "submit") answers.acknowledged.add(name);
      world.trace.note(USERS.name, `${verb} ${name} is acknowledged`);
      return;
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      world.trace.note(USERS.name, `${verb} ${name}: ${describeFault(fault)}`);
      if (!isRetryable(fault)) {
        answers.refused.set(name, describeFault(fault));
        return;
      }
      await sleep(RETRY_MS);
    }
  }
}

/** Sends one request to one replica: the request may be lost, and the answer too when the replica dies. */
function send(
  world: World,
  targets: RequestTargets,
  operation: string,
  work: (target: RequestDeps) => Promise<unknown>,
): Promise<unknown> {
  const { network, random } = world;
  return new Promise((resolve, reject) => {
    setTimeout(
      () => reject(new FaultError({ code: "deadline_exceeded", operation, timeoutMs: PATIENCE_MS })),
      PATIENCE_MS,
    );
    network.send("nats", operation, () => {
      const [first, ...rest] = targets;
      if (first === undefined) return;
      const [replica, target] = random.pick([first, ...rest]);
      network.deliver(replica.process, () => {
        work(target).then(
          (result) =>
            network.send("nats", `answer to ${operation}`, () => network.deliver(USERS, () => resolve(result))),
          (error: unknown) =>
            network.deliver(USERS, () => reject(error instanceof Error ? error : new Error(String(error)))),
        );
      });
    });
  });
}

const decoded = new WeakMap<Uint8Array, SessionRecord>();

/** Decodes each stored record once. */
export function decodeRecord(bytes: Uint8Array): SessionRecord {
  const known = decoded.get(bytes);
  if (known !== undefined) return known;
  const record = recordCodec.decode(bytes);
  decoded.set(bytes, record);
  return record;
}

export function readRecord({ sessions }: Pick<World, "sessions">, name: string): SessionRecord | undefined {
  const kept = sessions.entries.get(name);
  return kept === undefined ? undefined : decodeRecord(kept.bytes);
}

function isReached(record: SessionRecord, phase: Phase): boolean {
  switch (phase) {
    case "queued":
      return true;
    case "accepted":
      return findEvent(record, "ACCEPT") !== undefined;
    case "provisioning":
      return record.components.some(({ podUid }) => podUid !== "");
    case "running":
      return findEvent(record, "RUN") !== undefined;
    case "cleaning-up":
      return record.verdict !== undefined;
  }
}

/** The requests of the pod of a shared component. */
const PART = { cpu: "500m", memory: "512Mi" };
const PART_TEMPLATE = JSON.stringify({ spec: { containers: [{ name: "main", resources: { requests: PART } }] } });

function buildDraft(shape: UserSession) {
  const { components, ...rest } = buildSession(shape);
  const { isShared: shared = false, otherPools } = shape;
  const none = { args: [], env: [], workingDir: "", templateJson: shared ? PART_TEMPLATE : "", shared };
  return {
    ...rest,
    components: components.map((component) => {
      const accepts = component.kind === "driver" && component.pool === DRIVERS;
      return { ...none, ...component, otherPools: accepts ? otherPools : [] };
    }),
  };
}
