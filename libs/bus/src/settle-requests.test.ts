import type { Msg } from "@nats-io/nats-core";
import { MsgImpl, MuxSubscription, RequestOne } from "@nats-io/nats-core/internal";
import { expect, it } from "vitest";
import { settleRequestsWithoutError } from "./settle-requests.ts";

const made = { timeout: 60_000 };

it("resolves an answered request, and creates no error for it", async () => {
  settleRequestsWithoutError();
  settleRequestsWithoutError();
  const mux = new MuxSubscription();
  const answered = new RequestOne(mux, "subject", made, false);
  mux.add(answered);
  const answer = Object.create(MsgImpl.prototype) as Msg;
  answered.resolver(null, answer);
  expect([await answered.deferred, mux.size()]).toEqual([answer, 0]);
  const reasons = [1, 2].map(() => {
    const request = new RequestOne(mux, "subject", made, false);
    request.cancel();
    return request.deferred.catch((error: unknown) => error);
  });
  const [first, second] = await Promise.all(reasons);
  expect(first).toBe(second);
});

it("rejects a cancelled request with the reason of the cancellation", async () => {
  settleRequestsWithoutError();
  const reason = new Error("the connection is closed");
  const request = new RequestOne(new MuxSubscription(), "subject", made, false);
  request.cancel(reason);
  await expect(request.deferred).rejects.toBe(reason);
});
