import { AuditService, type muster } from "@muster/proto";
import type { ServiceLink } from "../kinds/kind.ts";
import { CALL_TIMEOUT_MS } from "./read-pages.ts";
import { pickFields } from "./message-fields.ts";

/** A change over HTTP that a user made or tried to make. */
export type AuditedChange = ReturnType<typeof changeFromMessage>;

export type AuditQuery = {
  /** An empty text selects any user. */
  readonly user: string;
  /** The plural of the resource in roles; an empty text selects any resource. */
  readonly resource: string;
  /** An empty text selects any name. */
  readonly name: string;
  /** Zero selects changes of any age. */
  readonly sinceMs: number;
  /** Whether the gateway refused the change, so that no service received it. */
  readonly refused: boolean;
};

type AuditPage = { readonly changes: readonly AuditedChange[]; readonly lastSequence: number };

/** Reads the audit of the gateway. Each call rejects only with FaultError. */
export function makeAuditCalls({ client, stop }: Pick<ServiceLink, "client" | "stop">) {
  const audit = client(AuditService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  return {
    /** Returns the newest changes, sorted from old to new. */
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
    /** Returns the oldest changes after a `lastSequence`. */
    after: async (query: AuditQuery, after: number): Promise<AuditPage> => {
      const { changes, lastSequence } = await audit.listChanges({ ...query, after }, options);
      return { changes: changes.map(changeFromMessage), lastSequence };
    },
  };
}

function changeFromMessage(change: muster.gateway.v1.ChangeAudited) {
  const { status } = change;
  return {
    ...pickFields(change, "atMs", "user", "groups", "verb", "resource", "namespace", "name", "method", "address"),
    ...pickFields(change, "code", "requestId", "sequence"),
    /** Undefined if the outcome of the change is unknown. */
    status: status === 0 ? undefined : status,
  };
}
