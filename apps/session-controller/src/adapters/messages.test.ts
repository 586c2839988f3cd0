import { muster } from "@muster/proto";
import { describe, expect, it } from "vitest";
import { makeComponent, makeRecord, makeRunning, makeSpec, START_MS } from "../../test/samples.ts";
import type { SessionRecord } from "../domain/session.ts";
import { recordCodec, toWireRecord, toReservationSeen } from "./messages.ts";

/** Returns a record of a version that knows more enum words. */
function newer(change: (message: muster.session.v1.SessionRecord.$Properties) => void): SessionRecord {
  const verdict = { kind: "ERROR", atMs: START_MS, description: "", reason: "TIMEOUT" } as const;
  const warnings = [{ code: "LOGS_LOST", message: "" }] as const;
  const message = toWireRecord(makeRunning({ verdict, warnings }));
  change(message);
  return recordCodec.decode(muster.session.v1.SessionRecord.encode(message).finish());
}

describe("words of a stored record", () => {
  it("decode to their originals", () => {
    const verdict = { kind: "ERROR", atMs: START_MS, description: "", reason: "TIMEOUT" } as const;
    const written = makeRunning({ verdict, warnings: [{ code: "RESULT_LOST", message: "m" }] });
    expect(recordCodec.decode(recordCodec.encode(written))).toEqual(written);
    expect(recordCodec.decode(recordCodec.encode(makeRecord()))).toEqual(makeRecord());
  });

  it("give the components of an earlier version whole machines", () => {
    const shared = makeRecord({}, makeSpec({ components: [makeComponent("driver", "driver", { shared: true })] }));
    expect(recordCodec.decode(recordCodec.encode(shared))).toEqual(shared);
    const read = newer(({ session }) => {
      for (const each of session?.spec?.components ?? []) delete each.shared;
    });
    expect(read.spec.components.map((each) => each.shared)).toEqual([false, false, false]);
  });

  it("give the components of an earlier version one pool", () => {
    const accepting = makeComponent("driver", "driver", { pool: "h100", otherPools: ["a100", "l40s"] });
    const written = makeRecord({}, makeSpec({ components: [accepting] }));
    expect(recordCodec.decode(recordCodec.encode(written))).toEqual(written);
    const read = newer(({ session }) => {
      for (const each of session?.spec?.components ?? []) delete each.otherPools;
    });
    expect(read.spec.components.map((each) => each.otherPools)).toEqual([[], [], []]);
  });

  it("that are unknown leave the session readable", () => {
    const read = newer(({ session, verdict }) => {
      if (verdict) verdict.reason = "TOO_WARM";
      for (const warning of session?.warnings ?? []) warning.code = "RESULT_WARM";
      for (const component of session?.components ?? []) component.state = "WARM";
    });
    expect(read.verdict?.reason).toBe("OTHER");
    expect(read.warnings.map(({ code }) => code)).toEqual(["OTHER"]);
    expect(new Set(read.components.map(({ state }) => state))).toEqual(new Set(["UNKNOWN"]));
  });

  it("make it unreadable if no decision is possible without them", () => {
    const QUEUE = muster.session.v1.SessionEventKind.SESSION_EVENT_KIND_QUEUE;
    expect(() => newer(({ verdict }) => verdict && (verdict.kind = QUEUE))).toThrow(
      "a stored verdict has the kind QUEUE",
    );
  });
});

it.each([
  ["CONCURRENCY_LIMIT", "CONCURRENCY_LIMIT"],
  ["MOON_PHASE", "OTHER"],
  ["", "OTHER"],
])("maps the ledger's code %j to %s", (code, known) => {
  const because = { code, pool: "p", requested: 1, available: 0, parts: 0, ahead: 0 };
  const waiting = {
    id: "r-1",
    ownerId: "echo",
    sequence: 1,
    revision: 0,
    createdAtMs: 1,
    needs: [],
    state: "waiting",
    because,
  } as const;
  expect(toReservationSeen(waiting)).toMatchObject({
    state: "waiting",
    because: { code: known },
  });
});
