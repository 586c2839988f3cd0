import { RequestOne } from "@nats-io/nats-core/internal";

const ANSWERED = new Error("answered");
let isReplaced = false;

/**
 * Ends answered requests of this process without an error. The client library rejects each request with a new Error after it has resolved it. No caller sees
 * that Error, and its stack costs more than the rest of the answer.
 */
export function settleRequestsWithoutError(): void {
  if (isReplaced) return;
  isReplaced = true;
  const cancel = Reflect.get(RequestOne.prototype, "cancel");
  RequestOne.prototype.cancel = function (this: RequestOne, error = ANSWERED) {
    cancel.call(this, error);
  };
}
