import type { Lease } from "../src/adapters/lease-messages.ts";

/** Builds a lease with test defaults: ordered an hour ago for two hours, by a user without a key. */
export function makeLease(changes: Partial<Lease> = {}): Lease {
  return {
    order: {
      id: "4711-1",
      engine: "main",
      user: "FAe4sisG95oZ42w7buUn5qEE4TAnfTTFPiguZUHmhiF",
      type: "debug",
      data: '{"say":"hello"}',
      createdNs: 1_700_000_000_123_456_789n,
      durationNs: 7_200_000_000_000n,
      reference: undefined,
      version: 0,
      signature: new Uint8Array([1, 255]),
      signatureFormat: "muster-lease-v1",
    },
    phase: "ACTIVE",
    source: "api",
    run: 1,
    expiresAtNs: 1_700_007_200_123_456_789n,
    renewal: undefined,
    endRequest: undefined,
    ending: undefined,
    result: undefined,
    orderHash: undefined,
    waitingBecause: "",
    isStuck: false,
    usedBy: { count: 0, some: [] },
    endedAtNs: undefined,
    unpublished: 0,
    traceparent: "",
    revision: 7,
    ...changes,
  };
}
