import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import { buildStorable } from "./build-storable.ts";
import type { LeaseRecord } from "./lease.ts";
import { withEvent } from "./transition-lease.ts";

const bytesOf = ({ requestId, outbox }: LeaseRecord): number =>
  outbox.reduce((sum, { message }) => sum + message.length + 10, requestId.length);

const heavy = withEvent(aLease({ requestId: "r".repeat(500) }), "FAILED", "m".repeat(500), 1n);

it.each([
  ["all of it where there is room", 1010, { requestId: heavy.requestId, outbox: heavy.outbox }],
  [
    "no request id and brief texts where there is less",
    1009,
    { requestId: "", outbox: [{ eventType: "FAILED", message: "m".repeat(100) }] },
  ],
  ["no unpublished history if there is no room", 109, { requestId: "", outbox: [] }],
] as const)("stores %s", (_title, maxBytes, stored) => {
  const storable = buildStorable(heavy, bytesOf, maxBytes);
  expect(storable).toMatchObject(stored);
  expect({ ...storable, requestId: heavy.requestId, outbox: heavy.outbox }).toEqual(heavy);
});
