import { expect, it } from "vitest";
import { makeRecord, START_MS } from "../../test/samples.ts";
import { explainSession } from "./explain-session.ts";
import type { EventKind, SessionEvent } from "./session.ts";

const WAITS = { code: "POOL_AVAILABILITY", message: "no machine of pool workers is free", components: [], pools: [] };

function eventOf(kind: EventKind, more: Partial<SessionEvent> = {}): SessionEvent {
  return { kind, atMs: START_MS, description: "", reason: "", ...more };
}

it("reports the ledger's reason for a session that the ledger has not queued yet", () => {
  const waitingBecause = "the ledger does not know the nodes yet";
  expect(explainSession(makeRecord({ waitingBecause }), "POOLS_NOT_KNOWN_YET", undefined)).toEqual({
    code: "POOLS_NOT_KNOWN_YET",
    message: waitingBecause,
    next: "wait until the watcher has listed the nodes; `muster doctor` checks it",
  });
});

it("reports that no executor has taken a session if the ledger gives no reason", () => {
  expect(explainSession(makeRecord({ waitingBecause: "" }), "", undefined).code).toBe("NOT_TAKEN_YET");
});

it("reports the ledger's reason while a component waits for a replacement", () => {
  const provisioning = makeRecord({ events: [eventOf("QUEUE"), eventOf("PROVISION")], waitingBecause: "" });
  expect(explainSession(provisioning, "", WAITS)).toMatchObject({ code: "POOL_AVAILABILITY", message: WAITS.message });
  expect(explainSession(provisioning, "", undefined).code).toBe("COMPONENTS_NOT_READY");
  expect(explainSession(provisioning, "", { ...WAITS, code: "" }).code).toBe("COMPONENTS_NOT_READY");
});

it("reports a cancellation and a clean-up before the ledger's answer", () => {
  const events = [eventOf("QUEUE"), eventOf("RUN")];
  expect(explainSession(makeRecord({ cancelRequested: true }), "", WAITS).code).toBe("CANCELLING");
  expect(explainSession(makeRecord({ events, waitingBecause: "2 pods are not gone yet" }), "", WAITS)).toMatchObject({
    code: "CLEANING_UP",
    message: "2 pods are not gone yet",
  });
  expect(explainSession(makeRecord({ events, waitingBecause: "" }), "", WAITS).code).toBe("RUNNING");
});

it("shows the end of a session, and the location of its logs if it ever had a pod", () => {
  const end = eventOf("ERROR", { reason: "COMPONENT_FAILED", description: "server exited with 3" });
  const ended = makeRecord({ events: [end], finishedAtMs: START_MS });
  const reason = { code: "FINISHED", message: "it is over, ERROR: COMPONENT_FAILED server exited with 3" };
  const next = "muster describe session bench";
  expect(explainSession(ended, "", undefined)).toEqual({ ...reason, next });
  const components = ended.components.map((status) => ({ ...status, podUid: "u" }));
  expect(explainSession({ ...ended, components }, "", undefined)).toEqual({ ...reason, next: "muster logs bench" });
});
