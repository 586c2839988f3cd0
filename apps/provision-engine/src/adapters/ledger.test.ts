import type { Bus } from "@muster/bus";
import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { openGrants } from "./ledger.ts";

const { ReservationGranted } = muster.reservation.v1;
const grantOf = (kind: string, id: string) =>
  ReservationGranted.encode({ reservation: { owner: { kind, id } } }).finish();

it.each<[what: string, payload: Uint8Array, lease: string | undefined]>([
  ["a run of a lease", grantOf("lease", "4711-1-2"), "4711-1"],
  ["a session", grantOf("session", "4711-1-2"), undefined],
  ["an owner id that no engine uses", grantOf("lease", "4711"), undefined],
  ["no owner", ReservationGranted.encode({}).finish(), undefined],
  ["an unreadable event", new Uint8Array([255]), undefined],
])("reads the lease of a grant for %s", async (_what, payload, lease) => {
  let publish: ((message: { payload: Uint8Array }) => void) | undefined;
  const bus = {
    listen: (_subject: string, handler: typeof publish) => {
      publish = handler;
      return Promise.resolve({ [Symbol.asyncDispose]: () => Promise.resolve() });
    },
  } as unknown as Pick<Bus, "listen">;
  await using grants = await openGrants(bus);
  const heard: string[] = [];
  grants.onGrant((each) => heard.push(each));
  publish?.({ payload });
  expect(heard[0]).toBe(lease);
});
