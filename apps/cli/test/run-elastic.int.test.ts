import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { NodeService, type muster as wire } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

const DOCUMENT = `
apiVersion: muster.dev/v1
kind: Session
metadata: { name: growing }
spec:
  components:
    - { name: driver, kind: driver, pool: elastic, image: i }
`;
const since = Date.now() - 40_000;

let world: SessionWorld;
let bus: NatsBus;
let answer: wire.node.v1.ExplainDemandReply.$Properties = {};
/** The owners for which the scaler was asked. */
const asked: unknown[] = [];

const notAsked = (): never => throwFault({ code: "internal", operation: "not asked for here" });
const SCALER: Handlers<typeof NodeService> = {
  listNodes: notAsked,
  terminateNode: notAsked,
  dumpNodes: notAsked,
  explainDemand: ({ owner }) => {
    asked.push(owner);
    return Promise.resolve(answer);
  },
};

beforeAll(async () => {
  world = await startSessionWorld();
  bus = await connectNats({ url: world.url, token: world.token, name: "scaler" });
});
afterAll(async () => {
  await bus[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

it("prints once which nodes boot for a waiting session, and once why none can be created", async () => {
  await using _scaler = await serveMethods(bus, NodeService, SCALER, { version: "1.0.0", description: "for a test" });
  const cli = world.muster(["run", await world.file("growing.yaml", DOCUMENT)]);
  await until("the session is submitted", () => world.sessions.has("growing"));
  world.move("growing", "QUEUE", { waitingBecause: "pool elastic has 0 of 2 machines; it may grow to 8" });

  const large = { instanceType: "large", sinceMs: since };
  const booting = "waiting for 2 nodes of type large, booting for 40 s";
  answer = { known: true, code: "BOOTING", message: booting, booting: [{ ...large, count: 2 }] };
  await until("the booting nodes are shown", () => cli.stderr().includes(`growing  nodes: ${booting}`));
  answer = { ...answer, message: "waiting for 2 nodes of type large, booting for 43 s" };
  const before = asked.length;
  await until("the scaler was asked again", () => asked.length > before + 1);

  const failing = {
    pool: "elastic",
    code: "BOOT_FAILED",
    instanceType: "large",
    message: "no disk",
    sinceMs: since,
    boots: 17,
  };
  answer = { ...answer, troubles: [failing] };
  await until("failed boots are shown", () => /; 17 boots of large .*BOOT_FAILED \(no disk\)/.test(cli.stderr()));

  const short = "there is no large on demand in zone a; requested again in 560 s";
  answer = { known: true, code: "UNAVAILABLE", message: short };
  await until("the shortage is shown", () => cli.stderr().includes(`nodes: UNAVAILABLE: ${short}`));
  world.move("growing", "DONE", { waitingBecause: "" });
  const { code, stderr } = await cli.ended;
  expect(stderr.match(/booting for/g)).toHaveLength(2);
  expect(asked[0]).toMatchObject({ kind: "session" });
  expect(code).toBe(0);
});
