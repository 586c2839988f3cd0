import { AuditService, type muster } from "@muster/proto";
import type { Link } from "../kinds/kind.ts";
import { CALL_TIMEOUT_MS } from "./asking.ts";
import { pick } from "./message-fields.ts";

/** A change over HTTP that a user made or tried to make. */
export type AuditedChange = ReturnType<typeof changeFromMessage>;

export type AuditQuery = {
  /** Empty: any. */
  readonly user: string;
  /** The plural that roles name it with; empty: any. */
  readonly resource: string;
  /** Empty: any. */
  readonly name: string;
  /** 0: since ever. */
  readonly sinceMs: number;
  /** Whether the gateway refused the change, so that no service received it. */
  readonly refused: boolean;
};

type AuditPage = { readonly changes: readonly AuditedChange[]; readonly lastSequence: number };

/** The audit, which the gateway keeps and answers for. Each call rejects with FaultError and nothing else. */
export function auditCalls({ client, stop }: Pick<Link, "client" | "stop">) {
  const audit = client(AuditService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  return {
    /** The newest, the oldest of them first. */
    newest: async (query: AuditQuery, limit: number): Promise<AuditPage> => {
      const changes: AuditedChange[] = [];
      let lastSequence: number | undefined;
      for (let page = ""; ;) {
        const asked = { ...query, limit: limit - changes.length, continue: page };
        const reply = await audit.listChanges(asked, options);
        changes.unshift(...reply.changes.map(changeFromMessage));
        lastSequence ??= reply.lastSequence;
        page = reply.continue;
        if (page === "" || changes.length >= limit) return { changes, lastSequence };
      }
    },
    /** The oldest of those after a `lastSequence`. */
    after: async (query: AuditQuery, after: number): Promise<AuditPage> => {
      const { changes, lastSequence } = await audit.listChanges({ ...query, after }, options);
      return { changes: changes.map(changeFromMessage), lastSequence };
    },
  };
}

function changeFromMessage(change: muster.gateway.v1.ChangeAudited) {
  const { status } = change;
  return {
    ...pick(change, "atMs", "user", "groups", "verb", "resource", "namespace", "name", "method", "address"),
    ...pick(change, "code", "requestId", "sequence"),
    /** Undefined: it is not known whether the change was done. */
    status: status === 0 ? undefined : status,
  };
}
