import { throwFault } from "@muster/faults";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { askMachines, toWireExplanation, type ExplainCalls } from "./ask-machines.ts";

const { ExplainReservationReply } = muster.reservation.v1;
const { ExplainDemandReply } = muster.node.v1;
const OWNER = { kind: "session", id: "echo" };
const REASON = { code: "POOL_AVAILABILITY", message: "pool p is full", next: "" };

function away(dependency: string): Promise<never> {
  return Promise.resolve().then(() => throwFault({ code: "unavailable", dependency, retryAfterMs: 0 }));
}

/** A ledger in which the owner waits for an elastic pool whose machines a job holds. */
function calls(more: Partial<ExplainCalls> = {}): ExplainCalls {
  const reply = ExplainReservationReply.decode(
    ExplainReservationReply.encode({
      reservation: { owner: OWNER, needs: [{ component: "driver", pool: "p" }] },
      code: "POOL_AVAILABILITY",
      message: "pool p is full",
      pools: [{ pool: "p", elasticMax: 4, holders: [{ owner: { kind: "job", id: "gone-1" } }] }],
    }).finish(),
  );
  return {
    reservations: { explainReservation: () => Promise.resolve(reply), listReservations: () => away("reservation") },
    nodes: { explainDemand: () => Promise.resolve(ExplainDemandReply.create({ known: true, code: "BOOTING" })) },
    podsLeft: () => Promise.resolve([{ owner: "job/gone-1", name: "gone", pod: "default/gone-0", node: "n" }]),
    ...more,
  };
}

it("joins the ledger, the node-scaler and pods of jobs that are gone", async () => {
  const asked = await askMachines(calls(), OWNER);
  const explained = { ...OWNER, name: "echo", phase: "QUEUE", sinceMs: 1, isOver: false };
  expect(toWireExplanation(explained, REASON, asked)).toMatchObject({
    reasons: [{ code: "POOL_AVAILABILITY", next: "kubectl delete pod -n default gone-0" }],
    reservation: { code: "POOL_AVAILABILITY" },
    scaling: { demand: { code: "BOOTING" } },
  });
});

it("answers without a ledger, and names that as a further reason", async () => {
  const reservations = { explainReservation: () => away("reservation"), listReservations: () => away("reservation") };
  const asked = await askMachines(calls({ reservations }), OWNER);
  const explained = { ...OWNER, name: "echo", phase: "QUEUE", sinceMs: 1, isOver: false };
  const { reasons } = toWireExplanation(explained, REASON, asked);
  expect(reasons?.map(({ code }) => code)).toEqual(["POOL_AVAILABILITY", "LEDGER_AWAY"]);
});

it("answers without a node-scaler and without a job-controller", async () => {
  const silent = calls({ nodes: { explainDemand: () => away("node") }, podsLeft: () => away("job") });
  expect(await askMachines(silent, OWNER)).toMatchObject({
    scaling: { trouble: "no replica of it answers" },
    podsLeft: [],
  });
});
