import { expect, it } from "vitest";
import { JOB, NOW_MS, POLICY, makeSnapshot } from "../../test/samples.ts";
import { buildOwnerId } from "./build-units.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";

const silent = [{ id: buildOwnerId(JOB), state: "unknown" } as const];

it("reports that a new job waits for the reservation manager while that does not answer", () => {
  const { status } = planJob(makeSnapshot({ units: silent }), POLICY);
  expect(findCondition(status, "MachinesReserved")).toMatchObject({
    status: "False",
    reason: "LedgerSilent",
    message: "waiting for the reservation manager, which does not answer",
  });
});

it("keeps the ledger's last reason of a job while the ledger is silent", () => {
  const { status } = planJob(makeSnapshot(), POLICY);
  const later = planJob(makeSnapshot({ status, units: silent, nowMs: NOW_MS + 60_000 }), POLICY);
  expect(findCondition(later.status, "MachinesReserved")).toEqual(findCondition(status, "MachinesReserved"));
});
