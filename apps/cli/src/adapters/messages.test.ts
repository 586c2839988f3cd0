import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { sessionFromMessage } from "./messages.ts";
import { explanationFromMessage } from "./reservation-messages.ts";

const { ExplainReservationReply } = muster.reservation.v1;

it("reads the code for a request without a fitting part", () => {
  const parts = [{ part: { requests: { cpu: 500 } }, requested: 2 }];
  const sent = ExplainReservationReply.encode({ pools: [{ pool: "p", requested: 2, parts }] }).finish();
  const [pool] = explanationFromMessage(ExplainReservationReply.decode(sent)).pools;
  expect(pool?.parts).toMatchObject([{ requested: 2, fitting: 0 }]);
});

it("reads all pools that a component accepts until one is granted", () => {
  const { Session, SessionEventKind: kinds } = muster.session.v1;
  const poolsOf = (pool: string, ...events: muster.session.v1.SessionEventKind[]) => {
    const sent = Session.encode({
      spec: { components: [{ name: "driver", pool: "h100", otherPools: ["a100"] }] },
      components: [{ name: "driver", pool }],
      events: events.map((kind) => ({ kind })),
    }).finish();
    return sessionFromMessage(Session.decode(sent)).components.map((each) => [each.pool, each.otherPools]);
  };
  const { SESSION_EVENT_KIND_QUEUE: queue, SESSION_EVENT_KIND_ACCEPT: accept } = kinds;
  expect(poolsOf("h100", queue)).toEqual([["h100", ["a100"]]]);
  expect(poolsOf("a100", queue, accept)).toEqual([["a100", undefined]]);
});
