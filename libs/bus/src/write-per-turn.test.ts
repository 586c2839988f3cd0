import { setImmediate as turn } from "node:timers/promises";
import type { NatsConnection } from "@nats-io/nats-core";
import { ProtocolHandler } from "@nats-io/nats-core/internal";
import { expect, it } from "vitest";
import { writePerTurn } from "./write-per-turn.ts";

it("writes all messages of one turn of the event loop once, and those of the next turn again", async () => {
  let writes = 0;
  const protocol = { flushPending: () => void (writes += 1) };
  const connection: object = { protocol };
  writePerTurn(connection as NatsConnection);
  for (let message = 0; message < 3; message += 1) {
    await Promise.resolve();
    protocol.flushPending();
  }
  expect(writes).toBe(0);
  await turn();
  expect(writes).toBe(1);
  protocol.flushPending();
  await turn();
  expect(writes).toBe(2);
});

it("finds the patched function in the client library", () => {
  expect(ProtocolHandler.prototype).toHaveProperty("flushPending", expect.any(Function));
});
