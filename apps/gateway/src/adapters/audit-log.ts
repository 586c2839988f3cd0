import { randomUUID } from "node:crypto";
import { publishEvent, type Bus } from "@muster/bus";
import { muster, streams, subjects } from "@muster/proto";
import type { Logger } from "@muster/service";
import type { Access, User } from "../api/user.ts";

const { ChangeAudited } = muster.gateway.v1;
const MAX_GROUPS = 32;
const MAX_NAME = 253;

/** One change that was asked for, and what became of it. */
export type AuditedChange = {
  readonly requestId: string;
  readonly atMs: number;
  readonly user: User;
  readonly access: Access;
  readonly method: string;
  readonly address: string;
  readonly status: number;
  readonly code: string;
};

export type Audit = (change: AuditedChange) => Promise<void>;

/** Appends each change to the stream of its own, and resolves when it is on disk. A record that the stream does not take is logged as an error. */
export async function openAuditLog(bus: Bus, logger: Pick<Logger, "error">): Promise<Audit> {
  await bus.ensureStream(streams.apiAudit);
  return async ({ user, access, ...change }) => {
    const { verb, resource, namespace } = access;
    const name = access.name.slice(0, MAX_NAME);
    const record = {
      ...change,
      user: user.name,
      groups: user.groups.slice(0, MAX_GROUPS),
      verb,
      resource,
      namespace,
      name,
    };
    try {
      // The request id would drop the events of repeated attempts as duplicates.
      await publishEvent(bus, subjects.changeAudited(resource), ChangeAudited, record, { messageId: randomUUID() });
    } catch (error) {
      logger.error({ err: error, record }, "a change over HTTP is not in the audit stream");
    }
  };
}
