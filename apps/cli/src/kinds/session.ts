import { describeFault, findFault, unlessMissing, type Fault } from "@muster/faults";
import { SessionService } from "@muster/proto";
import { CALL_TIMEOUT_MS, LONG_POLL_MS, LONG_POLL_TIMEOUT_MS, readPages } from "../adapters/read-pages.ts";
import { askExplanation } from "../adapters/ask-explanation.ts";
import { toSession } from "../adapters/messages.ts";
import { toWireSpec, type SessionSpec } from "../adapters/session-spec-messages.ts";
import { buildSessionSchema } from "../domain/build-session-schema.ts";
import { readSessionDocument } from "../domain/read-session-document.ts";
import { buildDocument } from "../domain/session-document.ts";
import { PHASES } from "../domain/session-phases.ts";
import type { Work } from "../domain/work.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { CheckResult, FieldProblem, WorkKind, ServiceLink, WorkCalls } from "./kind.ts";

/** Finite tests with several roles, which the session controller runs. */
export const SESSION: WorkKind = {
  noun: "session",
  plural: "sessions",
  controller: "session controller",
  missing: "`muster get sessions` shows those that exist",
  documents: ["Session"],
  schema: buildSessionSchema,
  read: (value, known) => {
    const read = readSessionDocument(value, known);
    if (!read.ok) return read;
    const { name, spec } = read.value;
    const submit = async (link: ServiceLink, request: { requestId: string; name: string }): Promise<Work> => {
      const { client, stop } = withoutNamespace(link);
      const message = { ...request, spec: toWireSpec(spec) };
      const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
      return toSession((await client(SessionService).submitSession(message, options)).session);
    };
    const plan = (link: ServiceLink, exact: string): Promise<CheckResult> => planSession(link, exact, spec);
    return { ok: true, value: { name, document: buildDocument(read.value), plan, submit } };
  },
  calls: sessionCalls,
  conditions: PHASES,
  remove: async ({ client, stop }, { name, uid }) => {
    const request = { requestId: crypto.randomUUID(), name, uid };
    const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
    // A session of this uid existed before, so a missing session was deleted.
    await unlessMissing(client(SessionService).deleteSession(request, options));
  },
  goneBy: (name) => `\`muster delete session/${name}\` deletes it before its spec.ttl is over`,
  explain: ({ client, stop }, name) => {
    const sessions = client(SessionService);
    return askExplanation(
      { service: "session-controller", area: SessionService.area, stop },
      (options) => sessions.explainSession({ name }, options),
      (options) => sessions.getSession({ name }, options),
    );
  },
};

/** Codes of faults that do not concern the session itself. */
const NO_VERDICT: ReadonlySet<Fault["code"]> = new Set(["unavailable", "deadline_exceeded", "cancelled", "internal"]);

/** Requests the fault with which the session would be refused or end without machines, and the reason why it would wait for them. */
async function planSession(link: ServiceLink, name: string, spec: SessionSpec): Promise<CheckResult> {
  const { client, stop } = withoutNamespace(link);
  try {
    const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
    const { session } = await client(SessionService).checkSession({ name, spec: toWireSpec(spec) }, options);
    const { waitingCode = "", waitingBecause = "" } = session ?? {};
    return { problems: [], warnings: waitingCode === "" ? [] : [`it would wait: ${waitingCode}: ${waitingBecause}`] };
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || NO_VERDICT.has(fault.code)) throw error;
    return { problems: [toProblem(fault)], warnings: [] };
  }
}

function toProblem(fault: Fault): FieldProblem {
  if (fault.code === "invalid_request") return { field: fault.field, reason: fault.reason };
  return { field: fault.code === "already_exists" ? "metadata.name" : "spec", reason: describeFault(fault) };
}

/** Throws CommandError if a namespace is given, because the services would ignore it. */
function withoutNamespace(link: ServiceLink): ServiceLink {
  if (link.namespace === undefined) return link;
  throw new CommandError(EXIT.usage, "sessions have no namespace", {
    hint: "--namespace is for jobs: name one as job/NAME",
  });
}

function sessionCalls(link: ServiceLink): WorkCalls {
  const { client, onSessionEvent, stop } = withoutNamespace(link);
  const sessions = client(SessionService);
  const options = { timeoutMs: CALL_TIMEOUT_MS, signal: stop };
  return {
    get: async (name) => toSession((await sessions.getSession({ name }, options)).session),
    after: async ({ name, revision }, signal) => {
      const request = { name, afterRevision: Number(revision), waitMs: LONG_POLL_MS };
      const reply = await sessions.watchSession(request, { timeoutMs: LONG_POLL_TIMEOUT_MS, signal });
      return toSession(reply.session);
    },
    list: () => readPages((page) => sessions.listSessions(page, options), "sessions", toSession),
    cancel: async (name) => {
      const reply = await sessions.cancelSession({ requestId: crypto.randomUUID(), name }, options);
      return toSession(reply.session);
    },
    log: async (name, component, { offset }, { signal, follow, container = "" } = { signal: stop, follow: false }) => {
      const request = { name, component, container, offset, waitMs: follow ? LONG_POLL_MS : 0 };
      const timeoutMs = follow ? LONG_POLL_TIMEOUT_MS : CALL_TIMEOUT_MS;
      const { chunk, nextOffset, complete, truncated } = await sessions.getLogs(request, { timeoutMs, signal });
      return { bytes: chunk, next: { offset: nextOffset, run: "" }, pod: "", complete, truncated };
    },
    onEvent: onSessionEvent,
  };
}
