import {
  adviseWait,
  buildReason,
  buildWaitReason,
  type StateReason,
  type SeenMachines,
} from "@muster/ledger-client/explanation";
import { getGivenName, isFinished, type EventKind, type SessionRecord } from "./session.ts";

/**
 * Explains the phase of a session: FINISHED, CANCELLING, NOT_TAKEN_YET, COMPONENTS_NOT_READY, RUNNING, CLEANING_UP, or the ledger's reason for the wait.
 * `waitingCode` is the ledger's reason if it has no reservation yet; `machines` is undefined if the ledger has none.
 */
export function explainSession(
  record: SessionRecord,
  waitingCode: string,
  machines: SeenMachines | undefined,
): StateReason {
  if (isFinished(record)) return explainEnd(record);
  const waits = record.waitingBecause;
  if (record.cancelRequested) {
    return buildReason("CANCELLING", `its cancellation is under way${waits === "" ? "" : `: ${waits}`}`);
  }
  switch (getExplainedPhase(record)) {
    case "QUEUE":
      return buildWaitReason(machines) ?? explainQueue(waitingCode, waits);
    case "ACCEPT":
    case "PROVISION":
      // A component that lost its machine may wait for another one.
      return (
        buildWaitReason(machines) ??
        buildReason("COMPONENTS_NOT_READY", waits === "" ? "its pods are being started" : waits)
      );
    default:
      return waits === ""
        ? buildReason("RUNNING", "its driver runs; the session ends when the driver does")
        : buildReason("CLEANING_UP", waits);
  }
}

/** The phase of a session: the kind of its last event. */
export function getExplainedPhase({ events }: Pick<SessionRecord, "events">): EventKind {
  return events.at(-1)?.kind ?? "QUEUE";
}

function explainEnd(record: SessionRecord): StateReason {
  const phase = getExplainedPhase(record);
  if (phase === "DONE") return buildReason("FINISHED", "it is over: the driver ended with 0");
  const { reason = "", description = "" } = record.events.at(-1) ?? {};
  const why = `${reason} ${description}`.trim();
  const { elsewhere } = record;
  const commandName = `${getGivenName(record)}${elsewhere === undefined ? "" : ` -n ${elsewhere.namespace}`}`;
  const next = record.components.some(({ podUid }) => podUid !== "")
    ? `muster logs ${commandName}`
    : `muster describe session ${commandName}`;
  return { code: "FINISHED", message: `it is over, ${phase}: ${why}`, next };
}

function explainQueue(code: string, waits: string): StateReason {
  if (code !== "") return { code, message: waits, next: adviseWait({ code, pools: [] }) };
  return buildReason("NOT_TAKEN_YET", waits === "" ? "no executor has asked for its machines yet" : waits);
}
