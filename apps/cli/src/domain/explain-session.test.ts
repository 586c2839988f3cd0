import { expect, it } from "vitest";
import { session } from "../../test/session-fixture.ts";
import { explainSession } from "./explain-session.ts";
import type { ReservationExplanation } from "./reservation.ts";
import type { WorkEvent } from "./work.ts";

const QUEUED: WorkEvent = { phase: "QUEUE", atMs: 0, description: "submitted", reason: "" };

it("gives the ledger's reason for a session that the ledger has not queued yet", () => {
  const waitingBecause = "the ledger does not know the nodes yet";
  const queued = { ...session([]), events: [QUEUED], waitingBecause, waitingCode: "POOLS_NOT_KNOWN_YET" };
  expect(explainSession(queued, undefined)).toEqual({
    code: "POOLS_NOT_KNOWN_YET",
    message: waitingBecause,
    next: "wait until the watcher has listed the nodes; `muster doctor` checks it",
  });
});

it("names a session that no executor has taken where the ledger gives no reason", () => {
  const queued = { ...session([]), events: [QUEUED], waitingBecause: "", waitingCode: "" };
  expect(explainSession(queued, undefined).code).toBe("NOT_TAKEN_YET");
});

it("gives the ledger's reason while a component waits for another machine", () => {
  const provisioning = { ...session([]), events: [QUEUED, { ...QUEUED, phase: "PROVISION" }], waitingBecause: "" };
  const message = "no machine of pool workers is free";
  const reservation = { code: "POOL_AVAILABILITY", message, pools: [] } as unknown as ReservationExplanation;
  expect(explainSession(provisioning, reservation)).toMatchObject({ code: "POOL_AVAILABILITY", message });
  expect(explainSession(provisioning, undefined).code).toBe("COMPONENTS_NOT_READY");
});
