import { makeMemoryBus, serveMethods, type Handlers } from "@muster/bus";
import { toWireOrder } from "@muster/leases/wire";
import { enums, LeaseService } from "@muster/proto";
import { expect, it } from "vitest";
import { makeBusCalls } from "../adapters/bus-calls.ts";
import { makeLease } from "../../test/a-lease.ts";
import { readGoal } from "../domain/decide-wait.ts";
import { LEASE } from "../kinds/lease.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { waitFor } from "./wait.ts";

/** Waits for a lease that has ended for this reason, and whose engine knows it. */
async function waiting(phase: string, cause: string, goal: string) {
  const out: string[] = [];
  const err: string[] = [];
  await using bus = makeMemoryBus();
  const record = {
    order: toWireOrder(makeLease().order),
    phase: enums.LeasePhase.numberOf(phase),
    ending: { cause, message: "" },
  };
  const handlers = {
    getLease: () => Promise.resolve({ lease: { record, revision: 1 } }),
  } as unknown as Handlers<typeof LeaseService>;
  await using _served = await serveMethods(bus, LeaseService, handlers, { version: "1", description: "" });
  const { signal } = new AbortController();
  const connected = {
    link: { ...makeBusCalls(bus), stop: signal },
    onLink: () => new DisposableStack(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const cli = {
    now: () => 0,
    connection: () => ({ natsUrl: "nats://h:1", because: "default", hint: "" }),
    pause: () => Promise.resolve(),
    interrupts: { first: signal },
    io: {
      outStyle: () => ({}),
      out: (lines: readonly string[]) => out.push(...lines),
      err: (lines: readonly string[]) => err.push(...lines),
    },
    connect: () => Promise.resolve(connected),
  } as unknown as CommandLine;
  const resource = { ...LEASE, waiting: LEASE.waiting! };
  const code = await waitFor(cli, resource, "4711-1", { goal: readGoal(goal)!, timeoutMs: 1000, output: "table" });
  return { code, out, err };
}

it.each([
  ["a lease that crashed is ENDED", "ENDED", "CRASHED", "condition=ENDED", ["lease 4711-1 is ENDED: CRASHED"]],
  [
    "a crashed lease is decommissioned",
    "DECOMMISSIONING",
    "CRASHED",
    "condition=decommissioning",
    [/is DECOMMISSIONING: C/],
  ],
  ["a failed lease is decommissioned", "FAILED", "PROVISION_FAILED", "delete", [/is FAILED: PROVISION_FAILED/]],
  ["an expired lease is ENDED", "ENDED", "EXPIRED", "condition=ENDED", []],
  ["a lease that its user ended is not ACTIVE", "ENDED", "REQUESTED", "condition=ACTIVE=false", []],
] as const)("ends with 0 as %s, and prints the cause if it is unexpected", async (_, phase, cause, goal, said) => {
  const ended = await waiting(phase, cause, goal);
  const err = said.map((each) => (typeof each === "string" ? each : (expect.stringMatching(each) as string)));
  expect(ended).toEqual({ code: 0, out: ["lease/4711-1 condition met"], err });
});
