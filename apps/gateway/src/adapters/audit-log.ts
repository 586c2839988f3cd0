import { createHash, randomUUID } from "node:crypto";
import { publishEvent, type Bus } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";
import type { Logger } from "@muster/service";
import type { Access, User } from "../api/user.ts";
import { openLateOutcomes } from "./late-outcomes.ts";

const { ChangeAudited } = muster.gateway.v1;
const MAX_GROUPS = 32;
const MAX_NAME = 253;

/** One attempt to make a change. */
export type Attempt = {
  readonly requestId: string;
  readonly atMs: number;
  readonly user: User;
  readonly access: Access;
  readonly method: string;
  readonly address: string;
};

export type Outcome = {
  /** The status of the HTTP answer. */
  readonly status: number;
  /** The code of the problem; empty if the change succeeded. */
  readonly code: string;
};

export type AttemptAudit = {
  /**
   * Announces the change, immediately before the service is called. Rejects with FaultError if the stream does not accept it: the service is not called then.
   */
  announce(): Promise<void>;
  /**
   * Completes the announced change; without an announcement, records the refusal. Never rejects. An outcome that the stream does not accept is published again
   * in the background; a refusal that it does not accept is logged as an error.
   */
  end(outcome: Outcome): Promise<void>;
};

export type Audit = (attempt: Attempt) => AttemptAudit;

/** The audit log. Disposal waits for the outcomes of announced changes, which arrive within the timeout of one call. */
export type AuditLog = AsyncDisposable & {
  readonly audit: Audit;
  /** The number of changes whose outcome the stream has not accepted yet. */
  readonly lateOutcomes: number;
};

/** Ensures separate streams for changes and refusals, so that no number of refusals removes a change. */
export async function ensureAuditStreams(bus: Bus): Promise<void> {
  await bus.ensureStream(streams.apiAudit);
  await bus.ensureStream(streams.apiRefusals);
}

/** Writes to the streams of `ensureAuditStreams`. `bus` throws FaultError until they exist. Each method resolves when its event is on disk. */
export function openAuditLog(bus: () => Bus, logger: Pick<Logger, "error" | "warn" | "info">): AuditLog {
  const inFlight = new Set<Promise<undefined>>();
  const late = openLateOutcomes(logger);
  const audit: Audit = (attempt) => {
    const record = recordOf(attempt);
    const user = userKey(record.user);
    const id = randomUUID();
    const ended = Promise.withResolvers<undefined>();
    let isAnnounced = false;
    const publish = async (outcome: Outcome): Promise<unknown> => {
      const { resource } = record;
      const subject = isAnnounced ? subjects.changeAudited(resource, user, id) : subjects.changeRefused(resource, user);
      // A random id is used, because the request id would drop the events of repeated attempts as duplicates.
      return publishEvent(bus(), subject, ChangeAudited, { ...record, ...outcome }, { messageId: randomUUID() });
    };
    return {
      announce: async () => {
        isAnnounced = true;
        inFlight.add(ended.promise);
        await publish({ status: 0, code: "" });
      },
      end: async (outcome) => {
        try {
          await publish(outcome);
        } catch (error) {
          const ofAttempt = { ...record, ...outcome };
          if (isAnnounced) late.add({ record: ofAttempt, publish: () => publish(outcome) }, error);
          else logger.error({ err: error, record: ofAttempt }, "the audit lacks the refusal of a change");
        } finally {
          inFlight.delete(ended.promise);
          ended.resolve(undefined);
        }
      },
    };
  };
  return {
    audit,
    get lateOutcomes() {
      return late.count;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(inFlight);
      await late[Symbol.asyncDispose]();
    },
  };
}

/** Returns the name of a user as a token of a subject. */
export function userKey(user: string): string {
  return createHash("sha256").update(user).digest("hex").slice(0, 16);
}

function recordOf({ user, access, ...attempt }: Attempt): typeof attempt & {
  readonly user: string;
  readonly groups: string[];
  readonly verb: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
} {
  const { verb, resource, namespace } = access;
  const groups = user.groups.slice(0, MAX_GROUPS);
  return { ...attempt, user: user.name, groups, verb, resource, namespace, name: access.name.slice(0, MAX_NAME) };
}
