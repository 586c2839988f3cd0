import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { explanationFromMessage } from "./reservation-messages.ts";

const { ExplainReservationReply } = muster.reservation.v1;

it("reads the code for a request without a fitting part", () => {
  const parts = [{ part: { requests: { cpu: 500 } }, requested: 2 }];
  const sent = ExplainReservationReply.encode({ pools: [{ pool: "p", requested: 2, parts }] }).finish();
  const [pool] = explanationFromMessage(ExplainReservationReply.decode(sent)).pools;
  expect(pool?.parts).toMatchObject([{ requested: 2, fitting: 0 }]);
});
