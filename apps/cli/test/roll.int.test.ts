import { connectNats, serveMethods, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { FarmService, muster as wire } from "@muster/proto";
import { startTestNats } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { reachServices, type Reached } from "./reach.ts";
import { inProcess } from "./in-process.ts";

const { HEALTH_FAILED, HEALTH_READY } = wire.health.v1.Health;
const PHASE = wire.farm.v1.RollPhase.ROLL_PHASE_FINISHING;
const ROLL = { id: "web-2", oldSet: "web", newSet: "web-2", replicasDesired: 1, phase: PHASE };

let reached: Reached;
const served = new AsyncDisposableStack();
/** The health of the only pod of the new set. */
let health = HEALTH_READY;

const unasked = (): never => throwFault({ code: "invalid_request", field: "request", reason: "is not for this farm" });

/** The only roll of this farm is over at its first read. */
const HANDLERS: Handlers<typeof FarmService> = {
  applyReplicaSet: unasked,
  getReplicaSet: ({ name }) =>
    Promise.resolve({
      set: {
        record: { name, uid: name, spec: { podId: "web" } },
        replicas: [{ node: "a", pod: `${name}-1`, health, eligible: true }],
        replicasDesired: 1,
        healthy: health === HEALTH_READY ? 1 : 0,
        farm: "farm-1",
      },
    }),
  listReplicaSets: () => Promise.resolve({ sets: [] }),
  explainReplicaSet: unasked,
  scaleReplicaSet: unasked,
  enableReplicaSet: unasked,
  deleteReplicaSet: unasked,
  transferNode: unasked,
  holdTransfers: unasked,
  createRoll: unasked,
  getRoll: ({ id }) => throwFault({ code: "not_found", kind: "rolling update", id }),
  listRolls: () => Promise.resolve({ rolls: [{ record: ROLL }] }),
  changeRoll: unasked,
  listAudit: unasked,
};

beforeAll(async () => {
  const server = served.use(await startTestNats());
  reached = served.use(await reachServices(server));
  const bus = served.use(await connectNats({ url: server.url, token: server.token, name: "farm" }));
  served.use(await serveMethods(bus, FarmService, HANDLERS, { version: "1.0.0", description: "for a test" }));
});
afterAll(() => served.disposeAsync());

it("a followed roll succeeds only if the new pods are ready", async () => {
  const follow = () => inProcess(["roll", "status", "web-2"], { url: reached.url, token: reached.token });
  health = HEALTH_READY;
  expect(await follow()).toMatchObject({ code: 0, out: [expect.stringMatching(/complete: .*1 ready/)] });
  health = HEALTH_FAILED;
  const { code, out, err } = await follow();
  expect(code).toBe(1);
  expect(out).toEqual([expect.stringMatching(/complete: .*0 ready/)]);
  expect(err.join("\n")).toMatch(/is complete, but not all pods of web-2 are ready/);
});
