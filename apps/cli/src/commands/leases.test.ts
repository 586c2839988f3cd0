import { makeMemoryBus, serveMethods, type Handlers } from "@muster/bus";
import { makeSigner } from "@muster/leases/keys";
import { toWireOrder } from "@muster/leases/wire";
import { enums, LeaseService } from "@muster/proto";
import { expect, it } from "vitest";
import { makeBusCalls } from "../adapters/bus-calls.ts";
import type { Cli } from "../cli.ts";
import { makeLease } from "../../test/a-lease.ts";
import type { Lease } from "../adapters/lease-messages.ts";
import { endLease } from "./leases.ts";

const { signer } = makeSigner();
const { order } = makeLease();

function lease(id: string, type: string, data: unknown): Lease {
  return makeLease({ order: { ...order, id, type, data: JSON.stringify(data), user: signer.userId } });
}

/** Ends a network that a volume uses; the engine knows both leases. */
async function ending(force: boolean) {
  const network = lease("1-1", "network", { name: "net" });
  const all = [network, lease("1-2", "volume", { size: 1, type: "ssd", network: "net" })];
  const ended: string[] = [];
  const out: string[] = [];
  await using bus = makeMemoryBus();
  const toWire = (each: Lease) => ({
    record: { order: toWireOrder(each.order), phase: enums.LeasePhase.numberOf(each.phase) },
    revision: 1,
  });
  const handlers = {
    getLease: () => Promise.resolve({ lease: toWire(network) }),
    listLeases: () => Promise.resolve({ leases: all.map(toWire), continue: "" }),
    endLease: ({ end }: { readonly end?: { readonly id?: string } }) => {
      ended.push(end?.id ?? "");
      return Promise.resolve({ lease: toWire(network) });
    },
  } as unknown as Handlers<typeof LeaseService>;
  await using _served = await serveMethods(bus, LeaseService, handlers, { version: "1", description: "" });
  const connected = {
    link: { ...makeBusCalls(bus), stop: new AbortController().signal },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  const cli = {
    now: () => 0,
    io: { out: (lines: readonly string[]) => out.push(...lines), outStyle: () => ({}) },
    keys: { read: () => Promise.resolve(signer) },
    connect: () => Promise.resolve(connected),
  } as unknown as Cli;
  const options = { id: "1-1", keyFile: undefined, output: "table", wait: false, timeoutMs: undefined } as const;
  const outcome = await endLease(cli, { ...options, force }).catch((error: unknown) => error);
  return { outcome, ended, out };
}

it("ends a network that other leases use only with --force", async () => {
  const refused = await ending(false);
  expect(refused.outcome).toMatchObject({
    exitCode: 4,
    message: "lease 1-1 was not ended: its network is in use by 1-2",
    hint: expect.stringContaining("or use --force") as string,
  });
  expect(refused.ended).toEqual([]);
  const forced = await ending(true);
  expect(forced).toEqual({ outcome: 0, ended: ["1-1"], out: ["lease/1-1 ends, and its objects are taken down"] });
});
