import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { elasticWorld, type ElasticWorld } from "./elastic-world.ts";
import { SharingLedger } from "./sharing-ledger.ts";

const ledger = new SharingLedger();
let world: ElasticWorld;

// A machine of the pool has 4 cores and 8 GiB.
const HALF = { cpu: "1900m", memory: "1Gi" };
const PATIENT = { timeoutMs: 240_000 };

beforeAll(async () => {
  world = await elasticWorld({ idle: "2s", drainTimeout: "5s" }, (bus, calls) => ledger.serve(bus, calls));
  await world.startScaler();
}, 400_000);
afterAll(() => world[Symbol.asyncDispose]());

beforeEach(async () => {
  ledger.parts.length = 0;
  await until("no node is left", () => world.machines().length === 0, PATIENT);
}, 300_000);

/** The largest number of machines from now until all parts are granted, and a few rounds and idle times longer. */
async function machinesMade(): Promise<number> {
  let max = 0;
  const count = (): void => {
    max = Math.max(max, world.machines().length);
  };
  const areGranted = (): boolean => {
    count();
    return ledger.parts.every(({ node }) => node !== undefined);
  };
  await until("all parts are granted", areGranted, { ...PATIENT, everyMs: 50 });
  for (let times = 0; times < 30; times += 1) {
    await sleep(200);
    count();
  }
  return max;
}

it("makes one node for two parts that fit on it, which stays until both are released", async () => {
  for (const owner of ["a", "b"]) ledger.reserve(owner, HALF);
  expect(await machinesMade()).toBe(1);
  ledger.parts.shift();
  await sleep(5000);
  expect(world.machines()).toHaveLength(1);
}, 400_000);

it("makes two nodes for three parts when one node holds two of them", async () => {
  for (const owner of ["a", "b", "c"]) ledger.reserve(owner, HALF);
  expect(await machinesMade()).toBe(2);
}, 400_000);
