import { expect, it } from "vitest";
import { JOB, NOW_MS, POLICY, snapshot } from "../../test/samples.ts";
import { ownerIdOf } from "./build-units.ts";
import { conditionOf } from "./job-status.ts";
import { planJob } from "./plan-job.ts";

const silent = [{ id: ownerIdOf(JOB), state: "unknown" } as const];

it("reports that a new job waits for the reservation manager while that does not answer", () => {
  const { status } = planJob(snapshot({ units: silent }), POLICY);
  expect(conditionOf(status, "MachinesReserved")).toMatchObject({
    status: "False",
    reason: "LedgerSilent",
    message: "waiting for the reservation manager, which does not answer",
  });
});

it("keeps the ledger's last reason of a job while the ledger is silent", () => {
  const { status } = planJob(snapshot(), POLICY);
  const later = planJob(snapshot({ status, units: silent, nowMs: NOW_MS + 60_000 }), POLICY);
  expect(conditionOf(later.status, "MachinesReserved")).toEqual(conditionOf(status, "MachinesReserved"));
});
